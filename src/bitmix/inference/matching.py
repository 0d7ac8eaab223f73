"""Match the components of a second fit with those of the first."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from bitmix.models.mixture import Floats, Mixture


def distances(one: Mixture, other: Mixture) -> Floats:
    """Σ_s (√p - √p')² over the values of all items: squared Hellinger distances, shape (k, k')."""
    a, b = _roots(one), _roots(other)
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * (a @ b.T)
    return np.maximum(squares, 0.0)


def match(reference: Mixture, other: Mixture) -> NDArray[np.intp] | None:
    """The component of `other` for each component of `reference`, by the least sum of distances.

    None if they cannot be matched, because some component of `other` is closer to another component
    of the reference than to its own, as when one has vanished and another was split.
    """
    apart = distances(reference, other)
    _, order = linear_sum_assignment(apart)
    nearest = apart[:, order].argmin(axis=0)
    return order if np.array_equal(nearest, np.arange(len(order))) else None


def _roots(mixture: Mixture) -> Floats:
    """√p of every value of every item; a binary column has two."""
    p = mixture.probabilities
    zeros = 1 - p if mixture.items is None else (1 - p)[:, ~mixture.items.is_value]
    return np.sqrt(np.concatenate([p, zeros], axis=1).clip(0.0, 1.0))
