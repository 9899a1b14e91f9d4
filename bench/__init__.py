"""Benchmarks: ratios within one run, on one thread."""
