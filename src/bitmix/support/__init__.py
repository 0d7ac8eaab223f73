"""Helpers for all packages: atomic files, parameter checks, extras, progress, randomness."""
