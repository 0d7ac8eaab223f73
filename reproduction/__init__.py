"""Every figure and table of the paper by one command: ``python -m reproduction NAME``."""
