"""Certificates that hold for any data: certified bits, and certified agreement of two fits.

They assume neither templates, nor a noise model, nor the right k, nor independent columns, but only
that the test rows are independent draws from one population that were not used in the fit.
"""

import html
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.certify import bounds
from bitmix.em.predict import Tally
from bitmix.theory.tails import Floats, upper_tail


@dataclass(frozen=True, eq=False)
class CertifiedBits:
    """Bits that most rows of a group have, in the population and not only in the table.

    With probability at least 1 - α over the test rows, the following holds for all bits in `mask`
    at once: more than `share` of the population that the model assigns to the group has the bit
    shown.
    """

    bits: NDArray[np.uint8]
    """The majority value of each group in each column, shape (k, n)."""
    mask: NDArray[np.bool_]
    """The bits that are certified, shape (k, n)."""
    lower: Floats
    """Simultaneous lower limits of the share of the group that has the bit, shape (k, n)."""
    sizes: tuple[int, ...]
    """Test rows per group."""
    alpha: float
    share: float

    @property
    def certified(self) -> float:
        """The share of all bits that are certified."""
        return float(self.mask.mean())

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "alpha": self.alpha,
            "share": self.share,
            "certified": self.certified,
            "certified_by_group": self.mask.mean(axis=1).tolist(),
            "sizes": list(self.sizes),
            "bits": self.bits.tolist(),
            "mask": self.mask.astype(int).tolist(),
            "lower": self.lower.tolist(),
        }

    def __str__(self) -> str:
        return (
            f"{self.certified:.1%} of the bits are certified by {sum(self.sizes):,} held-out rows: "
            f"more than {self.share:.0%} of all rows that this model would assign to the group "
            f"have the bit shown. The probability that this is wrong for any of them is at most "
            f"{100 * self.alpha:g}%, if the rows are independent draws that the fit has not seen."
        )

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(str(self))}</p>"


def certify_bits(counts: Tally, alpha: float, share: float) -> CertifiedBits:
    """Certify bits from counts of held-out rows by most likely group.

    A bit is certified if 2nk·P(Bin(M, share) ≥ v) ≤ α, for v votes of M known cells. The factor 2
    is there because either value of a bit may have the votes.
    """
    ones, cells = counts.ones, counts.cells
    k, n = ones.shape
    bits = (2 * ones > cells).astype(np.uint8)
    votes = np.where(bits == 1, ones, cells - ones)
    error = alpha / (2 * n * k)
    mask = (cells > 0) & (upper_tail(cells, share, votes) <= error)
    lower = bounds.lower_limits(votes, cells, error)
    return CertifiedBits(bits, mask, lower, tuple(counts.sizes.tolist()), alpha, share)


@dataclass(frozen=True)
class Agreement:
    """How often two independent fits give a row the same label.

    With probability at least 1 - α, two fits to `rows_per_fit` rows each, with groups matched on
    these rows, give the same label to at least `lower` of the population.
    """

    seen: float
    """The share of the test rows with the same label."""
    lower: float
    n_test: int
    rows_per_fit: int
    alpha: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return vars(self).copy()

    def __str__(self) -> str:
        return (
            f"Two independent fits to {self.rows_per_fit:,} rows each give the same label to at "
            f"least {self.lower:.1%} of all rows (to {self.seen:.1%} of {self.n_test:,} that "
            f"neither has seen), with confidence {1 - self.alpha:.0%}."
        )


def agreement_of(
    first: NDArray[np.int64], second: NDArray[np.int64], rows_per_fit: int, alpha: float
) -> Agreement:
    """Clopper–Pearson lower limit of the agreement, from the labels of test rows by two fits."""
    same, m = int((first == second).sum()), len(first)
    lower = float(bounds.lower_limits(same, m, alpha))
    return Agreement(same / max(m, 1), lower, m, rows_per_fit, alpha)
