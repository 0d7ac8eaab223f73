"""What a user fits: the estimators, how many components to ask for, and loading a saved model."""
