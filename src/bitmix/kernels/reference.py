"""The definition of every kernel, in plain NumPy. Also the fallback where numba is missing."""

import numpy as np
from numpy.typing import NDArray

from bitmix.kernels import exact
from bitmix.kernels.bits import Words
from bitmix.kernels.fixed import (
    CUT_NATS,
    EXP_BITS,
    LN2_48,
    LOG_BITS,
    SHARE_BITS,
    Ints,
    Tables,
)


def hamming(words: Words, templates: Words) -> Ints:
    """Distances between rows and binary templates, shape (rows, templates)."""
    out = np.empty((len(words), len(templates)), dtype=np.int64)
    for i, template in enumerate(templates):
        out[:, i] = np.bitwise_count(words ^ template).sum(axis=1, dtype=np.int64)
    return out


def affine(words: Words, const: Ints, coef: Ints) -> Ints:
    """const_i + Σ_s x_s·coef_is, shape (rows, components)."""
    out = np.tile(const, (len(words), 1))
    for start, bits in exact.tiles(words, coef.shape[1]):
        out += exact.product(coef[:, start : start + bits.shape[1]], bits.T).T
    return out


def column_sums(words: Words, shares: Ints, n_columns: int) -> Ints:
    """Σ_x share_i(x)·x_s, shape (components, columns)."""
    out = np.zeros((shares.shape[1], n_columns), dtype=np.int64)
    add_column_sums(words, shares, out)
    return out


def add_column_sums(words: Words, shares: Ints, out: Ints) -> None:
    """The same, added to a table."""
    for start, bits in exact.tiles(words, out.shape[1]):
        out[:, start : start + bits.shape[1]] += exact.product(shares.T, bits)


def posteriors(scores: Ints, bits: int, tables: Tables) -> tuple[Ints, Ints, Ints]:
    """Shares (rows, components); the best score of each row; ln Σ exp(score - best), in 2^-32.

    A row's shares sum to 2^30 exactly; the best component (lowest index among equals) takes what
    integer division leaves over.
    """
    rows = np.arange(len(scores))
    best = scores.argmax(axis=1)
    top = scores[rows, best]
    gap = top[:, None] - scores
    alive = gap < (CUT_NATS << bits)
    e = np.where(alive, _exp(_rescale(np.where(alive, gap, 0), bits), tables), 0)
    total = e.sum(axis=1)

    shares = (e << SHARE_BITS) // total[:, None]
    shares[rows, best] = 0
    shares[rows, best] = (1 << SHARE_BITS) - shares.sum(axis=1)

    return shares, top, _log(total, tables)


def logs(values: NDArray[np.float64], tables: Tables) -> Ints:
    """ln of positive floats in units of 2^-32, within 2^-29, the same on every platform.

    A float is mantissa·2^exponent exactly; the leading 32 bits of the mantissa go through
    `_log_of_lead` (relative error 2^-31, then five roundings); exponent times ln 2 adds one more.
    """
    if not np.all(values > 0):
        raise ValueError("only positive numbers have logarithms")
    mantissa, exponent = np.frexp(values)
    lead = (mantissa * 2.0**32).astype(np.int64)
    octaves = exponent.astype(np.int64) - 1
    log: Ints = ((octaves * LN2_48) >> 16) + _log_of_lead(lead, tables)
    return log


def decided(words: Words, templates: Words, lower: Ints, upper: Ints, cut: int) -> Ints:
    """The component whose score is above all others' by `cut` or more; -1 where none is known to.

    Scores are known by bounds: `lower[i, D]` and `upper[i, D]` at distance D from template i.
    """
    rows, distances = np.arange(len(words)), hamming(words, templates).T
    low = np.take_along_axis(lower, distances, axis=1)
    high = np.take_along_axis(upper, distances, axis=1)
    best = low.argmax(axis=0)
    top = low[best, rows]
    high[best, rows] = top - cut
    return np.where(high.max(axis=0) <= top - cut, best, -1)


def owned_sums(words: Words, owner: Ints, k: int, n_columns: int) -> Ints:
    """`column_sums` of rows that one component has whole; those with owner -1 are left out."""
    shares = (owner[:, None] == np.arange(k)).astype(np.int64) << SHARE_BITS
    return column_sums(words, shares, n_columns)


def _rescale(nats: Ints, bits: int) -> Ints:
    """From units of 2^-bits to units of 2^-32, cutting what is finer."""
    shift = bits - LOG_BITS
    return nats >> shift if shift >= 0 else nats << -shift


def _exp(gap: Ints, tables: Tables) -> Ints:
    """exp(-gap) in units of 2^-31, gap in units of 2^-32 nats and below the cut."""
    e: Ints = tables.coarse[gap >> 26] * tables.fine[(gap >> 16) & 1023]
    e = (e + (1 << (EXP_BITS - 1))) >> EXP_BITS
    return e - ((e * (gap & 0xFFFF) + (1 << (LOG_BITS - 1))) >> LOG_BITS)


def _log(total: Ints, tables: Tables) -> Ints:
    """ln(total·2^-31) in units of 2^-32 nats, for total ≥ 2^31."""
    octave = np.searchsorted(_POWERS, total, side="right") - 1
    log: Ints = ((octave * LN2_48) >> 16) + _log_of_lead(total >> octave, tables)
    return log


def _log_of_lead(lead: Ints, tables: Tables) -> Ints:
    """ln(lead·2^-31) in units of 2^-32 for 2^31 ≤ lead < 2^32, by table and three terms."""
    t = (lead >> 21) & 1023
    edge = (t + 1024) << 21
    u = ((lead - edge) << LOG_BITS) // edge
    u2 = (u * u) >> LOG_BITS
    u3 = (u2 * u) >> LOG_BITS
    log: Ints = tables.logs[t] + u - (u2 >> 1) + u3 // 3
    return log


_POWERS = 1 << np.arange(EXP_BITS, 62, dtype=np.int64)
