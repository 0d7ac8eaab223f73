"""The definition of every kernel, in plain NumPy. Also the fallback where numba is missing."""

import math
from operator import mul
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bitmix.kernels.bits import Words, unpack
from bitmix.kernels.fixed import (
    CUT_NATS,
    EXP_BITS,
    LN2,
    LOG_BITS,
    PER_LN2,
    SHARE_BITS,
    SHORT_LN2,
    Ints,
    total,
)

Cells = NDArray[np.uint32]
Floats = NDArray[np.float64]


def hamming(words: Words, templates: Words) -> Ints:
    """Distances between rows and binary templates, shape (rows, templates)."""
    out = np.empty((len(words), len(templates)), dtype=np.int64)
    for i, template in enumerate(templates):
        out[:, i] = np.bitwise_count(words ^ template).sum(axis=1, dtype=np.int64)
    return out


def set_bits(words: Words) -> tuple[Ints, Cells]:
    """The places of the bits that are 1: where each row starts in the list, and the list."""
    row, place = np.nonzero(unpack(words, 64 * words.shape[1]))
    starts = np.searchsorted(row, np.arange(len(words) + 1))
    return starts.astype(np.int64), place.astype(np.uint32)


def event_scores(starts: Ints, cells: Cells, const: Ints, table: Ints) -> Ints:
    """const_i + Σ table[event, i] over the events of each row, shape (rows, components)."""
    return np.asarray(_matrix(starts, cells, len(table)) @ table + const)


def _matrix(starts: Ints, cells: Cells, n_kinds: int) -> Any:
    """One row per row, with a 1 for each event: SciPy's products of whole numbers are exact."""
    some = cells[starts[0] : starts[-1]]
    ones = np.ones(len(some), dtype=np.int64)
    shape = (len(starts) - 1, n_kinds)
    return scipy.sparse.csr_array((ones, some, starts - starts[0]), shape=shape)


def screen(const: Ints, table: Ints, k: int, bits: int) -> Any:
    """What `event_pass` uses to leave out components whose share is 0: nothing here."""
    return None


def event_pass(
    starts: Ints, cells: Cells, weights: Ints | None, const: Ints, table: Ints, screen: Any,
    bits: int, mass: Ints, sums: Ints, whole: Ints | None = None,
) -> tuple[int, int, int]:  # fmt: skip
    """Score rows by their events and add up responsibilities, over rows and over events.

    Returns the sum of the best scores, that of ln Σ exp(score - best) in units of 2^-32, and the
    number of rows with several components; `mass` (k,) and `sums` (kinds, k) are added to. Rows
    that one component has whole may be left to `whole`, for `add_whole`; here none are.
    """
    scores = event_scores(starts, cells, const, table)
    shares, tops, logs = posteriors(scores, bits)
    counts: Any = 1 if weights is None else weights
    shares *= np.reshape(counts, (-1, 1))
    mass += shares.sum(axis=0)
    sums += _matrix(starts, cells, len(sums)).T @ shares
    return total(tops, counts), total(logs, counts), int(np.count_nonzero(logs))


def add_whole(whole: Ints, const: Ints, table: Ints, mass: Ints, sums: Ints) -> int:
    """Add the rows that one component has whole, which `event_pass` left out, and return the sum of
    their scores.

    `whole` (k, kinds + 1) has the weight of each component's events, and in the last column, that
    of its rows. A column adds up to the weight of all rows at most, 2^31.
    """
    k, events = len(whole), whole[:, :-1].T
    mass[:k] += whole[:, -1] << SHARE_BITS
    sums[:, :k] += events << SHARE_BITS
    kinds = np.nonzero(events)
    of_events = map(mul, events[kinds].tolist(), table[:, :k][kinds].tolist())
    return sum(of_events) + sum(map(mul, whole[:, -1].tolist(), const[:k].tolist()))


def popcount_pass(
    words: Words, templates: Words, const: Ints, per_one: Ints, per_match: Ints, bits: int,
    mass: Ints, sums: Ints,
) -> tuple[int, int, int]:  # fmt: skip
    """Score rows by popcounts, const_i + per_one_i·|x| + per_match_i·|x ∧ T_i|, and add up
    responsibilities, over rows and over ones. Returns what `event_pass` does; `mass` (k,) and
    `sums` (k, columns) are added to.
    """
    scores = popcount_scores(words, templates, const, per_one, per_match)
    shares, tops, logs = posteriors(scores, bits)
    mass += shares.sum(axis=0)
    add_column_sums(words, shares, sums)
    return total(tops), total(logs), int(np.count_nonzero(logs))


def popcount_scores(
    words: Words, templates: Words, const: Ints, per_one: Ints, per_match: Ints
) -> Ints:
    """const_i + per_one_i·|x| + per_match_i·|x ∧ T_i|, shape (rows, templates).

    |x ∧ T| comes from the Hamming distance: |x| + |T| - D = 2·|x ∧ T|.
    """
    return scores_at(hamming(words, templates), words, templates, const, per_one, per_match)


def scores_at(
    distances: Ints, words: Words, templates: Words, const: Ints, per_one: Ints, per_match: Ints
) -> Ints:
    """The same from distances, which are overwritten."""
    ones = np.bitwise_count(words).sum(axis=1, dtype=np.int64)[:, None]
    sizes = np.bitwise_count(templates).sum(axis=1, dtype=np.int64)
    matches = np.subtract(ones + sizes, distances, out=distances)
    matches >>= 1
    matches *= per_match
    matches += ones * per_one
    matches += const
    return matches


def column_sums(words: Words, shares: Ints, n_columns: int) -> Ints:
    """Σ_x share_i(x)·x_s, shape (components, columns)."""
    out = np.zeros((shares.shape[1], n_columns), dtype=np.int64)
    add_column_sums(words, shares, out)
    return out


def add_column_sums(words: Words, shares: Ints, out: Ints) -> None:
    """The same, added to a table."""
    sums = _matrix(*set_bits(words), 64 * words.shape[1]).T @ shares
    out += sums[: out.shape[1]].T


def posteriors(scores: Ints, bits: int) -> tuple[Ints, Ints, Ints]:
    """Shares (rows, components); the best score of each row; ln Σ exp(score - best), in 2^-32.

    A row's shares sum to 2^30 exactly; the best component (lowest index among equals) takes what
    integer division leaves over.
    """
    rows = np.arange(len(scores))
    best = scores.argmax(axis=1)
    top = scores[rows, best]
    gap = top[:, None] - scores
    alive = gap < (CUT_NATS << bits)
    e = exps(-np.where(alive, gap, 0) * 2.0**-bits)
    e[~alive] = 0
    total = e.sum(axis=1)

    shares = (e << SHARE_BITS) // total[:, None]
    shares[rows, best] = 0
    shares[rows, best] = (1 << SHARE_BITS) - shares.sum(axis=1)

    return shares, top, logs(total * 2.0**-EXP_BITS)  # totals are below 2^53


def exps(nats: Floats) -> Ints:
    """exp of numbers from -22 to 0 in units of 2^-31, within 0.6 units.

    x = j·ln 2 + r with |r| ≤ ln 2 / 2: ten terms of the series of exp(r), which leave out less than
    2^-36 of it, times 2^j. See `fixed` why this is the same on every platform.
    """
    octaves = np.rint(nats * PER_LN2)
    r = nats - octaves * SHORT_LN2
    high = r * (1 / 120 + r * (1 / 720 + r * (1 / 5040 + r * (1 / 40320 + r * (1 / 362880)))))
    power = 1.0 + r * (1.0 + r * (1 / 2 + r * (1 / 6 + r * (1 / 24 + high))))
    return np.rint(np.ldexp(power, octaves.astype(np.int32) + EXP_BITS)).astype(np.int64)


def logs(values: NDArray[np.float64]) -> Ints:
    """ln of positive floats in units of 2^-32, within 0.7 units.

    x = 2^j·(1+z)/(1-z) with 2^j·√½ ≤ x < 2^j·√2: six terms of the series of 2·artanh z, which leave
    out less than 2^-35, and j·ln 2. See `fixed` why this is the same on every platform.
    """
    if not np.all(values > 0):
        raise ValueError("only positive numbers have logarithms")
    mantissa, exponent = np.frexp(values)
    low = mantissa < math.sqrt(0.5)
    mantissa, exponent = np.where(low, 2 * mantissa, mantissa), exponent - low
    z = (mantissa - 1.0) / (mantissa + 1.0)
    s, twice = z * z, z + z
    series = s * (1 / 3 + s * (1 / 5 + s * (1 / 7 + s * (1 / 9 + s * (1 / 11)))))
    return np.rint((exponent * LN2 + (twice + twice * series)) * 2.0**LOG_BITS).astype(np.int64)


def cell_lines(p: Floats, base: NDArray[np.bool_], bits: int, lines: Ints) -> Ints:
    """Fill an event table from the probabilities of a 1, shape (n, k), and return Σ_s ln P of the
    base row per component, in units of 2^-bits nats.

    The first n lines have what a cell adds that differs from the base, ln P(other) - ln P(base); n
    more lines, if cells may be unknown, have what an unknown cell adds, -ln P(base).
    """
    n, k = p.shape
    if_one, if_zero = (logs(x) >> (LOG_BITS - bits) for x in (p, 1 - p))
    is_one = base[:, None]
    at_base, other = np.where(is_one, if_one, if_zero), np.where(is_one, if_zero, if_one)
    lines[:n, :k] = other - at_base
    if len(lines) > n:
        lines[n:, :k] = -at_base
    return at_base.sum(axis=0)


def mean_line(lines: Ints, base: NDArray[np.bool_], rates: Ints) -> Ints:
    """What the events of a row add to its score that is 1 to these rates, in units of 2^-30, where
    lines tell what a cell adds that differs from the base.

    Lines are first counted from a row of zeros, so that rounding does not depend on the base. They
    are below 2^38 in size; what is cut off is below 2^5 + 1 units per line.
    """
    lines = np.where(base[:, None], -lines, lines)
    return (((lines >> 5) * rates[:, None]) >> 25).sum(axis=0) - lines[base].sum(axis=0)


def owned_scores(words: Words, owner: Ints, base: Words, planes: Words) -> Ints:
    """Σ c_s over the columns in which a row differs from the base of its component.

    c is a line of whole numbers of the component i: bit p of c_s is bit s of ``planes[i, p]``.
    Rows with owner -1 have 0.
    """
    out = np.zeros(len(words), dtype=np.int64)
    for i in np.unique(owner[owner >= 0]).tolist():
        mine = np.flatnonzero(owner == i)
        apart = words[mine] ^ base[i]
        for p, plane in enumerate(planes[i]):
            out[mine] += np.bitwise_count(apart & plane).sum(axis=1, dtype=np.int64) << p
    return out


def owned_sums(words: Words, owner: Ints, k: int, n_columns: int) -> Ints:
    """`column_sums` of rows that one component has whole; those with owner -1 are left out."""
    shares = (owner[:, None] == np.arange(k)).astype(np.int64) << SHARE_BITS
    return column_sums(words, shares, n_columns)


def disagreement(values: Ints, firsts: Ints, seconds: Ints, shift: Ints) -> Ints:
    """Σ_s |a_s| + |b_s| - |a_s + b_s - shift_s| of pairs of rows a and b."""
    out = np.empty(len(firsts), dtype=np.int64)
    for place, (i, j) in enumerate(zip(firsts, seconds, strict=True)):
        a, b = values[i], values[j]
        out[place] = (np.abs(a) + np.abs(b) - np.abs(a + b - shift)).sum()
    return out


def merged_likelihoods(ones: Floats, cells: Floats, firsts: Ints, seconds: Ints) -> Ints:
    """Log-likelihoods of pairs of components, merged, in units of 2^-16 nats.

    With o ones among c cells, a column adds φ(o) + φ(c - o) - φ(c), φ(x) = x·ln x, to the nearest
    unit; nothing if all of its cells are equal. `cells` have one column if they are the same number
    in all columns.
    """
    o, c = ones[firsts] + ones[seconds], cells[firsts] + cells[seconds]
    mixed = (o > 0) & (o < c)
    units = np.zeros(o.shape, dtype=np.int64)
    for counts, sign in ((o, 1), (c - o, 1), (c, -1)):
        some = np.where(mixed, counts, 1.0)
        units += sign * np.rint(some * logs(some) * 2.0**-16).astype(np.int64)
    return units.sum(axis=1)


def path_squares(first: Floats, second: Floats, third: Floats) -> tuple[int, int]:
    """Σ r² and Σ v² of a path of three points, r = second - first and v = third - second - r, each
    rounded to a multiple of 2^-19, in units of 2^-38: at most 2^40 each, 2^62 of 2^22 cells."""
    r = second - first
    v = (third - second) - r
    squares = (np.rint(x * 2.0**19).astype(np.int64) ** 2 for x in (r, v))
    of_r, of_v = (int(square.sum()) for square in squares)
    return of_r, of_v


def path_further(first: Floats, second: Floats, third: Floats, alpha: float) -> Floats:
    """first + 2·α·r + α²·v, no closer to 0 or 1 than half of what the third point has in a line."""
    r = second - first
    v = (third - second) - r
    least = third.min(axis=1, keepdims=True) / 2
    most = (1 + third.max(axis=1, keepdims=True)) / 2
    return (first + 2 * alpha * r + alpha * alpha * v).clip(least, most)
