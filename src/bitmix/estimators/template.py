"""TemplateMixture: the estimator to start with."""

import math
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from bitmix.em.candidates import nominal_statistics
from bitmix.em.dendrogram import tree_of
from bitmix.em.fit import HeldOut, Result, fit_mixture
from bitmix.em.noise import Noise
from bitmix.em.search import Settings, Start, converge, evaluate, number_of_seeds
from bitmix.em.seeds import initial_mixture
from bitmix.errors import DuplicateTemplatesWarning, EmptyComponentsWarning, InputError
from bitmix.estimators.base import FittedTemplates, check_components
from bitmix.kernels.fixed import MAX_ROWS
from bitmix.kernels.items import Items
from bitmix.models.mixture import NOISE_MODELS, Floats, Mixture, NoiseModel
from bitmix.models.tree import Tree
from bitmix.rows import Rows, as_rows, check_items
from bitmix.rows.learn import NO_WISHES, Wishes
from bitmix.support import checks
from bitmix.support.progress import shown
from bitmix.support.randomness import seed_of
from bitmix.theory.guarantee import seeds_needed

_ROWS_AT_ONCE = 256  # when distinct rows are counted
_FAINT = 1e-3  # the strength of the prior of groups, in rows


class TemplateMixture(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    FittedTemplates,
):
    """Mixture of binary templates, everything unknown: templates, weights and noise.

    Each of several starts draws more random rows than components, makes a few EM steps, merges the
    components whose merging loses the least likelihood until `n_components` are left, and goes on
    with EM. Of large tables, starts see a sample of the rows; EM on all rows follows.

    Parameters
    ----------
    n_components : int, default=2
        k: the number of templates.
    noise_model : {"auto", "shared", "updown", "component", "feature", "cell"}, default="auto"
        The probability that a bit differs from its template's: one rate for all bits (the paper's
        model), one for bits that are 0 and one for bits that are 1, one per template, one per
        column, or a probability per template and column (the latent class model). With ``"auto"``
        the simplest model is chosen whose log-likelihood on held-out rows is within two standard
        errors of the best; see `noise_model_scores_`.
    noise : float or pair of floats, optional
        Rates that are known: q, for ``"shared"``, or (α, β), for ``"updown"``, where α is the
        probability that a 0 becomes a 1 and β that a 1 becomes a 0. One of the two may be None. A
        given rate also decides what ``"auto"`` means.
    prior : float, default=0.1
        The strength of the prior, in rows; see Notes. With 0, the likelihood is maximised.
    n_init : int, optional
        The largest number of starts. By default it is 5; with a probability per cell, it is 3
        for more than 32 components, and 20 for at most 64 columns and 512 cells, as in surveys,
        where starts often end at different places. Starts race: those that are behind are given
        up, except in surveys. If more than half of them agree, and at least three, and no finished
        start ended elsewhere, no more are made.
    max_iter : int, default=10000
        The largest number of EM steps, of each start and of the fit to all rows.
    tol : float, default=1e-7
        A fit ends when the objective is within this of its limit, in nats per row, judged by its
        last two gains.
    min_weight : float, optional
        The smallest weight that a template may have, if known: it sets how many seeds are drawn. By
        default there are 2 seeds per component, and at least 64; with a probability per cell, 1.5
        per component, and at least 32.
    delta : float, default=0.1
        The probability of failure the seeds are chosen for, with `min_weight`.
    max_rows_search : int, optional
        With more rows than this, starts see a random sample of this size. By default 8 rows per
        seed, which is what Theorem 1 asks of the first round, and at least 4,096; tables of up to
        twice that size are then searched whole.
    background : bool, default=False
        Whether to add a component "none of these" after the search, whose probabilities are the
        shares of ones of the columns over all rows. EM goes on with it; only its weight is
        estimated. It takes the rows that no template explains better than the columns do, and
        `predict` labels them -1. It is the last one of `weights_` and `templates_`. It needs a
        probability per cell, which is then what ``noise_model="auto"`` means: with templates and
        flip rates, there is no component that is like all rows.
    init : array-like, optional
        Where to start instead of from random rows: templates or probabilities of shape (k, n),
        responsibilities of shape (m, k), or labels of shape (m,).
    verbose : bool, default=False
        Show the progress of long passes over the rows, on standard error if it is a terminal.
    binarize : float, optional
        Read values above this as 1. By default X must hold 0 and 1.
    random_state : int, RandomState, Generator or None
        Fixes every random choice. The same number gives the same bits on any machine.

    Attributes
    ----------
    templates_ : array of uint8, shape (k, n)
        The templates, heaviest first. With a probability per cell, these are rounded.
    weights_ : array of float64, shape (k,)
        The share of each component. A component that lost all its rows keeps its template and has
        weight 0.
    noise_model_ : str
        The noise model that was fitted.
    noise_model_scores_ : dict
        For each noise model, if models were compared: its mean log-likelihood per held-out row
        (`log_likelihood`), how far it is behind the best (`behind`), and the standard error of that
        (`standard_error`). Otherwise empty.
    noise_ : float, or array of shape (2,), (k,), (n,) or (k, n)
        The probability that a bit differs from its template's: q, (α, β), or one per template,
        column or cell.
    probabilities_ : array of float64, shape (k, n)
        The probability of a 1.
    n_parameters_ : int
        Free parameters, as `bic` counts them.
    means_ : array of float64, shape (k, n)
        The share of ones of each component, rows weighted by their responsibilities.
    objective_ : float
        ln L plus the logarithm of the prior, on all rows, in nats.
    converged_ : bool
        Whether the fit to all rows ended by `tol`.
    n_iter_ : int
        EM steps of that fit.
    n_seeds_, n_rows_searched_ : int
        The number of seeds per start, and the number of rows that the starts saw.
    starts_ : tuple
        For each start, its `objective`, the number of its EM steps (`n_steps`), and whether it was
        `finished` or given up.
    n_starts_, n_agreeing_ : int
        Starts that were finished, and how many of them reached the best objective with the same
        components.
    duplicates_ : list of pairs
        Components that are equal, which is a sign of too many components.
    history_ : tuple of Round
        One entry per E step of the fit to all rows, with its `log_likelihood`.
    seed_ : int
        The number that all random choices came from; `random_state` if that is an int.

    Notes
    -----
    The objective is the log-likelihood of the mixture, rows weighted by `sample_weight`, plus the
    logarithm of a prior. Let b be `prior` and μ the share of ones of a column. A template bit is 1
    with probability μ, as a bit of any row is, unless b is 0. Flip rates ν add (b/2)·Σ ln ν(1-ν),
    as if b more cells had been half flipped. A probability p per cell adds
    b·Σ μ·ln p + (1-μ)·ln(1-p), as if each component had b more rows that are like all rows.

    Examples
    --------
    >>> from bitmix import TemplateMixture
    >>> from bitmix.datasets import make_templates, sample_mixture
    >>> truth = make_templates(3, 200, separation=0.4, random_state=0)
    >>> X, labels = sample_mixture(truth, [0.5, 0.3, 0.2], noise=0.1, m=300, random_state=0)
    >>> model = TemplateMixture(3, random_state=0).fit(X)
    >>> model.noise_model_, round(model.noise_, 2), model.weights_.round(1)
    ('shared', 0.1, array([0.5, 0.3, 0.2]))
    """

    _takes_missing = True
    _fit_mixture: ClassVar[Callable[..., Result]] = staticmethod(fit_mixture)
    _fitted_values: ClassVar = {
        **FittedTemplates._fitted_values, "n_seeds_": 0, "n_rows_searched_": 0, "n_iter_": 0,
        "n_starts_": 0, "n_agreeing_": 0, "converged_": True, "objective_": 0.0,
        "starts_": (vars(Start(0.0, 0, True)),),
        "noise_model_scores_": dict.fromkeys(NOISE_MODELS, vars(HeldOut(0.0, 0.0, 0.0))),
    }  # fmt: skip

    def __init__(
        self,
        n_components: int = 2,
        *,
        noise_model: str = "auto",
        noise: Any = None,
        prior: float = 0.1,
        n_init: int | None = None,
        max_iter: int = 10_000,
        tol: float = 1e-7,
        min_weight: float | None = None,
        delta: float = 0.1,
        max_rows_search: int | None = None,
        background: bool = False,
        init: Any = None,
        verbose: bool = False,
        binarize: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.noise_model = noise_model
        self.noise = noise
        self.prior = prior
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.min_weight = min_weight
        self.delta = delta
        self.max_rows_search = max_rows_search
        self.background = background
        self.init = init
        self.verbose = verbose
        self.binarize = binarize
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, mask: Any = None, items: Any = None,
        one_values: Any = None,
    ) -> Self:  # fmt: skip
        """Find the templates of X.

        Parameters
        ----------
        X : array-like, sparse matrix, table, BitMatrix or Dask array, shape (m, n)
            Rows of 0 and 1. A missing cell is NaN, a masked cell of a masked array, or an empty
            cell of a nullable column; it adds nothing. Columns of other values are read by codes,
            which a warning tells and `codes_` keeps: 1 and 2, yes and no, two other words, and
            items of 3 to 20 words.
        y : ignored
        sample_weight : array-like, shape (m,), optional
            How often each row counts. Whole numbers are exact: as if the row were repeated.
        mask : array-like of bool, shape (m, n), optional
            True where a cell is missing.
        items : list of lists of int, or names or numbers of columns, optional
            Items with several values: the columns of each, one column per value. Every row has one
            1 among them, or all of them missing. Or columns of a table, each of which holds the
            values of an item.
        one_values : value or list of values, optional
            What is read as 1 in every column that has one of these values. All else is 0 there.
        """
        groups, columns = ([], []) if items is None else split_items(items)
        wishes = NO_WISHES
        if one_values is not None or columns:
            wishes = Wishes.of(one_values, columns)
        rows = as_rows(
            X, self.binarize, missing=True, mask=mask, sample_weight=sample_weight, codes=wishes
        )
        (m, n), total = rows.shape, int(rows.total_weight)
        k = check_components(self.n_components, max(m, total), n)
        settings, compare_models = self._settings(k)
        if groups or getattr(rows, "codes", None) is not None:
            items = self._items(rows, groups, settings.noise.model)
            settings = replace(settings, noise=replace(settings.noise, items=items))
        max_rows, start = self.max_rows_search, None
        if max_rows is not None:
            max_rows = checks.whole(max_rows, "max_rows_search", least=k)
        if self.init is not None:
            start = replace(initial_mixture(self.init, rows, k), items=settings.noise.items)
        seed = seed_of(self.random_state)
        with shown() if self.verbose else nullcontext():
            result = self._fit_mixture(
                rows, k, settings, compare_models=compare_models, max_rows=max_rows, seed=seed,
                start=start,
            )  # fmt: skip
            fit, found = result.fit, result.found
            if self.background:
                settings = replace(settings, noise=replace(settings.noise, background=True))
                begun = with_background(fit.mixture)
                fit = converge(rows, evaluate(rows, begun, settings.noise), settings)
        self._set_columns(X, rows)
        self.seed_ = seed
        noise = replace(settings.noise, model=fit.mixture.noise_model)
        self.n_seeds_ = number_of_seeds(replace(settings, noise=noise), k, total)
        self.n_rows_searched_ = result.n_rows_searched
        self.noise_model_scores_ = {}
        for model, score in result.noise_model_scores.items():
            self.noise_model_scores_[model] = vars(score)
        self.starts_ = tuple(map(vars, found.starts))
        self.n_starts_ = found.n_finished
        self.n_agreeing_ = found.n_agreeing
        self.objective_, self.converged_ = fit.nats, fit.converged
        self.history_, self.n_iter_ = fit.history, len(fit.history) - 1
        means = fit.statistics.means(fit.mixture.probabilities)
        mixture, tree = fit.mixture, result.tree
        del fit, found, result  # their statistics are large, and no longer needed
        order = self._set_ordered(mixture, means, bool(self.background))
        del mixture, means
        if tree is not None:
            self.tree_ = tree.renumbered(order)
        self._warn(rows)
        return self

    def _items(self, rows: Rows, groups: list[Any], model: NoiseModel) -> Items | None:
        """The items of the rows: those whose columns the user gave as `groups`, or those of a table
        that was read by codes.
        """
        codes = getattr(rows, "codes", None)
        if groups and codes is not None and codes.columns:
            raise InputError(
                "items must be names or numbers of columns, as X has other values than 0 and 1"
            )
        items = None if codes is None else codes.items
        if groups:
            items = Items.of_groups(groups, rows.shape[1])
        if items is None:
            return None
        if model == "updown":
            raise InputError(
                "noise_model='updown' has a rate for zeros and one for ones, which items with "
                "several values do not have: use 'auto', 'shared', 'component', 'feature' or "
                "'cell'"
            )
        check_items(rows, items)
        return items

    def tree(self) -> Tree:
        """The components as a tree: always those two are merged whose merging loses the least
        likelihood, per cell a probability. `Tree.cut` gives groups of groups.
        """
        check_is_fitted(self)
        if self.tree_ is not None:
            return self.tree_
        return tree_of(nominal_statistics(self.means_, self.weights_))

    def cut(self, k: int | None = None, *, threshold: float | None = None) -> "TemplateMixture":
        """A mixture of k groups of components, or of groups whose merging would lose more than
        `threshold` nats per row, with the same noise model. The rows are not needed; `history_`
        and `objective_` stay those of the fit.
        """
        return self.merged(self.tree().cut(k, threshold=threshold))

    def merged(self, groups: Any) -> "TemplateMixture":
        """The mixture whose component g is all components of group g; `groups` has the group of
        each component, 0, 1, …
        """
        k, mixture = int(np.max(groups)) + 1, self.mixture_
        merged = nominal_statistics(self.means_, self.weights_).grouped(groups, k)
        means = merged.means(np.full(merged.sums.shape, 0.5))
        start = Mixture(means, merged.weights, None, mixture.items)
        noise = replace(self.settings_like_fit().noise, prior=_FAINT)
        names = TemplateMixture().get_params().keys() & self.get_params().keys()
        model = TemplateMixture(**{name: getattr(self, name) for name in names})
        model.set_params(n_components=k, init=None, random_state=self.seed_)
        values = {name: value for name, value in vars(self).items() if name.endswith("_")}
        model.__dict__.update({name: v for name, v in values.items() if name != "tree_"})
        model._set_mixture(noise.maximise(replace(merged, items=mixture.items), start), means)
        return model

    def transform(self, X: Any) -> Floats:
        """The responsibilities of the components for each row, as `predict_proba`."""
        return self.predict_proba(X)

    @property
    def noise_model_(self) -> str:
        """The noise model that was fitted."""
        check_is_fitted(self)
        return self.mixture_.noise_model

    @property
    def probabilities_(self) -> Floats:
        """The probability of a 1 per template and column."""
        check_is_fitted(self)
        return self.mixture_.probabilities

    @property
    def duplicates_(self) -> list[tuple[int, int]]:
        """Pairs of components whose probabilities are equal."""
        check_is_fitted(self)
        return self.mixture_.duplicates()

    @property
    def noise_(self) -> Any:
        """The flip rates: one, two, or one per template, column or cell."""
        check_is_fitted(self)
        noise = self.mixture_.noise
        if noise is None:
            return np.minimum(self.mixture_.means, 1 - self.mixture_.means)
        return np.ravel(noise) if np.ndim(noise) else noise

    @property
    def _n_features_out(self) -> int:
        return len(self.weights_)

    @property
    def n_parameters_(self) -> int:
        """Free parameters: template bits or probabilities, weights, and flip rates unless given."""
        check_is_fitted(self)
        n_given = sum(rate is not None for rate in np.ravel(self.noise).tolist())
        if self.background:
            k = len(self.weights_)
            n_given += (self.mixture_.n_parameters() - (k - 1)) // k  # the columns of one
        return self.mixture_.n_parameters() - n_given

    def settings_like_fit(self) -> Settings:
        """How to go on with EM on other rows: the fitted noise model, the items, the tolerances."""
        check_is_fitted(self)
        settings, _ = self._settings(len(self.weights_))
        noise = replace(
            settings.noise, model=self.mixture_.noise_model, items=self.mixture_.items,
            background=bool(self.background),
        )  # fmt: skip
        return replace(settings, noise=noise)

    @classmethod
    def _check_noise(cls, mixture: Mixture) -> None:
        """Any noise model may be in a file."""

    def _settings(self, k: int) -> tuple[Settings, bool]:
        """The settings of a search, from the parameters of the user, and whether noise models are
        to be compared first.
        """
        prior = checks.not_negative(self.prior, "prior", most=MAX_ROWS)
        given = () if self.noise is None else _given_rates(self.noise)
        model: Any = self.noise_model
        compare_models, model_of_given = False, "updown" if len(given) == 2 else "shared"
        if model == "auto":
            compare_models, model = not given, model_of_given
        elif not isinstance(model, str) or model not in NOISE_MODELS:
            names = ", ".join(NOISE_MODELS)
            raise InputError(f"noise_model must be one of auto, {names}, got {model!r}")
        elif given and model != model_of_given:
            raise InputError(
                "noise must be one rate for noise_model='shared' or two for 'updown', got "
                f"{self.noise!r} for {model!r}: leave it None to have the rates estimated"
            )
        if self.background:
            if model != "cell" and not compare_models:
                raise InputError(
                    "background=True needs a probability per cell, got "
                    f"noise_model={self.noise_model!r}: use noise_model='cell'"
                )
            compare_models, model = False, "cell"
        delta, n_seeds, n_init = checks.between(self.delta, "delta", 0, 1), None, self.n_init
        if self.min_weight is not None:
            n_seeds = math.ceil(seeds_needed(checks.weight(self.min_weight, k), delta))
        if n_init is not None:
            n_init = checks.whole(n_init, "n_init", least=1)
        settings = Settings(
            noise=Noise(model, prior, given),
            n_init=n_init,
            max_iter=checks.whole(self.max_iter, "max_iter", least=1),
            tol=checks.not_negative(self.tol, "tol"),
            n_seeds=n_seeds,
        )
        return settings, compare_models

    def _warn(self, rows: Rows) -> None:
        all_searched = self.init is None and self.n_rows_searched_ == rows.shape[0]
        if n_empty := int((self.weights_ == 0).sum()):
            warnings.warn(
                f"{n_empty} of {len(self.weights_)} components lost all their rows and have weight "
                "0: ask for fewer components",
                EmptyComponentsWarning,
                stacklevel=3,
            )
        elif duplicates := self.mixture_.duplicates():
            i, j = duplicates[0]
            more = f"{len(duplicates)} pairs of components are equal, the first"
            warnings.warn(
                f"{more if len(duplicates) > 1 else 'two components are equal,'} {i} and {j}: ask "
                "for fewer components",
                DuplicateTemplatesWarning,
                stacklevel=3,
            )
        elif all_searched and (n_distinct := count_distinct(rows, len(self.weights_))):
            warnings.warn(
                f"there are {len(self.weights_)} components for {n_distinct} distinct rows: ask "
                "for fewer components",
                EmptyComponentsWarning,
                stacklevel=3,
            )


def count_distinct(rows: Rows, k: int) -> int:
    """The number of distinct rows if it is below k, otherwise 0."""
    seen: set[bytes] = set()
    m = rows.shape[0]
    for start in range(0, m, _ROWS_AT_ONCE):
        seen.update(rows.subset(np.arange(start, min(start + _ROWS_AT_ONCE, m))).keys())
        if len(seen) >= k:
            return 0
    return len(seen)


def with_background(mixture: Mixture) -> Mixture:
    """The mixture with one more component that is like all rows, and as heavy as the mean one."""
    k, w = mixture.n_components, mixture.weights
    means = np.concatenate([mixture.means, (w @ mixture.means)[None].clip(0, 1)])
    return replace(mixture, means=means, weights=np.append(w * k, 1.0) / (k + 1))


def split_items(items: Any) -> tuple[list[Any], list[str | int]]:
    """Groups of columns of bits, and columns that hold the values of an item."""
    given = [items] if isinstance(items, str | int) else list(items)
    columns = [each for each in given if isinstance(each, str | int)]
    if columns and len(columns) < len(given):
        raise InputError(f"items must be groups of columns or columns, not both, got {items!r}")
    return ([], columns) if columns else (given, [])


def _given_rates(noise: Any) -> tuple[float | None, ...]:
    """(q,) for a number, (α, β) for a pair; None stands for a rate to be estimated."""
    if np.ndim(noise) == 0:
        return (checks.noise(noise),)
    rates = tuple(checks.optional(checks.between, rate, "noise", 0, 1) for rate in noise)
    if len(rates) != 2 or rates == (None, None):
        raise InputError(f"noise must be a rate q or a pair of rates (α, β), got {noise!r}")
    if sum(rate or 0.0 for rate in rates) >= 1:
        raise InputError(
            f"noise must be rates α + β < 1, or a 1 would speak for a 0, got {noise!r}"
        )
    return rates
