"""Time and memory of a fit beside other packages: ``python -m benchmarks.peers``."""
