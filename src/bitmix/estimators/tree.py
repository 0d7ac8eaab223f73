"""TemplateTree: hundreds to thousands of groups, with levels."""

from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from bitmix.em import predict
from bitmix.em.candidates import ENOUGH, Candidates, labels_among, recall
from bitmix.em.fit import Result
from bitmix.em.levels import FEW, fit_levels
from bitmix.em.search import Settings
from bitmix.errors import InputError
from bitmix.estimators.template import TemplateMixture, count_distinct
from bitmix.rows import Rows

TREE_FROM = 200
"""With at least this many components, a fit by levels is far faster than a search among all."""


def estimated_seconds(m: int, n: int, k: int, n_init: int) -> tuple[float, float]:
    """Estimated seconds of a search among all components and of a fit by levels, on one core.

    Constants are from fits of 100 to 1,000 components to tables of 1,024 to 3,728 columns.
    """
    levels = 5e-6 * k * n + 1e-7 * m * n
    searched = min(m, 16 * k)
    return n_init * (1e-9 * (2 * k) ** 2 * n + 4e-9 * searched * k * n / 16), levels


class TemplateTree(TemplateMixture):
    """Mixture of hundreds to thousands of components, found by levels.

    Rows are split into a few groups, these are split again, and so on. Then components are merged
    where that costs the least likelihood, until `n_components` are left, and EM steps on all rows
    follow. The model is the same as that of `TemplateMixture`, which searches among all components
    at once, in time proportional to `n_components` squared. There is one start, and EM stops
    earlier.

    Parameters
    ----------
    n_components : int, default=100
        k: the number of components, at most the number of distinct rows.
    noise_model, noise, prior, verbose, binarize, random_state
        As in `TemplateMixture`. With ``noise_model="auto"``, noise models are compared in one of
        the smallest groups; if columns need separate rates there, ``"cell"`` is chosen.

    Attributes
    ----------
    tree_ : Tree
        The levels: see `Tree.cut`.
    candidate_recall_ : float
        The share of rows, in a sample of about 4,096, whose best component is among their
        candidates; 1 if there are at most 512 components. If it is at least .999, `predict`
        compares a row with its candidates only, otherwise with all components.
    templates_, weights_, means_, noise_, noise_model_, objective_, history_, ...
        As in `TemplateMixture`.

    Examples
    --------
    >>> from bitmix import TemplateTree
    >>> from bitmix.datasets import make_templates, sample_mixture
    >>> truth = make_templates(40, 200, separation=0.3, random_state=0)
    >>> X, labels = sample_mixture(truth, [1 / 40] * 40, noise=0.1, m=2000, random_state=0)
    >>> model = TemplateTree(40, random_state=0).fit(X)
    >>> len(model.templates_), len(set(model.tree_.cut(5)))
    (40, 5)
    """

    n_init, min_weight, delta, max_rows_search, init = 1, None, 0.1, None, None
    max_iter, tol, background = 60, 1e-3, False
    candidate_recall_: float
    _fitted_values: ClassVar = {**TemplateMixture._fitted_values, "candidate_recall_": 0.0}

    def __init__(
        self,
        n_components: int = 100,
        *,
        noise_model: str = "auto",
        noise: Any = None,
        prior: float = 0.1,
        verbose: bool = False,
        binarize: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.noise_model = noise_model
        self.noise = noise
        self.prior = prior
        self.verbose = verbose
        self.binarize = binarize
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, mask: Any = None, items: Any = None,
        one_values: Any = None,
    ) -> Self:  # fmt: skip
        """Find the components of X and their levels; see `TemplateMixture.fit`."""
        self.__dict__.pop("_candidates", None)
        super().fit(X, y, sample_weight, mask, items, one_values)
        self.candidate_recall_ = 1.0
        if len(self.weights_) > FEW:
            rows = self.rows_like_fit(X, sample_weight)
            self.candidate_recall_ = recall(rows, self.mixture_, self._candidates)
        return self

    def _labels(self, rows: Rows) -> NDArray[np.int64]:
        """The most likely component of each row; ties go to the lowest index.

        If `candidate_recall_` is at least .999, only the candidates of a row are compared.
        """
        if len(self.weights_) <= FEW or self.candidate_recall_ < ENOUGH or rows.remote:
            return predict.labels(rows, self.mixture_)
        return labels_among(rows, self.mixture_, self._candidates)

    @cached_property
    def _candidates(self) -> Candidates:
        assert self.tree_ is not None
        return Candidates.of(self.mixture_, self.means_, self.tree_)

    @staticmethod
    def _fit_mixture(rows: Rows, k: int, settings: Settings, **options: Any) -> Result:
        if rows.remote:
            raise InputError("TemplateTree needs rows in memory or in a file, not on a cluster")
        if n_distinct := count_distinct(rows, k):
            raise InputError(
                f"n_components must be at most the number of distinct rows, {n_distinct}, got {k}: "
                "use fewer components"
            )
        compare, seed = options["compare_models"], options["seed"]
        return fit_levels(rows, k, settings, compare_models=compare, seed=seed)
