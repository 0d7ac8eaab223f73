"""What every room may use: atomic files, checks of parameters, extras, progress, randomness."""
