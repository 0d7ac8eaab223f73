"""Statistical inference for a fit: fit statistics, standard errors, tests, residuals.

These are pure functions of fitted mixtures and packed rows.
"""
