"""A certificate for a fit: are these templates exactly the true ones?

For every parameter value with at most k templates, P(issued and templates wrong) ≤ α. There are two
methods. "all-pairs" compares all pairs of rows; it is valid for templates from any method, however
they depend on the data. "held-out" learns templates from a third of the rows and lets the others
vote, which needs far less separation, but k must not be chosen on all rows. If not every bit can be
certified, `mask` shows which bits are. The proofs are in the documentation, under "Certificates and
their proofs".
"""

import html
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitmix.certify import bounds, verdict
from bitmix.certify.checks import ModelCheck, model_checks
from bitmix.certify.evidence import Evidence, gather
from bitmix.certify.heldout import HeldOutEvidence, hold_out
from bitmix.certify.verdict import Part, Votes
from bitmix.errors import InputError
from bitmix.kernels import backend
from bitmix.rows import Rows, as_rows
from bitmix.rows.packed import BitMatrix
from bitmix.support import checks
from bitmix.support.randomness import draw_without_replacement, seed_of, stream

MAX_ROWS = 10_000
"""The largest number of rows that are compared; otherwise a uniform random sample is used."""

Method = Literal["all-pairs", "held-out", "both"]

CONDITIONS = (
    "rows are distinct and independent draws",
    "columns were fixed before the data were seen",
    "every bit of every row flips independently with one common probability below ½",
    "there are at most k templates",
)
K_FIXED = "k was fixed before the data were seen, or chosen on other rows"
K_CHOSEN = "k was chosen on these rows, so α was divided by k(k + 1)"


@dataclass(frozen=True, eq=False)
class FitCertificate:
    """Whether the templates of a fit are certified to be exactly the true ones."""

    issued: bool
    alpha: float
    parts: tuple[Part, ...]
    q_hi: float
    """Upper limit of the noise level, from matched rows."""
    least_alpha: float | None
    """The smallest α at which the certificate would be issued, or 1 if there is none; None for the
    held-out method, whose sorting depends on α."""
    q_interval: tuple[float, float]
    """Clopper–Pearson interval for q from the flips, if the templates are right; a separate α."""
    weight_intervals: tuple[tuple[float, float], ...]
    """Joint Clopper–Pearson intervals for the weights, if the partition is right; a separate α."""
    model_checks: tuple[ModelCheck, ...]
    """Tests of the conditions; not part of the certificate."""
    evidence: Evidence | HeldOutEvidence
    random_state: int
    mask: NDArray[np.bool_]
    """The template bits that are certified, shape (k, n): P(any of them is wrong) ≤ α."""
    method: str = "all-pairs"
    votes: str = "fair"
    conditions: tuple[str, ...] = CONDITIONS

    @property
    def objections(self) -> tuple[str, ...]:
        """The messages of the flagged model checks."""
        return tuple(check.says for check in self.model_checks if check.flagged)

    @property
    def holds(self) -> bool:
        """Whether it is issued and no model check objects."""
        return self.issued and not self.objections

    @property
    def verdict(self) -> str:
        """One of "issued", "issued, but checks object" and "not issued"."""
        if not self.issued:
            return "not issued"
        return "issued, but checks object" if self.objections else "issued"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            **asdict(self),
            "mask": self.mask.astype(int).tolist(),
            "verdict": self.verdict,
            "objections": list(self.objections),
        }

    def __str__(self) -> str:
        lines = [f"Certificate {self.verdict.upper()} at α = {self.alpha:g}: {self._meaning}"]
        lines += [f"  {'✓' if part.holds else '✗'} {part.name}: {part.says}" for part in self.parts]
        low, high = self.q_interval
        lines.append(f"  noise between {low:.4g} and {high:.4g}, if the templates are right")
        if self.least_alpha is not None:
            lines.append(f"  smallest α at which it would be issued: {self.least_alpha:.2g}")
        lines += [f"  ! {objection}" for objection in self.objections]
        lines.append("  It assumes: " + "; ".join(self.conditions) + ".")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    @property
    def _meaning(self) -> str:
        k = len(self.mask)
        if self.holds:
            return f"all {k} templates are exactly right"
        if self.issued:
            n = len(self.objections)
            return (
                f"all {k} templates would be exactly right if its conditions held, but "
                f"{n} {'check objects' if n == 1 else 'checks object'}"
            )
        if self.mask.any() and not self.objections:
            return f"{self.mask.mean():.1%} of the template bits are certified"
        return "nothing is certified; the templates may still be right"


def certify_fit(
    X: Any,
    templates: ArrayLike,
    alpha: float = 0.05,
    random_state: int = 0,
    *,
    method: Method = "all-pairs",
    votes: Votes = "fair",
    k_fixed: bool = True,
) -> FitCertificate:
    """Certify that `templates` are exactly the templates behind the rows of X.

    Parameters
    ----------
    X : array-like, sparse matrix, table, BitMatrix or Dask array of 0 and 1
        The rows, distinct and independent.
    templates : array-like of 0 and 1, shape (k, n)
        They may come from any method and depend on X in any way.
    alpha : float, default=0.05
        For every noise level, all weights and at most k templates,
        P(certificate issued and templates wrong) ≤ α.
    random_state : int, default=0
        Determines how columns and rows are split. The certificate is not valid if you try several
        values, or both methods, and report the one that is issued.
    method : {"all-pairs", "held-out", "both"}, default="all-pairs"
        "all-pairs" compares all rows with each other, and k may be chosen in any way. "held-out"
        learns templates from a third of the rows; the others are sorted by margins and vote. It
        needs far fewer differing columns, but k must be fixed beforehand (see `k_fixed`). "both"
        gives each method α/2, and returns the held-out certificate unless the first is issued.
    votes : {"fair", "common"}, default="fair"
        The majority for a bit must be too large for fair coins, which is safe if columns differ in
        noise, or only too large for flips at the common noise level, which needs fewer rows. If a
        model check objects, "fair" is used in any case.
    k_fixed : bool, default=True
        Whether k was fixed before these rows were seen, or chosen on other rows. If not, the
        held-out method divides α by k(k + 1), as the sum of 1/k(k + 1) over all k is 1.

    Returns
    -------
    FitCertificate
    """
    alpha = checks.between(alpha, "alpha", 0, 1)
    for name, value, known in (
        ("method", method, ("all-pairs", "held-out", "both")),
        ("votes", votes, ("fair", "common")),
    ):
        if value not in known:
            raise InputError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}")
    seed = seed_of(random_state)
    rows, T = _complete(as_rows(X, missing=True)), BitMatrix.from_dense(templates)
    m, n = rows.shape
    if T.shape[1] != n:
        raise InputError(f"templates must have the {n} columns of X, got {T.shape[1]}")
    rng = stream(seed, "certificate")
    words = rows.take(draw_without_replacement(m, MAX_ROWS, rng) if m > MAX_ROWS else np.arange(m))
    labels = backend(2e-9 * words.size * len(T)).hamming(words, T.words).argmin(axis=1)
    evidence, agree = gather(words, labels, T, rng, all_pairs=method != "held-out")
    found = model_checks(words, labels, T, rng, evidence)
    if any(check.flagged for check in found):
        votes = "fair"
    share = alpha / 2 if method == "both" else alpha
    limits = verdict.judge(evidence, share, votes)
    pairs = FitCertificate(
        issued=all(limits.holds(evidence)),
        alpha=alpha,
        parts=verdict.parts_of(evidence, limits),
        q_hi=limits.q_hi,
        least_alpha=verdict.least_alpha(evidence, votes),
        q_interval=bounds.interval(evidence.flips, evidence.m * n, alpha),
        weight_intervals=tuple(
            bounds.interval(size, evidence.m, alpha / len(T)) for size in evidence.sizes
        ),
        model_checks=found,
        evidence=evidence,
        random_state=seed,
        mask=verdict.mask_of(evidence, limits, agree),
        votes=votes,
    )
    if method == "all-pairs" or (method == "both" and pairs.issued):
        return pairs
    k = len(T)
    held_out = hold_out(
        rows, T.to_dense(np.uint8), share if k_fixed else share / (k * (k + 1)), votes, seed,
        (evidence.disagreements, evidence.compared),
        (evidence.duplicates, evidence.duplicates_expected),
    )  # fmt: skip
    return replace(
        pairs,
        issued=bool(held_out.mask.all()),
        parts=held_out.parts,
        q_hi=held_out.q_hi,
        least_alpha=None,
        evidence=held_out.evidence,
        mask=held_out.mask,
        method="held-out",
        conditions=(*CONDITIONS, K_FIXED if k_fixed else K_CHOSEN),
    )


def _complete(rows: Rows) -> Rows:
    """Check that the rows have neither weights nor missing cells, and return them."""
    if rows.layout.weight_one:
        raise InputError(
            "X has weights, but a certificate counts rows as independent draws: give the rows "
            "without weights"
        )
    if rows.layout.missing:
        raise InputError(
            "a certificate counts the flips of every cell, but X has missing cells: drop rows or "
            "columns that have them, or use certified_bits, which counts known cells"
        )
    return rows
