"""Numba twins of `reference`, bit for bit. One specialisation each, cached on disk, GIL released.

Threads are not started here: `BitMatrix.map_reduce` runs these on blocks of rows side by side.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from bitmix.kernels import fixed
from bitmix.kernels.bits import Words
from bitmix.kernels.fixed import Ints, Tables

_WORDS = types.Array(types.uint64, 2, "C", readonly=True)
_INTS1 = types.Array(types.int64, 1, "C", readonly=True)
_INTS2 = types.Array(types.int64, 2, "C", readonly=True)
_OUT1 = types.Array(types.int64, 1, "C")
_OUT2 = types.Array(types.int64, 2, "C")

# numba freezes these into machine code and keeps it on disk for as long as *this file* stays the
# same. So they stand here once more, and a change in `fixed` alone is an error, not a stale kernel.
CUT_NATS, EXP_BITS, LN2_48, LOG_BITS, SHARE_BITS = 22, 31, 195103586505167, 32, 30
for _name in ("CUT_NATS", "EXP_BITS", "LN2_48", "LOG_BITS", "SHARE_BITS"):
    if globals()[_name] != getattr(fixed, _name):
        raise ImportError(f"kernels.compiled and kernels.fixed disagree on {_name}")

_SHARE_ONE = 1 << SHARE_BITS
_FRACTION_MASK = (1 << LOG_BITS) - 1
_TABLE_ENTRIES = (
    1 << 15
)  # sums kept per tile of columns: 256 KiB, to stay in the second-level cache


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _popcount(typing_context: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        count = builder.module.declare_intrinsic("llvm.ctpop", [ir.IntType(64)])
        return builder.call(count, args)

    return types.int64(types.uint64), generate


def hamming(words: Words, templates: Words) -> Ints:
    """See `reference.hamming`."""
    out = np.empty((len(words), len(templates)), dtype=np.int64)
    _hamming(np.ascontiguousarray(words), np.ascontiguousarray(templates), out)
    return out


def affine(words: Words, const: Ints, coef: Ints) -> Ints:
    """See `reference.affine`."""
    out = np.empty((len(words), len(const)), dtype=np.int64)
    padded = np.zeros((64 * words.shape[1], len(const)), dtype=np.int64)
    padded[: coef.shape[1]] = coef.T
    _affine(np.ascontiguousarray(words), np.ascontiguousarray(const), padded, out)
    return out


def column_sums(words: Words, shares: Ints, n_columns: int) -> Ints:
    """See `reference.column_sums`."""
    out = np.zeros((shares.shape[1], 64 * words.shape[1]), dtype=np.int64)
    _column_sums(np.ascontiguousarray(words), np.ascontiguousarray(shares), out)
    return out[:, :n_columns]


def posteriors(scores: Ints, bits: int, tables: Tables) -> tuple[Ints, Ints, Ints]:
    """See `reference.posteriors`."""
    shares = np.empty(scores.shape, dtype=np.int64)
    whole = np.empty(len(scores), dtype=np.int64)
    fraction = np.empty(len(scores), dtype=np.int64)
    _posteriors(np.ascontiguousarray(scores), bits, *tables, shares, whole, fraction)
    return shares, whole, fraction


@njit(types.void(_WORDS, _WORDS, _OUT2), nogil=True, cache=True)
def _hamming(words, templates, out):  # type: ignore[no-untyped-def]
    for row in range(words.shape[0]):
        for i in range(templates.shape[0]):
            distance = 0
            for w in range(words.shape[1]):
                distance += _popcount(words[row, w] ^ templates[i, w])
            out[row, i] = distance


@njit(types.void(_WORDS, _INTS1, _INTS2, _OUT2), nogil=True, cache=True)
def _affine(words, const, coef, out):  # type: ignore[no-untyped-def]
    """Sums of 8 columns at a time from tables of all 256 cases, made for a tile of columns."""
    rows, k = out.shape
    octets = 8 * words.shape[1]
    tile = max(1, min(octets, _TABLE_ENTRIES // (256 * k)))
    table = np.empty((tile, 256, k), dtype=np.int64)
    for row in range(rows):
        for i in range(k):
            out[row, i] = const[i]
    for start in range(0, octets, tile):
        stop = min(start + tile, octets)
        for o in range(start, stop):
            for i in range(k):
                table[o - start, 0, i] = 0
            for bit in range(8):
                for case in range(1 << bit):
                    for i in range(k):
                        table[o - start, (1 << bit) + case, i] = (
                            table[o - start, case, i] + coef[8 * o + bit, i]
                        )
        for row in range(rows):
            for o in range(start, stop):
                case = (words[row, o >> 3] >> np.uint64(8 * (o & 7))) & np.uint64(255)
                for i in range(k):
                    out[row, i] += table[o - start, case, i]


@njit(types.void(_WORDS, _INTS2, _OUT2), nogil=True, cache=True)
def _column_sums(words, shares, out):  # type: ignore[no-untyped-def]
    for row in range(words.shape[0]):
        for i in range(shares.shape[1]):
            share = shares[row, i]
            if share == 0:
                continue
            for w in range(words.shape[1]):
                word = words[row, w]
                for bit in range(64):
                    is_set = np.int64((word >> np.uint64(bit)) & np.uint64(1))
                    out[i, 64 * w + bit] += share & -is_set


@njit(types.int64(types.int64, _INTS1), nogil=True, cache=True)
def _log(total, logs):  # type: ignore[no-untyped-def]
    octave = 0
    while (total >> octave) >> (EXP_BITS + 1) != 0:
        octave += 1
    lead = total >> octave
    t = (lead >> 21) & 1023
    edge = (t + 1024) << 21
    u = ((lead - edge) << LOG_BITS) // edge
    u2 = (u * u) >> LOG_BITS
    u3 = (u2 * u) >> LOG_BITS
    return ((octave * LN2_48) >> 16) + logs[t] + u - (u2 >> 1) + u3 // 3


@njit(
    types.void(_INTS2, types.int64, _INTS1, _INTS1, _INTS1, _OUT2, _OUT1, _OUT1),
    nogil=True,
    cache=True,
)
def _posteriors(scores, bits, coarse, fine, logs, shares, whole, fraction):  # type: ignore[no-untyped-def]
    rows, k = scores.shape
    cut = CUT_NATS << bits
    shift = bits - LOG_BITS
    for row in range(rows):
        best = 0
        for i in range(1, k):
            if scores[row, i] > scores[row, best]:
                best = i
        top = scores[row, best]

        total = 0
        for i in range(k):
            gap = top - scores[row, i]
            e = 0
            if gap < cut:
                gap = gap >> shift if shift >= 0 else gap << -shift
                e = coarse[gap >> 26] * fine[(gap >> 16) & 1023]
                e = (e + (1 << (EXP_BITS - 1))) >> EXP_BITS
                e -= (e * (gap & 0xFFFF) + (1 << (LOG_BITS - 1))) >> LOG_BITS
            shares[row, i] = e
            total += e

        given = 0
        for i in range(k):
            e = shares[row, i]
            if e != 0:
                shares[row, i] = (e << SHARE_BITS) // total
                if i != best:
                    given += shares[row, i]
        shares[row, best] = _SHARE_ONE - given

        nats = top >> bits
        rest = top - (nats << bits)
        rest = rest >> shift if shift >= 0 else rest << -shift
        rest += _log(total, logs)
        whole[row] = nats + (rest >> LOG_BITS)
        fraction[row] = rest & _FRACTION_MASK
