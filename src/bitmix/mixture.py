"""Mixture: the model of Section 2.1 as a frozen value, and its scores as integers."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bitmix import checks
from bitmix.errors import InputError
from bitmix.kernels import fixed
from bitmix.kernels.bits import Words, pack, unpack, words_for
from bitmix.kernels.scores import AffineScores, HammingScores, Scores

Floats = NDArray[np.float64]


def check_weights(weights: Floats, k: int) -> None:
    """One weight a template, none negative, sum 1: for values that come from a file."""
    weights = np.asarray(weights)
    if weights.dtype != np.float64 or weights.shape != (k,) or not k:
        raise InputError(f"weights must be one number for each of {k} templates")
    if not (np.all(weights >= 0) and abs(weights.sum() - 1) < 1e-6):
        raise InputError("weights must be positive and sum to 1")


@dataclass(frozen=True, eq=False)
class Mixture:
    """k templates with weights and one noise level.

    Its f_i(x) = q^D(x,T_i)·(1-q)^(n-D(x,T_i)) is a density over rows only where T_i is binary;
    with the real-valued T_i of the EM steps it is the score the paper iterates with.
    """

    means: Floats
    """T_i in the paper, real-valued in [0, 1], shape (k, n)."""
    weights: Floats
    """w_i in the paper, sum 1."""
    noise: float
    """q in the paper, 0 < q < ½."""

    @classmethod
    def of_rows(cls, words: Words, n_columns: int, noise: float) -> "Mixture":
        """Packed rows as templates of equal weight (steps 1 and 2)."""
        k = len(words)
        return cls(unpack(words, n_columns).astype(np.float64), np.full(k, 1.0 / k), noise)

    def checked(self) -> "Mixture":
        """Itself, if it is a mixture at all: for values that come from a file."""
        means = np.asarray(self.means)
        in_range = means.size and np.all((means >= 0) & (means <= 1))
        if means.dtype != np.float64 or means.ndim != 2 or not in_range:
            raise InputError("means must be a table of numbers from 0 to 1")
        check_weights(self.weights, len(means))
        checks.noise(self.noise)
        return self

    @property
    def n_components(self) -> int:
        return len(self.weights)

    @property
    def n_features(self) -> int:
        return int(self.means.shape[1])

    @property
    def templates(self) -> NDArray[np.uint8]:
        """T_i rounded to bits; ½ rounds to 0."""
        return (self.means > 0.5).astype(np.uint8)

    def rounded(self) -> "Mixture":
        """The same mixture with binary templates: a proper density over rows."""
        return replace(self, means=self.templates.astype(np.float64))

    def kept(self, indices: NDArray[np.intp]) -> "Mixture":
        """Only these components, with equal weights (step 7)."""
        k = len(indices)
        return replace(self, means=self.means[indices], weights=np.full(k, 1.0 / k))

    def ordered(self) -> "Mixture":
        """Heaviest component first; equal weights by template bits, then by mean."""
        templates = self.templates
        order = sorted(
            range(self.n_components),
            key=lambda i: (-self.weights[i], templates[i].tobytes(), self.means[i].tobytes()),
        )
        return replace(self, means=self.means[order], weights=self.weights[order])

    def n_parameters(self, *, noise_known: bool = False) -> int:
        """k·n template bits, k-1 free weights, and the noise level unless it was given."""
        return self.n_components * self.n_features + self.n_components - (1 if noise_known else 0)

    def scores(self, *, missing: bool = False) -> Scores:
        """ln(w_i f_i(x)) = ln w_i + n·ln(1-q) - λ·D(x, T_i), λ = ln((1-q)/q), as integers.

        With Λ = round(λ·2^F) and A_s = round(T_s·Λ), a column adds A_s to the distance if x_s = 0
        and Λ - A_s where x_s = 1: both in [0, Λ], both within 5/4 of a unit of their true value
        (½ from Λ, ½ from A_s, and T_s·Λ < 2^52 in float adds at most 1/4). The two
        constants are within ½ each. So a score is within (n+1)·2^(1-F) nats of its true value,
        `fixed.score_error`.

        |score| ≤ n·(2λ + ln 2) + 745 + 23 nats, as no positive float is below e^-745; F is chosen
        from that bound. A component of weight 0 is put a full range below the others, so
        that its share is 0 for every row.

        With `missing` a row is its bits followed by as many that say which are known, each half
        filled up to whole words; an unknown cell adds nothing.
        """
        n = self.n_features
        flips, of = self.noise.as_integer_ratio()
        right, wrong = fixed.wide_log(of - flips, of), fixed.wide_log(flips, of)
        bits = fixed.score_bits(n * (2 * fixed.ceiling(right - wrong) + 1) + 800)
        step = fixed.to_units(right - wrong, bits)
        log_weights = self._log_weights(step, bits)
        at_template = fixed.to_units(n * right, bits)
        known = fixed.to_units(right, bits)
        if missing:
            distance, half = np.rint(self.means * float(step)).astype(np.int64), 64 * words_for(n)
            coef = np.zeros((self.n_components, 2 * half), dtype=np.int64)
            coef[:, :n] = 2 * distance - step
            coef[:, half : half + n] = known - distance
            return AffineScores(log_weights, coef, bits)
        const = log_weights + at_template
        if np.all((self.means == 0) | (self.means == 1)):
            templates = pack(self.means.astype(np.uint8))
            return HammingScores(const, step, templates, bits)
        distance = np.rint(self.means * float(step)).astype(np.int64)
        return AffineScores(const - distance.sum(axis=1), 2 * distance - step, bits)

    def _log_weights(self, step: int, bits: int) -> fixed.Ints:
        """ln w_i in units of 2^-bits; that of weight 0 a full range below the others."""
        logs = {
            w: fixed.to_units(fixed.wide_log(*w.as_integer_ratio()), bits)
            for w in set(self.weights.tolist())
            if w
        }
        lowest = min(logs.values()) - self.n_features * step - ((fixed.CUT_NATS + 1) << bits)
        return np.array([logs.get(w, lowest) for w in self.weights.tolist()], dtype=np.int64)
