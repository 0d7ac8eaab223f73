"""The certificate of a fit: its evidence, bounds and verdict, and checks of the model."""
