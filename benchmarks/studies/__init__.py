"""One-off experiments: python -m benchmarks.studies.NAME; benchmarks/README.md lists them."""
