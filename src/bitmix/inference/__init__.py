"""How far the numbers of a fit can be trusted: fit statistics, standard errors, tests, residuals.

Pure functions over fitted mixtures and packed rows; nothing here is fitted for the user.
"""
