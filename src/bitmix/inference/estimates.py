"""Values for each parameter of a mixture: estimates, standard errors, intervals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit, ndtri

from bitmix.models.mixture import Floats, Mixture

AT_BOUND = 0.5
"""A probability is at 0 or 1 if fewer people than this are expected to deviate from it."""


@dataclass(frozen=True, eq=False)
class Estimates:
    """One or more values for each parameter of a mixture."""

    weights: Floats
    """Class shares, shape (k,)."""
    probabilities: Floats
    """Probabilities of a 1, shape (k, n)."""
    noise: Any = None
    """Flip rates, in the shape of ``noise_``; None for a probability per cell."""

    def map(self, function: Callable[[Any], Any]) -> "Estimates":
        """Apply a function to each part."""
        noise = None if self.noise is None else function(self.noise)
        return Estimates(function(self.weights), function(self.probabilities), noise)

    @classmethod
    def stacked(cls, several: Sequence["Estimates"]) -> "Estimates":
        """Several estimates along a new first axis."""
        noise = None
        if several[0].noise is not None:
            noise = np.array([each.noise for each in several])
        return cls(
            np.array([each.weights for each in several]),
            np.array([each.probabilities for each in several]),
            noise,
        )


def of_mixture(mixture: Mixture) -> Estimates:
    """The parameters of a mixture."""
    noise = mixture.noise
    if noise is not None:
        noise = np.ravel(noise) if np.ndim(noise) else float(np.asarray(noise))
    return Estimates(mixture.weights, mixture.probabilities, noise)


def intervals(estimates: Estimates, errors: Estimates, level: float, n: float) -> Estimates:
    """Estimates ± z standard errors on the logit scale; the last axis holds both ends.

    A probability per cell from which less than half a person of the class deviates is at its bound,
    where standard errors are meaningless. Its interval is the exact one for 0 of as many people as
    the class has. n is the number of people.
    """
    probabilities = interval(estimates.probabilities, errors.probabilities, level)
    noise = None
    if estimates.noise is None:
        p, people = estimates.probabilities, n * estimates.weights[:, None]
        largest = 1 - (1 - level) ** (1 / np.maximum(people, 1e-9))
        for at_bound, low, high in (
            (people * p < AT_BOUND, 0.0, largest),
            (people * (1 - p) < AT_BOUND, 1 - largest, 1.0),
        ):
            exact = np.stack(np.broadcast_arrays(low, high, p)[:2], axis=-1)
            probabilities = np.where(at_bound[..., None], exact, probabilities)
    else:
        noise = interval(np.asarray(estimates.noise), np.asarray(errors.noise), level)
    return Estimates(interval(estimates.weights, errors.weights, level), probabilities, noise)


def interval(p: Floats, error: Floats, level: float) -> Floats:
    """The interval of each probability, given its standard error; p itself if that is 0 or 1."""
    inside = (p > 0) & (p < 1)
    safe = np.where(inside, p, 0.5)
    half = ndtri((1 + level) / 2) * error / (safe * (1 - safe))
    ends = np.stack([expit(logit(safe) - half), expit(logit(safe) + half)], axis=-1)
    return np.where(inside[..., None], ends, p[..., None])
