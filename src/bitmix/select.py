"""How many templates: fits for several k from one over-seeded round, compared by a criterion."""

import math
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from bitmix import checks
from bitmix.em import predict, seeds
from bitmix.em.template import (
    SeededRound,
    Settings,
    TemplateFit,
    fewer,
    fit_templates,
    merged,
)
from bitmix.errors import InputError
from bitmix.extras import need
from bitmix.kernels import num_threads
from bitmix.noisy import NoiseModel
from bitmix.progress import progress
from bitmix.randomness import seed_of, stream
from bitmix.rows import Rows
from bitmix.rows.protocol import as_incomplete_rows, brought
from bitmix.template_mixture import number_of_seeds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CRITERIA = ("mdl", "icl", "bic", "aic", "stability")
_SPLITS = 5
_CHANCE = 0.1  # instability from which on groups are not taken for real
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


@dataclass(frozen=True)
class Selection:
    """The number of templates chosen, and what the others were worth."""

    n_components: int
    criterion: str
    candidates: tuple[Candidate, ...]

    def table(self) -> list[dict[str, Any]]:
        """One dictionary a candidate; ``pandas.DataFrame(selection.table())`` for a frame."""
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
        chosen = values[k.index(self.n_components)]
        ax.plot(self.n_components, chosen, "o", ms=12, mfc="none", mec="#D55E00", mew=2)
        ax.set(xlabel="templates k", ylabel=f"{self.criterion} (lower is better)")
        ax.set_title(f"{self.n_components} templates")
        ax.grid(True, alpha=0.3)
        return ax


def select_components(
    X: Any,
    k_range: Iterable[int] = range(1, 11),
    *,
    criterion: str = "mdl",
    noise_model: str = "shared",
    n_init: int = 10,
    max_iter: int = 200,
    tol: float = 1e-5,
    max_rows: int = 20_000,
    binarize: float | None = None,
    random_state: Any = None,
) -> Selection:
    """Choose how many templates the rows of X have.

    A template bit has two values, so it costs at most one bit, ln 2 nats, and not the ½·ln m of a
    real parameter; less where templates have most columns in common (`template_nats`). That is
    ``"mdl"``, the default. ``"icl"`` adds the entropy of the memberships to it. ``"bic"`` counts
    bits as real parameters and misses light templates. ``"stability"`` asks another question: for
    the largest k whose groups come back when two halves of the rows are fitted apart.

    Parameters
    ----------
    X : as in `TemplateMixture.fit`
    k_range : iterable of int, default=range(1, 11)
        The numbers to try.
    criterion : {"mdl", "icl", "bic", "aic", "stability"}, default="mdl"
    max_rows : int, default=20000
        Of more rows, a random sample of so many is looked at.
    noise_model, n_init, max_iter, tol, binarize, random_state
        As in `TemplateMixture`.

    Examples
    --------
    >>> from bitmix import select_components
    >>> from bitmix.datasets import make_templates, sample_mixture
    >>> truth = make_templates(3, 200, separation=0.3, random_state=0)
    >>> X, _ = sample_mixture(truth, [0.5, 0.3, 0.2], noise=0.1, m=300, random_state=0)
    >>> select_components(X, range(1, 6), random_state=0).n_components
    3
    """
    if criterion not in CRITERIA:
        raise InputError(f"criterion must be one of {', '.join(CRITERIA)}, got {criterion!r}")
    settings = Settings.checked(noise_model, n_init, max_iter, tol)
    if criterion in ("mdl", "icl") and settings.noise_model != "cell":
        settings = replace(settings, worth=_brevity)
    rows = as_incomplete_rows(X, binarize)
    seed = seed_of(random_state)
    most = checks.whole(max_rows, "max_rows", least=1)
    if rows.shape[0] > most:
        rows = rows.chosen(seeds.indices(rows.shape[0], most, stream(seed, "sample")))
    rows = brought(rows, most)
    wanted = sorted({checks.components(k, rows.shape[0]) for k in k_range})
    if not wanted:
        raise InputError("k_range must hold at least one number of templates, got none")
    n_seeds = max(number_of_seeds(rows.shape[0], k) for k in wanted)
    seeded = SeededRound.of(rows, n_seeds, stream(seed, "seeds"))

    def fitted(k: int) -> TemplateFit:
        return fit_templates(rows, k, seeded, settings, stream(seed, "seeds", k))

    with ThreadPoolExecutor(num_threads()) as pool:
        fits = list(progress(pool.map(fitted, wanted), "templates", total=len(wanted)))
    model = settings.noise_model
    found = [_candidate(rows, fit, model) for fit in _helped(rows, fits, settings)]
    if criterion == "stability":
        values = _instability(rows, wanted, settings, seed)
        found = [replace(each, stability=value) for each, value in zip(found, values, strict=True)]
        best = _most_stable(found)
    else:
        best = min(found, key=lambda candidate: getattr(candidate, criterion))
    return Selection(best.n_components, criterion, tuple(found))


def _most_stable(candidates: list[Candidate]) -> Candidate:
    """The largest k among those as stable as the best, up to a hundredth."""
    least = min(candidate.stability for candidate in candidates)
    return [each for each in candidates if each.stability <= least + _AS_STABLE][-1]


def _instability(rows: Rows, wanted: list[int], settings: Settings, seed: int) -> list[float]:
    """For each k, how much fits to two halves of the rows differ in the labels they give to all."""
    from sklearn.metrics import adjusted_rand_score

    m = rows.shape[0]
    if wanted[-1] > m // 2:
        raise InputError(
            f"k_range must stay at half the rows or below for stability, {m // 2}, got {wanted[-1]}"
        )
    agreement = np.zeros((_SPLITS, len(wanted)))
    for split in progress(range(_SPLITS), "halves", total=_SPLITS):
        order = stream(seed, "sample", 1 + split).permutation(m)
        halves = [rows.chosen(np.sort(half)) for half in (order[: m // 2], order[m // 2 :])]
        rngs = [stream(seed, "seeds", (1 + split) << 32 | part) for part in (0, 1)]
        rounds = [
            SeededRound.of(half, max(number_of_seeds(half.shape[0], k) for k in wanted), rng)
            for half, rng in zip(halves, rngs, strict=True)
        ]
        for place, k in enumerate(wanted):
            fits = (
                fit_templates(half, k, seeded, settings, rng)
                for half, seeded, rng in zip(halves, rounds, rngs, strict=True)
            )
            labels = [predict.labels(rows, fit.mixture) for fit in fits]
            agreement[split, place] = adjusted_rand_score(*labels) if k > 1 else 1 - _CHANCE
    values: list[float] = (1 - agreement.mean(axis=0)).tolist()
    return values


def _helped(rows: Rows, fits: list[TemplateFit], settings: Settings) -> list[TemplateFit]:
    """Each fit, or the next larger one with components left out where that is better."""
    helped, larger = [], fits[-1]
    for fit in reversed(fits):
        if larger is not fit:
            fit = merged(fit, fewer(rows, larger, fit.mixture.n_components, settings), settings)
        helped.append(larger := fit)
    return helped[::-1]


def _candidate(rows: Rows, fit: TemplateFit, model: NoiseModel) -> Candidate:
    k, n = fit.mixture.templates.shape
    log_m = math.log(rows.shape[0])
    likelihood = float(predict.log_likelihoods(rows, fit.mixture).sum())
    levels = fit.mixture.noise.size
    real = levels + k - 1
    bits = 0 if model == "cell" else k * n
    mdl = -likelihood + real * log_m / 2 + (template_nats(fit.mixture.templates) if bits else 0)
    return Candidate(
        k, likelihood, fit.n_agreeing, fit.n_starts, mdl, mdl + _entropy(rows, fit),
        -2 * likelihood + (bits + real) * log_m, -2 * likelihood + 2 * (bits + real),
    )  # fmt: skip


def _brevity(fit: TemplateFit) -> float:
    """Minus the `mdl` of a fit, but for what all fits with as many components have in common.

    The likeliest of them may owe it to a template of a few rows that has their flips as well.
    """
    return fit.statistics.log_likelihood - template_nats(fit.mixture.templates)


def template_nats(templates: NDArray[np.uint8]) -> float:
    """The length of a code for templates, in nats: short where they have most columns in common.

    First how many columns have 0, 1, … k ones; then which columns these are; then which templates
    have the ones of each. Where that is longer than one bit a cell, the bits as they are.
    """
    k, n = templates.shape
    columns = np.bincount(templates.sum(axis=0, dtype=np.int64), minlength=k + 1)
    ones = np.arange(k + 1)
    how_many = _log_binomial(n + k, k)
    which_columns = gammaln(n + 1) - gammaln(columns + 1).sum()
    which_templates = (columns * _log_binomial(k, ones)).sum()
    return float(min(how_many + which_columns + which_templates, k * n * math.log(2)) + math.log(2))


def _log_binomial(n: int, j: Any) -> Any:
    return gammaln(n + 1) - gammaln(j + 1) - gammaln(n - j + 1)


def _entropy(rows: Rows, fit: TemplateFit) -> float:
    """-Σ p ln p over all rows and components."""
    p = predict.probabilities(rows, fit.mixture)
    return float(-(p * np.log(np.where(p > 0, p, 1.0))).sum())
