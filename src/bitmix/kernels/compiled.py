"""Numba twins of `reference`, bit for bit. One specialisation each, cached on disk, GIL released.

Threads are not started here: `BitMatrix.map_reduce` runs these on blocks of rows side by side.
"""

import threading
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from bitmix.kernels import fixed, reference
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
_LEAST_NORMAL = 2.0**-1022

# A sum over the bits of a row goes through tables of all 256 cases of 8 columns, for a few
# components at a time: a vector of `_LANES` whole numbers that the processor adds at once.
_LANES = 4
_CASES = 256
_LINES = 8 * _CASES  # lines of a table for one word
_TILE = 4  # words a table serves at a time: 256 KiB, to stay in the second-level cache
_FEW_SHARES = 1000  # more than one a row are summed word by word before tables pay for their making

# Where sums stay in registers all along, twice as many lanes at a time.
_WIDE = 8
_TILE_ROWS = 4

_INT = ir.IntType(64)
_VECTOR = ir.VectorType(_INT, _LANES)
_WIDE_VECTOR = ir.VectorType(_INT, _WIDE)
_ZEROS = ir.Constant(_WIDE_VECTOR, [0] * _WIDE)


def _data(context: Any, builder: Any, signature: Any, args: Any, number: int) -> Any:
    return context.make_array(signature.args[number])(context, builder, args[number]).data


def _lanes_at(builder: Any, data: Any, index: Any) -> Any:
    return builder.bitcast(builder.gep(data, [index]), _VECTOR.as_pointer())


def _wide_at(builder: Any, data: Any, index: Any) -> Any:
    return builder.bitcast(builder.gep(data, [index]), _WIDE_VECTOR.as_pointer())


def _everywhere(builder: Any, value: Any) -> Any:
    """The number in all lanes of a wide vector."""
    index = ir.IntType(32)
    anything = ir.Constant(_WIDE_VECTOR, ir.Undefined)
    first = builder.insert_element(anything, value, ir.Constant(index, 0))
    zeros = ir.Constant(ir.VectorType(index, _WIDE), [0] * _WIDE)
    return builder.shuffle_vector(first, anything, zeros)


def _cases_of(builder: Any, word: Any, first: Any) -> Any:
    """Where the lanes of each of the 8 octets of a word start in a table, its first line given."""
    for octet in range(8):
        shifted = builder.lshr(word, ir.Constant(_INT, 8 * octet))
        case = builder.and_(shifted, ir.Constant(_INT, _CASES - 1))
        line = builder.add(first, builder.add(case, ir.Constant(_INT, _CASES * octet)))
        yield builder.mul(line, ir.Constant(_INT, _LANES))


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _add_lanes(typing_context: Any, out: Any, to: Any, a: Any, i: Any, b: Any, j: Any) -> Any:
    """out[to : to+4] = a[i : i+4] + b[j : j+4], places counted in the flat arrays."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        into, x, y = (_data(context, builder, signature, args, number) for number in (0, 2, 4))
        total = builder.add(
            builder.load(_lanes_at(builder, x, args[3]), align=8),
            builder.load(_lanes_at(builder, y, args[5]), align=8),
        )
        builder.store(total, _lanes_at(builder, into, args[1]), align=8)
        return context.get_dummy_value()

    return types.void(out, types.int64, a, types.int64, b, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _add_cases(typing_context: Any, out: Any, to: Any, table: Any, first: Any, word: Any) -> Any:
    """out[to : to+4] += the table's lanes for the 8 octets of the word."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        into, lines = (_data(context, builder, signature, args, number) for number in (0, 2))
        place = _lanes_at(builder, into, args[1])
        total = builder.load(place, align=8)
        for index in _cases_of(builder, args[4], args[3]):
            total = builder.add(total, builder.load(_lanes_at(builder, lines, index), align=8))
        builder.store(total, place, align=8)
        return context.get_dummy_value()

    return types.void(out, types.int64, table, types.int64, types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _add_to_cases(typing_context: Any, table: Any, first: Any, word: Any, a: Any, i: Any) -> Any:
    """The table's lanes for each of the 8 octets of the word += a[i : i+4]."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lines, x = (_data(context, builder, signature, args, number) for number in (0, 3))
        added = builder.load(_lanes_at(builder, x, args[4]), align=8)
        for index in _cases_of(builder, args[2], args[1]):
            place = _lanes_at(builder, lines, index)
            builder.store(builder.add(builder.load(place, align=8), added), place, align=8)
        return context.get_dummy_value()

    return types.void(table, types.int64, types.uint64, a, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _add_where(
    typing_context: Any, out: Any, to: Any, words: Any, w: Any, n_words: Any,
    rows: Any, shares: Any, found: Any,
) -> Any:  # fmt: skip
    """out[to : to+64] += the share of each of the rows, in the columns where word w of the row has
    a bit. The 64 sums stay in registers: memory is touched once a row, and once at the end.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        into, bits, chosen, given = (
            _data(context, builder, signature, args, number) for number in (0, 2, 5, 6)
        )
        sums = [cgutils.alloca_once_value(builder, _ZEROS) for _ in range(0, 64, _WIDE)]
        with cgutils.for_range(builder, args[7]) as loop:
            row = builder.load(builder.gep(chosen, [loop.index]))
            share = _everywhere(builder, builder.load(builder.gep(given, [loop.index])))
            place = builder.add(builder.mul(row, args[4]), args[3])
            word = _everywhere(builder, builder.load(builder.gep(bits, [place])))
            for part, total in enumerate(sums):
                tests = ir.Constant(_WIDE_VECTOR, [1 << (_WIDE * part + i) for i in range(_WIDE)])
                is_set = builder.icmp_unsigned("!=", builder.and_(word, tests), _ZEROS)
                added = builder.select(is_set, share, _ZEROS)
                builder.store(builder.add(builder.load(total), added), total)
        for part, total in enumerate(sums):
            index = builder.add(args[1], ir.Constant(_INT, _WIDE * part))
            place = _wide_at(builder, into, index)
            before = builder.load(place, align=8)
            builder.store(builder.add(before, builder.load(total)), place, align=8)
        return context.get_dummy_value()

    whole = types.int64
    return types.void(out, whole, words, whole, whole, rows, shares, whole), generate


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _popcount(typing_context: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        count = builder.module.declare_intrinsic("llvm.ctpop", [ir.IntType(64)])
        return builder.call(count, args)

    return types.int64(types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _tile_distances(
    typing_context: Any, out: Any, row: Any, i: Any, words: Any, n_words: Any, across: Any, k: Any
) -> Any:
    """out[row : row+4, i : i+8] = distances; `across` holds word w of all templates side by side.

    Of four rows and eight templates, each word is loaded once, and all 32 distances stay in
    registers.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        into, bits, others = (_data(context, builder, signature, args, j) for j in (0, 3, 5))
        _, row, i, _, n_words, _, k = args
        rows = [builder.add(row, ir.Constant(_INT, r)) for r in range(_TILE_ROWS)]
        counts = [cgutils.alloca_once_value(builder, _ZEROS) for _ in rows]
        kind = ir.FunctionType(_WIDE_VECTOR, [_WIDE_VECTOR])
        popcounts = cgutils.get_or_insert_function(builder.module, kind, f"llvm.ctpop.v{_WIDE}i64")
        with cgutils.for_range(builder, n_words) as loop:
            place = builder.add(builder.mul(loop.index, k), i)
            eight = builder.load(_wide_at(builder, others, place), align=8)
            for at, count in zip(rows, counts, strict=True):
                place = builder.add(builder.mul(at, n_words), loop.index)
                word = _everywhere(builder, builder.load(builder.gep(bits, [place])))
                apart = builder.call(popcounts, [builder.xor(word, eight)])
                builder.store(builder.add(builder.load(count), apart), count)
        for at, count in zip(rows, counts, strict=True):
            place = _wide_at(builder, into, builder.add(builder.mul(at, k), i))
            builder.store(builder.load(count), place, align=8)
        return context.get_dummy_value()

    whole = types.int64
    return types.void(out, whole, whole, words, whole, across, whole), generate


def hamming(words: Words, templates: Words) -> Ints:
    """See `reference.hamming`."""
    out = np.empty((len(words), len(templates)), dtype=np.int64)
    words = np.ascontiguousarray(words)
    if len(words) < _TILE_ROWS or len(templates) < _WIDE:
        _hamming(words, np.ascontiguousarray(templates), out)
    else:
        _hamming_by_tiles(words, np.ascontiguousarray(templates.T), out)
    return out


def affine(words: Words, const: Ints, coef: Ints) -> Ints:
    """See `reference.affine`."""
    k = len(const)
    padded = np.zeros((64 * words.shape[1], _padded(k)), dtype=np.int64)
    padded[: coef.shape[1], :k] = coef.T
    out = np.zeros((len(words), _padded(k)), dtype=np.int64)
    out[:, :k] = const
    _affine(np.ascontiguousarray(words), padded, _table(), out)
    return out[:, :k]


def column_sums(words: Words, shares: Ints, n_columns: int) -> Ints:
    """See `reference.column_sums`."""
    out = np.zeros((shares.shape[1], 64 * words.shape[1]), dtype=np.int64)
    add_column_sums(words, shares, out)
    return out[:, :n_columns]


def add_column_sums(words: Words, shares: Ints, out: Ints) -> None:
    """See `reference.add_column_sums`; the table has all columns of the words.

    Rows that one component has whole are counted, others summed.
    """
    k = shares.shape[1]
    words, shares = np.ascontiguousarray(words), np.ascontiguousarray(shares)
    owner = np.empty(len(words), dtype=np.int64)
    n_shares = _owners(shares, owner)
    _count_whole(words, owner, out)
    if n_shares:
        padded = shares
        if k % _LANES:
            padded = np.zeros((len(shares), _padded(k)), dtype=np.int64)
            padded[:, :k] = shares
        _sum_shares(words, padded, owner, _table(), out)


_of_thread = threading.local()


def _table() -> Ints:
    """Room for the cases of a tile. Kept by each thread: fresh memory costs more than its use."""
    if not hasattr(_of_thread, "table"):
        _of_thread.table = np.empty((_TILE * _LINES, _LANES), dtype=np.int64)
    table: Ints = _of_thread.table
    return table


def _padded(k: int) -> int:
    return -(-k // _LANES) * _LANES


def posteriors(scores: Ints, bits: int, tables: Tables) -> tuple[Ints, Ints, Ints]:
    """See `reference.posteriors`."""
    shares = np.empty(scores.shape, dtype=np.int64)
    tops = np.empty(len(scores), dtype=np.int64)
    logs = np.empty(len(scores), dtype=np.int64)
    _posteriors(np.ascontiguousarray(scores), bits, *tables, shares, tops, logs)
    return shares, tops, logs


def logs(values: NDArray[np.float64], tables: Tables) -> Ints:
    """See `reference.logs`."""
    if not np.all(values >= _LEAST_NORMAL):
        return reference.logs(values, tables)
    out = np.empty(values.shape, dtype=np.int64)
    _logs(np.ascontiguousarray(values).view(np.int64).ravel(), tables.logs, out.ravel())
    return out


def decided(words: Words, templates: Words, lower: Ints, upper: Ints, cut: int) -> Ints:
    """See `reference.decided`."""
    owner = np.empty(len(words), dtype=np.int64)
    _decided(np.ascontiguousarray(words), np.ascontiguousarray(templates), lower, upper, cut, owner)
    return owner


def owned_sums(words: Words, owner: Ints, k: int, n_columns: int) -> Ints:
    """See `reference.owned_sums`."""
    out = np.zeros((k, 64 * words.shape[1]), dtype=np.int64)
    _count_whole(np.ascontiguousarray(words), owner, out)
    return out[:, :n_columns]


@njit(types.void(_WORDS, _WORDS, _OUT2), nogil=True, cache=True)
def _hamming(words, templates, out):  # type: ignore[no-untyped-def]
    for row in range(words.shape[0]):
        for i in range(templates.shape[0]):
            distance = 0
            for w in range(words.shape[1]):
                distance += _popcount(words[row, w] ^ templates[i, w])
            out[row, i] = distance


@njit(types.void(_WORDS, _WORDS, _OUT2), nogil=True, cache=True)
def _hamming_by_tiles(words, across, out):  # type: ignore[no-untyped-def]
    rows, k = out.shape
    for row in range(0, rows, _TILE_ROWS):
        for i in range(0, k, _WIDE):  # the last tiles lie over those before, to end with the table
            _tile_distances(
                out, min(row, rows - _TILE_ROWS), min(i, k - _WIDE),
                words, words.shape[1], across, k,
            )  # fmt: skip


@njit(types.void(_WORDS, _WORDS, _INTS2, _INTS2, types.int64, _OUT1), nogil=True, cache=True)
def _decided(words, templates, lower, upper, cut, owner):  # type: ignore[no-untyped-def]
    k = templates.shape[0]
    highs = np.empty(k, dtype=np.int64)
    for row in range(words.shape[0]):
        best = 0
        top = np.int64(0)
        for i in range(k):
            distance = 0
            for w in range(words.shape[1]):
                distance += _popcount(words[row, w] ^ templates[i, w])
            low = lower[i, distance]
            highs[i] = upper[i, distance]
            if i == 0 or low > top:
                best, top = i, low
        owner[row] = best
        for i in range(k):
            if i != best and highs[i] > top - cut:
                owner[row] = -1


@njit(types.void(_WORDS, _INTS2, _OUT2, _OUT2), nogil=True, cache=True)
def _affine(words, coef, table, out):  # type: ignore[no-untyped-def]
    rows, k = out.shape
    n_words = words.shape[1]
    for first in range(0, k, _LANES):
        for start in range(0, n_words, _TILE):
            stop = min(start + _TILE, n_words)
            for octet in range(8 * (stop - start)):
                line = _CASES * octet
                for lane in range(_LANES):
                    table[line, lane] = 0
                for bit in range(8):
                    column = 64 * start + 8 * octet + bit
                    for case in range(1 << bit):
                        _add_lanes(
                            table, _LANES * (line + (1 << bit) + case),
                            table, _LANES * (line + case),
                            coef, column * k + first,
                        )  # fmt: skip
            for row in range(rows):
                for w in range(start, stop):
                    _add_cases(out, row * k + first, table, _LINES * (w - start), words[row, w])


@njit(inline="always")
def _full_adder(a, b, c):  # type: ignore[no-untyped-def]
    either = a ^ b
    return either ^ c, (a & b) | (either & c)


@njit(inline="always")
def _add_bits(planes, plane, w, carry):  # type: ignore[no-untyped-def]
    """Add a bit of digit `plane` to each counter of word w, with what it carries."""
    while carry != 0:
        before = planes[plane, w]
        planes[plane, w] = before ^ carry
        carry &= before
        plane += 1


@njit(types.void(_WORDS, _INTS1, _OUT1), nogil=True, cache=True)
def _count_bits(words, chosen, out):  # type: ignore[no-untyped-def]
    """out += a whole share for each bit of the chosen rows, by counters of 64 columns at once.

    Bit s of plane p is digit p of the count of column s. Full adders take 8 rows at a time:
    a + b + c of three bits is their exclusive or, and twice their majority.
    """
    n_words, rows = words.shape[1], len(chosen)
    n_planes = 3
    while rows >> n_planes != 0:
        n_planes += 1
    planes = np.zeros((n_planes, n_words), dtype=np.uint64)
    at = 0
    while at + 8 <= rows:
        r0, r1, r2, r3 = chosen[at], chosen[at + 1], chosen[at + 2], chosen[at + 3]
        r4, r5, r6, r7 = chosen[at + 4], chosen[at + 5], chosen[at + 6], chosen[at + 7]
        for w in range(n_words):
            ones, two_a = _full_adder(planes[0, w], words[r0, w], words[r1, w])
            ones, two_b = _full_adder(ones, words[r2, w], words[r3, w])
            ones, two_c = _full_adder(ones, words[r4, w], words[r5, w])
            planes[0, w], two_d = _full_adder(ones, words[r6, w], words[r7, w])
            twos, four_a = _full_adder(planes[1, w], two_a, two_b)
            planes[1, w], four_b = _full_adder(twos, two_c, two_d)
            planes[2, w], eight = _full_adder(planes[2, w], four_a, four_b)
            _add_bits(planes, 3, w, eight)
        at += 8
    for row in chosen[at:]:
        for w in range(n_words):
            _add_bits(planes, 0, w, words[row, w])
    for w in range(n_words):
        for plane in range(n_planes):
            word = planes[plane, w]
            for bit in range(64):
                is_set = np.int64((word >> np.uint64(bit)) & np.uint64(1))
                out[64 * w + bit] += is_set << (plane + SHARE_BITS)


@njit(types.void(_WORDS, _INTS1, _INTS2, types.int64, _OUT2), nogil=True, cache=True)
def _sum_by_words(words, chosen, shares, first, out):  # type: ignore[no-untyped-def]
    n_words = words.shape[1]
    rows, given = np.empty_like(chosen), np.empty_like(chosen)
    for i in range(first, first + _LANES):
        found = 0
        for row in chosen:
            if shares[row, i] != 0:
                rows[found], given[found] = row, shares[row, i]
                found += 1
        if found > 0:
            for w in range(n_words):
                _add_where(out, 64 * (i * n_words + w), words, w, n_words, rows, given, found)


@njit(types.void(_WORDS, _INTS1, _INTS2, types.int64, _OUT2, _OUT2), nogil=True, cache=True)
def _sum_by_cases(words, chosen, shares, first, table, out):  # type: ignore[no-untyped-def]
    """Shares are summed by the case each octet is in; the 256 cases are then folded into 8 bits."""
    k, n_words = shares.shape[1], words.shape[1]
    sums = np.empty((64 * _TILE, _LANES), dtype=np.int64)
    for start in range(0, n_words, _TILE):
        stop = min(start + _TILE, n_words)
        table[: _LINES * (stop - start)] = 0
        sums[:] = 0
        for row in chosen:
            for w in range(start, stop):
                _add_to_cases(table, _LINES * (w - start), words[row, w], shares, row * k + first)
        for octet in range(8 * (stop - start)):
            half = _CASES >> 1
            for bit in range(7, -1, -1):
                column = _LANES * (8 * octet + bit)
                for case in range(half):
                    low = _LANES * (_CASES * octet + case)
                    high = low + _LANES * half
                    _add_lanes(sums, column, sums, column, table, high)
                    _add_lanes(table, low, table, low, table, high)
                half >>= 1
        for lane in range(min(_LANES, len(out) - first)):  # the shares may be padded
            for column in range(64 * (stop - start)):
                out[first + lane, 64 * start + column] += sums[column, lane]


@njit(types.int64(_INTS2, _OUT1), nogil=True, cache=True)
def _owners(shares, owner):  # type: ignore[no-untyped-def]
    """Which component has a row whole, -1 where several share it; how many shares these have."""
    n_shares = 0
    for row in range(shares.shape[0]):
        some = 0
        whole = -1
        for i in range(shares.shape[1]):
            some += shares[row, i] != 0
            if shares[row, i] == _SHARE_ONE:
                whole = i
        owner[row] = whole if some == 1 else -1
        if owner[row] < 0:
            n_shares += some
    return n_shares


@njit(types.void(_WORDS, _INTS1, _OUT2), nogil=True, cache=True)
def _count_whole(words, owner, out):  # type: ignore[no-untyped-def]
    rows, k = len(owner), len(out)
    ends = np.zeros(k + 1, dtype=np.int64)
    for row in range(rows):
        ends[owner[row] + 1] += owner[row] >= 0
    for i in range(k):
        ends[i + 1] += ends[i]
    chosen = np.empty(rows, dtype=np.int64)
    places = ends.copy()
    for row in range(rows):
        if owner[row] >= 0:
            chosen[places[owner[row]]] = row
            places[owner[row]] += 1
    for i in range(k):
        if ends[i + 1] > ends[i]:
            _count_bits(words, chosen[ends[i] : ends[i + 1]], out[i])


@njit(types.void(_WORDS, _INTS2, _INTS1, _OUT2, _OUT2), nogil=True, cache=True)
def _sum_shares(words, shares, owner, table, out):  # type: ignore[no-untyped-def]
    rows, k = shares.shape
    chosen = np.empty(rows, dtype=np.int64)
    for first in range(0, k, _LANES):
        found = n_shares = 0
        for row in range(rows):
            if owner[row] >= 0:
                continue
            some = 0
            for lane in range(_LANES):
                some += shares[row, first + lane] != 0
            if some > 0:
                chosen[found] = row
                found += 1
                n_shares += some
        if n_shares >= found + _FEW_SHARES:
            _sum_by_cases(words, chosen[:found], shares, first, table, out)
        else:
            _sum_by_words(words, chosen[:found], shares, first, out)


@njit(inline="always", error_model="numpy")
def _log_of_lead(lead, logs):  # type: ignore[no-untyped-def]
    t = (lead >> 21) & 1023
    # The quotient of whole numbers below 2^53, cut, is the same in floats, and takes far less time.
    u = np.int64(((lead & ((1 << 21) - 1)) << 11) / (t + 1024))
    u2 = (u * u) >> LOG_BITS
    u3 = (u2 * u) >> LOG_BITS
    return logs[t] + u - (u2 >> 1) + u3 // 3


@njit(types.void(_INTS1, _INTS1, _OUT1), nogil=True, cache=True, error_model="numpy")
def _logs(floats, logs, out):  # type: ignore[no-untyped-def]
    """By the bits of normal floats: 11 of the exponent, then 52 of the mantissa."""
    for i in range(len(floats)):
        octave = (floats[i] >> 52) - 1023
        lead = (1 << 31) | ((floats[i] >> 21) & ((1 << 31) - 1))
        out[i] = ((octave * LN2_48) >> 16) + _log_of_lead(lead, logs)


@njit(types.int64(types.int64, _INTS1), nogil=True, cache=True, error_model="numpy")
def _log(total, logs):  # type: ignore[no-untyped-def]
    octave = 0
    while (total >> octave) >> (EXP_BITS + 1) != 0:
        octave += 1
    return ((octave * LN2_48) >> 16) + _log_of_lead(total >> octave, logs)


@njit(
    types.void(_INTS2, types.int64, _INTS1, _INTS1, _INTS1, _OUT2, _OUT1, _OUT1),
    nogil=True,
    cache=True,
)
def _posteriors(scores, bits, coarse, fine, logs, shares, tops, rest):  # type: ignore[no-untyped-def]
    rows, k = scores.shape
    cut = CUT_NATS << bits
    shift = bits - LOG_BITS
    for row in range(rows):
        top = scores[row, 0]
        for i in range(1, k):
            top = max(top, scores[row, i])

        best, total, alive = -1, 0, 0
        for i in range(k):
            gap = top - scores[row, i]
            e = 0
            if gap < cut:
                if gap == 0 and best < 0:
                    best = i
                gap = gap >> shift if shift >= 0 else gap << -shift
                e = coarse[gap >> 26] * fine[(gap >> 16) & 1023]
                e = (e + (1 << (EXP_BITS - 1))) >> EXP_BITS
                e -= (e * (gap & 0xFFFF) + (1 << (LOG_BITS - 1))) >> LOG_BITS
                total += e
                alive += 1
            shares[row, i] = e

        given = 0
        if alive > 1:
            whole = _SHARE_ONE / total
            for i in range(k):
                e = shares[row, i]
                if e != 0:
                    # A quotient below 2^30, in floats within 2^-20: at most one off when cut to a
                    # whole number, and set right by what it leaves. A division takes far longer.
                    share = int(e * whole)
                    left = (e << SHARE_BITS) - share * total
                    share += (left >= total) - (left < 0)
                    shares[row, i] = share
                    if i != best:
                        given += share
        shares[row, best] = _SHARE_ONE - given
        tops[row] = top
        rest[row] = _log(total, logs) if alive > 1 else 0
