"""From the evidence to the verdict: which requirements hold at level α, in words."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bitmix.certify import bounds
from bitmix.certify.evidence import Evidence
from bitmix.kernels.fixed import Ints
from bitmix.theory.tails import Floats, noise_of_pair

Votes = Literal["fair", "common"]
"""What a majority is compared with: fair coins, or flips at the common noise level."""
COPIES_LEVEL = 1e-4
"""The probability, at most, that more rows than allowed are equal by chance."""


@dataclass(frozen=True)
class Part:
    """One requirement: `has` must reach `needs`; a probability or a count must not exceed it."""

    name: str
    holds: bool
    needs: float
    has: float
    says: str
    """The finding in words and, if the requirement fails, what would help."""


@dataclass(frozen=True)
class Verdict:
    """The limits at one α with which the evidence is compared."""

    alpha: float
    p_hi: float
    q_hi: float
    rate: float
    """The flip rate that votes are compared with: ½ for fair coins, or the limit of the noise."""
    gap_needed: int
    outvoted: float
    """Bound on the probability that flips alone produce such majorities."""
    duplicates_allowed: int

    def holds(self, evidence: Evidence) -> tuple[bool, bool, bool, bool]:
        """Whether the requirements hold: noise, partition, templates, distinct rows."""
        return (
            self.q_hi < 0.5,
            self.separates(evidence),
            evidence.not_majority == 0 and self.outvoted <= self.alpha / 3,
            evidence.duplicates <= self.duplicates_allowed,
        )

    def separates(self, evidence: Evidence) -> bool:
        """Whether the groups are proved to be the true clusters."""
        several = len(evidence.sizes) > 1
        return (
            min(evidence.sizes) > 0
            and evidence.m > 1
            and (not several or evidence.gap >= self.gap_needed)
        )


def judge(evidence: Evidence, alpha: float, votes: Votes = "fair") -> Verdict:
    """The limits at level α: noise, partition and templates have an error of α/3 each."""
    p_hi = bounds.upper_limit(evidence.disagreements, evidence.compared, alpha / 3)
    q_hi = noise_of_pair(p_hi)
    rate = 0.5 if votes == "fair" else q_hi
    sizes, weakest = (
        np.array(x, dtype=np.float64) for x in (evidence.sizes, evidence.weakest_votes)
    )
    return Verdict(
        alpha=alpha,
        p_hi=p_hi,
        q_hi=q_hi,
        rate=rate,
        gap_needed=bounds.least_gap(evidence.m, evidence.n, p_hi, alpha / 3),
        outvoted=_outvoted(sizes, weakest, evidence.n, rate),
        duplicates_allowed=bounds.poisson_quantile(evidence.duplicates_expected, COPIES_LEVEL),
    )


def mask_of(evidence: Evidence, verdict: Verdict, agree: Ints) -> NDArray[np.bool_]:
    """The template bits that are certified, even if not all are, shape (k, n)."""
    k, n = agree.shape
    noise, partition, _, distinct = verdict.holds(evidence)
    if not (noise and partition and distinct):
        return np.zeros((k, n), dtype=bool)
    sizes = np.array(evidence.sizes)[:, None]
    wrong = n * k * bounds.wrong_vote(sizes, agree, verdict.rate)
    return np.asarray((2 * agree > sizes) & (wrong <= verdict.alpha / 3))


def _outvoted(sizes: Floats, votes: Floats, n: int, rate: float) -> float:
    """n·k·max P(Bin(M_i, rate) ≥ v_i), v_i the weakest majority of cluster i."""
    return float(n * len(sizes) * np.max(bounds.wrong_vote(sizes, votes, rate)))


def parts_of(evidence: Evidence, verdict: Verdict) -> tuple[Part, ...]:
    """The requirements, with the numbers compared and a sentence about each."""
    _, partition, templates, _ = verdict.holds(evidence)
    of_partition = _partition_says(evidence, verdict, partition)
    of_templates = _templates_says(evidence, verdict, templates)
    return (
        noise_part(evidence.disagreements, evidence.compared, verdict.q_hi),
        Part("partition", partition, verdict.gap_needed, evidence.gap, of_partition),
        Part("templates", templates, verdict.alpha / 3, verdict.outvoted, of_templates),
        distinct_part(
            evidence.duplicates, evidence.duplicates_expected, verdict.duplicates_allowed
        ),
    )


def noise_part(disagreements: int, compared: int, q_hi: float) -> Part:
    """Whether the noise level has a limit below ½."""
    if q_hi < 0.5:
        return Part("noise", True, 0.5, q_hi, f"at most {q_hi:.4g}, from {compared:,} comparisons")
    says = (
        f"{disagreements:,} disagreements in {compared:,} comparisons leave no limit below ½: more "
        "columns, more rows or less noise would help"
    )
    return Part("noise", False, 0.5, q_hi, says)


def distinct_part(duplicates: int, expected: float, allowed: int) -> Part:
    """Whether there are no more equal rows than chance explains."""
    holds = duplicates <= allowed
    says = f"{duplicates:,} pairs of rows are equal, {expected:.2g} expected by chance"
    if not holds:
        says += ": some rows seem to be copies of each other, so rows are not independent draws"
    return Part("distinct rows", holds, allowed, duplicates, says)


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
    """Say which noise level, or how many columns of the same kind, would be enough."""
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
    says = (
        "every bit is its group's majority, which flips alone produce with probability at most "
        f"{wrong:.2g}"
    )
    if holds:
        return says
    needed = f"{says}, {verdict.alpha / 3:.2g} needed"
    sizes, votes = (np.array(x, dtype=np.float64) for x in (evidence.sizes, evidence.weakest_votes))
    for factor in np.geomspace(1.1, 1e4, 80):
        more, agreeing = np.ceil(sizes * factor), np.floor(votes * factor)
        if _outvoted(more, agreeing, evidence.n, verdict.rate) <= verdict.alpha / 3:
            times = float(f"{factor:.2g}")  # two digits, but 310 rather than 3.1e+02
            return f"{needed}: about {times:g} times as many rows would be enough"
    return f"{needed}: more rows alone would not be enough"


def least_alpha(evidence: Evidence, votes: Votes = "fair") -> float:
    """The smallest α at which all requirements hold, by bisection: a larger α relaxes each."""

    def issued(log_alpha: float) -> bool:
        return all(judge(evidence, math.exp(log_alpha), votes).holds(evidence))

    low, high = math.log(1e-15), math.log(1 - 1e-9)
    if not issued(high):
        return 1.0
    while high - low > 0.02:
        middle = (low + high) / 2
        low, high = (low, middle) if issued(middle) else (middle, high)
    return math.exp(high)
