"""Fit statistics of a mixture, as papers on latent classes report them."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bitmix.em import predict
from bitmix.inference.fitted import Fitted, fitted, number_of_cells, patterns_of
from bitmix.kernels import fixed
from bitmix.kernels.items import Items
from bitmix.models.mixture import Floats, Mixture
from bitmix.rows import Rows
from bitmix.rows.packed import BitMatrix

MAX_CELLS = 1 << 24
"""With more possible patterns, single cells are too sparse to compare: 12 items of four values."""


@dataclass(frozen=True, eq=False)
class Patterns:
    """The observed response patterns, and how well their frequencies are fitted.

    Patterns that do not occur share the rest of the expected counts.
    """

    rows: BitMatrix
    """The distinct rows."""
    observed: Floats
    """How often each pattern occurs, by weight."""
    log_probabilities: Floats
    """ln of the probability of each pattern under the model."""
    n_cells: int
    """The number of possible patterns."""

    @property
    def expected(self) -> Floats:
        """How often the model expects each pattern among as many rows."""
        return self.observed.sum() * np.exp(self.log_probabilities)

    @property
    def g_squared(self) -> float:
        """G² = 2·Σ observed·ln(observed / expected), the likelihood-ratio statistic."""
        ratios = np.log(self.observed / self.expected)
        return 2 * math.fsum(self.observed * ratios)

    @property
    def chi_squared(self) -> float:
        """Pearson's χ² over all patterns, including those that do not occur."""
        apart = (self.observed - self.expected) ** 2 / self.expected
        unseen = math.fsum(self.observed) - math.fsum(self.expected)
        return math.fsum(apart) + max(unseen, 0.0)


@dataclass(frozen=True, eq=False)
class FitStatistics:
    """How well a mixture fits, and how well it separates its classes.

    Information criteria are on the scale of -2·ln L: lower is better.
    """

    n: float
    """The number of people: rows, or the sum of their weights."""
    n_parameters: int
    log_likelihood: float
    class_shares: Floats
    """The estimated share of each class."""
    class_sizes: Floats
    """The number of people for whom each class is the most likely one."""
    classification: Floats
    """The mean posterior of each class (columns) among the people assigned to a class (rows); NaN
    if nobody is assigned to the class."""
    entropy: float
    """-Σ p·ln p over all people and classes, in nats."""
    patterns: Patterns | None
    """Observed and expected patterns; None if cells are missing or there are too many patterns."""

    @property
    def n_components(self) -> int:
        return len(self.class_shares)

    @property
    def aic(self) -> float:
        """-2·ln L + 2·p, p the number of parameters."""
        return -2 * self.log_likelihood + 2 * self.n_parameters

    @property
    def bic(self) -> float:
        """-2·ln L + p·ln n."""
        return -2 * self.log_likelihood + self.n_parameters * math.log(self.n)

    @property
    def sabic(self) -> float:
        """BIC with (n + 2)/24 in place of n (Sclove 1987)."""
        return -2 * self.log_likelihood + self.n_parameters * math.log((self.n + 2) / 24)

    @property
    def caic(self) -> float:
        """-2·ln L + p·(ln n + 1) (Bozdogan 1987)."""
        return -2 * self.log_likelihood + self.n_parameters * (math.log(self.n) + 1)

    @property
    def icl(self) -> float:
        """BIC + 2·entropy: overlapping classes cost more (Biernacki, Celeux & Govaert 2000)."""
        return self.bic + 2 * self.entropy

    @property
    def entropy_r2(self) -> float:
        """Relative entropy, 1 - entropy/(n·ln k): 1 if labels are certain; NaN for one class."""
        k = self.n_components
        return math.nan if k == 1 else 1 - self.entropy / (self.n * math.log(k))

    @property
    def smallest_share(self) -> float:
        """The share of the smallest class."""
        return float(self.class_shares.min())

    @property
    def smallest_size(self) -> float:
        """The number of people in the smallest class: its share times n."""
        return self.smallest_share * self.n

    @property
    def least_posterior(self) -> float:
        """The least mean posterior of a class among the people assigned to it."""
        return float(np.nanmin(np.diagonal(self.classification)))

    @property
    def g_squared(self) -> float:
        """G² over response patterns; NaN if patterns cannot be counted."""
        return math.nan if self.patterns is None else self.patterns.g_squared

    @property
    def chi_squared(self) -> float:
        """Pearson's χ² over response patterns; NaN if patterns cannot be counted."""
        return math.nan if self.patterns is None else self.patterns.chi_squared

    @property
    def df(self) -> int | None:
        """Residual degrees of freedom, as poLCA counts them: min(n, patterns - 1) - p."""
        if self.patterns is None:
            return None
        return int(min(self.n, self.patterns.n_cells - 1)) - self.n_parameters

    def to_dict(self) -> dict[str, Any]:
        """Every number, by name."""
        names = (
            "n", "n_parameters", "log_likelihood", "aic", "bic", "sabic", "caic", "icl",
            "entropy_r2", "g_squared", "chi_squared", "df", "smallest_share", "smallest_size",
            "least_posterior", "class_shares", "class_sizes", "classification",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}


def fit_statistics(model: Fitted, X: Any, sample_weight: Any = None) -> FitStatistics:
    """Fit statistics of a fitted model on the rows of X.

    Parameters
    ----------
    model : TemplateMixture, TwoRoundEM or ClassicEM
        Fitted. For the same numbers as other programs, fit with ``noise_model="cell"`` and
        ``prior=0``.
    X : as in ``model.predict``
        Usually the rows of the fit.
    sample_weight : array-like, shape (m,), optional
        How many times each row counts.

    Examples
    --------
    >>> import numpy as np
    >>> from bitmix import TemplateMixture, fit_statistics
    >>> patterns = np.array([[1, 1, 1], [0, 0, 0], [1, 0, 0], [0, 1, 1]])
    >>> model = TemplateMixture(1, noise_model="cell", prior=0, random_state=0)
    >>> model = model.fit(patterns, sample_weight=[30, 50, 10, 10])
    >>> fit = fit_statistics(model, patterns, sample_weight=[30, 50, 10, 10])
    >>> fit.n, fit.n_parameters, fit.df, round(fit.bic, 1)
    (100.0, 3, 4, 417.6)
    """
    model = fitted(model)
    rows = model.rows_like_fit(X, sample_weight)
    mixture = model.mixture_.density()
    patterns = patterns_to_count(rows, mixture.items)
    return statistics_of(rows, mixture, model.n_parameters_, patterns)


def statistics_of(
    rows: Rows, mixture: Mixture, n_parameters: int, patterns: BitMatrix | None
) -> FitStatistics:
    """The statistics of a mixture that is a density over rows."""
    sums = predict.classify(rows, mixture)
    one = rows.layout.weight_one or 1
    row = float(one << fixed.SHARE_BITS)
    sizes = sums.sizes / one
    with np.errstate(invalid="ignore"):
        means = sums.shares / row / np.where(sizes > 0, sizes, np.nan)[:, None]
    return FitStatistics(
        n=rows.total_weight,
        n_parameters=n_parameters,
        log_likelihood=sums.likelihood_units / (one << fixed.LIKELIHOOD_BITS),
        class_shares=mixture.weights,
        class_sizes=sizes,
        classification=means,
        entropy=sums.entropy_units / (one << predict.ENTROPY_BITS),
        patterns=None if patterns is None else expected_patterns(patterns, mixture),
    )


def patterns_to_count(rows: Rows, items: Items | None) -> BitMatrix | None:
    """The distinct rows, if rows are complete and there are not too many possible patterns."""
    if rows.layout.missing or number_of_cells(rows.shape[1], items) > MAX_CELLS:
        return None
    return patterns_of(rows)


def expected_patterns(patterns: BitMatrix, mixture: Mixture) -> Patterns:
    """Observed and expected counts of patterns."""
    n_cells = number_of_cells(patterns.shape[1], mixture.items)
    logs = predict.log_likelihoods(patterns, mixture)
    return Patterns(patterns, patterns.weights, logs, n_cells)
