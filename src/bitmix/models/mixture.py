"""The mixture as a frozen value, and its scores ln(w_i f_i(x)) as integers.

A component is a template T_i: its rows are copies of it in which bits are flipped. The noise says
how likely a flip is,

* ``"shared"``: q for every bit (the paper's model, Section 2.1);
* ``"updown"``: α for a bit that is 0 in the template, β for one that is 1;
* ``"component"``: one rate per template;
* ``"feature"``: one rate per column;
* ``"cell"``: a free probability of a 1 per template and column (the latent class model), so that
  there is no template to copy; T_i is that probability.

The E step of the first four also takes real-valued templates, as the paper's does: a column adds
T·ln P(x | 1) + (1 - T)·ln P(x | 0). That is a density over rows only if T is binary.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import InputError
from bitmix.kernels import backend, fixed
from bitmix.kernels.bits import Words, pack, unpack
from bitmix.kernels.fixed import Ints
from bitmix.kernels.items import Items
from bitmix.kernels.scores import AffineScores, CellScores, PopcountScores, Scores
from bitmix.support import checks

Floats = NDArray[np.float64]
NoiseModel = Literal["shared", "updown", "component", "feature", "cell"]
NOISE_MODELS: tuple[NoiseModel, ...] = ("shared", "updown", "component", "feature", "cell")
"""From the simplest on."""
MIN_PROBABILITY = 2.0**-40
"""Scores take probabilities no closer to 0 and 1 than this."""
_EQUAL = 1e-3  # components are equal if no probability differs by more


def wide_log_rates(rate: float) -> tuple[int, int]:
    """ln(1 - rate) and ln(rate) in units of 2^-128."""
    flips, of = float(rate).as_integer_ratio()
    return fixed.wide_log(of - flips, of), fixed.wide_log(flips, of)


@dataclass(frozen=True, eq=False)
class Mixture:
    """k templates with weights and noise."""

    means: Floats
    """T_i in the paper, in [0, 1], shape (k, n)."""
    weights: Floats
    """w_i in the paper, sum 1."""
    noise: float | Floats | None
    """The probability that a bit is flipped: q; (α, β); shape (k, 1); shape (1, n); or None if the
    means are the probabilities of a 1."""
    items: Items | None = None
    """The columns that are values of items with several values. Such an item has the template's
    value with probability 1 - noise, and every other value equally often."""

    @classmethod
    def of_rows(cls, words: Words, n_columns: int, noise: float) -> "Mixture":
        """Packed rows as templates of equal weight (steps 1 and 2)."""
        k = len(words)
        return cls(unpack(words, n_columns).astype(np.float64), np.full(k, 1.0 / k), noise)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "Mixture":
        """The mixture with these `arrays`; values read from a file are checked."""
        means, weights, noise = arrays["templates"], arrays["weights"], arrays["noise"]
        check_means(means)
        checks.weights(weights, len(means), least=0)
        k, n = means.shape
        items = Items.from_array(arrays["items"], n) if "items" in arrays else None
        if noise.size == 0:
            return cls(means, weights, None, items)
        if noise.dtype != np.float64 or noise.shape not in ((), (2,), (k, 1), (1, n)):
            raise InputError(f"noise of shape {noise.shape} does not fit templates of {k} × {n}")
        if not np.all((noise > 0) & (noise < 1)):
            raise InputError("noise must lie between 0 and 1")
        return cls(means, weights, float(noise) if noise.ndim == 0 else noise, items)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The values that a file has to hold."""
        noise = np.empty(0) if self.noise is None else np.asarray(self.noise)
        items = {} if self.items is None else {"items": self.items.of_column}
        return {"templates": self.means, "weights": self.weights, "noise": noise, **items}

    @property
    def n_components(self) -> int:
        return len(self.weights)

    @property
    def noise_model(self) -> NoiseModel:
        """The noise model, which the shape of the noise tells."""
        if self.noise is None:
            return "cell"
        shape = np.shape(self.noise)
        if len(shape) < 2:
            return "updown" if shape else "shared"
        return "component" if shape == (self.n_components, 1) else "feature"

    @property
    def templates(self) -> NDArray[np.uint8]:
        """T_i rounded to bits; ½ rounds to 0. An item has its most likely value."""
        bits = self.means > 0.5
        if self.items is not None:
            bits = self.items.one_per_item(self.means, bits)
        return bits.astype(np.uint8)

    @property
    def probabilities(self) -> Floats:
        """P(x_s = 1) per template and column, shape (k, n), of the rounded templates."""
        noise: Any = self.noise
        if noise is None:
            return self.means
        up, down = noise if np.shape(noise) == (2,) else (noise, noise)
        if self.items is not None:
            up = up / (self.items.n_values - 1)
        return np.where(self.templates == 1, 1 - down, up)

    @cached_property
    def log_rates(self) -> tuple[Ints, Ints]:
        """ln(1 - rate) and ln(rate) of the flip rates, in units of 2^-32 nats."""
        rates = np.atleast_1d(np.asarray(self.noise)).clip(MIN_PROBABILITY, 1 - MIN_PROBABILITY)
        to_logs = backend(4e-8 * rates.size).logs
        return to_logs(1 - rates), to_logs(rates)

    def duplicates(self) -> list[tuple[int, int]]:
        """Pairs of components whose probabilities are equal."""
        p, pairs = self.probabilities, []
        equal: dict[bytes, list[int]] = {}
        for i, template in enumerate(self.templates):
            equal.setdefault(template.tobytes(), []).append(i)
        for same in equal.values():
            for i, j in itertools.combinations(same, 2):
                if np.abs(p[i] - p[j]).max() <= _EQUAL:
                    pairs.append((i, j))
        return sorted(pairs)

    def density(self) -> "Mixture":
        """The same mixture with rounded templates: a proper density over rows."""
        if self.noise is None:
            return self
        return replace(self, means=self.templates.astype(np.float64))

    def n_parameters(self) -> int:
        """k·n template bits or probabilities, k-1 free weights, and the flip rates.

        An item of R values counts as R - 1 columns, and has one flip rate.
        """
        rates = 0 if self.noise is None else np.size(self.noise)
        k, n = self.means.shape
        if self.items is not None:
            n -= self.items.n_items
            if self.noise_model == "feature":
                rates -= int(self.items.is_value.sum()) - self.items.n_items
        return k * n + k - 1 + rates

    def with_equal_weights(self, indices: NDArray[np.intp]) -> "Mixture":
        """Only these components, with equal weights (step 7)."""
        k = len(indices)
        return replace(self.reordered(indices), weights=np.full(k, 1.0 / k))

    def reordered(self, order: Any) -> "Mixture":
        """These components, in this order, with their weights."""
        noise: Any = self.noise
        if self.noise_model == "component":
            noise = noise[order]
        return replace(self, means=self.means[order], weights=self.weights[order], noise=noise)

    def scores(self) -> Scores:
        """ln(w_i f_i(x)) as integers in units of 2^-F nats.

        A 0 in a row adds ln(1-α) - T·ln((1-α)/β) and a 1 adds ln α + T·ln((1-β)/α). Each logarithm
        is a whole number of units, and so is T times one, rounded. F is chosen such that no score
        leaves the range of `fixed.score_bits`. A component of weight 0 is put a full range below
        the others, so that its responsibility is 0 for every row.

        Where there are one or two flip rates, logarithms are rounded to the nearest unit, and with
        α = β = q a score is within (n+1)·2^(1-F) nats of its true value: a column adds Λ = λ·2^F
        rounded, or A = T·Λ rounded, or Λ - A, each within 5/4 of a unit. Otherwise they
        are within 2^-29 nats, so a score is within (2n+1)·2^-28 nats.
        An unknown cell adds nothing.
        """
        k, n = self.means.shape
        if self.noise is None:
            return self._cell_scores()
        zero_right, zero_wrong, one_right, one_wrong, log_weights, bits = self._logs()
        per_one = zero_wrong - zero_right
        down, up = zero_right - one_wrong, one_right - zero_wrong
        if self.items is not None:
            return self._item_scores(zero_right, zero_wrong, log_weights, bits)
        is_one = self.means == 1
        if not np.all(is_one | (self.means == 0)):
            downs = np.rint(self.means * down).astype(np.int64)
            ups = downs if np.array_equal(up, down) else np.rint(self.means * up).astype(np.int64)
            return AffineScores(log_weights, zero_right - downs, per_one + ups + downs, bits)
        if self.noise_model == "feature":
            coef = np.where(is_one, one_right - one_wrong, per_one)
            return AffineScores(log_weights, np.where(is_one, one_wrong, zero_right), coef, bits)
        of_template = np.array([zero_right, per_one, up, down])[:, :, 0]
        per_cell, per_one, up, down = np.broadcast_to(of_template, (4, k)).copy()
        const = log_weights + n * per_cell - down * is_one.sum(axis=1)
        zeros = (per_cell, per_cell - down)
        return PopcountScores(const, per_one, up + down, zeros, pack(is_one), n, bits)

    def _item_scores(self, right: Ints, wrong: Ints, log_weights: Ints, bits: int) -> AffineScores:
        """The scores if some columns are values of items: the value of a row adds ln(1-q), or
        ln(q/(R-1)) if it is not the template's, and its zeros add nothing.
        """
        assert self.items is not None
        n_values = self.items.n_values
        units = {r: fixed.to_units(fixed.wide_log(r - 1, 1), bits) for r in set(n_values.tolist())}
        logs, is_value = np.array([units[r] for r in n_values.tolist()]), self.items.is_value
        step = np.rint(self.means * (right - wrong)).astype(np.int64)
        step_of_value = np.rint(self.means * (right - wrong + logs)).astype(np.int64)
        zero = np.where(is_value, 0, right - step)
        coef = np.where(is_value, wrong - logs + step_of_value, wrong - right + 2 * step)
        return AffineScores(log_weights, zero, coef, bits)

    def _cell_scores(self) -> CellScores:
        n, rates = self.means.shape[1], self.means
        if rates.min() < MIN_PROBABILITY or rates.max() > 1 - MIN_PROBABILITY:
            rates = rates.clip(MIN_PROBABILITY, 1 - MIN_PROBABILITY)
        largest = 28  # nats: -ln of the least probability, rounded up
        bits = min(fixed.LOG_BITS, fixed.score_bits(n * (4 * largest + 4) + 1600))
        columns = None if self.items is None else np.flatnonzero(self.items.is_value)
        return CellScores(self._log_weights(bits, largest), rates, bits, columns)

    def _log_weights(self, bits: int, largest: int, *, exact: bool = False) -> Ints:
        """ln w_i in units of 2^-bits, within a unit of 2^-32 or to the nearest unit. A component of
        weight 0 is put below all scores; no logarithm of a rate is larger than `largest` nats.
        """
        positive = np.where(self.weights > 0, self.weights, 1.0)
        if exact:
            values, place = np.unique(positive, return_inverse=True)
            wide = np.empty(len(values), dtype=object)
            for i, weight in enumerate(values.tolist()):
                wide[i] = fixed.wide_log(*weight.as_integer_ratio())
            logs = fixed.to_units(wide, bits).astype(np.int64)[place]
        else:
            logs = backend().logs(positive) >> (fixed.LOG_BITS - bits)
        sum_of_cells = self.means.shape[1] * (largest + 1)
        lowest = int(logs.min()) - ((sum_of_cells + fixed.CUT_NATS + 1) << bits)
        return np.where(self.weights > 0, logs, lowest)

    def _logs(self) -> tuple[Ints, Ints, Ints, Ints, Ints, int]:
        """ln(1-α), ln α, ln(1-β), ln β, each of a shape that stretches to (k, n), and ln w_i, all
        in units of 2^-bits; and bits.
        """
        n = self.means.shape[1]
        if np.asarray(self.noise).ndim == 2:
            right, wrong = self.log_rates
            largest = -int(min(right.min(), wrong.min())) >> fixed.LOG_BITS
            bits = min(fixed.LOG_BITS, fixed.score_bits(n * (4 * largest + 4) + 1600))
            right, wrong = (log >> (fixed.LOG_BITS - bits) for log in (right, wrong))
            log_weights = self._log_weights(bits, largest)
            return right, wrong, right, wrong, log_weights, bits
        rates = np.broadcast_to(np.asarray(self.noise), 2).tolist()  # α and β, or q twice
        wide = np.array(list(map(wide_log_rates, rates)), dtype=object)
        largest = -(wide.min() >> fixed.WIDE_BITS)
        bits = fixed.score_bits(n * (2 * largest + 1) + 800)
        right = fixed.to_units(wide[:, 0], bits)  # of α and of β
        wrong = right - fixed.to_units(wide[:, 0] - wide[:, 1], bits)  # the difference is rounded
        (zero_right, one_right), (zero_wrong, one_wrong) = (
            np.array([right, wrong]).astype(np.int64).reshape(2, 2, 1, 1)
        )
        log_weights = self._log_weights(bits, largest, exact=True)
        return zero_right, zero_wrong, one_right, one_wrong, log_weights, bits


def check_means(means: NDArray[Any]) -> None:
    """Raise an error unless this is a table of numbers from 0 to 1."""
    in_range = means.size and np.all((means >= 0) & (means <= 1))
    if means.dtype != np.float64 or means.ndim != 2 or not in_range:
        raise InputError("means must be a table of numbers from 0 to 1")
