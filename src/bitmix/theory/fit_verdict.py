"""The certificate of a fit, from the evidence on: three parts at α/3 each, and their words."""

import math
from dataclasses import dataclass

import numpy as np

from bitmix.theory import fit_bounds
from bitmix.theory.tails import Floats, noise_of_pair


@dataclass(frozen=True)
class Part:
    """One of the three parts: `has` must reach `needs` (or stay below it, for probabilities)."""

    name: str
    holds: bool
    needs: float
    has: float
    says: str
    """What was found, in plain words, and what would help where it fails."""


@dataclass(frozen=True)
class Evidence:
    """What the data say, before any α is chosen."""

    m: int
    """Rows used."""
    n: int
    disagreements: int
    """Between matched rows, on the half of the columns not used for matching."""
    compared: int
    """Matched pairs times those columns."""
    gap: int
    """Least distance between rows of different found clusters; n + 1 for a single cluster."""
    sizes: tuple[int, ...]
    """Rows in each found cluster."""
    weakest_votes: tuple[int, ...]
    """For each cluster the smallest winning vote of a column."""
    not_majority: int
    """Template bits that are not the strict majority of their cluster."""
    flips: int
    """Bits in which rows differ from their template."""
    duplicates: int
    """Pairs of equal rows of one cluster that differ from their template."""
    duplicates_expected: float
    """How many the noise level makes plausible."""


@dataclass(frozen=True)
class Verdict:
    """The evidence at one α: four pairs of what is needed and what is there."""

    alpha: float
    p_hi: float
    q_hi: float
    gap_needed: int
    outvoted: float
    """Bound on the probability that some majority is wrong."""
    duplicates_allowed: int

    def holds(self, evidence: Evidence) -> tuple[bool, bool, bool, bool]:
        """Noise, partition, templates, distinct rows."""
        several = len(evidence.sizes) > 1
        return (
            self.q_hi < 0.5,
            min(evidence.sizes) > 0
            and evidence.m > 1
            and (not several or evidence.gap >= self.gap_needed),
            evidence.not_majority == 0 and self.outvoted <= self.alpha / 3,
            evidence.duplicates <= self.duplicates_allowed,
        )


def judge(evidence: Evidence, alpha: float) -> Verdict:
    """What the evidence says at level α, a third of it for each of the three parts."""
    p_hi = fit_bounds.upper_limit(evidence.disagreements, evidence.compared, alpha / 3)
    q_hi = noise_of_pair(p_hi)
    sizes, votes = (np.array(x, dtype=np.float64) for x in (evidence.sizes, evidence.weakest_votes))
    return Verdict(
        alpha=alpha,
        p_hi=p_hi,
        q_hi=q_hi,
        gap_needed=fit_bounds.least_gap(evidence.m, evidence.n, p_hi, alpha / 3),
        outvoted=_outvoted(sizes, votes, evidence.n, q_hi),
        duplicates_allowed=fit_bounds.poisson_quantile(evidence.duplicates_expected, 1e-4),
    )


def _outvoted(sizes: Floats, votes: Floats, n: int, q_hi: float) -> float:
    return max(fit_bounds.outvoted(sizes, n, q_hi), fit_bounds.overturned(sizes, votes, n))


def parts_of(evidence: Evidence, verdict: Verdict) -> tuple[Part, ...]:
    """The verdict in words."""
    rows = (
        ("noise", 0.5, verdict.q_hi, _noise_says),
        ("partition", verdict.gap_needed, evidence.gap, _partition_says),
        ("templates", verdict.alpha / 3, verdict.outvoted, _templates_says),
        ("distinct rows", verdict.duplicates_allowed, evidence.duplicates, _distinct_says),
    )
    return tuple(
        Part(name, holds, needs, has, says(evidence, verdict, holds))
        for holds, (name, needs, has, says) in zip(verdict.holds(evidence), rows, strict=True)
    )


def _noise_says(evidence: Evidence, verdict: Verdict, holds: bool) -> str:
    if holds:
        return f"at most {verdict.q_hi:.4g}, from {evidence.compared:,} comparisons"
    few = f"{evidence.disagreements:,} disagreements in {evidence.compared:,} comparisons"
    return f"{few} leave no limit below ½: more columns, more rows or less noise would help"


def _partition_says(evidence: Evidence, verdict: Verdict, holds: bool) -> str:
    if evidence.m == 1:
        return "a single row proves nothing"
    if min(evidence.sizes) == 0:
        return f"{evidence.sizes.count(0)} templates have no row nearest to them: use fewer"
    if len(evidence.sizes) == 1:
        return "one template, so nothing to part"
    says = (
        f"rows of different groups differ in {evidence.gap} columns or more, "
        f"{verdict.gap_needed} needed"
    )
    return says if holds else f"{says}: {_partition_remedy(evidence, verdict)}"


def _partition_remedy(evidence: Evidence, verdict: Verdict) -> str:
    """How much less noise, or how many more columns of the same kind, would do."""
    m, n, gap, error = evidence.m, evidence.n, evidence.gap, verdict.alpha / 3
    low, high = 0.0, verdict.p_hi
    for _ in range(20):
        middle = (low + high) / 2
        enough = fit_bounds.least_gap(m, n, middle, error) <= gap
        low, high = (middle, high) if enough else (low, middle)
    noise = f"noise below {noise_of_pair(low):.3g} would do" if low else "less noise would not do"
    wide = fit_bounds.columns_needed(m, n, gap, verdict.p_hi, error)
    if wide is None:
        return f"{noise}; more columns of the same kind would not"
    return f"{noise}, or about {wide:,} columns of the same kind"


def _templates_says(evidence: Evidence, verdict: Verdict, holds: bool) -> str:
    if evidence.not_majority:
        return f"{evidence.not_majority} template bits are not the majority of their group"
    wrong = min(verdict.outvoted, 1.0)
    says = f"every bit is its group's majority, wrong with probability at most {wrong:.2g}"
    if holds:
        return says
    needed = f"{says}, {verdict.alpha / 3:.2g} needed"
    sizes, votes = (np.array(x, dtype=np.float64) for x in (evidence.sizes, evidence.weakest_votes))
    for factor in np.geomspace(1.1, 1e4, 80):
        many, won = np.ceil(sizes * factor), np.floor(votes * factor)
        if _outvoted(many, won, evidence.n, verdict.q_hi) <= verdict.alpha / 3:
            return f"{needed}: about {factor:.2g} times as many rows would do"
    return f"{needed}: more rows alone would not do"


def _distinct_says(evidence: Evidence, verdict: Verdict, holds: bool) -> str:
    says = (
        f"{evidence.duplicates:,} pairs of equal rows beside their template, "
        f"{evidence.duplicates_expected:.2g} expected"
    )
    return says if holds else f"{says}: rows are copies of each other; keep one of each"


def least_alpha(evidence: Evidence) -> float:
    """Bisect: a larger α is easier in every part."""

    def issued(log_alpha: float) -> bool:
        return all(judge(evidence, math.exp(log_alpha)).holds(evidence))

    low, high = math.log(1e-15), math.log(1 - 1e-9)
    if not issued(high):
        return 1.0
    while high - low > 0.02:
        middle = (low + high) / 2
        low, high = (low, middle) if issued(middle) else (middle, high)
    return math.exp(high)
