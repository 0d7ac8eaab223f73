"""From the evidence to the verdict: what holds at level α, and what to say about it."""

import math
from dataclasses import dataclass

import numpy as np

from bitmix.certify import bounds
from bitmix.theory.tails import Floats, noise_of_pair


@dataclass(frozen=True)
class Part:
    """One requirement: `has` must reach `needs`, or for probabilities and counts stay below it."""

    name: str
    holds: bool
    needs: float
    has: float
    says: str
    """The finding in plain words and, where the requirement fails, what would help."""


@dataclass(frozen=True)
class Evidence:
    """Counts from the rows and the templates; they do not depend on α."""

    m: int
    """Rows used."""
    n: int
    disagreements: int
    """Cells in which matched rows differ, in the half of the columns not used for matching."""
    compared: int
    """Matched pairs times those columns."""
    gap: int
    """Least distance between rows of different clusters; n + 1 if there is one cluster only."""
    sizes: tuple[int, ...]
    """Rows in the cluster of each template, those that are nearest to it."""
    weakest_votes: tuple[int, ...]
    """For each cluster the smallest number of rows that agree with the template in a column."""
    not_majority: int
    """Template bits that are not the strict majority of their cluster."""
    flips: int
    """Bits in which rows differ from their template."""
    duplicates: int
    """Pairs of equal rows of one cluster that differ from their template."""
    duplicates_expected: float
    """How many of them independent flips would give on average."""


@dataclass(frozen=True)
class Verdict:
    """The limits at one α, to compare the evidence with."""

    alpha: float
    p_hi: float
    q_hi: float
    gap_needed: int
    outvoted: float
    """Bound on the probability that some majority is wrong."""
    duplicates_allowed: int

    def holds(self, evidence: Evidence) -> tuple[bool, bool, bool, bool]:
        """Whether the requirements hold: noise, partition, templates, distinct rows."""
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
    """The limits at level α: noise, partition and templates have an error of α/3 each."""
    p_hi = bounds.upper_limit(evidence.disagreements, evidence.compared, alpha / 3)
    q_hi = noise_of_pair(p_hi)
    sizes, votes = (np.array(x, dtype=np.float64) for x in (evidence.sizes, evidence.weakest_votes))
    return Verdict(
        alpha=alpha,
        p_hi=p_hi,
        q_hi=q_hi,
        gap_needed=bounds.least_gap(evidence.m, evidence.n, p_hi, alpha / 3),
        outvoted=_outvoted(sizes, votes, evidence.n, q_hi),
        duplicates_allowed=bounds.poisson_quantile(evidence.duplicates_expected, 1e-4),
    )


def _outvoted(sizes: Floats, votes: Floats, n: int, q_hi: float) -> float:
    return max(bounds.outvoted(sizes, n, q_hi), bounds.overturned(sizes, votes, n))


def parts_of(evidence: Evidence, verdict: Verdict) -> tuple[Part, ...]:
    """The requirements, with the numbers compared and a sentence about each."""
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
    return (
        f"{evidence.disagreements:,} disagreements in {evidence.compared:,} comparisons leave no "
        "limit below ½: more columns, more rows or less noise would help"
    )


def _partition_says(evidence: Evidence, verdict: Verdict, holds: bool) -> str:
    if evidence.m == 1:
        return "a single row proves nothing"
    if min(evidence.sizes) == 0:
        return f"{evidence.sizes.count(0)} templates have no row nearest to them: use fewer"
    if len(evidence.sizes) == 1:
        return "one template, so there is nothing to separate"
    says = (
        f"rows of different groups differ in {evidence.gap} columns or more, "
        f"{verdict.gap_needed} needed"
    )
    return says if holds else f"{says}: {_partition_remedy(evidence, verdict)}"


def _partition_remedy(evidence: Evidence, verdict: Verdict) -> str:
    """How much less noise, or how many columns of the same kind, would be enough."""
    m, n, gap, error = evidence.m, evidence.n, evidence.gap, verdict.alpha / 3
    low, high = 0.0, verdict.p_hi
    for _ in range(20):
        middle = (low + high) / 2
        enough = bounds.least_gap(m, n, middle, error) <= gap
        low, high = (middle, high) if enough else (low, middle)
    noise = "less noise would not be enough"
    if low:
        noise = f"noise below {noise_of_pair(low):.3g} would be enough"
    columns = bounds.columns_needed(m, n, gap, verdict.p_hi, error)
    if columns is None:
        return f"{noise}; more columns of the same kind would not"
    return f"{noise}, or about {columns:,} columns of the same kind"


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
        more, agreeing = np.ceil(sizes * factor), np.floor(votes * factor)
        if _outvoted(more, agreeing, evidence.n, verdict.q_hi) <= verdict.alpha / 3:
            times = float(f"{factor:.2g}")  # two digits, but 310 rather than 3.1e+02
            return f"{needed}: about {times:g} times as many rows would be enough"
    return f"{needed}: more rows alone would not be enough"


def _distinct_says(evidence: Evidence, verdict: Verdict, holds: bool) -> str:
    says = (
        f"{evidence.duplicates:,} pairs of equal rows that differ from their template, "
        f"{evidence.duplicates_expected:.2g} expected"
    )
    return says if holds else f"{says}: rows are copies of each other; keep one of each"


def least_alpha(evidence: Evidence) -> float:
    """The smallest α at which all requirements hold, by bisection: a larger α eases each."""

    def issued(log_alpha: float) -> bool:
        return all(judge(evidence, math.exp(log_alpha)).holds(evidence))

    low, high = math.log(1e-15), math.log(1 - 1e-9)
    if not issued(high):
        return 1.0
    while high - low > 0.02:
        middle = (low + high) / 2
        low, high = (low, middle) if issued(middle) else (middle, high)
    return math.exp(high)
