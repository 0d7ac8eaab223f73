"""Everything the report says, as frozen values gathered by pure functions.

Rows are seen packed and block by block; nothing of size m·n is ever made, and no row is left out,
but by the certificate, which says so itself. Lists are cut to what a person reads.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bitmix.certify import FitCertificate, certify_fit
from bitmix.em import predict
from bitmix.errors import InputError
from bitmix.fitted import FittedTemplates
from bitmix.kernels import backend, fixed
from bitmix.kernels.bits import Words, pack, unpack, words_for
from bitmix.kernels.fixed import Ints
from bitmix.kernels.scores import Scores
from bitmix.metrics import conditional_purity
from bitmix.mixture import Floats
from bitmix.rows import Rows
from bitmix.template_mixture import TemplateMixture

CLEAR = math.log(20)
"""A row is clear from odds of 20 to 1 on."""
FLAG = 1e-4
"""A column is flagged below this, after correction for the number of columns."""
MOST_GROUPS = 100
MOST_FEATURES = 8
MOST_PAIRS = 20
MOST_OUTLIERS = 12
MOST_COLUMNS = 25
FEW_COLUMNS = 5
"""Listed where none is flagged."""
MOST_CLASSES = 12
MOST_LETTERS = 80
BINS = 30

Names = Callable[[int], str]


@dataclass(frozen=True)
class Feature:
    """A column, and the share of ones it has in two places."""

    column: int
    name: str
    here: float
    there: float


@dataclass(frozen=True)
class Group:
    """One template and the rows it is the likeliest of."""

    index: int
    weight: float
    size: int
    bits_set: int
    clear: float
    """Share of its rows that are clear."""
    flips: float
    """Share of its cells that differ from the template."""
    expected: float
    """The same by the model."""
    features: tuple[Feature, ...]
    """What tells it from all others, ones here against elsewhere."""


@dataclass(frozen=True)
class Pair:
    """Two templates."""

    i: int
    j: int
    differing: int
    features: tuple[Feature, ...]

    @property
    def more(self) -> int:
        return self.differing - len(self.features)


@dataclass(frozen=True)
class Margins:
    """How clear the rows are: the odds of the best group against the second."""

    counts: tuple[int, ...]
    """Rows in bins of equal width; the last holds everything beyond."""
    top: float
    """Where the last bin ends, in powers of ten."""
    clear: float
    doubtful: float
    """Share of rows with odds below 3 to 1."""
    median: float
    """In nats."""


@dataclass(frozen=True, eq=False)
class Outlier:
    """A row the model finds unlikely."""

    row: int
    name: str
    group: int
    flips: int
    expected: float
    known: int
    margin: float
    log_likelihood: float
    bits: NDArray[np.uint8]


@dataclass(frozen=True)
class Column:
    """The flips of one column against the model."""

    column: int
    name: str
    observed: float
    expected: float
    p_value: float
    """Chance of so many flips or more, times the number of columns; at most 1."""
    worst_group: int
    worst: float
    """Share of the rows of that group that differ from its template."""

    @property
    def flagged(self) -> bool:
        return self.p_value < FLAG


@dataclass(frozen=True)
class Noise:
    """Flips as they are and as the model has them."""

    observed: float
    expected: float
    columns: tuple[Column, ...]
    """Those that stand out most."""
    flagged: int
    calmer: int
    """Columns that flip far less often than the model has it, by the same test."""
    counts: tuple[int, ...]
    """Columns by their share of flips, in bins of equal width."""
    top: float


@dataclass(frozen=True)
class Classes:
    """Groups against labels that were known beforehand."""

    names: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    purity: float


@dataclass(frozen=True, eq=False)
class Facts:
    """All of it."""

    rows: int
    columns: int
    density: float
    missing: float
    """Share of cells that are not known."""
    named: bool
    groups: tuple[Group, ...]
    shares: Floats
    """Share of ones of each group and column; the template where a group has no rows."""
    distances: NDArray[np.int64]
    """Columns in which two templates differ, shape (k, k)."""
    pairs: tuple[Pair, ...]
    """The closest pairs, closest first."""
    margins: Margins | None
    outliers: tuple[Outlier, ...]
    noise: Noise
    certificate: FitCertificate | None
    no_certificate: str
    """Why there is none."""
    classes: Classes | None

    @property
    def k(self) -> int:
        return len(self.groups)

    @property
    def duplicates(self) -> int:
        """Templates that repeat an earlier one."""
        return int((np.tril(self.distances == 0, -1)).any(axis=1).sum())

    @property
    def empty(self) -> int:
        return sum(group.size == 0 for group in self.groups)


def text(value: Any) -> str:
    """What a user wrote, fit for a page: no control characters, not too long, valid Unicode."""
    start = str(value)[: MOST_LETTERS + 1]
    shown = "".join(c if c.isprintable() else " " if c.isspace() else "�" for c in start)
    return shown if len(shown) <= MOST_LETTERS else shown[: MOST_LETTERS - 1] + "…"


def gather(
    model: FittedTemplates,
    rows: Rows,
    *,
    names: Sequence[Any] | None = None,
    ids: Sequence[Any] | None = None,
    labels: Sequence[Any] | None = None,
    certificate: FitCertificate | bool | None = None,
    alpha: float = 0.05,
) -> Facts:
    """Look at every row once for each question."""
    m, n = rows.shape
    mixture, T = model._mixture, model.templates_
    name_of = partial(_name, names)
    found = np.asarray(predict.labels(rows, mixture))  # of a cluster, brought here
    margins = np.asarray(predict.margins(rows, mixture))
    tally = tally_of(rows, mixture.scores(missing=rows.layout.missing))
    noise = model_noise(model, tally)
    issued, reason = certified(model, rows, certificate, alpha)
    shares = tally.shares(T)
    distances = backend().hamming(pack(T), pack(T))
    cells = int(tally.cells.sum())
    return Facts(
        rows=m,
        columns=n,
        density=int(tally.ones.sum()) / max(cells, 1),
        missing=1 - cells / (m * n),
        named=names is not None,
        groups=groups_of(model, tally, found, margins, noise, name_of),
        shares=shares,
        distances=distances,
        pairs=pairs_of(distances, shares, T, name_of),
        margins=margins_of(margins) if len(T) > 1 else None,
        outliers=outliers_of(model, rows, found, margins, noise, ids),
        noise=noise_of(tally, T, noise, name_of),
        certificate=issued,
        no_certificate=reason,
        classes=classes_of(labels, found, len(T)),
    )


def _name(names: Sequence[Any] | None, column: int) -> str:
    return f"column {column}" if names is None else text(names[column])


@dataclass(frozen=True, eq=False)
class Tally:
    """Ones and known cells of each group and column; adds over blocks of rows."""

    sizes: Ints
    ones: Ints
    known: Ints | None

    def __add__(self, other: "Tally") -> "Tally":
        known = None if self.known is None or other.known is None else self.known + other.known
        return Tally(self.sizes + other.sizes, self.ones + other.ones, known)

    @property
    def cells(self) -> Ints:
        """Known cells, shape (k, n)."""
        if self.known is not None:
            return self.known
        cells: Ints = np.broadcast_to(self.sizes[:, None], self.ones.shape)
        return cells

    def flips(self, templates: NDArray[np.uint8]) -> Ints:
        """Cells that differ from the template."""
        return np.where(templates == 1, self.cells - self.ones, self.ones)

    def shares(self, otherwise: NDArray[np.uint8]) -> Floats:
        cells = self.cells
        return np.where(cells > 0, self.ones / np.maximum(cells, 1), otherwise)


def tally_of(rows: Rows, scores: Scores) -> Tally:
    """Every row counts for its likeliest group."""
    count = partial(_tally_of_block, scores=scores, n=rows.shape[1], missing=rows.layout.missing)
    return rows.map_reduce(count, block_cells=len(scores.const), workers=2)


def _tally_of_block(words: Words, *, scores: Scores, n: int, missing: bool) -> Tally:
    kernels, k = backend(words), len(scores.const)
    shares, _, _ = kernels.posteriors(scores(words), scores.bits, fixed.tables())
    owner = shares.argmax(axis=1)
    sums = kernels.owned_sums(words, owner, k, 64 * words.shape[1]) >> fixed.SHARE_BITS
    half = 64 * words_for(n)
    known = np.ascontiguousarray(sums[:, half : half + n]) if missing else None
    return Tally(np.bincount(owner, minlength=k), np.ascontiguousarray(sums[:, :n]), known)


def model_noise(model: FittedTemplates, tally: Tally) -> Floats:
    """How likely a cell flips by the model, of a shape that stretches to (k, n).

    The noise level of the paper's estimators is read off the closest pair of seeds and lies low by
    design; for them the share of flips over all rows takes its place.
    """
    if isinstance(model, TemplateMixture):
        return model._noise
    cells = max(1, int(tally.cells.sum()))
    return np.array([[int(tally.flips(model.templates_).sum()) / cells]])


def groups_of(
    model: FittedTemplates, tally: Tally, found: Ints, margins: Floats, noise: Floats, names: Names
) -> tuple[Group, ...]:
    T, k = model.templates_, len(model.templates_)
    flips, cells = tally.flips(T).sum(axis=1), tally.cells.sum(axis=1)
    clear = np.bincount(found, weights=margins >= CLEAR, minlength=k)
    expected = (tally.cells * noise).sum(axis=1)
    each = np.maximum(cells, 1)
    everywhere = tally.ones.sum(axis=0), tally.cells.sum(axis=0)
    return tuple(
        Group(
            index=i,
            weight=float(model.weights_[i]),
            size=int(tally.sizes[i]),
            bits_set=int(T[i].sum()),
            clear=float(clear[i]) / max(1, int(tally.sizes[i])),
            flips=float(flips[i] / each[i]),
            expected=float(expected[i] / each[i]),
            features=_telling(tally, i, everywhere, names) if i < MOST_GROUPS else (),
        )
        for i in range(k)
    )


def _telling(
    tally: Tally, i: int, everywhere: tuple[Ints, Ints], names: Names
) -> tuple[Feature, ...]:
    """The columns whose share of ones differs most between group i and all other rows.

    With one group only, its commonest columns.
    """
    cells, ones = tally.cells[i], tally.ones[i]
    if not cells.any():
        return ()
    here = ones / np.maximum(cells, 1)
    rest = everywhere[1] - cells
    there = (everywhere[0] - ones) / np.maximum(rest, 1)
    chosen = _largest(np.abs(here - there) if rest.any() else here, MOST_FEATURES)
    return tuple(Feature(s, names(s), float(here[s]), float(there[s])) for s in chosen)


def _largest(values: NDArray[Any], most: int) -> list[int]:
    """Places of the largest values, largest first, the lowest place among equals."""
    order: list[int] = np.argsort(-values, kind="stable")[:most].tolist()
    return order


def pairs_of(
    distances: Ints, shares: Floats, templates: NDArray[np.uint8], names: Names
) -> tuple[Pair, ...]:
    """The pairs that are hardest to tell apart, and what does tell them apart."""
    i, j = np.triu_indices(len(distances), 1)
    pairs = []
    for at in np.argsort(distances[i, j], kind="stable")[:MOST_PAIRS].tolist():
        a, b = int(i[at]), int(j[at])
        columns = np.flatnonzero(templates[a] != templates[b])
        best = columns[_largest(np.abs(shares[a] - shares[b])[columns], MOST_FEATURES)]
        features = (
            Feature(s, names(s), float(shares[a, s]), float(shares[b, s])) for s in best.tolist()
        )
        pairs.append(Pair(a, b, len(columns), tuple(features)))
    return tuple(pairs)


def margins_of(margins: Floats) -> Margins:
    tens = margins / math.log(10)
    top = max(math.ceil(float(np.quantile(tens, 0.99))), 2)
    bins = np.minimum((tens * (BINS / top)).astype(np.int64), BINS - 1)
    return Margins(
        counts=tuple(np.bincount(bins, minlength=BINS).tolist()),
        top=float(top),
        clear=float((margins >= CLEAR).mean()),
        doubtful=float((margins < math.log(3)).mean()),
        median=float(np.median(margins)),
    )


def outliers_of(
    model: FittedTemplates, rows: Rows, found: Ints, margins: Floats, noise: Floats,
    ids: Sequence[Any] | None,
) -> tuple[Outlier, ...]:  # fmt: skip
    """The rows with the lowest log-likelihood, a known cell where some are missing."""
    n, T = rows.shape[1], model.templates_
    likelihoods = np.asarray(predict.log_likelihoods(rows, model._mixture))
    ranked = likelihoods
    if rows.layout.missing:
        counts = rows.map_rows(partial(_known_cells, n=n), block_cells=1)
        ranked = likelihoods / np.maximum(counts, 1)
    worst = np.array(_largest(-ranked, MOST_OUTLIERS), dtype=np.int64)
    words = rows.chosen(worst).map_rows(lambda words: words, block_cells=1)
    bits = unpack(words[:, : words_for(n)], n)
    known = np.ones_like(bits)
    if rows.layout.missing:
        known = unpack(words[:, words_for(n) : 2 * words_for(n)], n)
    stretched = np.broadcast_to(noise, T.shape)
    return tuple(
        Outlier(
            row=row,
            name="" if ids is None else text(ids[row]),
            group=int(found[row]),
            flips=int(((bits[at] != T[found[row]]) & (known[at] == 1)).sum()),
            expected=float(stretched[found[row]] @ known[at]),
            known=int(known[at].sum()),
            margin=float(margins[row]),
            log_likelihood=float(likelihoods[row]),
            bits=bits[at],
        )
        for at, row in enumerate(worst.tolist())
    )


def _known_cells(words: Words, *, n: int) -> Ints:
    half = words_for(n)
    counts: Ints = np.bitwise_count(words[:, half : 2 * half]).sum(axis=1, dtype=np.int64)
    return counts


def noise_of(tally: Tally, templates: NDArray[np.uint8], noise: Floats, names: Names) -> Noise:
    """Each column's flips over all rows against the model, by the binomial law.

    Rows of several groups flip with several probabilities. Their sum has lighter tails than the
    binomial of the same mean (Hoeffding 1956), so the test only errs towards silence.
    """
    flips, cells = tally.flips(templates), tally.cells
    known, seen, mean = cells.sum(axis=0), flips.sum(axis=0), (cells * noise).sum(axis=0)
    n, each = len(known), np.maximum(known, 1)
    more = stats.binom.sf(seen - 1, known, mean / each)
    less = stats.binom.cdf(seen, known, mean / each)
    more, less = (np.where(known > 0, np.minimum(p * n, 1.0), 1.0) for p in (more, less))
    shares = flips / np.maximum(cells, 1)
    rates = seen / each
    spread = np.sqrt(np.maximum(mean * (1 - mean / each), 1e-9))
    flagged = int((more < FLAG).sum())
    worst = _largest((seen - mean) / spread, min(max(flagged, FEW_COLUMNS), MOST_COLUMNS))
    top = max(float(np.quantile(rates, 0.999)), 2 * float(mean.sum() / max(1, known.sum())), 1e-6)
    bins = np.minimum((rates * (BINS / top)).astype(np.int64), BINS - 1)
    total = max(1, int(known.sum()))
    return Noise(
        observed=int(seen.sum()) / total,
        expected=float(mean.sum()) / total,
        columns=tuple(
            Column(
                column=s,
                name=names(s),
                observed=float(rates[s]),
                expected=float(mean[s] / each[s]),
                p_value=float(more[s]),
                worst_group=(i := int(shares[:, s].argmax())),
                worst=float(shares[i, s]),
            )
            for s in worst
            if known[s]
        ),
        flagged=flagged,
        calmer=int((less < FLAG).sum()),
        counts=tuple(np.bincount(bins, minlength=BINS).tolist()),
        top=top,
    )


def classes_of(labels: Sequence[Any] | None, found: Ints, k: int) -> Classes | None:
    """How the labels fall into the groups; rare ones are put together."""
    if labels is None:
        return None
    shown = {word: text(word) for word in set(map(str, labels))}
    words = [shown[str(label)] for label in labels]
    common = [name for name, _ in Counter(sorted(words)).most_common()]
    kept = sorted(common if len(common) <= MOST_CLASSES else common[: MOST_CLASSES - 1])
    names = (*kept, *(["all others"] if len(kept) < len(common) else []))
    place = {name: i for i, name in enumerate(kept)}
    counts = np.zeros((k, len(names)), dtype=np.int64)
    columns = np.array([place.get(word, len(kept)) for word in words])
    np.add.at(counts, (found, columns), 1)
    purity = conditional_purity(words, found)
    return Classes(names, tuple(map(tuple, counts.tolist())), float(purity))


def certified(
    model: FittedTemplates, rows: Rows, given: FitCertificate | bool | None, alpha: float
) -> tuple[FitCertificate | None, str]:
    """The certificate, or the reason why there is none."""
    if isinstance(given, FitCertificate):
        return given, ""
    if given is False:
        return None, "It was not asked for."
    noise_model = getattr(model, "noise_model", "shared")
    if noise_model != "shared":
        return None, (
            "A certificate speaks of one noise level for every cell. This fit has "
            f"noise_model={noise_model!r}, so there is nothing it could certify."
        )
    if rows.layout.missing:
        return None, "A certificate asks for complete rows. Some cells of these are missing."
    try:
        return certify_fit(rows, model.templates_, alpha), ""
    except InputError as error:
        return None, f"It could not be made: {error}."
