"""A certificate for a fit: are these templates exactly the true ones?

For every parameter value with at most k templates, P(issued and templates wrong) ≤ α, whatever
method found the templates and however they depend on the data. It has three parts, each with an
error of α/3: the noise level, from matched rows and without relying on the clustering; the
partition, from the gap between clusters; the templates, from the votes of their rows. The proof is
in the documentation, under "Certificates and their proofs".
"""

import html
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitmix.certify import bounds
from bitmix.certify.checks import ModelCheck, model_checks
from bitmix.certify.verdict import Evidence, Part, judge, least_alpha, parts_of
from bitmix.errors import InputError
from bitmix.kernels import backend
from bitmix.kernels.bits import Words, pack, unpack
from bitmix.rows import as_rows, unweighted
from bitmix.rows.packed import BitMatrix
from bitmix.support import checks
from bitmix.support.randomness import draw_without_replacement, seed_of, stream
from bitmix.theory.tails import log_choose

MAX_ROWS = 10_000
"""Rows whose pairs are all compared; of more, a uniform random sample is used."""
MAX_MATCHED_ROWS = 4_000
"""Rows that are matched to bound the noise level."""
USED_MATCHES = 0.9
"""Fraction of the matched pairs that is used, the closest."""

CONDITIONS = (
    "rows are distinct and independent draws",
    "columns were fixed before the data were seen",
    "every bit of every row flips independently with one common probability below ½",
    "there are at most k templates",
)


@dataclass(frozen=True)
class FitCertificate:
    """Whether the templates of a fit are certified to be exactly the true ones."""

    issued: bool
    alpha: float
    parts: tuple[Part, ...]
    q_hi: float
    """Upper limit of the noise level, from matched rows; it is too small with probability ≤ α/3."""
    least_alpha: float
    """The smallest α at which the certificate would be issued; 1 if there is none."""
    q_interval: tuple[float, float]
    """Clopper–Pearson interval for q from the flips, if the templates are right; its own α."""
    weight_intervals: tuple[tuple[float, float], ...]
    """Joint Clopper–Pearson intervals for the weights, if the partition is right; their own α."""
    model_checks: tuple[ModelCheck, ...]
    """Tests of the conditions; not part of the certificate."""
    evidence: Evidence
    random_state: int
    conditions: tuple[str, ...] = CONDITIONS

    @property
    def objections(self) -> tuple[str, ...]:
        """What the flagged model checks say."""
        return tuple(check.says for check in self.model_checks if check.flagged)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self), "objections": list(self.objections)}

    def __str__(self) -> str:
        verdict = "ISSUED" if self.issued else "NOT ISSUED"
        lines = [f"Certificate {verdict} at α = {self.alpha:g}: {self._meaning}"]
        lines += [f"  {'✓' if part.holds else '✗'} {part.name}: {part.says}" for part in self.parts]
        low, high = self.q_interval
        lines.append(f"  noise between {low:.4g} and {high:.4g}, if the templates are right")
        lines.append(f"  smallest α at which it would be issued: {self.least_alpha:.2g}")
        lines += [f"  ! {objection}" for objection in self.objections]
        lines.append("  It rests on: " + "; ".join(self.conditions) + ".")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    @property
    def _meaning(self) -> str:
        if self.issued:
            return f"all {len(self.evidence.sizes)} templates are exactly right"
        return "nothing is certified; the templates may still be right"


def certify_fit(
    X: Any, templates: ArrayLike, alpha: float = 0.05, random_state: int = 0
) -> FitCertificate:
    """Certify that `templates` are exactly the templates behind the rows of X.

    Parameters
    ----------
    X : array-like, sparse matrix, table or BitMatrix of 0 and 1
        The rows, distinct and independent.
    templates : array-like of 0 and 1, shape (k, n)
        From any method, depending on X in any way.
    alpha : float, default=0.05
        For every noise level, weights and at most k templates:
        P(certificate issued and templates wrong) ≤ α.
    random_state : int, default=0
        Splits the columns (and draws the sample of more than 10,000 rows). It is fixed by
        default: to try several and report the one that is issued breaks the promise.

    Returns
    -------
    FitCertificate
    """
    alpha = checks.between(alpha, "alpha", 0, 1)
    seed = seed_of(random_state)
    rows, T = unweighted(as_rows(X, missing=True)), BitMatrix.from_dense(templates)
    if rows.layout.missing:
        raise InputError(
            "a certificate counts the flips of every cell, but X has missing cells: drop rows or "
            "columns that have them"
        )
    m, n = rows.shape
    if T.shape[1] != n:
        raise InputError(f"templates must have the {n} columns of X, got {T.shape[1]}")
    rng = stream(seed, "certificate")
    words = rows.take(draw_without_replacement(m, MAX_ROWS, rng) if m > MAX_ROWS else np.arange(m))
    labels = backend(2e-9 * words.size * len(T)).hamming(words, T.words).argmin(axis=1)
    evidence = gather(words, labels, T, rng)
    verdict = judge(evidence, alpha)
    return FitCertificate(
        issued=all(verdict.holds(evidence)),
        alpha=alpha,
        parts=parts_of(evidence, verdict),
        q_hi=verdict.q_hi,
        least_alpha=least_alpha(evidence),
        q_interval=bounds.interval(evidence.flips, evidence.m * n, alpha),
        weight_intervals=tuple(
            bounds.interval(size, evidence.m, alpha / len(T)) for size in evidence.sizes
        ),
        model_checks=model_checks(words, labels, T, rng),
        evidence=evidence,
        random_state=seed,
    )


def gather(
    words: Words, labels: NDArray[np.int64], T: BitMatrix, rng: np.random.Generator
) -> Evidence:
    """What the certificate is computed from, whatever α is."""
    m, (k, n) = len(words), T.shape
    disagreements, compared = matched_disagreements(words, n, rng)
    gap = _least_gap(words, labels, n)
    duplicates, expected = _equal_rows(words, labels, T)
    sizes = np.bincount(labels, minlength=k)
    ones = backend(6e-8 * words.size).column_sums(words, np.eye(k, dtype=np.int64)[labels], n)
    agree = np.where(T.to_dense(bool), ones, sizes[:, None] - ones)
    return Evidence(
        m=m,
        n=n,
        disagreements=disagreements,
        compared=compared,
        gap=gap,
        sizes=tuple(sizes.tolist()),
        weakest_votes=tuple(agree.min(axis=1).tolist()),
        not_majority=int((2 * agree <= sizes[:, None]).sum()),
        flips=int((sizes[:, None] - agree).sum()),
        duplicates=duplicates,
        duplicates_expected=expected,
    )


def matched_disagreements(words: Words, n: int, rng: np.random.Generator) -> tuple[int, int]:
    """Match rows by closeness on half of the columns, count disagreements on the other half.

    Given labels and the first half, every matched pair disagrees in each column of the second half
    with probability p2 or 1 - p2 ≥ p2, independently: the count dominates Bin(compared, p2).
    """
    if n < 2 or len(words) < 2:
        return 0, 0
    order = rng.permutation(n)
    first, second = (_columns(words, n, half) for half in (order[: n // 2], order[n // 2 :]))
    first, second = first[:MAX_MATCHED_ROWS], second[:MAX_MATCHED_ROWS]
    a, b, distance = _greedy_matching(first)
    used = np.argsort(distance, kind="stable")[: max(1, round(USED_MATCHES * len(a)))]
    differ = int(np.bitwise_count(second[a[used]] ^ second[b[used]]).sum())
    return differ, len(used) * (n - n // 2)


def _columns(words: Words, n: int, chosen: NDArray[np.int64]) -> Words:
    """The rows with these columns only, one block of rows at a time."""
    step = max(1, (1 << 22) // n)
    return np.concatenate(
        [pack(unpack(words[a : a + step], n)[:, chosen]) for a in range(0, len(words), step)]
    )


def _greedy_matching(words: Words) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.int64]]:
    """Disjoint pairs of rows and their distances: each row in turn with the nearest one left."""
    left = np.arange(len(words))
    pairs, distances = [], []
    while len(left) > 1:
        to_first = backend(1e-9 * words.size).hamming(words[left[1:]], words[left[0]][None])[:, 0]
        nearest = int(to_first.argmin())
        pairs.append((left[0], left[nearest + 1]))
        distances.append(int(to_first[nearest]))
        left = np.delete(left[1:], nearest)
    a, b = np.array(pairs).T
    return a, b, np.array(distances)


def _least_gap(words: Words, labels: NDArray[np.int64], n: int) -> int:
    """Least distance between rows of different labels; n + 1 if there is one label only."""
    gap = n + 1
    for start in range(0, len(words), 256):
        distance = backend(3e-7 * words.size).hamming(words[start : start + 256], words[start:])
        same = labels[start : start + 256, None] == labels[None, start:]
        gap = min(gap, int(np.where(same, n + 1, distance).min()))
    return gap


def _equal_rows(words: Words, labels: NDArray[np.int64], T: BitMatrix) -> tuple[int, float]:
    """Pairs of equal rows of one label that differ from their template, and how many to expect.

    If two rows have f flips each, the columns of each are uniform over C(n, f) sets, so the rows
    are equal with probability 1/C(n, f), and such pairs are pairwise independent. Rows without
    flips are always equal and prove nothing.
    """
    flips = np.bitwise_count(words ^ T.words[labels]).sum(axis=1, dtype=np.int64)
    flipped = flips > 0
    keys = np.column_stack([labels[flipped].astype(np.uint64), words[flipped]])
    _, copies = np.unique(keys, axis=0, return_counts=True)
    kinds, rows = np.unique(
        np.column_stack([labels[flipped], flips[flipped]]), axis=0, return_counts=True
    )
    chance = np.exp(-log_choose(T.shape[1], kinds[:, 1]))
    return int((copies * (copies - 1) // 2).sum()), float((rows * (rows - 1) / 2 * chance).sum())
