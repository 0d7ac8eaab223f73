"""Rows that are unlike all groups: a p-value per row, by how held-out rows of the same kind fare.

Two numbers say how well a row fits its most likely group i. The first is the log-likelihood
ln f_i(x); with a probability per cell it is counted from that of the columns' background,
ln f_i(x) / f_0(x), where f_0 has the share of ones of each column over all groups. So a row with
rare ones is not held against a group that says as much of it as can be said. The second is the
number of ones, in standard deviations from the group's mean: a row of zeros has a fair likelihood
in every sparse group, and yet is like none.

The p-value is the rank of the worse of both ranks among rows that were not in the fit. If the model
is right, rows drawn from it serve as well. On real tables columns depend on each other, and rows of
the fit are closer to the templates than new rows are: at a level of 5 %, 15 to 40 % of new
molecules were rejected by ranks among the molecules of the fit.
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
_STEPS = 2  # EM steps without the rows that are held out


@dataclass(frozen=True, eq=False)
class Calibration:
    """How well rows fit that a model has not seen: sorted values."""

    fits: Floats
    """How likely each row is in its group."""
    ones: Floats
    """Its number of ones, in standard deviations from the mean of its group."""
    worst: Floats
    """The smaller of both ranks."""

    @classmethod
    def of(cls, values: Floats) -> "Calibration":
        """From the values of rows, shape (rows, 2)."""
        fits, ones = np.sort(values[:, 0]), np.sort(values[:, 1])
        return cls(fits, ones, np.sort(_worst(fits, ones, values)))

    def p_values(self, values: Floats) -> Floats:
        """The share of held-out rows that fit at most as well, the row itself counted."""
        worst = _worst(self.fits, self.ones, values)
        return _rank(self.worst, worst)

    @property
    def n_rows(self) -> int:
        return len(self.fits)

    def arrays(self) -> dict[str, Floats]:
        """The values that a file has to hold."""
        return {"calibration_fits": self.fits, "calibration_ones": self.ones,
                "calibration_worst": self.worst}  # fmt: skip

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> "Calibration | None":
        """The calibration in a file, checked; None if there is none."""
        if "calibration_fits" not in arrays:
            return None
        fits, ones, worst = (arrays[f"calibration_{name}"] for name in ("fits", "ones", "worst"))
        for values in (fits, ones, worst):
            if values.dtype != np.float64 or values.shape != fits.shape or values.ndim != 1:
                raise InputError("a calibration must be lists of numbers of one length")
            if not len(values) or not np.isfinite(values).all() or (np.diff(values) < 0).any():
                raise InputError("a calibration must be sorted numbers")
        return cls(fits, ones, worst)


def _rank(values: Floats, x: Floats) -> Floats:
    """(1 + the number of values that are at most x) / (1 + their number)."""
    return (1 + np.searchsorted(values, x, side="right")) / (1 + len(values))


def _worst(fits: Floats, ones: Floats, values: Floats) -> Floats:
    few, many = _rank(ones, values[:, 1]), _rank(-ones[::-1], -values[:, 1])
    both = np.minimum(2 * np.minimum(few, many), 1)
    return np.minimum(_rank(fits, values[:, 0]), both)


def fit_of_rows(rows: Rows, mixture: Mixture) -> Floats:
    """How well each row fits its group: its likelihood and its number of ones, shape (rows, 2)."""
    mixture = mixture.density()
    p = mixture.probabilities
    background = None
    if mixture.noise is None:
        shares = (mixture.weights @ p)[None].clip(0, 1)
        background = Mixture(shares, np.ones(1), None, mixture.items).scores()
    moments = p.sum(axis=1), np.sqrt(np.maximum((p * (1 - p)).sum(axis=1), 1e-9))
    logs = np.log(np.where(mixture.weights > 0, mixture.weights, 1.0))
    of_block: Callable[[Block], Floats] = partial(
        _fit_of_block, scores=mixture.scores(), log_weights=logs, background=background,
        moments=moments,
    )  # fmt: skip
    return np.asarray(rows.map_rows(of_block, block_cells=mixture.n_components))


def _fit_of_block(
    block: Block, *, scores: Scores, log_weights: Floats, background: Scores | None,
    moments: tuple[Floats, Floats],
) -> Floats:  # fmt: skip
    values, known = scores(block), block.known
    group = values.argmax(axis=1)
    fits = values[np.arange(len(values)), group] / 2.0**scores.bits - log_weights[group]
    if background is not None:
        fits -= background(block)[:, 0] / 2.0**background.bits
    share = np.ones(len(values))
    if known is not None:
        share = np.bitwise_count(known).sum(axis=1) / block.n_columns
    mean, deviation = moments[0][group] * share, moments[1][group] * np.sqrt(share)
    n_ones = np.bitwise_count(block.bits).sum(axis=1)
    return np.column_stack([fits, (n_ones - mean) / np.maximum(deviation, 1e-9)])


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
