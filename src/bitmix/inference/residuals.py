"""Bivariate residuals: pairs of items that are associated within classes.

For each pair of items, the table of their values over all people is compared with the one that the
model expects, Σ_i w_i·p_i(a)·p_i(b). A difference is an association between the two items that the
classes do not explain.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bitmix.em.search import converge, evaluate
from bitmix.errors import InputError
from bitmix.inference.fitted import (
    Refittable,
    fitted,
    in_memory,
    item_columns,
    item_names,
    patterns_of,
    refittable,
)
from bitmix.inference.ratio_test import simulated
from bitmix.inference.replicates import for_each
from bitmix.inference.tables import Column, Table
from bitmix.models.mixture import Floats, Mixture
from bitmix.rows import Rows
from bitmix.rows.packed import BitMatrix
from bitmix.support import checks
from bitmix.support.randomness import seed_of, stream

MAX_PLANES = 8_192
"""The largest number of values of all items together: their pairs take 0.5 GB."""
MAX_QUICK_WORK, MAX_TESTED_WORK = 1e10, 5e8
"""Multiplications for the residuals of all pairs (a few seconds) and for replicates, whose fits
take longer: 2.6 seconds on 1,785 people and 12 items of 4 values."""
USUAL, FEW = 99, 19
"""Numbers of replicates for p-values that were not requested: the usual one, or else fewer."""
_BLOCK_CELLS = 1 << 22  # floats per block of rows


@dataclass(frozen=True, eq=False)
class BivariateResiduals:
    """How far pairs of items are from the expectation. Arrays have shape (items, items)."""

    items: tuple[str, ...]
    """The names of the items."""
    chi_squared: Floats
    """Pearson's χ² of the table of two items; NaN on the diagonal."""
    residuals: Floats
    """χ² divided by its degrees of freedom, as other programs report; above 3 or 4 is large."""
    p_values: Floats | None
    """Parametric bootstrap p-value of each residual: small if it is too large for the model."""
    p_largest: float | None
    """Parametric bootstrap p-value of the largest residual."""
    n: int = 0
    """The number of tables on which p-values are based."""

    def largest(self, n: int = 10) -> Table:
        """The n pairs with the largest residuals."""
        first, second = np.triu_indices(len(self.items), 1)
        order = np.argsort(-self.residuals[first, second], kind="stable")[:n]
        records = tuple(
            {
                "item": self.items[i],
                "other_item": self.items[j],
                "residual": float(self.residuals[i, j]),
                "chi_squared": float(self.chi_squared[i, j]),
                "p_value": None if self.p_values is None else float(self.p_values[i, j]),
            }
            for i, j in zip(first[order].tolist(), second[order].tolist(), strict=True)
        )
        return Table(_COLUMNS, records)


_COLUMNS = (
    Column("item", "item"),
    Column("other_item", "other item"),
    Column("residual", "residual", ".2f"),
    Column("chi_squared", "χ²", ".2f"),
    Column("p_value", "p", ".3f"),
)


def bivariate_residuals(
    model: Any, X: Any, n: int = 0, random_state: Any = 0, *, sample_weight: Any = None
) -> BivariateResiduals:
    """Bivariate residuals of all pairs of items.

    If cells are missing, the table of a pair counts the people who answered both items.

    Parameters
    ----------
    model : TemplateMixture, TwoRoundEM or ClassicEM
        Fitted.
    X : as in ``model.predict``
        The rows of the fit.
    n : int, default=0
        The number of tables to draw from the model and fit for p-values; 99 are usual. With 0 there
        are no p-values, because residuals do not follow a χ² distribution.
    random_state : int, RandomState, Generator or None
    sample_weight : array-like, shape (m,), optional
        How many times each row counts.

    Examples
    --------
    >>> import numpy as np
    >>> import bitmix
    >>> from bitmix.datasets import make_templates, sample_mixture
    >>> truth = make_templates(2, 6, separation=0.7, random_state=0)
    >>> X, _ = sample_mixture(truth, [0.6, 0.4], noise=0.1, m=500, random_state=0)
    >>> X = X.to_dense()
    >>> X[:200, 1] = X[:200, 0]  # an association that two classes do not explain
    >>> model = bitmix.TemplateMixture(2, noise_model="cell", random_state=0).fit(X)
    >>> pair = bitmix.bivariate_residuals(model, X).largest(1).records[0]
    >>> pair["item"], pair["other_item"]
    ('column 0', 'column 1')
    """
    model = fitted(model)
    n = checks.whole(n, "n", least=0)
    rows = in_memory(model.rows_like_fit(X, sample_weight), "bivariate_residuals")
    rows = patterns_of(rows) or rows
    mixture = model.mixture_.density()
    planes = Planes(mixture)
    chi_squared = planes.chi_squared(rows, mixture)
    p_values = p_largest = None
    if n:
        settings = refittable(model, "bivariate_residuals with n > 0").settings_like_fit()
        seed = seed_of(random_state)

        def replicate(number: int) -> Floats:
            table = simulated(rows, mixture, stream(seed, "simulation", number))
            fit = converge(table, evaluate(table, mixture, settings.noise), settings)
            return planes.chi_squared(table, fit.mixture.density())

        drawn = np.array(for_each(range(n), replicate, "residuals"))
        p_values = (1 + (drawn >= chi_squared).sum(axis=0)) / (n + 1)
        np.fill_diagonal(p_values, np.nan)
        top = planes.largest(chi_squared)
        p_largest = (1 + sum(planes.largest(each) >= top for each in drawn)) / (n + 1)
    return BivariateResiduals(
        tuple(item_names(model)), chi_squared, chi_squared / planes.df, p_values, p_largest, n
    )


def quick_residuals(model: Any, rows: Rows, n: int = 0) -> BivariateResiduals | None:
    """Residuals if they take no more than a few seconds, with p-values if these are as quick. `n`
    is the requested number of replicates."""
    work = rows.shape[0] * (2.0 * rows.shape[1]) ** 2
    if not isinstance(rows, BitMatrix) or len(item_columns(model.mixture_)) < 2:
        return None
    if not n and isinstance(model, Refittable):
        n = next((n for n in (USUAL, FEW) if work * (1 + n) <= MAX_TESTED_WORK), 0)
    if work * (1 + n) > MAX_QUICK_WORK:
        return None
    try:
        return bivariate_residuals(model, rows, n)
    except InputError:
        return None


class Planes:
    """The values of all items, one plane each: two per binary column."""

    def __init__(self, mixture: Mixture) -> None:
        groups = item_columns(mixture)
        self.item = np.repeat(np.arange(len(groups)), [max(2, len(group)) for group in groups])
        if len(self.item) > MAX_PLANES:
            raise InputError(
                f"the items have {len(self.item):,} values, but pairs of at most {MAX_PLANES:,} "
                "are counted: choose fewer columns"
            )
        self.column = np.array([s for group in groups for s in (group * 2)[: max(2, len(group))]])
        is_binary = np.array([len(group) == 1 for group in groups])[self.item]
        first = np.append(True, self.item[1:] != self.item[:-1])
        self.is_zero = is_binary & first
        """The planes of 0 of binary columns."""
        n_values = np.bincount(self.item)
        self.df = np.outer(n_values - 1, n_values - 1)

    def of(self, ones: Floats) -> Floats:
        """Columns of ones, or their probabilities, as planes."""
        chosen = ones[:, self.column]
        return np.where(self.is_zero, 1 - chosen, chosen)

    def chi_squared(self, rows: BitMatrix, mixture: Mixture) -> Floats:
        """Pearson's χ² of each pair of items, shape (items, items); NaN on the diagonal."""
        n = len(self.item)
        observed, people = np.zeros((n, n)), np.zeros((n, n))
        step = max(1, _BLOCK_CELLS // n)
        for start in range(0, len(rows), step):
            block = rows[start : start + step]
            bits, weights = block.to_dense(np.float64), block.weights[:, None]
            planes = self.of(bits)
            known = ~np.isnan(planes)
            planes = np.where(known, planes, 0.0)
            observed += planes.T @ (weights * planes)
            people += known.T @ (weights * known)
        p = self.of(mixture.probabilities)
        expected = people * (p.T @ (mixture.weights[:, None] * p))
        possible = expected > 0
        squares = np.where(possible, (observed - expected) ** 2, 0.0)
        cells = squares / np.where(possible, expected, 1.0)
        starts = np.flatnonzero(np.append(True, self.item[1:] != self.item[:-1]))
        pairs = np.add.reduceat(np.add.reduceat(cells, starts, axis=0), starts, axis=1)
        np.fill_diagonal(pairs, np.nan)
        return pairs

    def largest(self, chi_squared: Floats) -> float:
        """The largest residual; 0 if there is only one item."""
        return float(np.nan_to_num(chi_squared / self.df).max())
