"""Choose the number of templates: fits for several k, compared by a criterion."""

import math
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from bitmix.em.fit import held_out
from bitmix.errors import InputError, RangeWarning
from bitmix.estimators.base import check_components
from bitmix.estimators.blrt import one_class_more
from bitmix.estimators.template import TemplateMixture
from bitmix.inference.statistics import FitStatistics, patterns_to_count, statistics_of
from bitmix.inference.tables import Column, Table, is_nothing
from bitmix.kernels import fixed
from bitmix.kernels.items import Items
from bitmix.rows import Rows, as_rows
from bitmix.rows.learn import NO_WISHES
from bitmix.rows.packed import BitMatrix
from bitmix.support import checks
from bitmix.support.extras import need
from bitmix.support.progress import progress, shown
from bitmix.support.randomness import seed_of, stream

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CRITERIA = ("mdl", "icl", "bic", "aic", "stability")
PATIENCE = 3  # without a range: stop after k has grown this much without improvement
EVERY_K, GROWTH = 20, 8  # without a range: every k up to 20, then each an eighth larger
ROWS_PER_COMPONENT = 10  # without a range: limits the largest k
_SPLITS = 5
_CHANCE = 0.1  # the instability of a single template: less stable groups are not chosen
_AS_STABLE = 0.01


@dataclass(frozen=True)
class Candidate:
    """The fit for one number of templates."""

    n_components: int
    log_likelihood: float
    n_agreeing: int
    n_starts: int
    mdl: float
    """-ln L + `template_nats` + ½·ln m for each real parameter: the nats needed to encode the rows.
    Lower is better, as for the other criteria."""
    icl: float
    """`mdl` plus the entropy of the memberships: for groups that do not overlap."""
    bic: float
    """-2·ln L + ln m for each template bit and each real parameter."""
    aic: float
    """-2·ln L + 2 for each template bit and each real parameter."""
    statistics: FitStatistics
    """All fit statistics; see `bitmix.fit_statistics`."""
    converged: bool
    held_out: float = math.nan
    """Mean ln L per held-out row, in four folds; NaN if unknown. Higher is better."""
    blrt: float | None = None
    """p-value of the bootstrap test of k against k - 1 classes, if requested."""
    stability: float = math.nan
    """1 minus the adjusted Rand index of two fits to halves of the rows: 0 if both find the same
    groups. Only with ``criterion="stability"``; .1 by definition for one template."""


@dataclass(frozen=True, eq=False)
class Selection:
    """The chosen number of templates, and all fits that were compared."""

    n_components: int
    criterion: str
    candidates: tuple[Candidate, ...]
    models: tuple[TemplateMixture, ...]
    """The fitted model of each candidate."""
    stopped_by_time: bool = False
    """Whether the time limit kept larger numbers from being tried."""

    @property
    def model(self) -> TemplateMixture:
        """The chosen fitted model."""
        return self.models[self._chosen]

    @property
    def at_end(self) -> bool:
        """Whether the largest number was chosen, so that a larger one might be better."""
        return len(self.models) > 1 and self._chosen == len(self.models) - 1

    @property
    def _chosen(self) -> int:
        return [each.n_components for each in self.candidates].index(self.n_components)

    def table(self, format: str | None = None) -> Any:
        """One line per number of components, as papers on latent classes report.

        All criteria are on the scale of -2·ln L: lower is better. G² and χ² are over response
        patterns, if these can be counted. The held-out ln L is that of rows that were not fitted.

        Parameters
        ----------
        format : {"markdown", "latex", "csv"}, optional
            Return text for a paper. By default the table is a pandas DataFrame, or a list of
            dictionaries if pandas is not installed.
        """
        table = enumeration_table(self.candidates)
        return table.frame() if format is None else table.text(format)

    def _repr_html_(self) -> str:
        heads = ("n_components", "log_likelihood", self.criterion)
        lines = [
            [str(c.n_components), f"{c.log_likelihood:,.1f}", f"{getattr(c, self.criterion):,.4g}"]
            for c in self.candidates
        ]
        marked = [
            [f"<b>{cell}</b>" for cell in line] if line[0] == str(self.n_components) else line
            for line in lines
        ]
        head = "".join(f"<th>{name}</th>" for name in heads)
        body = "".join("<tr><td>" + "</td><td>".join(line) + "</td></tr>" for line in marked)
        return f"<table><tr>{head}</tr>{body}</table>"

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the criterion against k, with the chosen k marked."""
        if ax is None:
            need("matplotlib")
            import matplotlib.pyplot as plt

            ax = plt.subplots(layout="constrained")[1]
        k = [candidate.n_components for candidate in self.candidates]
        values = [getattr(candidate, self.criterion) for candidate in self.candidates]
        ax.plot(k, values, color="#0072B2", marker="o")
        chosen = values[self._chosen]
        ax.plot(self.n_components, chosen, "o", ms=12, mfc="none", mec="#D55E00", mew=2)
        ax.set(xlabel="templates k", ylabel=f"{self.criterion} (lower is better)")
        ax.set_title(f"{self.n_components} templates")
        ax.grid(True, alpha=0.3)
        return ax


def select_components(
    X: Any,
    k_range: Iterable[int] | None = None,
    estimator: TemplateMixture | None = None,
    *,
    criterion: str = "mdl",
    sample_weight: Any = None,
    items: Any = None,
    blrt: int = 0,
    time_limit: float | None = None,
    random_state: Any = None,
) -> Selection:
    """Choose the number of templates for the rows of X.

    The default criterion, ``"mdl"``, is a description length. A template bit has two values, so it
    costs at most one bit, ln 2 nats, and not the ½·ln m of a real parameter; it costs less if
    templates have most columns in common (`template_nats`). ``"icl"`` adds the entropy of the
    memberships. ``"bic"`` counts bits as real parameters and misses light templates.
    ``"stability"`` chooses the largest k for which two halves of the rows give the same groups.

    Parameters
    ----------
    X : as in `TemplateMixture.fit`
    k_range : iterable of int, optional
        The numbers to try. By default 1, 2, … 20, then each an eighth larger, until the criterion
        has not improved for three values, and at most one per ten rows.
    estimator : TemplateMixture, optional
        Its parameters are used for every fit. If its noise model is ``"auto"``, a noise model is
        chosen for the number in the middle of the range (for 3 without a range), and again for the
        selected number: if the two differ, all fits are repeated with the second one.
    criterion : {"mdl", "icl", "bic", "aic", "stability"}, default="mdl"
    sample_weight : array-like, shape (m,), optional
        How many times each row counts.
    items : list of lists of int, optional
        Items with several values, as in `TemplateMixture.fit`.
    blrt : int, default=0
        The number of replicates of the bootstrap test of each k against k - 1; 99 are usual, and
        with 0 there is no test. See `bitmix.blrt`.
    time_limit : float, optional
        Seconds after which no further number is tried; results then depend on the machine. The best
        so far is chosen, and `Selection.stopped_by_time` is True.
    random_state : int, RandomState, Generator or None
        As in `TemplateMixture`; by default that of `estimator`.

    Examples
    --------
    >>> from bitmix import select_components
    >>> from bitmix.datasets import make_templates, sample_mixture
    >>> truth = make_templates(3, 200, separation=0.3, random_state=0)
    >>> X, _ = sample_mixture(truth, [0.5, 0.3, 0.2], noise=0.1, m=300, random_state=0)
    >>> selection = select_components(X, random_state=0)
    >>> selection.n_components, selection.model.weights_.round(1)
    (3, array([0.5, 0.3, 0.2]))
    """
    if criterion not in CRITERIA:
        raise InputError(f"criterion must be one of {', '.join(CRITERIA)}, got {criterion!r}")
    estimator = TemplateMixture() if estimator is None else estimator
    if not isinstance(estimator, TemplateMixture):
        raise InputError(f"estimator must be a TemplateMixture, got {estimator!r}")
    rows = as_rows(
        X, estimator.binarize, missing=True, sample_weight=sample_weight, codes=NO_WISHES
    )
    if criterion == "stability":
        rows = rows.repeated()
        if rows.layout.weight_one:
            raise InputError(
                "stability splits the rows into halves: weights must be whole numbers, at most "
                "100,000 in all, of rows in memory; use another criterion"
            )
    seed = seed_of(estimator.random_state if random_state is None else random_state)
    estimator = clone(estimator).set_params(random_state=seed)
    wanted, n_rows = None, count_rows(rows)
    if k_range is not None:
        wanted = sorted({check_components(k, n_rows, rows.shape[1]) for k in k_range})
        if not wanted:
            raise InputError("k_range must hold at least one number of templates, got none")
    limit = checks.optional(checks.not_negative, time_limit, "time_limit")
    deadline = math.inf if limit is None else time.monotonic() + limit
    question = Question(rows, items, wanted, criterion, deadline)
    n_blrt = checks.whole(blrt, "blrt", least=0)
    with shown() if estimator.verbose else nullcontext():
        if estimator.noise_model != "auto" or estimator.noise is not None:
            selection = _enumerated(estimator, {}, question)
        else:
            middle = min(3, n_rows) if wanted is None else wanted[len(wanted) // 2]
            chosen = _fitted(estimator, middle, rows, items)
            selection = _of_noise_model(chosen, question)
            again = chosen
            if not question.is_late:
                again = _fitted(estimator, selection.n_components, rows, items)
            if again is chosen:
                pass
            elif again.noise_model_ != chosen.noise_model_:
                selection = _of_noise_model(again, question)
            else:  # the same fit, with the scores of the noise models
                models = [again if m is selection.model else m for m in selection.models]
                selection = replace(selection, models=tuple(models))
        if n_blrt:
            selection = _tested(selection, rows, n_blrt, seed)
    for model in selection.models:
        model.k_chosen_ = len(selection.models) > 1
    if selection.stopped_by_time:
        last = selection.candidates[-1].n_components
        warnings.warn(
            f"the time limit of {limit:g} s ended the search at {last} templates"
            + (": more may be better" if selection.at_end else ""),
            RangeWarning,
            stacklevel=2,
        )
    elif selection.at_end and criterion != "stability":
        warnings.warn(
            f"{selection.n_components} is the largest number that was tried: more templates may be "
            "better, so try a wider range",
            RangeWarning,
            stacklevel=2,
        )
    return selection


@dataclass(frozen=True, eq=False)
class Question:
    """The numbers of templates to compare, the rows and the criterion."""

    rows: Rows
    items: Any
    wanted: list[int] | None
    criterion: str
    deadline: float = math.inf
    """By the monotonic clock."""

    @property
    def is_late(self) -> bool:
        """Whether there is no time left to fit another number."""
        return time.monotonic() > self.deadline

    @cached_property
    def patterns(self) -> BitMatrix | None:
        """The response patterns, if they can be counted."""
        groups = None
        if self.items is not None:
            groups = Items.of_groups(self.items, self.rows.shape[1])
        return patterns_to_count(self.rows, groups)


def _of_noise_model(fitted: TemplateMixture, question: Question) -> Selection:
    """A selection with the noise model that was chosen for one number of templates."""
    estimator = clone(fitted).set_params(noise_model=fitted.noise_model_)
    return _enumerated(estimator, {fitted.n_components: fitted}, question)


def count_rows(rows: Rows) -> int:
    """The number of rows, each counted by its weight."""
    return max(rows.shape[0], int(rows.total_weight))


def _enumerated(
    estimator: TemplateMixture, fits: dict[int, TemplateMixture], question: Question
) -> Selection:
    """Fit every number of templates that is not in `fits`, and choose the best."""
    rows, items, criterion = question.rows, question.items, question.criterion
    candidates: dict[int, Candidate] = {}
    late = False
    for k in _tried(question.wanted, count_rows(rows), candidates, criterion):
        if candidates and (late := question.is_late):
            break
        if k not in fits:
            fits[k] = _fitted(estimator, k, rows, items)
        candidates[k] = _candidate(rows, fits[k], question)
    if criterion == "stability":
        seed = estimator.random_state
        candidates = {
            k: replace(each, stability=_instability(rows, estimator, k, seed, items))
            for k, each in progress(candidates.items(), "halves", total=len(candidates))
        }
        best = _most_stable(list(candidates.values()))
    else:
        best = min(candidates.values(), key=lambda candidate: getattr(candidate, criterion))
    models = tuple(fits[k] for k in candidates)
    return Selection(best.n_components, criterion, tuple(candidates.values()), models, late)


def _tested(selection: Selection, rows: Rows, n: int, seed: int) -> Selection:
    """The selection, with the bootstrap test of each number of templates against one less."""
    fits = {model.n_components: model for model in selection.models}
    tested = []
    for each in selection.candidates:
        k, p_value = each.n_components, None
        if k - 1 in fits:
            p_value = one_class_more(rows, fits[k - 1], n=n, seed=seed).p_value
        tested.append(replace(each, blrt=p_value))
    return replace(selection, candidates=tuple(tested))


def _tried(
    wanted: list[int] | None, m: int, candidates: dict[int, Candidate], criterion: str
) -> Iterator[int]:
    """The numbers of templates to fit, given the candidates so far."""
    if wanted is not None:
        yield from progress(wanted, "templates", total=len(wanted))
        return
    measure = "mdl" if criterion == "stability" else criterion
    for k in _growing():
        yield k
        best = min(candidates.values(), key=lambda candidate: getattr(candidate, measure))
        if k - best.n_components >= PATIENCE or k >= max(1, m // ROWS_PER_COMPONENT):
            return


def _growing() -> Iterator[int]:
    """1, 2, … 20, then each an eighth larger."""
    k = 1
    while True:
        yield k
        k += 1 if k < EVERY_K else k // GROWTH


def _fitted(estimator: TemplateMixture, k: int, rows: Rows, items: Any) -> TemplateMixture:
    model: TemplateMixture = clone(estimator).set_params(n_components=k)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numbers that are too large are tried on purpose
        return model.fit(rows, items=items)


def _most_stable(candidates: list[Candidate]) -> Candidate:
    """The largest k whose instability is within a hundredth of the least."""
    least = min(candidate.stability for candidate in candidates)
    return [each for each in candidates if each.stability <= least + _AS_STABLE][-1]


def _instability(rows: Rows, estimator: TemplateMixture, k: int, seed: int, items: Any) -> float:
    """How much fits to two halves of the rows differ in the labels they give to all rows."""
    from sklearn.metrics import adjusted_rand_score

    m = rows.shape[0]
    if k > m // 2:
        raise InputError(
            f"for stability, k_range must be at most half the number of rows, {m // 2}, got {k}"
        )
    if k == 1:
        return _CHANCE
    agreement = []
    for split in range(_SPLITS):
        order = stream(seed, "sample", 1 + split).permutation(m)
        halves = (rows.subset(np.sort(half)) for half in (order[: m // 2], order[m // 2 :]))
        labels = [_fitted(estimator, k, half, items).predict(rows) for half in halves]
        agreement.append(adjusted_rand_score(*labels))
    return 1 - math.fsum(agreement) / _SPLITS


def _candidate(rows: Rows, model: TemplateMixture, question: Question) -> Candidate:
    mixture, likelihood = model.mixture_, model.history_[-1].log_likelihood
    k, n = mixture.means.shape
    log_m = _log(rows.total_weight)
    bits = 0 if mixture.noise is None else k * n
    real = model.n_parameters_ - bits
    mdl = -likelihood + real * log_m / 2 + (template_nats(mixture.templates) if bits else 0)
    statistics = statistics_of(rows, mixture, model.n_parameters_, question.patterns)
    return Candidate(
        k, likelihood, model.n_agreeing_, model.n_starts_, mdl, mdl + statistics.entropy,
        -2 * likelihood + (bits + real) * log_m, -2 * likelihood + 2 * (bits + real),
        statistics, model.converged_,
        held_out(rows, mixture, model.settings_like_fit(), model.seed_),
    )  # fmt: skip


def enumeration_table(candidates: Iterable[Candidate]) -> Table:
    """One line per number of components, with columns that have a value in some line."""
    records = []
    for each in candidates:
        fit = each.statistics
        records.append(
            {
                "n_components": each.n_components,
                **{name: getattr(fit, name) for name in _STATISTICS},
                "mdl": 2 * each.mdl if each.mdl != each.bic / 2 else None,  # for classes it is BIC
                "stability": each.stability,
                "n_agreeing": each.n_agreeing,
                "n_starts": each.n_starts,
                "converged": each.converged,
                "held_out": each.held_out,
                "blrt": each.blrt,
            }
        )
    columns = [c for c in _COLUMNS if any(not is_nothing(record[c.name]) for record in records)]
    return Table(tuple(columns), tuple(records))


_COLUMNS = (
    Column("n_components", "k"),
    Column("n_parameters", "parameters"),
    Column("log_likelihood", "ln L", ".2f"),
    Column("aic", "AIC", ".1f"),
    Column("bic", "BIC", ".1f"),
    Column("sabic", "SABIC", ".1f"),
    Column("caic", "CAIC", ".1f"),
    Column("icl", "ICL", ".1f"),
    Column("mdl", "MDL", ".1f"),
    Column("stability", "instability", ".3f"),
    Column("entropy_r2", "entropy R²", ".3f"),
    Column("g_squared", "G²", ".2f"),
    Column("chi_squared", "χ²", ".2f"),
    Column("df", "df"),
    Column("smallest_size", "smallest class", ".0f"),
    Column("smallest_share", "its share", ".3f"),
    Column("least_posterior", "least posterior", ".3f"),
    Column("n_agreeing", "starts at best"),
    Column("n_starts", "starts"),
    Column("converged", "converged"),
    Column("held_out", "held-out ln L per row", ".4f"),
    Column("blrt", "BLRT p", ".3f"),
)
_STATISTICS = (
    "n_parameters", "log_likelihood", "aic", "bic", "sabic", "caic", "icl", "entropy_r2",
    "g_squared", "chi_squared", "df", "smallest_size", "smallest_share", "least_posterior",
)  # fmt: skip


def template_nats(templates: NDArray[np.uint8]) -> float:
    """The length of a code for templates in nats: short if they have most columns in common.

    The code gives first the numbers of columns that have 0, 1, … k ones; then which columns these
    are; then which templates have the ones of each. If that is longer than one bit per cell, the
    bits are coded directly.
    """
    k, n = templates.shape
    columns = np.bincount(templates.sum(axis=0, dtype=np.int64), minlength=k + 1).tolist()
    codes = math.comb(n + k, k)
    left = n
    for ones, count in enumerate(columns):
        codes *= math.comb(left, count) * math.comb(k, ones) ** count
        left -= count
    return min(_log(codes), k * n * _log(2)) + _log(2)


def _log(number: float) -> float:
    """ln of a number, the same on every platform."""
    return fixed.wide_log(*number.as_integer_ratio()) / 2.0**128
