"""How many templates: fits for several k, compared by a criterion."""

import itertools
import math
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from bitmix.em import predict
from bitmix.errors import InputError, RangeWarning
from bitmix.estimators.base import check_components, count_rows
from bitmix.estimators.template import TemplateMixture
from bitmix.kernels import fixed
from bitmix.models.mixture import Mixture
from bitmix.rows import Rows, as_rows
from bitmix.rows.learn import Wishes
from bitmix.support.extras import need
from bitmix.support.progress import progress, shown
from bitmix.support.randomness import seed_of, stream

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CRITERIA = ("mdl", "icl", "bic", "aic", "stability")
PATIENCE = 3  # without a range: values of k that may pass without improvement
ROWS_PER_COMPONENT = 10  # without a range: k goes no further than this allows
_ENTROPY_BITS = 40  # of fraction, for the entropy of a row
_SPLITS = 5
_CHANCE = 0.1  # groups that are less stable than this are not real
_AS_STABLE = 0.01


@dataclass(frozen=True)
class Candidate:
    """One number of templates."""

    n_components: int
    log_likelihood: float
    n_agreeing: int
    n_starts: int
    mdl: float
    """-ln L + `template_nats` + ½·ln m for each real parameter: nats to write the rows down. Lower
    is better, as for the others."""
    icl: float
    """`mdl` plus the entropy of the memberships: for groups that do not overlap."""
    bic: float
    """-2·ln L + ln m for each template bit and each real parameter."""
    aic: float
    """-2·ln L + 2 for each template bit and each real parameter."""
    stability: float = math.nan
    """1 - the adjusted Rand index of two fits to halves of the rows: 0 where the same groups come
    back. Only with ``criterion="stability"``; .1 by definition for one template."""


@dataclass(frozen=True, eq=False)
class Selection:
    """The number of templates that was chosen, and the fits to choose from."""

    n_components: int
    criterion: str
    candidates: tuple[Candidate, ...]
    models: tuple[TemplateMixture, ...]
    """The fitted model of each candidate."""

    @property
    def model(self) -> TemplateMixture:
        """The fitted model that was chosen."""
        return self.models[self._chosen]

    @property
    def at_end(self) -> bool:
        """Whether the largest number was chosen, so that more might be better."""
        return len(self.models) > 1 and self._chosen == len(self.models) - 1

    @property
    def _chosen(self) -> int:
        return [each.n_components for each in self.candidates].index(self.n_components)

    def table(self) -> list[dict[str, Any]]:
        """One dictionary per candidate; ``pandas.DataFrame(selection.table())`` for a frame."""
        return [vars(candidate) for candidate in self.candidates]

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
        """The criterion over k, the chosen one marked."""
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
    random_state: Any = None,
) -> Selection:
    """Choose how many templates the rows of X have.

    A template bit has two values, so it costs at most one bit, ln 2 nats, and not the ½·ln m of a
    real parameter; it costs less where templates have most columns in common (`template_nats`).
    That is ``"mdl"``, the default. ``"icl"`` adds the entropy of the memberships. ``"bic"`` counts
    bits as real parameters and misses light templates. ``"stability"`` asks another question: what
    is the largest k for which the same groups are found in two halves of the rows?

    Parameters
    ----------
    X : as in `TemplateMixture.fit`
    k_range : iterable of int, optional
        The numbers to try. By default 1, 2, 3, … until the criterion has not improved for three
        values, and no more than one per ten rows.
    estimator : TemplateMixture, optional
        Its parameters are used for every fit. If its noise model is ``"auto"``, it is chosen for
        the number in the middle of the range (for 3 without one), and again for the number that is
        selected: if that is another noise model, everything is fitted once more with that one.
    criterion : {"mdl", "icl", "bic", "aic", "stability"}, default="mdl"
    sample_weight : array-like, shape (m,), optional
        How often each row counts.
    random_state : int, RandomState, Generator or None
        As in `TemplateMixture`; if it is None, that of `estimator`.

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
    rows = as_rows(X, estimator.binarize, missing=True, sample_weight=sample_weight, codes=Wishes())
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
    with shown(estimator.verbose):
        if estimator.noise_model != "auto" or estimator.noise is not None:
            selection = _enumerated(estimator, {}, rows, wanted, criterion)
        else:
            middle = min(3, n_rows) if wanted is None else wanted[len(wanted) // 2]
            chosen = _fitted(estimator, middle, rows)
            selection = _of_noise_model(chosen, rows, wanted, criterion)
            again = _fitted(estimator, selection.n_components, rows)
            if again.noise_model_ != chosen.noise_model_:
                selection = _of_noise_model(again, rows, wanted, criterion)
            else:  # the same fit, with the scores of the noise models
                models = [again if m is selection.model else m for m in selection.models]
                selection = replace(selection, models=tuple(models))
    if selection.at_end and criterion != "stability":
        warnings.warn(
            f"{selection.n_components} is the largest number that was tried: more templates may be "
            "better, so try a longer range",
            RangeWarning,
            stacklevel=2,
        )
    return selection


def _of_noise_model(
    fitted: TemplateMixture, rows: Rows, wanted: list[int] | None, criterion: str
) -> Selection:
    """A selection with the noise model that was chosen for one number of templates."""
    estimator = clone(fitted).set_params(noise_model=fitted.noise_model_)
    return _enumerated(estimator, {fitted.n_components: fitted}, rows, wanted, criterion)


def _enumerated(
    estimator: TemplateMixture, fits: dict[int, TemplateMixture], rows: Rows,
    wanted: list[int] | None, criterion: str,
) -> Selection:  # fmt: skip
    """Fits for every number of templates, but for those that are there, and the best of them."""
    candidates: dict[int, Candidate] = {}
    for k in _tried(wanted, count_rows(rows), candidates, criterion):
        if k not in fits:
            fits[k] = _fitted(estimator, k, rows)
        candidates[k] = _candidate(rows, fits[k])
    if criterion == "stability":
        candidates = {
            k: replace(each, stability=_instability(rows, estimator, k, estimator.random_state))
            for k, each in progress(candidates.items(), "halves", total=len(candidates))
        }
        best = _most_stable(list(candidates.values()))
    else:
        best = min(candidates.values(), key=lambda candidate: getattr(candidate, criterion))
    models = tuple(fits[k] for k in candidates)
    return Selection(best.n_components, criterion, tuple(candidates.values()), models)


def _tried(
    wanted: list[int] | None, m: int, candidates: dict[int, Candidate], criterion: str
) -> Iterator[int]:
    """The numbers of templates to fit, given the candidates that there are so far."""
    if wanted is not None:
        yield from progress(wanted, "templates", total=len(wanted))
        return
    measure = "mdl" if criterion == "stability" else criterion
    for k in itertools.count(1):
        yield k
        best = min(candidates.values(), key=lambda candidate: getattr(candidate, measure))
        if k - best.n_components >= PATIENCE or k >= max(1, m // ROWS_PER_COMPONENT):
            return


def _fitted(estimator: TemplateMixture, k: int, rows: Rows) -> TemplateMixture:
    model: TemplateMixture = clone(estimator).set_params(n_components=k)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a number that is too large is meant to be tried
        return model.fit(rows)


def _most_stable(candidates: list[Candidate]) -> Candidate:
    """The largest k among those as stable as the best, up to a hundredth."""
    least = min(candidate.stability for candidate in candidates)
    return [each for each in candidates if each.stability <= least + _AS_STABLE][-1]


def _instability(rows: Rows, estimator: TemplateMixture, k: int, seed: int) -> float:
    """How much fits to two halves of the rows differ in the labels they give to all rows."""
    from sklearn.metrics import adjusted_rand_score

    m = rows.shape[0]
    if k > m // 2:
        raise InputError(
            f"k_range must stay at half the rows or below for stability, {m // 2}, got {k}"
        )
    if k == 1:
        return _CHANCE
    agreement = []
    for split in range(_SPLITS):
        order = stream(seed, "sample", 1 + split).permutation(m)
        halves = (rows.subset(np.sort(half)) for half in (order[: m // 2], order[m // 2 :]))
        labels = [_fitted(estimator, k, half).predict(rows) for half in halves]
        agreement.append(adjusted_rand_score(*labels))
    return 1 - math.fsum(agreement) / _SPLITS


def _candidate(rows: Rows, model: TemplateMixture) -> Candidate:
    mixture, likelihood = model.mixture_, model.history_[-1].log_likelihood
    k, n = mixture.means.shape
    log_m = _log(rows.total_weight)
    bits = 0 if mixture.noise is None else k * n
    real = model._n_parameters - bits
    mdl = -likelihood + real * log_m / 2 + (template_nats(mixture.templates) if bits else 0)
    return Candidate(
        k, likelihood, model.n_agreeing_, model.n_starts_, mdl, mdl + _entropy(rows, mixture),
        -2 * likelihood + (bits + real) * log_m, -2 * likelihood + 2 * (bits + real),
    )  # fmt: skip


def template_nats(templates: NDArray[np.uint8]) -> float:
    """The length of a code for templates, in nats: short where they have most columns in common.

    First the numbers of columns that have 0, 1, … k ones; then which columns these are; then which
    templates have the ones of each. Where that is longer than one bit per cell, the bits as they
    are.
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


def _entropy(rows: Rows, mixture: Mixture) -> float:
    """-Σ p ln p over all rows and components, in integers, so that weights are exact."""
    per_row, one = np.asarray(predict.entropies(rows, mixture)), rows.layout.weight_one or 1
    units = np.rint(per_row * 2.0**_ENTROPY_BITS).astype(np.int64)
    counts = np.rint(rows.weights * one).astype(np.int64)
    return fixed.total(units, counts) / (one << _ENTROPY_BITS)
