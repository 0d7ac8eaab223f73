"""Section 5 of the paper, and Figures 1 and 2: every figure and table by one command."""

from bitmix.experiments.reproduce import ARTEFACTS, Artefact, reproduce
from bitmix.experiments.runner import CellError

__all__ = ["ARTEFACTS", "Artefact", "CellError", "reproduce"]
