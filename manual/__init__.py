"""Makes what the manual shows and nobody writes by hand."""
