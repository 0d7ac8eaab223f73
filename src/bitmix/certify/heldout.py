"""The held-out certificate: templates are learned on some rows; the others are sorted and vote.

Templates T̂ are learned from a sample of the rows. The other rows are sorted by their margins
between T̂_a and T̂_b, for every pair, on the columns in which these differ; rows with a small
margin abstain. The votes on a column come from rows whose sorting does not depend on that column.
The proof is in the documentation, under "Certificates and their proofs".
"""

import itertools
import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import linear_sum_assignment

from bitmix.certify import bounds
from bitmix.certify.checks import SEARCH
from bitmix.certify.verdict import COPIES_LEVEL, Part, Votes, distinct_part, noise_part
from bitmix.em.fit import fit_mixture
from bitmix.errors import InputError
from bitmix.kernels import backend
from bitmix.kernels.bits import Words, pack
from bitmix.kernels.fixed import SHARE_BITS, Ints
from bitmix.models.mixture import Mixture
from bitmix.rows import Rows
from bitmix.rows.protocol import Block
from bitmix.support.randomness import draw_without_replacement, stream
from bitmix.theory.tails import noise_of_pair

LEARNING_SHARE, MAX_LEARNING_ROWS = 3, 10_000
"""Templates are learned on one row in three, at most this many; they need not be right."""
NOISE, PARTITION, TEMPLATES = 0.2, 0.4, 0.4
"""How α is divided among the three parts."""
_STANDARD_ERRORS = 3.5  # 2.3 for an upper limit of 99 %, and one more for chance


@dataclass(frozen=True, eq=False)
class Sorting:
    """Templates to sort by, and the margins needed."""

    templates: NDArray[np.uint8]
    margins: Ints
    """g_ab, shape (k, k)."""

    @classmethod
    def of(cls, templates: NDArray[np.uint8], m: int, q_hi: float, error: float) -> "Sorting":
        """The least margins that no true cluster reaches on both sides, with this total error."""
        words = pack(templates)
        distances = backend().hamming(words, words)
        k, pairs = len(templates), len(templates) * (len(templates) - 1) // 2
        needed: dict[int, int] = {}
        margins = np.zeros((k, k), dtype=np.int64)
        for a, b in itertools.combinations(range(k), 2):
            d = int(distances[a, b])
            if d not in needed:
                needed[d] = bounds.margin_needed(d, m, q_hi, error / pairs)
            margins[a, b] = margins[b, a] = needed[d]
        return cls(templates, margins)


@dataclass(frozen=True, eq=False)
class Ballot:
    """Votes of the sorted rows. Ballots can be added and subtracted."""

    rows: int
    sizes: Ints
    """|K_a|: rows that were kept for each template, shape (k,)."""
    against: Ints
    """Kept rows that differ from T̂_a in column s, shape (k, n)."""
    silent: Ints
    """Kept rows whose sorting depends on column s; all of them agree with T̂_a there."""

    def __add__(self, other: "Ballot") -> "Ballot":
        return self._with(other, 1)

    def __sub__(self, other: "Ballot") -> "Ballot":
        return self._with(other, -1)

    def _with(self, other: "Ballot", sign: int) -> "Ballot":
        return Ballot(
            self.rows + sign * other.rows,
            self.sizes + sign * other.sizes,
            self.against + sign * other.against,
            self.silent + sign * other.silent,
        )


def count_votes(rows: Rows, sorting: Sorting) -> Ballot:
    """Sort all rows and count their votes in one pass."""
    k, n = sorting.templates.shape
    words = pack(sorting.templates)
    count = partial(_ballot, words=words, margins=sorting.margins)
    return rows.map_reduce(count, block_cells=k, workers=max(1, (1 << 30) // (48 * k * n)))


def _ballot(block: Block, *, words: Words, margins: Ints) -> Ballot:
    bits, k, n = block.bits, len(words), block.n_columns
    kernels = backend(6e-8 * k * len(bits))
    distances = kernels.hamming(bits, words)
    nearest = distances.argmin(axis=1)
    lead = distances - distances[np.arange(len(bits)), nearest][:, None] - margins[nearest]
    lead[np.arange(len(bits)), nearest] = 1
    kept = (lead >= 0).all(axis=1)
    bits, nearest, tight = bits[kept], nearest[kept], lead[kept] == 0
    flipped = bits ^ words[nearest]
    # A row that reaches g_ab exactly does not reach g_ab + 1 without a column in which it agrees.
    needs = np.zeros_like(flipped)
    for b in range(k):
        close = tight[:, b]
        needs[close] |= words[nearest[close]] ^ words[b]
    needs &= ~flipped

    def counted(values: Words) -> Ints:
        return kernels.owned_sums(values, nearest, k, n) >> SHARE_BITS

    return Ballot(len(kept), np.bincount(nearest, minlength=k), counted(flipped), counted(needs))


@dataclass(frozen=True)
class HeldOutEvidence:
    """The counts from which the held-out certificate was computed."""

    m: int
    """Total number of rows."""
    n: int
    n_learning: int
    """Rows that templates were learned on."""
    n_sorted: int
    """Other rows that were sorted."""
    sizes: tuple[int, ...]
    """Sorted rows that were kept for each template."""
    margins: tuple[int, ...]
    """The margins needed, for the pairs (0, 1), (0, 2), …, (1, 2), …"""
    disagreements: int
    compared: int
    n_certified: int
    """Bits of learned templates that the votes certify."""
    n_contradicted: int
    """Certified bits that differ from the templates given."""
    duplicates: int
    duplicates_expected: float


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The result of the rows that were not used for learning."""

    q_hi: float
    mask: NDArray[np.bool_]
    """The bits of the templates given that are certified, shape (k, n)."""
    parts: tuple[Part, ...]
    evidence: HeldOutEvidence


def hold_out(
    rows: Rows,
    templates: NDArray[np.uint8],
    alpha: float,
    votes: Votes,
    seed: int,
    matched: tuple[int, int],
    duplicates: tuple[int, float],
) -> HeldOut:
    """Learn from a part of the rows, sort the others, and certify bits by their votes.

    `matched` are the disagreements and comparisons of matched rows, `duplicates` the pairs of equal
    rows and their expected number.
    """
    (m, n), k = rows.shape, len(templates)
    q_hi = noise_of_pair(bounds.upper_limit(*matched, NOISE * alpha))
    sorting, ballot = learn_and_sort(rows, k, alpha, q_hi, matched[1], seed)
    bits, certified = winners(ballot, sorting, 0.5 if votes == "fair" else q_hi, TEMPLATES * alpha)
    distinct = distinct_part(*duplicates, bounds.poisson_quantile(duplicates[1], COPIES_LEVEL))
    if q_hi >= 0.5 or not distinct.holds:
        certified = np.zeros_like(certified)
    order = _matched(templates, bits, certified)
    same = bits[order] == templates
    mask = certified[order] & same
    evidence = HeldOutEvidence(
        m=m,
        n=n,
        n_learning=min(m // LEARNING_SHARE, MAX_LEARNING_ROWS),
        n_sorted=ballot.rows,
        sizes=tuple(ballot.sizes[order].tolist()),
        margins=tuple(sorting.margins[order][:, order][np.triu_indices(k, 1)].tolist()),
        disagreements=matched[0],
        compared=matched[1],
        n_certified=int(certified.sum()),
        n_contradicted=int((certified[order] & ~same).sum()),
        duplicates=duplicates[0],
        duplicates_expected=duplicates[1],
    )
    parts = (
        noise_part(*matched, q_hi),
        _sorting_part(evidence),
        _votes_part(evidence, int(mask.sum())),
        distinct,
    )
    return HeldOut(q_hi, mask, parts, evidence)


def learn_and_sort(
    rows: Rows, k: int, alpha: float, q_hi: float, compared: int, seed: int
) -> tuple[Sorting, Ballot]:
    """Learn k templates from a part of the rows, and sort others by them.

    `compared` is the number of cells from which the limit of the noise was computed.
    """
    m = rows.shape[0]
    n_learning = min(m // LEARNING_SHARE, MAX_LEARNING_ROWS)
    if n_learning < k:
        raise InputError(
            f"the held-out certificate learns from a third of the rows, which must be at least "
            f"k = {k}, got {n_learning} of {m}: use {LEARNING_SHARE * k} rows or more"
        )
    drawn = draw_without_replacement(m, n_learning, stream(seed, "folds"))
    learning = rows.subset(drawn)
    learned = fit_mixture(learning, k, SEARCH, compare_models=False, seed=seed).fit.mixture
    n_sorted = rows_to_sort(learned, m - n_learning, compared, PARTITION * alpha)
    sorting = Sorting.of(learned.templates, n_sorted, q_hi, PARTITION * alpha)
    if n_sorted == m - n_learning:
        ballot = count_votes(rows, sorting) - count_votes(learning, sorting)
    else:
        others = np.setdiff1d(np.arange(m), drawn, assume_unique=True)
        some = draw_without_replacement(len(others), n_sorted, stream(seed, "folds", 1))
        ballot = count_votes(rows.subset(others[some]), sorting)
    return sorting, ballot


def rows_to_sort(learned: Mixture, most: int, compared: int, error: float) -> int:
    """Choose how many rows to sort, from the learned mixture and the number of compared cells.

    Any sorted row may be the one that strays, so more rows need wider margins. If templates differ
    in few columns, sorting fewer rows can give more votes.
    """
    k, q = learned.n_components, learned.noise
    assert isinstance(q, float)
    if k == 1:
        return most
    p2 = 2 * q * (1 - q)  # its upper limit will be some standard errors larger
    q = noise_of_pair(p2 + _STANDARD_ERRORS * math.sqrt(p2 * (1 - p2) / max(compared, 1)))
    words = pack(learned.templates)
    distances = backend().hamming(words, words)
    kinds, where = np.unique(distances, return_inverse=True)
    where = where.reshape(k, k)
    counts = np.unique(np.geomspace(min(most, 2 * k), most, 40).astype(np.int64))[::-1]
    voters: list[float] = []
    for m in counts.tolist():
        if voters and m * learned.weights.min() <= max(voters):
            break
        sure = np.array([_sure(int(d), m, q, error / (k * (k - 1) / 2)) for d in kinds])[where]
        np.fill_diagonal(sure, 1.0)
        voters.append(float((m * learned.weights * sure.prod(axis=1)).min()))
    return int(counts[int(np.argmax(voters))])


def _sure(d: int, m: int, q: float, error: float) -> float:
    """P(a row reaches the margin on d columns even without one column in which it agrees)."""
    g = bounds.margin_needed(d, m, q, error)
    return float(stats.binom.sf(-(-(d + g) // 2) - 1, d - 1, 1 - q)) if d > 1 else 0.0


def winners(
    ballot: Ballot, sorting: Sorting, rate: float, error: float
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """The majority value for each template and column, and whether it is certified.

    Nothing is certified unless every template has kept rows, as there are at most k clusters.
    """
    k, n = ballot.against.shape
    voters = ballot.sizes[:, None] - ballot.silent
    turned = 2 * ballot.against > voters
    bits = sorting.templates ^ turned
    most = np.maximum(ballot.against, voters - ballot.against)
    certified = (2 * most > voters) & (k * n * bounds.wrong_vote(voters, most, rate) <= error)
    return bits, certified & bool(ballot.sizes.min() > 0)


def _matched(
    templates: NDArray[np.uint8], bits: NDArray[np.uint8], certified: NDArray[np.bool_]
) -> NDArray[np.intp]:
    """For each given template, the learned one that contradicts it least, then differs least."""
    n = bits.shape[1]
    costs = []
    for template in templates:
        differ = template != bits
        costs.append((differ & certified).sum(axis=1) * (n + 1.0) + differ.sum(axis=1))
    return linear_sum_assignment(np.array(costs))[1]


def _sorting_part(evidence: HeldOutEvidence) -> Part:
    kept, empty = sum(evidence.sizes), evidence.sizes.count(0)
    says = (
        f"templates were learned on {evidence.n_learning:,} rows, and {kept:,} of "
        f"{evidence.n_sorted:,} others belong clearly to a group"
    )
    if empty:
        says += (
            f"; {empty} of {len(evidence.sizes)} groups have none: fewer templates, less noise, or "
            "more columns in which templates differ would help"
        )
    return Part("partition", not empty, 1, min(evidence.sizes), says)


def _votes_part(evidence: HeldOutEvidence, n_masked: int) -> Part:
    n_bits = evidence.n * len(evidence.sizes)
    says = f"{n_masked:,} of {n_bits:,} template bits are certified by the votes of these rows"
    if evidence.n_contradicted:
        says += f", and {evidence.n_contradicted:,} are contradicted by them"
    elif n_masked < n_bits:
        says += ": more rows would help"
    return Part("templates", n_masked == n_bits, n_bits, n_masked, says)
