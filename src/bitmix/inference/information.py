"""Standard errors of the latent class model from the observed information.

With logits as parameters, a person of class i contributes the residual d_is = x_s - p_is to the
score of item s, and z_i - w_i to that of the class shares, where z_i = 1 for the person's own
class. The information of the rows is that of the complete data minus what is lost because classes
are not observed (Louis 1982): Σ_x E(-H | x) - Cov(score | x), where the posterior p_i(x) replaces
z_i. The delta method converts logits to probabilities.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.em import predict
from bitmix.errors import InputError
from bitmix.inference.estimates import AT_BOUND, Estimates, intervals, of_mixture
from bitmix.inference.fitted import in_memory, patterns_of, refittable
from bitmix.models.mixture import Floats, Mixture
from bitmix.rows.packed import BitMatrix
from bitmix.support import checks

MAX_PARAMETERS = 5_000
_BLOCK_CELLS = 1 << 22  # floats per block of rows


@dataclass(frozen=True, eq=False)
class AnalyticErrors:
    """Standard errors from the observed information."""

    standard_errors: Estimates
    """NaN for probabilities at 0 or 1, where it is not defined."""
    n_left_out: int
    """The number of probabilities at 0 or 1."""
    estimates: Estimates
    """The estimates of the fit."""
    n_people: float
    """The number of rows, or the sum of their weights."""
    level: float

    @property
    def intervals(self) -> Estimates:
        """Confidence intervals, as those of `bitmix.bootstrap`; the last axis holds both ends."""
        return intervals(self.estimates, self.standard_errors, self.level, self.n_people)


def analytic_standard_errors(
    model: Any, X: Any, sample_weight: Any = None, level: float = 0.95
) -> AnalyticErrors:
    """Standard errors of a latent class model from its observed information.

    Probabilities at 0 or 1 have no such standard error. They are treated as known, and the result
    says how many there are. `bitmix.bootstrap` needs no such exception.

    Parameters
    ----------
    model : TemplateMixture
        Fitted with a probability per cell.
    X : as in ``model.predict``
        The rows of the fit.
    sample_weight : array-like, shape (m,), optional
        How many times each row counts.
    level : float, default=0.95
        The confidence level of the intervals.
    """
    model = refittable(model, "analytic_standard_errors")
    mixture = model.mixture_
    if mixture.noise is not None:
        raise InputError(
            f"analytic standard errors are for noise_model='cell', but this is a "
            f"{mixture.noise_model!r} model: use bitmix.bootstrap"
        )
    rows = in_memory(model.rows_like_fit(X, sample_weight), "analytic_standard_errors")
    level = checks.between(level, "level", 0, 1)
    return from_information(patterns_of(rows) or rows, mixture, level)


def from_information(rows: BitMatrix, mixture: Mixture, level: float) -> AnalyticErrors:
    """Standard errors of a mixture with a probability per cell."""
    free = FreeParameters(mixture, rows.total_weight)
    if free.n > MAX_PARAMETERS:
        raise InputError(
            f"the information matrix is limited to {MAX_PARAMETERS:,} parameters, but there are "
            f"{free.n:,}: use bitmix.bootstrap"
        )
    covariance = inverse(information(rows, mixture, free))
    n_classes, p = mixture.n_components - 1, mixture.means
    shares = _softmax_errors(mixture.weights, covariance[:n_classes, :n_classes])
    errors = np.full(p.shape, np.nan)
    for part in free.parts:
        at = n_classes + part.first + np.arange(len(part.columns))
        inside = covariance[np.ix_(at, at)]
        if part.others is None:
            errors[part.i, part.columns] = _logit_errors(p[part.i, part.columns], inside)
        else:
            chosen = np.append(part.columns, part.others)
            errors[part.i, chosen] = _softmax_errors(p[part.i, chosen], inside)
    return AnalyticErrors(
        standard_errors=Estimates(shares, errors),
        n_left_out=int(np.isnan(errors).sum()),
        estimates=of_mixture(mixture),
        n_people=rows.total_weight,
        level=level,
    )


@dataclass(frozen=True, eq=False)
class Part:
    """Parameters of one class that are estimated together: one item, binary or with several
    values."""

    i: int
    columns: NDArray[np.intp]
    """One parameter per column."""
    others: int | None
    """The value whose probability is 1 minus the others; None for a binary item."""
    first: int
    """The index of the first parameter."""


class FreeParameters:
    """The probabilities that are not at 0 or 1, class by class."""

    def __init__(self, mixture: Mixture, n: float) -> None:
        p, items = mixture.means, mixture.items
        people = n * mixture.weights
        parts: list[Part] = []
        first = 0
        groups = [] if items is None else items.groups
        binary = np.arange(p.shape[1]) if items is None else np.flatnonzero(~items.is_value)
        for i in range(len(p)):
            inside = people[i] * np.minimum(p[i], 1 - p[i]) > AT_BOUND
            for s in binary[inside[binary]].tolist():
                parts.append(Part(i, np.array([s]), None, first))
                first += 1
            for group in groups:
                chosen = np.array(group)[people[i] * p[i, group] > AT_BOUND]
                if len(chosen) < 2:
                    continue
                largest = int(p[i, chosen].argmax())
                rest = np.delete(chosen, largest)
                parts.append(Part(i, rest, int(chosen[largest]), first))
                first += len(rest)
        self.parts = tuple(parts)
        self.n = first

    @cached_property
    def columns(self) -> NDArray[np.intp]:
        """The column of each parameter."""
        return np.concatenate([*(part.columns for part in self.parts), np.empty(0, dtype=np.intp)])

    @cached_property
    def classes(self) -> NDArray[np.intp]:
        """The class of each parameter."""
        owners = [np.full(len(part.columns), part.i) for part in self.parts]
        return np.concatenate([*owners, np.empty(0, dtype=np.intp)])


def residual_blocks(
    rows: BitMatrix, mixture: Mixture, free: FreeParameters
) -> Iterator[tuple[slice, Floats, Floats, NDArray[np.bool_]]]:
    """For each block of rows: its slice, posteriors, d_is of each free parameter (0 for missing
    cells), and which cells are known.
    """
    p = mixture.means[free.classes, free.columns]
    step = max(1, _BLOCK_CELLS // (free.n + rows.shape[1] + 1))
    for start in range(0, len(rows), step):
        block = rows[start : start + step]
        bits = block.to_dense(np.float64)[:, free.columns]
        known = ~np.isnan(bits)
        residual = np.where(known, bits - p, 0.0)
        yield slice(start, start + step), predict.probabilities(block, mixture), residual, known


def information(rows: BitMatrix, mixture: Mixture, free: FreeParameters) -> Floats:
    """The observed information of the logits, those of the class shares first.

    The sums run over blocks of rows in order, so that they are the same every time.
    """
    k, w = mixture.n_components, mixture.weights
    p = mixture.means[free.classes, free.columns]
    n_classes = k - 1
    total = np.zeros((n_classes + free.n, n_classes + free.n))
    same_class = free.classes[:, None] == free.classes
    known_people, all_weights = np.zeros(free.n), rows.weights
    for at, posterior, residual, known in residual_blocks(rows, mixture, free):
        weights, of_class = all_weights[at], posterior[:, free.classes]
        score = of_class * residual
        weighted = score * weights[:, None]
        known_people += (weights[:, None] * of_class * known).sum(axis=0)
        items = weighted.T @ score - same_class * (weighted.T @ residual)
        mine = (free.classes[:, None] == np.arange(n_classes)) * weighted.sum(axis=0)[:, None]
        cross = weighted.T @ posterior[:, :n_classes] - mine
        shares = posterior[:, :n_classes]
        of_shares = shares.T @ (shares * weights[:, None]) - np.diag(weights @ shares)
        total[n_classes:, n_classes:] += items
        total[n_classes:, :n_classes] += cross
        total[:n_classes, :n_classes] += of_shares
    total[:n_classes, n_classes:] = total[n_classes:, :n_classes].T
    some = w[:n_classes]
    total[:n_classes, :n_classes] += rows.total_weight * (np.diag(some) - np.outer(some, some))
    for part in free.parts:
        own = part.first + np.arange(len(part.columns))
        of_item = np.diag(p[own]) - np.outer(p[own], p[own])
        total[np.ix_(n_classes + own, n_classes + own)] += known_people[own][:, None] * of_item
    return total


def inverse(matrix: Floats) -> Floats:
    """The inverse of an information matrix, computed with its diagonal scaled to 1."""
    scale = np.sqrt(np.diagonal(matrix).clip(1e-300))
    values, vectors = np.linalg.eigh(matrix / scale[:, None] / scale)
    if len(values) and values[0] < 1e-9:
        raise InputError(
            "the observed information is singular, so the classes are not identified, or the fit "
            "has not converged: use fewer classes, or bitmix.bootstrap"
        )
    result: Floats = (vectors / values) @ vectors.T / scale[:, None] / scale
    return result


def _logit_errors(p: Floats, covariance: Floats) -> Floats:
    return p * (1 - p) * np.sqrt(np.diagonal(covariance))


def _softmax_errors(p: Floats, covariance: Floats) -> Floats:
    """Standard errors of probabilities with a constant sum, given the covariance of the logits of
    all but the last.
    """
    total = math.fsum(p)
    slopes = (np.diag(p) - np.outer(p, p) / total)[:, : len(covariance)]
    return np.sqrt(np.einsum("ij,jk,ik->i", slopes, covariance, slopes))
