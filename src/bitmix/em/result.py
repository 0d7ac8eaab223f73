"""What a fit hands back, and which of several fits to keep."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bitmix.em.step import Statistics, expect
from bitmix.mixture import Floats, Mixture
from bitmix.rows import Rows


@dataclass(frozen=True, eq=False)
class Round:
    """One EM step as `history_` tells it."""

    log_likelihood: float
    """Of the parameters the round started from."""
    n_templates: int
    """How many templates took part: l in round 1 of Algorithm 1, k otherwise."""
    weights: Floats
    """The weights the round ended with, in the order of the seeds."""

    @classmethod
    def of(cls, mixture: Mixture, statistics: Statistics) -> "Round":
        return cls(statistics.log_likelihood, mixture.n_components, mixture.weights)

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "weights": self.weights.tolist()}

    @classmethod
    def from_dict(cls, entry: dict[str, Any]) -> "Round":
        return cls(
            float(entry["log_likelihood"]),
            int(entry["n_templates"]),
            np.array(entry["weights"], dtype=np.float64),
        )


@dataclass(frozen=True, eq=False)
class FitResult:
    """Where one start ended."""

    mixture: Mixture
    history: tuple[Round, ...]
    converged: bool
    """Whether the last step changed nothing, to the last bit."""


def likeliest(rows: Rows, fits: Iterable[FitResult]) -> FitResult:
    """The fit with the largest log-likelihood at its own parameters, the earliest among equals.

    A single fit is kept without looking.
    """
    best, most = None, None
    for fit in fits:
        if best is None:
            best = fit
            continue
        if most is None:
            most = expect(rows, best.mixture).likelihood_units
        units = expect(rows, fit.mixture).likelihood_units
        if units > most:
            best, most = fit, units
    assert best is not None
    return best
