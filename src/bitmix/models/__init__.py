"""The mixtures as frozen values, drawing rows from them, and the file they are saved in."""
