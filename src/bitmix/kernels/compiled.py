"""Numba twins of `reference`, bit for bit. One specialisation each, cached on disk, GIL released.

Threads are not started here: `BitMatrix.map_reduce` runs these on blocks of rows side by side.
"""

import os
import warnings
from collections.abc import Callable
from threading import Event
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from bitmix.errors import CacheWarning
from bitmix.kernels import fixed, reference
from bitmix.kernels.bits import Words
from bitmix.kernels.fixed import Ints
from bitmix.kernels.reference import Cells, Floats
from bitmix.kernels.threads import R, available, run_in_threads


def njit(*signature: Any, **options: Any) -> Any:
    """numba's `njit`, which compiles anew where machine code cannot be kept or what was kept is
    damaged: slower to start, the same results.
    """

    def decorate(function: Any) -> Any:
        try:
            return numba.njit(*signature, **options)(function)
        except Exception as error:  # a damaged pickle can raise anything
            if not options.pop("cache", False):
                raise
            kernel = numba.njit(*signature, **options)(function)
            _warn_of_cache(error)
            return kernel

    return decorate


def _warn_of_cache(error: Exception) -> None:
    """Say once per process that, and why, kernels are compiled each time they are loaded."""
    if not _cache_warnings:
        folder = numba.config.CACHE_DIR or os.path.join(os.path.dirname(__file__), "__pycache__")
        _cache_warnings.append(
            f"compiled kernels cannot be kept in {folder} or in the cache folder of this account "
            f"({type(error).__name__}: {error}), so every process compiles them again, which takes "
            "some seconds: empty that folder, or set NUMBA_CACHE_DIR to one you may write to"
        )
        warnings.warn(_cache_warnings[0], CacheWarning, stacklevel=2)


_cache_warnings: list[str] = []

_WORDS = types.Array(types.uint64, 2, "C", readonly=True)
_INTS1 = types.Array(types.int64, 1, "C", readonly=True)
_INTS2 = types.Array(types.int64, 2, "C", readonly=True)
_CELLS = types.Array(types.uint32, 1, "C", readonly=True)
_GAPS1 = types.Array(types.uint16, 1, "C")
_GAPS2 = types.Array(types.uint16, 2, "C")
_BOOLS1 = types.Array(types.boolean, 1, "C", readonly=True)
_FLOATS1 = types.Array(types.float64, 1, "C", readonly=True)
_FLOATS2 = types.Array(types.float64, 2, "C", readonly=True)
_OUT1 = types.Array(types.int64, 1, "C")
_OUT2 = types.Array(types.int64, 2, "C")

# numba freezes these into machine code and keeps it on disk for as long as *this file* stays the
# same. So they are repeated here, and a change in `fixed` alone is an error, not a stale kernel.
CUT_NATS, EXP_BITS, LOG_BITS, SHARE_BITS = 22, 31, 32, 30
LN2, SHORT_LN2, PER_LN2 = 0.6931471805599453, 0.6931471805599472, 1.4426950408889634
for _name in (
    "CUT_NATS", "EXP_BITS", "LOG_BITS", "SHARE_BITS", "LN2", "SHORT_LN2", "PER_LN2",
):  # fmt: skip
    if globals()[_name] != getattr(fixed, _name):
        raise ImportError(f"kernels.compiled and kernels.fixed disagree on {_name}")

_SHARE_ONE = 1 << SHARE_BITS
_LEAST_NORMAL = 2.0**-1022
_ROOT_HALF_BITS = 0x3FE6A09E667F3BCD  # of the float √½, from which a mantissa is counted

_WIDE = 8  # whole numbers that the processor adds at once
_CHUNK_ROWS = 128  # rows scored at once, so that scores and a tile of the table stay in the cache
_TILE_ROWS = 4
_FEW_ALIVE = 4  # with more components, a row's shares are added in whole vectors
_FULL_SHARE = 4  # if one component in this many is in question, all scores are summed

_INT = ir.IntType(64)
_WIDE_VECTOR = ir.VectorType(_INT, _WIDE)
_ZEROS = ir.Constant(_WIDE_VECTOR, [0] * _WIDE)
_GAPS = 32  # numbers of 16 bits that the processor adds at once
_GAP_VECTOR = ir.VectorType(ir.IntType(16), _GAPS)
_GAP_BITS = 4  # gaps are in units of 2^-4 nats
_MAX_GAP = 65535
_LOG = 5  # what a logarithm takes, in steps of a simple loop
_SHORT = 1 << 18  # steps that one thread does before another one has begun
_MIN_SCREENED = 33  # with fewer components, all scores are summed


def _data(context: Any, builder: Any, signature: Any, args: Any, number: int) -> Any:
    return context.make_array(signature.args[number])(context, builder, args[number]).data


def _wide_at(builder: Any, data: Any, index: Any, kind: ir.VectorType = _WIDE_VECTOR) -> Any:
    return builder.bitcast(builder.gep(data, [index]), kind.as_pointer())


def _everywhere(builder: Any, value: Any, kind: ir.VectorType = _WIDE_VECTOR) -> Any:
    """The number in all lanes of a vector."""
    index = ir.IntType(32)
    anything = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(anything, value, ir.Constant(index, 0))
    zeros = ir.Constant(ir.VectorType(index, kind.count), [0] * kind.count)
    return builder.shuffle_vector(first, anything, zeros)


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _add_where(
    typing_context: Any, out: Any, to: Any, words: Any, w: Any, n_words: Any,
    rows: Any, shares: Any, found: Any,
) -> Any:  # fmt: skip
    """out[to : to+64] += the share of each of the rows, in the columns where word w of the row has
    a bit. The 64 sums stay in registers: memory is touched once per row, and once at the end.
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


def _over_events(n_vectors: int, kind: ir.VectorType, *, back: bool = False) -> Any:
    """An intrinsic for this many vectors of components, whose numbers stay in registers.

    It adds up the table's lines for the events of a row, values[to:] += Σ table[cell, first:]; or,
    `back`, it adds the values to each of these lines. Numbers of 16 bits stay at their largest
    value once they reach it.
    """
    lanes, saturating = kind.count, kind.element.width == 16

    @intrinsic  # type: ignore[untyped-decorator,unused-ignore]
    def sum_lines(
        typing_context: Any, values: Any, to: Any, table: Any, width: Any, first: Any, cells: Any,
        start: Any, stop: Any,
    ) -> Any:  # fmt: skip
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            def add(a: Any, b: Any) -> Any:
                if not saturating:
                    return builder.add(a, b)
                name = f"llvm.uadd.sat.v{lanes}i16"
                signature = ir.FunctionType(kind, [kind, kind])
                adder = cgutils.get_or_insert_function(builder.module, signature, name)
                return builder.call(adder, [a, b])

            data, lines, events = (_data(context, builder, signature, args, j) for j in (0, 2, 5))
            _, to, _, width, first, _, start, stop = args
            offsets = [ir.Constant(_INT, lanes * v) for v in range(n_vectors)]
            places = [_wide_at(builder, data, builder.add(to, at), kind) for at in offsets]
            align = kind.element.width // 8
            sums = [
                cgutils.alloca_once_value(builder, builder.load(p, align=align)) for p in places
            ]
            one = ir.Constant(_INT, 1)
            with cgutils.for_range_slice(builder, start, stop, one) as (t, _count):
                cell = builder.zext(builder.load(builder.gep(events, [t])), _INT)
                line = builder.add(builder.mul(cell, width), first)
                for at, total in zip(offsets, sums, strict=True):
                    place = _wide_at(builder, lines, builder.add(line, at), kind)
                    added = add(builder.load(total), builder.load(place, align=align))
                    if back:
                        builder.store(added, place, align=align)
                    else:
                        builder.store(added, total)
            if not back:
                for place, total in zip(places, sums, strict=True):
                    builder.store(builder.load(total), place, align=align)
            return context.get_dummy_value()

        whole = types.int64
        return types.void(values, whole, table, whole, whole, cells, whole, whole), generate

    return sum_lines


_sum_8, _sum_16, _sum_32, _sum_64 = (_over_events(n, _WIDE_VECTOR) for n in (1, 2, 4, 8))
_spread_8, _spread_16, _spread_32, _spread_64 = (
    _over_events(n, _WIDE_VECTOR, back=True) for n in (1, 2, 4, 8)
)
_gaps_1, _gaps_2, _gaps_4, _gaps_8 = (_over_events(n, _GAP_VECTOR) for n in (1, 2, 4, 8))


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _least_gap(typing_context: Any, gaps: Any, at: Any) -> Any:
    """The least of the 32 gaps from `at` on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = _data(context, builder, signature, args, 0)
        vector = builder.load(_wide_at(builder, data, args[1], _GAP_VECTOR), align=2)
        kind = ir.FunctionType(_GAP_VECTOR.element, [_GAP_VECTOR])
        name = f"llvm.vector.reduce.umin.v{_GAPS}i16"
        least = cgutils.get_or_insert_function(builder.module, kind, name)
        return builder.zext(builder.call(least, [vector]), _INT)

    return types.int64(gaps, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _gaps_up_to(typing_context: Any, gaps: Any, at: Any, limit: Any) -> Any:
    """A bit for each of the 32 gaps from `at` on that is at most the limit, which is below 2^16."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = _data(context, builder, signature, args, 0)
        vector = builder.load(_wide_at(builder, data, args[1], _GAP_VECTOR), align=2)
        limit = builder.trunc(args[2], _GAP_VECTOR.element)
        small = builder.icmp_unsigned("<=", vector, _everywhere(builder, limit, _GAP_VECTOR))
        return builder.zext(builder.bitcast(small, ir.IntType(_GAPS)), _INT)

    return types.uint64(gaps, types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _popcount(typing_context: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        count = builder.module.declare_intrinsic("llvm.ctpop", [ir.IntType(64)])
        return builder.call(count, args)

    return types.int64(types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _as_float(typing_context: Any, word: Any) -> Any:
    """The float with these bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), generate


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _bits_of(typing_context: Any, value: Any) -> Any:
    """The bits of a float."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], _INT)

    return types.int64(types.float64), generate


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _trailing_zeros(typing_context: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_INT, [_INT, ir.IntType(1)])
        count = builder.module.declare_intrinsic("llvm.cttz", [_INT], fnty=kind)
        return builder.call(count, [args[0], ir.Constant(ir.IntType(1), 1)])

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


_NO_SCREEN = np.zeros(0, dtype=np.uint16), np.zeros((0, 0), dtype=np.uint16)


def hamming(words: Words, templates: Words) -> Ints:
    """See `reference.hamming`."""
    out = np.empty((len(words), len(templates)), dtype=np.int64)
    words = np.ascontiguousarray(words)
    if len(words) < _TILE_ROWS or len(templates) < _WIDE:
        _hamming(words, np.ascontiguousarray(templates), out)
    else:
        _hamming_by_tiles(words, np.ascontiguousarray(templates.T), out)
    return out


def set_bits(words: Words) -> tuple[Ints, Cells]:
    """See `reference.set_bits`."""
    words = np.ascontiguousarray(words)
    starts = np.zeros(len(words) + 1, dtype=np.int64)
    np.cumsum(np.bitwise_count(words).sum(axis=1, dtype=np.int64), out=starts[1:])
    cells = np.empty(starts[-1], dtype=np.uint32)
    _set_bits(words, starts, cells)
    return starts, cells


def event_scores(starts: Ints, cells: Cells, const: Ints, table: Ints) -> Ints:
    """See `reference.event_scores`."""
    out = np.empty((len(starts) - 1, len(const)), dtype=np.int64)
    out[:] = const
    if table.shape[1] % _WIDE:
        return reference.event_scores(starts, cells, const, table)
    for start in range(0, len(out), _CHUNK_ROWS):
        _score_events(starts[start:], cells, table, out[start : start + _CHUNK_ROWS])
    return out


def screen(const: Ints, table: Ints, k: int, bits: int) -> Any:
    """By how much each component is behind the best in each line of the table, cut to units of
    2^-4 nats: `event_pass` sums these first, and exact scores only for components that they leave
    in question.

    If a row has E events, its gaps add up to at most E + 1 units less than the truth. So a
    component whose sum is more than E + 1 units and `CUT_NATS` above the least sum has a score so
    far below the best that its share is 0. Sums that reach 2^16 - 1 stay there, and are compared as
    lower bounds, which they are.
    """
    if k < _MIN_SCREENED:
        return _NO_SCREEN
    width = -(-k // _GAPS) * _GAPS
    first = np.full(width, _MAX_GAP, dtype=np.uint16)
    gaps = np.full((len(table), width), _MAX_GAP, dtype=np.uint16)
    _make_gaps(const[None], k, bits - _GAP_BITS, first[None])
    _make_gaps(table, k, bits - _GAP_BITS, gaps)
    return first, gaps


def event_pass(
    starts: Ints, cells: Cells, weights: Ints | None, const: Ints, table: Ints, screen: Any,
    bits: int, mass: Ints, sums: Ints, whole: Ints | None = None,
) -> tuple[int, int, int]:  # fmt: skip
    """See `reference.event_pass`; the table has lines of whole vectors, as `sums` has.

    Rows that one component has whole are left to `whole`. Most of them need no exact score then,
    only a screen that leaves one component.
    """
    counts = np.ones(0, dtype=np.int64) if weights is None else weights
    totals = np.zeros(5, dtype=np.int64)
    screen = _NO_SCREEN if screen is None else screen
    whole = np.zeros((0, 1), dtype=np.int64) if whole is None else whole
    _event_pass(starts, cells, counts, const, table, *screen, bits, whole, mass, sums, totals)
    return _unsplit(totals)


def add_whole(whole: Ints, const: Ints, table: Ints, mass: Ints, sums: Ints) -> int:
    """See `reference.add_whole`."""
    totals = np.zeros(5, dtype=np.int64)
    _add_whole(whole, const, table, mass, sums, totals)
    return _unsplit(totals)[0]


def popcount_scores(
    words: Words, templates: Words, const: Ints, per_one: Ints, per_match: Ints
) -> Ints:
    """See `reference.popcount_scores`."""
    distances = hamming(words, templates)
    return reference.scores_at(distances, words, templates, const, per_one, per_match)


def popcount_pass(
    words: Words, templates: Words, const: Ints, per_one: Ints, per_match: Ints, bits: int,
    mass: Ints, sums: Ints,
) -> tuple[int, int, int]:  # fmt: skip
    """See `reference.popcount_pass`."""
    words, templates = np.ascontiguousarray(words), np.ascontiguousarray(templates)
    sizes = np.bitwise_count(templates).sum(axis=1, dtype=np.int64)
    totals = np.zeros(5, dtype=np.int64)
    _popcount_pass(
        words, templates, np.ascontiguousarray(templates.T), sizes, const, per_one, per_match, bits,
        mass, sums, totals,
    )  # fmt: skip
    return _unsplit(totals)


def _unsplit(totals: Ints) -> tuple[int, int, int]:
    """Two sums that were added in halves, and a count."""
    high, low, logs_high, logs_low, n_undecided = totals.tolist()
    return (high << 31) + low, (logs_high << 31) + logs_low, n_undecided


def column_sums(words: Words, shares: Ints, n_columns: int) -> Ints:
    """See `reference.column_sums`."""
    out = np.zeros((shares.shape[1], 64 * words.shape[1]), dtype=np.int64)
    add_column_sums(words, shares, out)
    return out[:, :n_columns]


def add_column_sums(words: Words, shares: Ints, out: Ints) -> None:
    """See `reference.add_column_sums`; the table has all columns of the words.

    Rows that one component has whole are counted, others summed.
    """
    words, shares = np.ascontiguousarray(words), np.ascontiguousarray(shares)
    owner = np.empty(len(words), dtype=np.int64)
    n_shares = _owners(shares, owner)
    _count_whole(words, owner, out)
    if n_shares:
        _sum_shares(words, shares, owner, out)


def posteriors(scores: Ints, bits: int) -> tuple[Ints, Ints, Ints]:
    """See `reference.posteriors`."""
    shares = np.empty(scores.shape, dtype=np.int64)
    tops = np.empty(len(scores), dtype=np.int64)
    logs = np.empty(len(scores), dtype=np.int64)
    _posteriors(np.ascontiguousarray(scores), bits, shares, tops, logs)
    return shares, tops, logs


def logs(values: NDArray[np.float64]) -> Ints:
    """See `reference.logs`."""
    if not values.min(initial=1.0) >= _LEAST_NORMAL:
        return reference.logs(values)
    if not values.flags.forc:
        values = np.ascontiguousarray(values)
    out = np.empty_like(values, dtype=np.int64)  # in the order of memory that the values have
    _logs(values.ravel(order="K"), out.ravel(order="K"))
    return out


def cell_lines(p: Floats, base: NDArray[np.bool_], bits: int, lines: Ints) -> Ints:
    """See `reference.cell_lines`."""
    n, k = p.shape

    def fill(first: int, last: int) -> Ints:
        at_base = np.zeros(k, dtype=np.int64)
        _cell_lines(p, base, LOG_BITS - bits, first, last, lines, at_base)
        return at_base

    return np.sum(_in_parts(fill, n, 2 * n * k * _LOG), axis=0)


def mean_line(lines: Ints, base: NDArray[np.bool_], rates: Ints) -> Ints:
    """See `reference.mean_line`."""
    out = np.zeros(lines.shape[1], dtype=np.int64)
    _mean_line(np.ascontiguousarray(lines), base, rates, out)
    return out


def owned_scores(words: Words, owner: Ints, base: Words, planes: Words) -> Ints:
    """See `reference.owned_scores`."""
    out = np.zeros(len(words), dtype=np.int64)
    _owned_scores(np.ascontiguousarray(words), owner, base, planes, out)
    return out


def owned_sums(words: Words, owner: Ints, k: int, n_columns: int) -> Ints:
    """See `reference.owned_sums`."""
    out = np.zeros((k, 64 * words.shape[1]), dtype=np.int64)
    _count_whole(np.ascontiguousarray(words), owner, out)
    return out[:, :n_columns]


def disagreement(values: Ints, firsts: Ints, seconds: Ints, shift: Ints) -> Ints:
    """See `reference.disagreement`."""
    out = np.empty(len(firsts), dtype=np.int64)

    def compare(first: int, last: int) -> None:
        some = slice(first, last)
        _disagreement(values, firsts[some], seconds[some], shift, out[some])

    _in_parts(compare, len(firsts), len(firsts) * len(shift))
    return out


def merged_likelihoods(ones: Floats, cells: Floats, firsts: Ints, seconds: Ints) -> Ints:
    """See `reference.merged_likelihoods`."""
    out = np.empty(len(firsts), dtype=np.int64)

    def merge(first: int, last: int) -> None:
        some = slice(first, last)
        _merged_likelihoods(ones, cells, firsts[some], seconds[some], out[some])

    _in_parts(merge, len(firsts), 3 * len(firsts) * ones.shape[1] * _LOG)
    return out


def _in_parts(function: Callable[[int, int], R], n: int, steps: int) -> list[R]:
    """Call the function for parts of 0 … n, side by side if there is enough to do."""
    threads = max(1, min(n, available(), steps // _SHORT))
    parts = iter(range(threads))

    def call() -> R:
        part = next(parts)
        return function(part * n // threads, (part + 1) * n // threads)

    return run_in_threads(call, threads, Event())


def path_squares(first: Floats, second: Floats, third: Floats) -> tuple[int, int]:
    """See `reference.path_squares`."""
    of_r, of_v = _path_squares(first.ravel(), second.ravel(), third.ravel())
    return of_r, of_v


def path_further(first: Floats, second: Floats, third: Floats, alpha: float) -> Floats:
    """See `reference.path_further`."""
    out = np.empty_like(first)
    _path_further(first, second, third, alpha, out)
    return out


@njit(types.void(_WORDS, _INTS1, types.Array(types.uint32, 1, "C")), nogil=True, cache=True)
def _set_bits(words, starts, cells):  # type: ignore[no-untyped-def]
    for row in range(words.shape[0]):
        at = starts[row]
        for w in range(words.shape[1]):
            word = words[row, w]
            while word != 0:
                cells[at] = 64 * w + _trailing_zeros(word)
                word &= word - np.uint64(1)
                at += 1


@njit(types.void(_INTS1, _CELLS, _INTS2, _OUT2), nogil=True, cache=True)
def _score_events(starts, cells, table, out):  # type: ignore[no-untyped-def]
    """Tiles of components in turn for all rows, so that a tile of the table stays in the cache."""
    rows, width = out.shape
    i = 0
    while i < width:
        tile = 64 if width - i >= 64 else 32 if width - i >= 32 else 16 if width - i >= 16 else 8
        for row in range(rows):
            a, b, to = starts[row], starts[row + 1], row * width + i
            if tile == 64:
                _sum_64(out, to, table, width, i, cells, a, b)
            elif tile == 32:
                _sum_32(out, to, table, width, i, cells, a, b)
            elif tile == 16:
                _sum_16(out, to, table, width, i, cells, a, b)
            else:
                _sum_8(out, to, table, width, i, cells, a, b)
        i += tile


@njit(types.void(_OUT2, _INTS1, _OUT2, _CELLS, _INTS1), nogil=True, cache=True)
def _spread(shares, rows, sums, cells, starts):  # type: ignore[no-untyped-def]
    """Add the shares of some rows to the lines of their events, tile by tile as `_score_events`."""
    width = shares.shape[1]
    i = 0
    while i < width:
        tile = 64 if width - i >= 64 else 32 if width - i >= 32 else 16 if width - i >= 16 else 8
        for row in rows:
            a, b, at = starts[row], starts[row + 1], row * width + i
            if tile == 64:
                _spread_64(shares, at, sums, width, i, cells, a, b)
            elif tile == 32:
                _spread_32(shares, at, sums, width, i, cells, a, b)
            elif tile == 16:
                _spread_16(shares, at, sums, width, i, cells, a, b)
            else:
                _spread_8(shares, at, sums, width, i, cells, a, b)
        i += tile


@njit(types.void(_INTS2, _INTS1, _INTS1, _INTS1, _OUT1), nogil=True, cache=True)
def _disagreement(values, firsts, seconds, shift, out):  # type: ignore[no-untyped-def]
    for place in range(len(firsts)):
        i, j, total = firsts[place], seconds[place], 0
        for s in range(len(shift)):
            a, b = values[i, s], values[j, s]
            total += abs(a) + abs(b) - abs(a + b - shift[s])
        out[place] = total


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


@njit(
    types.void(_WORDS, _INTS1, _WORDS, types.Array(types.uint64, 3, "C", readonly=True), _OUT1),
    nogil=True, cache=True,
)  # fmt: skip
def _owned_scores(words, owner, base, planes, out):  # type: ignore[no-untyped-def]
    for row in range(words.shape[0]):
        if owner[row] < 0:
            continue
        mine, origin, total = planes[owner[row]], base[owner[row]], 0
        for p in range(mine.shape[0]):
            count = 0
            for w in range(words.shape[1]):
                count += _popcount((words[row, w] ^ origin[w]) & mine[p, w])
            total += count << p
        out[row] = total


@njit(types.void(_WORDS, _INTS2, _INTS1, _OUT2), nogil=True, cache=True)
def _sum_shares(words, shares, owner, out):  # type: ignore[no-untyped-def]
    n_rows, n_words = words.shape
    rows, given = np.empty(n_rows, dtype=np.int64), np.empty(n_rows, dtype=np.int64)
    for i in range(shares.shape[1]):
        n_shares = 0
        for row in range(n_rows):
            if owner[row] < 0 and shares[row, i] != 0:
                rows[n_shares], given[n_shares] = row, shares[row, i]
                n_shares += 1
        if n_shares > 0:
            for w in range(n_words):
                _add_where(out, 64 * (i * n_words + w), words, w, n_words, rows, given, n_shares)


@njit(inline="always", error_model="numpy")
def _log(value):  # type: ignore[no-untyped-def]
    """See `reference.logs`; of a normal float. Has no branch, so that loops vectorise."""
    bits = _bits_of(value)
    exponent = (bits - _ROOT_HALF_BITS) >> 52
    mantissa = _as_float(bits - (exponent << 52))
    z = (mantissa - 1.0) / (mantissa + 1.0)
    s, twice = z * z, z + z
    series = s * (1 / 3 + s * (1 / 5 + s * (1 / 7 + s * (1 / 9 + s * (1 / 11)))))
    return np.int64(np.rint((exponent * LN2 + (twice + twice * series)) * 2.0**LOG_BITS))


@njit(inline="always", error_model="numpy")
def _exp(nats):  # type: ignore[no-untyped-def]
    """See `reference.exps`."""
    octaves = np.rint(nats * PER_LN2)
    r = nats - octaves * SHORT_LN2
    high = r * (1 / 120 + r * (1 / 720 + r * (1 / 5040 + r * (1 / 40320 + r * (1 / 362880)))))
    power = 1.0 + r * (1.0 + r * (1 / 2 + r * (1 / 6 + r * (1 / 24 + high))))
    return np.int64(np.rint(power * _as_float((np.int64(octaves) + (1023 + EXP_BITS)) << 52)))


@njit(types.void(_FLOATS1, _OUT1), nogil=True, cache=True, error_model="numpy")
def _logs(values, out):  # type: ignore[no-untyped-def]
    for i in range(len(values)):
        out[i] = _log(values[i])


@njit(
    types.void(_FLOATS2, _BOOLS1, types.int64, types.int64, types.int64, _OUT2, _OUT1),
    nogil=True,
    cache=True,
    error_model="numpy",
)
def _cell_lines(p, base, shift, first, last, lines, at_base):  # type: ignore[no-untyped-def]
    (n, k), missing = p.shape, len(lines) > len(p)
    for s in range(first, last):
        is_one = base[s]
        for i in range(k):
            if_one, if_zero = _log(p[s, i]) >> shift, _log(1 - p[s, i]) >> shift
            here, other = (if_one, if_zero) if is_one else (if_zero, if_one)
            lines[s, i] = other - here
            at_base[i] += here
        if missing:
            for i in range(k):
                here = _log(p[s, i] if is_one else 1 - p[s, i]) >> shift
                lines[n + s, i] = -here


@njit(types.void(_INTS2, _BOOLS1, _INTS1, _OUT1), nogil=True, cache=True)
def _mean_line(lines, base, rates, out):  # type: ignore[no-untyped-def]
    for s in range(len(lines)):
        rate = rates[s]
        if base[s]:
            for i in range(lines.shape[1]):
                out[i] += (((-lines[s, i] >> 5) * rate) >> 25) + lines[s, i]
        else:
            for i in range(lines.shape[1]):
                out[i] += ((lines[s, i] >> 5) * rate) >> 25


@njit(types.UniTuple(types.int64, 2)(_FLOATS1, _FLOATS1, _FLOATS1), nogil=True, cache=True)
def _path_squares(first, second, third):  # type: ignore[no-untyped-def]
    of_r, of_v = np.int64(0), np.int64(0)
    for i in range(len(first)):
        r = second[i] - first[i]
        v = (third[i] - second[i]) - r
        rounded_r, rounded_v = np.int64(np.rint(r * 2.0**19)), np.int64(np.rint(v * 2.0**19))
        of_r += rounded_r * rounded_r
        of_v += rounded_v * rounded_v
    return of_r, of_v


@njit(
    types.void(_FLOATS2, _FLOATS2, _FLOATS2, types.float64, types.Array(types.float64, 2, "C")),
    nogil=True,
    cache=True,
)
def _path_further(first, second, third, alpha, out):  # type: ignore[no-untyped-def]
    twice, square, k = 2 * alpha, alpha * alpha, first.shape[1]
    for s in range(len(first)):
        least, most = third[s, 0], third[s, 0]
        for i in range(1, k):
            least, most = min(least, third[s, i]), max(most, third[s, i])
        least, most = least / 2, (1 + most) / 2
        for i in range(k):
            r = second[s, i] - first[s, i]
            v = (third[s, i] - second[s, i]) - r
            x = first[s, i] + twice * r + square * v
            x = least if x < least else x
            out[s, i] = most if x > most else x


@njit(nogil=True, error_model="numpy")
def _sum_times_log(values):  # type: ignore[no-untyped-def]
    """Σ x·ln x in units of 2^-16, each rounded, for normal floats."""
    total = np.int64(0)
    for s in range(len(values)):
        total += np.int64(np.rint(values[s] * _log(values[s]) * 2.0**-16))
    return total


@njit(
    types.void(_FLOATS2, _FLOATS2, _INTS1, _INTS1, _OUT1),
    nogil=True,
    cache=True,
    error_model="numpy",
)
def _merged_likelihoods(ones, cells, firsts, seconds, out):  # type: ignore[no-untyped-def]
    n, one_count = ones.shape[1], cells.shape[1] == 1  # of cells, in all columns
    a, b, both = np.empty(n), np.empty(n), np.empty(1 if one_count else n)
    for place in range(len(firsts)):
        i, j, mixed = firsts[place], seconds[place], 0
        for s in range(n):
            t = 0 if one_count else s
            o, c = ones[i, s] + ones[j, s], cells[i, t] + cells[j, t]
            a[mixed], b[mixed], both[0 if one_count else mixed] = o, c - o, c
            mixed += (o > 0.0) & (o < c)
        total = _sum_times_log(a[:mixed]) + _sum_times_log(b[:mixed])
        if one_count and mixed > 0:
            total -= mixed * _sum_times_log(both)
        elif mixed > 0:
            total -= _sum_times_log(both[:mixed])
        out[place] = total


@njit(nogil=True, inline="always", error_model="numpy")
def _responsibilities(scores, n, bits, shares):  # type: ignore[no-untyped-def]
    """The shares of one row, given the scores of n components.

    Returns the best score, ln of the normaliser, the place of the best component, and how many are
    within the cut; if that is one, `shares` are not written. No loop but the last has a branch.
    """
    cut, unit = CUT_NATS << bits, 1.0 / (1 << bits)
    top = scores[0]
    for j in range(1, n):
        top = max(top, scores[j])
    n_alive, floor = 0, top - cut
    for j in range(n):
        n_alive += scores[j] > floor
    best = 0
    while scores[best] != top:
        best += 1
    if n_alive == 1:
        return top, np.int64(0), best, n_alive
    total = np.int64(0)
    for j in range(n):
        gap = min(top - scores[j], cut)
        e = _exp(-(gap * unit))
        e = e if gap < cut else np.int64(0)
        shares[j] = e
        total += e
    given, per_unit = np.int64(0), _SHARE_ONE / total
    for j in range(n):
        # A quotient below 2^30, in floats within 2^-20: at most one off when cut to a whole number,
        # and set right by what it leaves. A division takes far longer.
        share = np.int64(shares[j] * per_unit)
        left = (shares[j] << SHARE_BITS) - share * total
        share += np.int64(left >= total) - np.int64(left < 0)
        shares[j] = share
        given += share
    shares[best] += _SHARE_ONE - given
    return top, _log(total * 2.0**-EXP_BITS), best, n_alive


@njit(types.void(_INTS2, types.int64, _OUT2, _OUT1, _OUT1), nogil=True, cache=True)
def _posteriors(scores, bits, shares, tops, rest):  # type: ignore[no-untyped-def]
    k = scores.shape[1]
    for row in range(scores.shape[0]):
        tops[row], rest[row], best, n_alive = _responsibilities(scores[row], k, bits, shares[row])
        if n_alive == 1:
            shares[row] = 0
            shares[row, best] = _SHARE_ONE


@njit(types.void(_INTS2, types.int64, types.int64, _GAPS2), nogil=True, cache=True)
def _make_gaps(table, k, shift, out):  # type: ignore[no-untyped-def]
    for line in range(len(table)):
        top = table[line, 0]
        for i in range(1, k):
            top = max(top, table[line, i])
        for i in range(k):
            out[line, i] = np.uint16(min((top - table[line, i]) >> shift, _MAX_GAP))


@njit(
    types.int64(_GAPS1, _GAPS2, _GAPS1, _CELLS, types.int64, types.int64, _OUT1),
    nogil=True,
    cache=True,
)
def _screened(first, gaps, sums, cells, a, b, numbers):  # type: ignore[no-untyped-def]
    """The components that may have a share of the row with the events cells[a:b]; how many."""
    width = len(first)
    for i in range(width):
        sums[i] = first[i]
    i = 0
    while width - i >= 8 * _GAPS:
        _gaps_8(sums, i, gaps, width, i, cells, a, b)
        i += 8 * _GAPS
    if width - i >= 4 * _GAPS:
        _gaps_4(sums, i, gaps, width, i, cells, a, b)
        i += 4 * _GAPS
    if width - i >= 2 * _GAPS:
        _gaps_2(sums, i, gaps, width, i, cells, a, b)
        i += 2 * _GAPS
    if width - i >= _GAPS:
        _gaps_1(sums, i, gaps, width, i, cells, a, b)
    least = _MAX_GAP
    for i in range(0, width, _GAPS):
        least = min(least, _least_gap(sums, i))
    limit = min(least + b - a + 2 + (CUT_NATS << _GAP_BITS), _MAX_GAP)
    n = 0
    for i in range(0, width, _GAPS):
        mask = _gaps_up_to(sums, i, limit)
        while mask != 0:
            numbers[n] = i + _trailing_zeros(mask)
            n += 1
            mask &= mask - np.uint64(1)
    return n


@njit(inline="always")
def _score_some(const, table, cells, a, b, numbers, values):  # type: ignore[no-untyped-def]
    """The scores of the components with these numbers for the row with the events cells[a:b]."""
    for j in range(len(numbers)):
        i = numbers[j]
        score = const[i]
        for t in range(a, b):
            score += table[cells[t], i]
        values[j] = score


@njit(inline="always")
def _list_positive(shares, numbers):  # type: ignore[no-untyped-def]
    """Move the shares above 0 to the front, and list which they were; how many."""
    n = 0
    for i in range(len(shares)):
        share = shares[i]
        shares[n], numbers[n] = share, i
        n += share > 0
    return n


@njit(
    types.void(
        _INTS1, _CELLS, _INTS1, _INTS1, _INTS2, _GAPS1, _GAPS2, types.int64,
        _OUT2, _OUT1, _OUT2, _OUT1,
    ),
    nogil=True,
    cache=True,
    error_model="numpy",
)  # fmt: skip
def _event_pass(  # type: ignore[no-untyped-def]
    starts, cells, weights, const, table, first, gaps, bits, whole, mass, sums, totals
):
    n_rows, width = len(starts) - 1, len(const)
    chunk_rows = 1 if len(first) > 0 else _CHUNK_ROWS
    scores = np.empty((min(n_rows, chunk_rows), width), dtype=np.int64)
    numbers = np.empty(width + _GAPS, dtype=np.int64)
    shares_of, some = np.empty_like(scores), np.empty(width, dtype=np.int64)
    gap_sums = np.empty(len(first), dtype=np.uint16)
    shared = np.empty(chunk_rows, dtype=np.int64)  # rows whose shares are spread at the end
    apart, last = len(whole) > 0, whole.shape[1] - 1
    for start in range(0, n_rows, chunk_rows):
        rows = min(chunk_rows, n_rows - start)
        n = width
        if len(first) > 0:
            n = _screened(first, gaps, gap_sums, cells, starts[start], starts[start + 1], numbers)
        in_full = _FULL_SHARE * n >= width  # few are in question otherwise
        if in_full and not (apart and n == 1):
            scores[:rows] = const
            _score_events(starts[start : start + rows + 1], cells, table, scores[:rows])
        n_shared = 0
        for row in range(rows):
            a, b, shares = starts[start + row], starts[start + row + 1], shares_of[row]
            weight = weights[start + row] if len(weights) > 0 else 1
            top, log, best, n_alive = np.int64(0), np.int64(0), numbers[0], 1
            if not (apart and n == 1):
                if in_full:
                    top, log, best, n_alive = _responsibilities(scores[row], width, bits, shares)
                else:
                    _score_some(const, table, cells, a, b, numbers[:n], some)
                    top, log, place, n_alive = _responsibilities(some, n, bits, shares)
                    best = numbers[place]
            if n_alive == 1 and apart:
                mine = whole[best]
                for t in range(a, b):
                    mine[cells[t]] += weight
                mine[last] += weight
                continue
            totals[0] += (top >> 31) * weight
            totals[1] += (top & 0x7FFFFFFF) * weight
            totals[2] += (log >> 31) * weight
            totals[3] += (log & 0x7FFFFFFF) * weight
            totals[4] += log != 0
            if n_alive == 1:
                shares[0], numbers[0] = _SHARE_ONE, best
            elif in_full:
                if _FULL_SHARE * n_alive >= width and n_alive > _FEW_ALIVE:
                    for i in range(width):
                        shares[i] *= weight
                        mass[i] += shares[i]
                    shared[n_shared] = row
                    n_shared += 1
                    continue
                n_alive = _list_positive(shares, numbers)
            else:
                n_alive = n
            for j in range(n_alive):
                i, share = numbers[j], shares[j] * weight
                mass[i] += share
                for t in range(a, b):
                    sums[cells[t], i] += share
        if n_shared > 0:
            _spread(shares_of, shared[:n_shared], sums, cells, starts[start:])


@njit(types.void(_INTS2, _INTS1, _INTS2, _OUT1, _OUT2, _OUT1), nogil=True, cache=True)
def _add_whole(whole, const, table, mass, sums, totals):  # type: ignore[no-untyped-def]
    """Products of a weight and a score are added in halves. The weights of a column add up to less
    than 2^31, so that neither half of its sum leaves 64 bits.
    """
    k, n_lines = len(whole), len(table)
    counts = np.empty((_WIDE, k), dtype=np.int64)
    high, low = np.int64(0), np.int64(0)
    for first in range(0, n_lines + 1, _WIDE):
        tile = min(_WIDE, n_lines + 1 - first)
        for i in range(k):
            for t in range(tile):
                counts[t, i] = whole[i, first + t]
        for t in range(tile):
            line, count = first + t, counts[t]
            of_high, of_low = np.int64(0), np.int64(0)
            if line == n_lines:
                for i in range(k):
                    mass[i] += count[i] << SHARE_BITS
                    of_high += (const[i] >> 31) * count[i]
                    of_low += (const[i] & 0x7FFFFFFF) * count[i]
            else:
                for i in range(k):
                    sums[line, i] += count[i] << SHARE_BITS
                    of_high += (table[line, i] >> 31) * count[i]
                    of_low += (table[line, i] & 0x7FFFFFFF) * count[i]
            low += of_low & 0x7FFFFFFF
            high += of_high + (of_low >> 31)
    totals[0] += high
    totals[1] += low


@njit(
    types.void(
        _WORDS, _WORDS, _WORDS, _INTS1, _INTS1, _INTS1, _INTS1, types.int64, _OUT1, _OUT2, _OUT1
    ),
    nogil=True,
    cache=True,
    error_model="numpy",
)
def _popcount_pass(  # type: ignore[no-untyped-def]
    words, templates, across, sizes, const, per_one, per_match, bits, mass, sums, totals
):
    (n_rows, n_words), k = words.shape, len(const)
    owner = np.empty(n_rows, dtype=np.int64)
    scores = np.empty((min(n_rows, _CHUNK_ROWS), k), dtype=np.int64)
    shares = np.empty_like(scores)
    for first in range(0, n_rows, _CHUNK_ROWS):
        rows = min(_CHUNK_ROWS, n_rows - first)
        chunk = words[first : first + rows]
        if rows < _TILE_ROWS or k < _WIDE:
            _hamming(chunk, templates, scores[:rows])
        else:
            _hamming_by_tiles(chunk, across, scores[:rows])
        n_shared = 0
        for row in range(rows):
            ones = 0
            for w in range(n_words):
                ones += _popcount(chunk[row, w])
            for i in range(k):
                matches = (ones + sizes[i] - scores[row, i]) >> 1
                scores[row, i] = const[i] + per_one[i] * ones + per_match[i] * matches
            top, log, best, n_alive = _responsibilities(scores[row], k, bits, shares[row])
            totals[0] += top >> 31
            totals[1] += top & 0x7FFFFFFF
            totals[2] += log >> 31
            totals[3] += log & 0x7FFFFFFF
            totals[4] += log != 0
            if n_alive == 1:
                owner[first + row] = best
                mass[best] += _SHARE_ONE
            else:
                owner[first + row] = -1
                n_shared += 1
                for i in range(k):
                    mass[i] += shares[row, i]
        if n_shared > 0:
            _sum_shares(chunk, shares[:rows], owner[first : first + rows], sums)
    _count_whole(words, owner, sums)
