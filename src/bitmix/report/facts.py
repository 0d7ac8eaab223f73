"""The facts of a report, as frozen values gathered by pure functions.

Rows are read packed and block by block; nothing of size m·n is ever made. Every row is counted,
except in the certificate, which may use a random sample and says so. Lists have a maximal length.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from bitmix.certify.fit import FitCertificate, certify_fit
from bitmix.em import predict
from bitmix.em.predict import Tally
from bitmix.errors import InputError
from bitmix.estimators.base import FittedTemplates
from bitmix.estimators.hold_out import HeldOutRows
from bitmix.estimators.template import TemplateMixture
from bitmix.groups.medoids import SPARSE, Medoids
from bitmix.kernels import backend
from bitmix.kernels.bits import pack
from bitmix.kernels.fixed import Ints
from bitmix.metrics import conditional_purity, isim_of_counts
from bitmix.models.mixture import Floats
from bitmix.rows import Rows

CLEAR_MARGIN = math.log(20)
"""A row is clear if the odds of its best group against the second are at least 20 to 1."""
FLAG_LEVEL = 1e-4
"""A column is flagged if its p-value, corrected for the number of columns, is below this."""
MAX_GROUPS = 100
MAX_FEATURES = 8
MAX_WORDS = 24
MAX_PAIRS = 20
MAX_OUTLIERS = 12
MAX_COLUMNS = 25
MIN_COLUMNS = 5
"""Columns that are listed even if fewer are flagged."""
MAX_CLASSES = 12
MAX_TEXT_LENGTH = 80
N_BINS = 30

Names = Callable[[int], str]


@dataclass(frozen=True)
class Feature:
    """A column, and its share of ones in two sets of rows."""

    column: int
    name: str
    share: float
    other_share: float


@dataclass(frozen=True)
class Group:
    """One template and the rows that most likely belong to it."""

    index: int
    weight: float
    size: int
    bits_set: int
    clear: float
    """Share of its rows that are clear."""
    flips: float
    """Share of its cells that differ from the template."""
    expected: float
    """The same share according to the model."""
    features: tuple[Feature, ...]
    """The columns that differ most from the other rows: shares of ones inside and outside."""
    representative: str = ""
    """The id or number of the row that is closest to the rows of the group on average."""
    distance: float = math.nan
    """The mean distance of the rows from it."""
    similar: float = math.nan
    """The mean Tanimoto similarity of its rows (iSIM), if rows are sparse."""
    words: tuple[tuple[str, int], ...] = ()
    """For sparse rows with named columns: those that are most typical of the group, in the order
    of the alphabet, each with a size from 1 to 5."""


@dataclass(frozen=True)
class Pair:
    """Two templates."""

    i: int
    j: int
    n_differing: int
    features: tuple[Feature, ...]
    """Some of the columns that differ: shares of ones in group i and in group j."""

    @property
    def n_more(self) -> int:
        """Columns that differ and are not listed."""
        return self.n_differing - len(self.features)


@dataclass(frozen=True)
class Margins:
    """The log odds of the best group of each row against the second best."""

    counts: tuple[int, ...]
    """Rows in bins of equal width; the last bin has no upper end."""
    top: float
    """Where the last bin would end, in powers of ten."""
    clear: float
    """Share of rows that are clear."""
    doubtful: float
    """Share of rows with odds below 3 to 1."""
    median: float
    """In nats."""


@dataclass(frozen=True, eq=False)
class Outlier:
    """A row that is unlikely under the model."""

    row: int
    name: str
    group: int
    flips: int
    expected: float
    known: int
    """Cells that are not missing."""
    margin: float
    log_likelihood: float
    bits: NDArray[np.uint8]


@dataclass(frozen=True)
class Column:
    """The share of rows that differ from their template in one column."""

    column: int
    name: str
    observed: float
    expected: float
    p_value: float
    """Probability of this many flips or more, times the number of columns; at most 1."""
    worst_group: int
    """The group with the largest share of flips, and that share."""
    worst_share: float

    @property
    def flagged(self) -> bool:
        return self.p_value < FLAG_LEVEL


@dataclass(frozen=True)
class Noise:
    """Flips in the rows beside those that the model expects."""

    observed: float
    expected: float
    columns: tuple[Column, ...]
    """The columns with the most flips beyond expectation."""
    n_flagged: int
    n_below: int
    """Columns that flip far less often than expected, by the same test."""
    counts: tuple[int, ...]
    """Columns by their share of flips, in bins of equal width; the last bin has no upper end."""
    top: float
    """Where the last bin would end."""


@dataclass(frozen=True)
class Classes:
    """Groups beside the known classes of their rows."""

    names: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    """Rows per group and class."""
    purity: float


@dataclass(frozen=True, eq=False)
class Facts:
    """Everything that a report shows about a fit and its rows."""

    rows: int
    columns: int
    density: float
    missing: float
    """Share of cells that are missing."""
    named: bool
    """Whether the columns have names."""
    groups: tuple[Group, ...]
    shares: Floats
    """Share of ones per group and column; the template where a group has no known cell."""
    distances: NDArray[np.int64]
    """Number of columns in which two templates differ, shape (k, k)."""
    pairs: tuple[Pair, ...]
    """The closest pairs of templates, closest first."""
    margins: Margins | None
    outliers: tuple[Outlier, ...]
    labels: Ints
    """The group of each row."""
    medoids: Medoids | None
    """The representatives of the groups; None for rows on a cluster."""
    noise: Noise
    certificate: FitCertificate | None
    no_certificate: str
    """Why there is no certificate."""
    classes: Classes | None
    held_out: HeldOutRows | None = None
    """What held-out rows say, if it was asked for."""
    templates: NDArray[np.uint8] | None = None

    @property
    def certified_bits(self) -> NDArray[np.bool_] | None:
        """The bits of the templates that are certified, if that is said of some but not of all."""
        if self.held_out is not None and self.templates is not None:
            bits, group = self.held_out.bits, list(self.held_out.group)
            mask = np.zeros(self.templates.shape, dtype=bool)
            mask[group] = bits.mask & (bits.bits == self.templates[group])
            return mask
        certificate = self.certificate
        if certificate is None or certificate.issued or certificate.objections:
            return None
        return certificate.mask if certificate.mask.any() else None

    @property
    def k(self) -> int:
        return len(self.groups)

    @property
    def n_duplicates(self) -> int:
        """Templates that are equal to an earlier one."""
        return int((np.tril(self.distances == 0, -1)).any(axis=1).sum())

    @property
    def n_empty(self) -> int:
        """Groups without rows."""
        return sum(group.size == 0 for group in self.groups)


def printable(value: Any) -> str:
    """A user's text for the page: shortened, valid Unicode, without control characters."""
    start = str(value)[: MAX_TEXT_LENGTH + 1]
    text = "".join(c if c.isprintable() else " " if c.isspace() else "�" for c in start)
    return text if len(text) <= MAX_TEXT_LENGTH else text[: MAX_TEXT_LENGTH - 1] + "…"


def gather(
    model: FittedTemplates,
    rows: Rows,
    *,
    names: Sequence[Any] | None = None,
    ids: Sequence[Any] | None = None,
    labels: Sequence[Any] | None = None,
    certificate: FitCertificate | bool | None = None,
    alpha: float = 0.05,
    held_out: HeldOutRows | None = None,
) -> Facts:
    """Gather the facts in two passes over the rows, and a third one for the certificate."""
    m, n = rows.shape
    T, k = model.templates_, len(model.templates_)
    name_of = partial(_name, names)
    counts = predict.tally(rows, model.mixture_)
    values = RowValues.of(rows, model)
    noise = expected_noise(model, counts)
    shares = np.where(counts.cells > 0, counts.ones / np.maximum(counts.cells, 1), T)
    distances = backend().hamming(pack(T), pack(T))
    medoids = None if rows.remote else model.medoids(rows, ids=ids)
    reason = "It was not asked for."
    if certificate is None or certificate is True:
        certificate, reason = certify_if_possible(model, rows, alpha)
    return Facts(
        rows=m,
        columns=n,
        density=counts.density,
        missing=1 - int(counts.cells.sum()) / (m * n),
        named=names is not None,
        groups=described(groups_of(model, counts, values, names), counts, medoids, names),
        shares=shares,
        distances=distances,
        pairs=pairs_of(distances, shares, T, name_of),
        margins=margins_of(values.margins) if k > 1 else None,
        outliers=outliers_of(T, rows, values, noise, ids),
        labels=values.groups,
        medoids=medoids,
        noise=noise_of(counts, T, noise, name_of),
        certificate=certificate or None,
        no_certificate=reason,
        classes=None if labels is None else classes_of(labels, values.groups, k),
        held_out=held_out,
        templates=T,
    )


def _name(names: Sequence[Any] | None, column: int) -> str:
    return f"column {column}" if names is None else printable(names[column])


def certify_if_possible(
    model: FittedTemplates, rows: Rows, alpha: float = 0.05
) -> tuple[FitCertificate | None, str]:
    """A certificate of the fit, or None and the reason why there can be none."""
    noise_model = getattr(model, "noise_model_", "shared")
    if noise_model != "shared":
        return None, (
            "A certificate assumes one noise level for all cells, but this fit has "
            f"noise_model={noise_model!r}: fit with noise_model='shared'."
        )
    if rows.layout.missing:
        return None, "A certificate needs complete rows. Some cells of these rows are missing."
    if rows.shape[0] < 3 * len(model.templates_):
        return None, "A certificate needs at least three rows per template."
    try:
        return certify_fit(
            rows, model.templates_, alpha, method="both", k_fixed=not model.k_chosen_
        ), ""
    except InputError as error:
        return None, f"It could not be computed: {error}."


@dataclass(frozen=True, eq=False)
class RowValues:
    """What the model says about each row."""

    groups: Ints
    """The most likely group."""
    margins: Floats
    log_likelihoods: Floats
    n_known: Ints
    """Known cells."""

    @classmethod
    def of(cls, rows: Rows, model: FittedTemplates) -> "RowValues":
        groups, margins, log_likelihoods, known, _ = predict.row_values(rows, model.mixture_).T
        return cls(groups.astype(np.int64), margins, log_likelihoods, known.astype(np.int64))


def expected_noise(model: FittedTemplates, counts: Tally) -> Floats:
    """The probability that a cell flips according to the model; broadcasts to (k, n).

    The noise level of the paper's estimators comes from the closest pair of seeds and is too low by
    construction. For them it is replaced by the share of flips over all rows.
    """
    if isinstance(model, TemplateMixture):
        p = model.probabilities_
        return np.where(model.templates_ == 1, 1 - p, p)
    flips, cells = int(_flips(counts, model.templates_).sum()), int(counts.cells.sum())
    return np.array([[flips / max(1, cells)]])


def _flips(counts: Tally, templates: NDArray[np.uint8]) -> Ints:
    """Known cells that differ from the template, per group and column."""
    return np.where(templates == 1, counts.cells - counts.ones, counts.ones)


def groups_of(
    model: FittedTemplates, counts: Tally, values: RowValues, names: Sequence[Any] | None = None
) -> tuple[Group, ...]:
    """Size, clarity, noise and distinctive columns of each group."""
    T, k = model.templates_, len(model.templates_)
    n_clear = np.bincount(values.groups, weights=values.margins >= CLEAR_MARGIN, minlength=k)
    n_cells = np.maximum(counts.cells.sum(axis=1), 1)
    flips = _flips(counts, T).sum(axis=1) / n_cells
    expected = (counts.cells * expected_noise(model, counts)).sum(axis=1) / n_cells
    return tuple(
        Group(
            index=i,
            weight=float(model.weights_[i]),
            size=int(counts.sizes[i]),
            bits_set=int(T[i].sum()),
            clear=float(n_clear[i]) / max(1, int(counts.sizes[i])),
            flips=float(flips[i]),
            expected=float(expected[i]),
            features=features,
        )
        for i, features in enumerate(columns_apart(counts, names))
    )


def described(
    groups: Sequence[Group], counts: Tally, medoids: Medoids | None, names: Sequence[Any] | None
) -> tuple[Group, ...]:
    """The groups with their representatives and, if rows are sparse, similarities and words."""
    k, sparse = len(groups), counts.density <= SPARSE
    named, distances = [""] * k, np.full(k, np.nan)
    if medoids is not None:
        named = [f"row {row}" if row >= 0 else "" for row in medoids.rows.tolist()]
        named, distances = list(medoids.ids or named), medoids.distances
    similar = isim_of_counts(counts.ones, counts.sizes) if sparse else np.full(k, np.nan)
    words = words_of(counts, names) if sparse and names is not None else [()] * k
    return tuple(
        replace(
            group, representative=printable(named[i]), distance=float(distances[i]),
            similar=float(similar[i]), words=words[i],
        )
        for i, group in enumerate(groups)
    )  # fmt: skip


def words_of(counts: Tally, names: Sequence[Any]) -> list[tuple[tuple[str, int], ...]]:
    """The columns that each group has more often than all other rows, sized by how much more."""
    total_cells, total_ones = counts.cells.sum(axis=0), counts.ones.sum(axis=0)
    words: list[tuple[tuple[str, int], ...]] = []
    for cells, ones in zip(counts.cells[:MAX_GROUPS], counts.ones[:MAX_GROUPS], strict=True):
        others = (total_ones - ones) / np.maximum(total_cells - cells, 1)
        more = ones / np.maximum(cells, 1) - others
        best = [s for s in _largest(more, MAX_WORDS) if more[s] > 0.02]
        sizes = {s: 1 + min(4, int(5 * more[s] / more[best[0]])) for s in best}
        found = ((printable(names[s]), size) for s, size in sizes.items())
        words.append(tuple(sorted(found, key=lambda word: word[0].casefold())))
    return words + [()] * (len(counts.cells) - len(words))


def columns_apart(counts: Tally, names: Sequence[Any] | None) -> tuple[tuple[Feature, ...], ...]:
    """The columns whose share of ones differs most between each group and all other rows.

    With only one group, these are its most frequent columns. A group without rows has none.
    """
    name_of, all_cells, all_ones = (
        partial(_name, names), counts.cells.sum(axis=0), counts.ones.sum(axis=0),
    )  # fmt: skip
    apart: list[tuple[Feature, ...]] = []
    for cells, ones in zip(counts.cells, counts.ones, strict=True):
        other_cells, other_ones = all_cells - cells, all_ones - ones
        inside, outside = ones / np.maximum(cells, 1), other_ones / np.maximum(other_cells, 1)
        columns = _largest(np.abs(inside - outside) if other_cells.any() else inside, MAX_FEATURES)
        apart.append(
            tuple(
                Feature(s, name_of(s), float(inside[s]), float(outside[s]))
                for s in (columns if cells.any() else ())
            )
        )
    return tuple(apart)


def _largest(values: NDArray[Any], n_values: int) -> list[int]:
    """Indices of the largest values, largest first, the lowest index among equals."""
    order: list[int] = np.argsort(-values, kind="stable")[:n_values].tolist()
    return order


def pairs_of(
    distances: Ints, shares: Floats, templates: NDArray[np.uint8], names: Names
) -> tuple[Pair, ...]:
    """The closest pairs of templates, and the columns that separate them best."""
    first, second = np.triu_indices(len(distances), 1)
    pairs = []
    for index in np.argsort(distances[first, second], kind="stable")[:MAX_PAIRS].tolist():
        i, j = int(first[index]), int(second[index])
        columns = np.flatnonzero(templates[i] != templates[j])
        best = columns[_largest(np.abs(shares[i] - shares[j])[columns], MAX_FEATURES)]
        features = (
            Feature(s, names(s), float(shares[i, s]), float(shares[j, s])) for s in best.tolist()
        )
        pairs.append(Pair(i, j, len(columns), tuple(features)))
    return tuple(pairs)


def margins_of(margins: Floats) -> Margins:
    """A histogram of the margins, and how many rows are clear."""
    tens = margins / math.log(10)
    top = float(max(math.ceil(float(np.quantile(tens, 0.99))), 2))
    return Margins(
        counts=_histogram(tens, top),
        top=top,
        clear=float((margins >= CLEAR_MARGIN).mean()),
        doubtful=float((margins < math.log(3)).mean()),
        median=float(np.median(margins)),
    )


def _histogram(values: Floats, top: float) -> tuple[int, ...]:
    """Counts in bins of equal width from 0 to `top`; larger values belong to the last bin."""
    bins = np.minimum((values * (N_BINS / top)).astype(np.int64), N_BINS - 1)
    return tuple(np.bincount(bins, minlength=N_BINS).tolist())


def outliers_of(
    templates: NDArray[np.uint8], rows: Rows, values: RowValues, noise: Floats,
    ids: Sequence[Any] | None,
) -> tuple[Outlier, ...]:  # fmt: skip
    """The rows with the lowest log-likelihood; if cells are missing, the lowest per known cell."""
    ranked = values.log_likelihoods
    if rows.layout.missing:
        ranked = ranked / np.maximum(values.n_known, 1)
    worst = np.array(_largest(-ranked, MAX_OUTLIERS), dtype=np.int64)
    cells = rows.subset(worst).to_dense(np.float64)
    bits, known = (cells == 1).astype(np.uint8), (~np.isnan(cells)).astype(np.uint8)
    levels = np.broadcast_to(noise, templates.shape)
    outliers = []
    for index, row in enumerate(worst.tolist()):
        group = int(values.groups[row])
        flipped = (bits[index] != templates[group]) & (known[index] == 1)
        outliers.append(
            Outlier(
                row=row,
                name="" if ids is None else printable(ids[row]),
                group=group,
                flips=int(flipped.sum()),
                expected=float(levels[group] @ known[index]),
                known=int(known[index].sum()),
                margin=float(values.margins[row]),
                log_likelihood=float(values.log_likelihoods[row]),
                bits=bits[index],
            )
        )
    return tuple(outliers)


def noise_of(counts: Tally, templates: NDArray[np.uint8], noise: Floats, names: Names) -> Noise:
    """The flips of each column over all rows, tested against the model by the binomial law.

    Rows of different groups flip with different probabilities. Their sum has lighter tails than the
    binomial with the same mean (Hoeffding 1956), so the test can only flag too few columns.
    """
    flips, cells = _flips(counts, templates), counts.cells
    n_known, n_flips, mean = cells.sum(axis=0), flips.sum(axis=0), (cells * noise).sum(axis=0)
    n, n_cells, total = len(n_known), np.maximum(n_known, 1), max(1, int(n_known.sum()))
    above = scipy.stats.binom.sf(n_flips - 1, n_known, mean / n_cells)
    below = scipy.stats.binom.cdf(n_flips, n_known, mean / n_cells)
    above, below = (np.where(n_known > 0, np.minimum(p * n, 1.0), 1.0) for p in (above, below))
    n_flagged = int((above < FLAG_LEVEL).sum())
    deviation = np.sqrt(np.maximum(mean * (1 - mean / n_cells), 1e-9))
    listed = _largest((n_flips - mean) / deviation, min(max(n_flagged, MIN_COLUMNS), MAX_COLUMNS))
    rates, group_rates = n_flips / n_cells, flips / np.maximum(cells, 1)
    expected = float(mean.sum()) / total
    top = max(float(np.quantile(rates, 0.999)), 2 * expected, 1e-6)
    return Noise(
        observed=int(n_flips.sum()) / total,
        expected=expected,
        columns=tuple(
            Column(
                column=s,
                name=names(s),
                observed=float(rates[s]),
                expected=float(mean[s] / n_cells[s]),
                p_value=float(above[s]),
                worst_group=int(group_rates[:, s].argmax()),
                worst_share=float(group_rates[:, s].max()),
            )
            for s in listed
            if n_known[s]
        ),
        n_flagged=n_flagged,
        n_below=int((below < FLAG_LEVEL).sum()),
        counts=_histogram(rates, top),
        top=top,
    )


def classes_of(labels: Sequence[Any], groups: Ints, k: int) -> Classes:
    """Rows per group and class; rare classes are counted together."""
    names = {label: printable(label) for label in set(map(str, labels))}
    classes = [names[str(label)] for label in labels]
    by_size = [name for name, _ in Counter(sorted(classes)).most_common()]
    listed = sorted(by_size if len(by_size) <= MAX_CLASSES else by_size[: MAX_CLASSES - 1])
    column = {name: i for i, name in enumerate(listed)}
    others = [] if len(listed) == len(by_size) else ["all others"]
    counts = np.zeros((k, len(listed) + len(others)), dtype=np.int64)
    columns = np.array([column.get(name, len(listed)) for name in classes])
    np.add.at(counts, (groups, columns), 1)
    purity = float(conditional_purity(classes, groups))
    return Classes((*listed, *others), tuple(map(tuple, counts.tolist())), purity)
