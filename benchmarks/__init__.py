"""Benchmarks, run from the root of a clone: ``python -m benchmarks.NAME``."""
