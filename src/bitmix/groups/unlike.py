"""Rows that are unlike all groups: a p-value per row, by how held-out rows of the same kind fare.

Two numbers say how well a row fits its most likely group i. The first is the log-likelihood
ln f_i(x); with a probability per cell it is counted from that of the columns' background,
ln f_i(x) / f_0(x), where f_0 has the share of ones of each column over all groups. So a row with
rare ones is not held against a group that says as much of it as can be said. The second is the
share of ones: a row of zeros has a fair likelihood in every sparse group, and yet is like none
unless such rows are common.

The p-value is the rank of the first number among rows that were not in the fit, and the least one
if no such row has so few or so many ones. If the model is right, rows drawn from it serve as well.
On real tables columns depend on each other, and rows of the fit are closer to the templates than
new rows are: by ranks among the molecules of the fit, 17 to 45 % of new molecules of five targets
were below the level of 5 %.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.em.noise import Noise
from bitmix.em.step import expect
from bitmix.errors import InputError
from bitmix.kernels.scores import Scores
from bitmix.models.mixture import Floats, Mixture
from bitmix.rows import Rows
from bitmix.rows.protocol import Block
from bitmix.support.randomness import stream

MAX_ROWS = 10_000
"""Rows that p-values are ranks among: their standard error is at most .005."""
MIN_ROWS = 20
FOLDS = 8
_STEPS = 4  # EM steps without the rows that are held out


@dataclass(frozen=True, eq=False)
class Calibration:
    """How well rows fit that a model has not seen."""

    fits: Floats
    """How likely each row is in its group, sorted."""
    ones: Floats
    """The least and the largest share of ones of a row."""

    @classmethod
    def of(cls, values: Floats) -> "Calibration":
        """From the values of rows, shape (rows, 2)."""
        return cls(np.sort(values[:, 0]), np.array([values[:, 1].min(), values[:, 1].max()]))

    def p_values(self, values: Floats) -> Floats:
        """The share of held-out rows that fit at most as well, the row itself counted."""
        n_worse = np.searchsorted(self.fits, values[:, 0], side="right")
        beyond = (values[:, 1] < self.ones[0]) | (values[:, 1] > self.ones[1])
        return (1 + np.where(beyond, 0, n_worse)) / (1 + self.n_rows)

    @property
    def n_rows(self) -> int:
        return len(self.fits)

    def arrays(self) -> dict[str, Floats]:
        """The values that a file has to hold."""
        return {"calibration_fits": self.fits, "calibration_ones": self.ones}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> "Calibration | None":
        """The calibration in a file, checked; None if there is none."""
        if "calibration_fits" not in arrays:
            return None
        fits, ones = arrays["calibration_fits"], arrays["calibration_ones"]
        for values in (fits, ones):
            if values.dtype != np.float64 or values.ndim != 1 or not len(values):
                raise InputError("a calibration must be two lists of numbers")
            if not np.isfinite(values).all() or (np.diff(values) < 0).any():
                raise InputError("a calibration must be sorted numbers")
        if len(ones) != 2:
            raise InputError(f"a calibration must have two numbers of ones, got {len(ones)}")
        return cls(fits, ones)


def fit_of_rows(rows: Rows, mixture: Mixture) -> Floats:
    """How well each row fits its group: its likelihood and its share of ones, shape (rows, 2)."""
    mixture = mixture.density()
    background = None
    if mixture.noise is None:
        shares = (mixture.weights @ mixture.probabilities)[None].clip(0, 1)
        background = Mixture(shares, np.ones(1), None, mixture.items).scores()
    logs = np.log(np.where(mixture.weights > 0, mixture.weights, 1.0))
    of_block: Callable[[Block], Floats] = partial(
        _fit_of_block, scores=mixture.scores(), log_weights=logs, background=background
    )  # fmt: skip
    return np.asarray(rows.map_rows(of_block, block_cells=mixture.n_components))


def _fit_of_block(
    block: Block, *, scores: Scores, log_weights: Floats, background: Scores | None
) -> Floats:  # fmt: skip
    values, known = scores(block), block.known
    group = values.argmax(axis=1)
    fits = values[np.arange(len(values)), group] / 2.0**scores.bits - log_weights[group]
    if background is not None:
        fits -= background(block)[:, 0] / 2.0**background.bits
    n_known = block.n_columns if known is None else np.bitwise_count(known).sum(axis=1)
    n_ones = np.bitwise_count(block.bits).sum(axis=1)
    return np.column_stack([fits, n_ones / np.maximum(n_known, 1)])


def held_out(rows: Rows, mixture: Mixture, noise: Noise, seed: int) -> Floats:
    """`fit_of_rows` of rows of the fit, each under a mixture that goes on with EM without it.

    At most `MAX_ROWS` random rows are held out, an eighth of all rows at a time.
    """
    m = rows.shape[0]
    drawn = stream(seed, "calibration").permutation(m)[:MAX_ROWS]
    values = []
    for fold in np.array_split(drawn, max(1, -(-FOLDS * len(drawn) // m))):
        others = np.ones(m, dtype=bool)
        others[fold] = False
        rest, fitted = rows.subset(np.flatnonzero(others)), mixture
        for _ in range(_STEPS):
            fitted = noise.maximise(expect(rest, fitted), fitted)
        values.append(fit_of_rows(rows.subset(fold), fitted))
    return np.concatenate(values)
