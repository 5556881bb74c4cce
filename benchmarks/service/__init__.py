"""What a service costs: python -m benchmarks.serve."""
