"""Data sets, one file each: where it comes from, its features, how to read it."""
