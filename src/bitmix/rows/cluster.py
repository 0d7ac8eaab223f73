"""Rows on a Dask cluster, behind the same protocol and with the same bits.

Workers pack their own blocks and keep them. Templates are sent to all workers; integers come back
and are added in a tree. Without a cluster, Dask's threads in this process do the same.
"""

import os
import time
from collections.abc import Callable, Sequence
from functools import cached_property, partial, reduce
from operator import add
from typing import Any

import dask.array as da
import numpy as np
from dask.delayed import Delayed, delayed
from numpy.typing import NDArray

from bitmix.errors import ClusterError, FileFormatError, InputError
from bitmix.kernels.bits import WORD, Words, pack, unpack, words_for
from bitmix.kernels.events import BASE_ROWS
from bitmix.kernels.fixed import Ints
from bitmix.kernels.threads import one_thread
from bitmix.rows.bitfile import WordsFile
from bitmix.rows.codes import Codes
from bitmix.rows.convert import all_known, fixed_weights, spans, to_words
from bitmix.rows.packed import BitMatrix, Total
from bitmix.rows.protocol import PLAIN, A, Block, Layout, T
from bitmix.rows.workers import Workers
from bitmix.support.randomness import draw_by_weight, draw_without_replacement

_FAN_IN = 8
_BLOCK_BYTES = 1 << 26
_ATTEMPTS = 6


class ClusterRows:
    """Rows in blocks that workers keep, packed.

    Use `of` or `of_file`. Nothing is computed until it is needed, and `map_rows` is lazy.
    """

    remote = True

    def __init__(
        self, blocks: Sequence[Delayed], lengths: Sequence[int] | None, n_columns: int,
        names: tuple[str, ...] | None, layout: Layout = PLAIN,
    ) -> None:  # fmt: skip
        self._lazy_blocks, self._lengths, self._n_columns = list(blocks), lengths, n_columns
        self._workers: Workers | None = None
        self._persisted: list[Delayed] | None = None
        self.feature_names = names
        self.layout = layout
        self.codes: Codes | None = None

    @classmethod
    def of(
        cls, X: Any, binarize: float | None = None, *, missing: bool = False, mask: Any = None,
        sample_weight: Any = None,
    ) -> "ClusterRows":  # fmt: skip
        """A Dask array or table of 0 and 1, chunked in any way, or rows on a cluster.

        Rows are counted when they are needed, if the sizes of the chunks are not known. Cells may
        be missing if `missing` is set; see `bitmix.rows.as_rows`.
        """
        if isinstance(X, ClusterRows):
            if mask is not None:
                raise InputError("mask needs a Dask array or table, X is packed already")
            rows = X
        else:
            rows = cls._of_dask(X, binarize, missing, mask)
        if rows.layout.missing and not missing:
            raise InputError("X has missing cells: fill them first, or use TemplateMixture")
        return rows if sample_weight is None else rows._weighted(sample_weight)

    @classmethod
    def _of_dask(cls, X: Any, binarize: float | None, missing: bool, mask: Any) -> "ClusterRows":
        names = None
        if hasattr(X, "to_dask_array"):
            names = tuple(map(str, X.columns))
            X = X.to_dask_array()
        if X.ndim != 2:
            raise InputError(f"X must have rows and columns, got a Dask array of {X.ndim} axes")
        if np.isnan(X.shape[1]):
            raise InputError("the number of columns of X is not known: X.compute_chunk_sizes()")
        if mask is not None:
            if np.shape(mask) != X.shape:
                raise InputError(
                    f"mask must be True where a cell of X is missing, shape {X.shape}, got shape "
                    f"{np.shape(mask)}"
                )
            X = da.where(da.asarray(mask), np.nan, X)
        n = int(X.shape[1])
        X = X.rechunk({1: n})
        heights = X.chunks[0]
        known = not any(np.isnan(height) for height in heights)
        if known and sum(heights) == 0:
            raise InputError("Found array with 0 sample(s): at least one row is needed")
        lengths = [int(height) for height in heights] if known else None
        starts = np.cumsum([0, *heights[:-1]]).tolist() if known else [None] * len(heights)
        pack = delayed(_packed, pure=True)
        may_miss = missing and X.dtype.kind not in "biu"  # numbers that have no NaN
        blocks = [
            pack(part, n, lengths and lengths[number], start, number, binarize, may_miss)
            for number, (part, start) in enumerate(zip(X.to_delayed().ravel(), starts, strict=True))
        ]
        return cls(blocks, lengths, n, names, Layout(may_miss))

    def _weighted(self, sample_weight: Any) -> "ClusterRows":
        """The same rows with weights; rows of weight 0 are left out."""
        if hasattr(sample_weight, "compute"):
            sample_weight = sample_weight.compute()
        weights, weight_one = fixed_weights(sample_weight, self.shape[0])
        assert self._lengths is not None
        parts = np.split(weights, np.cumsum(self._lengths)[:-1])
        attach = delayed(_with_weights, pure=True)
        plain = words_for(self._n_columns) * (2 if self.layout.missing else 1)
        blocks = [
            attach(block, part, plain) for block, part in zip(self._lazy_blocks, parts, strict=True)
        ]
        layout = Layout(self.layout.missing, weight_one)
        lengths = [int(np.count_nonzero(part)) for part in parts]
        rows = ClusterRows(blocks, lengths, self._n_columns, self.feature_names, layout)
        rows.codes = self.codes
        return rows

    @classmethod
    def of_file(
        cls, path: str | os.PathLike[str], *, block_bytes: int | None = None
    ) -> "ClusterRows":
        """A packed file that every worker can read: each reads its own part."""
        file = WordsFile(path)
        m, words = file.shape
        height = max(1, (block_bytes or _BLOCK_BYTES) // (8 * words))
        read = delayed(_read, pure=True)
        parts = list(spans(m, height))
        blocks = [read(str(file.path), file.stamp, *part) for part in parts]
        lengths = [stop - start for start, stop in parts]
        rows = cls(blocks, lengths, file.n_columns, file.names, file.layout)
        rows.codes = file.codes
        return rows

    @property
    def shape(self) -> tuple[int, int]:
        if self._lengths is None:
            self._lengths = self._compute(lambda blocks: list(map(delayed(len), blocks)))
            if sum(self._lengths) == 0:
                raise InputError("Found array with 0 sample(s): at least one row is needed")
        return sum(self._lengths), self._n_columns

    def take_words(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> Words:
        """The rows with these numbers, as they are laid out, fetched from the workers."""
        numbers = np.asarray(indices, dtype=np.int64)
        m, _ = self.shape
        assert self._lengths is not None
        if numbers.size and not -m <= numbers.min() <= numbers.max() < m:
            raise IndexError(f"there are {m:,} rows, asked for row {numbers.max()}")
        numbers = np.where(numbers < 0, numbers + m, numbers)
        starts = np.cumsum([0, *self._lengths])
        owner = np.searchsorted(starts, numbers, side="right") - 1
        out = np.empty((len(numbers), self.layout.width(self._n_columns)), dtype=WORD)
        asked = np.unique(owner)
        get = delayed(_rows_of, pure=False)
        parts = self._compute(
            lambda blocks: [get(blocks[b], numbers[owner == b] - starts[b]) for b in asked]
        )
        for b, part in zip(asked, parts, strict=True):
            out[owner == b] = part
        return out

    def take(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> Words:
        """The packed bits of the rows with these numbers.

        A missing cell has the value of most rows in its column.
        """
        words, n = self.take_words(indices), self._n_columns
        bits, known = self.layout.bits(words, n), self.layout.known(words, n)
        if known is None:
            return np.ascontiguousarray(bits)
        ones, cells = self.map_reduce(_column_counts)
        return bits | (pack((2 * ones > cells)[None]) & ~known)

    @cached_property
    def _weight_units(self) -> Ints | None:
        if not self.layout.weight_one:
            return None
        parts = self._compute(lambda blocks: [delayed(_last_word)(block) for block in blocks])
        return np.concatenate(parts).astype(np.int64)

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weight of each row."""
        units = self._weight_units
        return np.ones(self.shape[0]) if units is None else units / self.layout.weight_one

    @property
    def total_weight(self) -> float:
        """The sum of the weights: the number of rows if they have none."""
        return float(self.weights.sum()) if self.layout.weight_one else float(self.shape[0])

    def distinct(self) -> "ClusterRows":
        """The rows themselves."""
        return self

    def repeated(self) -> "ClusterRows":
        """The rows themselves: they are not repeated on a cluster."""
        return self

    def draw(self, l: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """The numbers of l random rows, drawn as often as their weights say."""
        units = self._weight_units
        if units is None:
            return draw_without_replacement(self.shape[0], l, rng)
        return draw_by_weight(units, l, rng)

    def subset(self, indices: NDArray[np.int64]) -> BitMatrix:
        """The rows with these numbers, in memory, with their known cells and weights."""
        words = self.take_words(indices)
        return BitMatrix.trusted(words, self._n_columns, self.feature_names, self.layout)

    @cached_property
    def base(self) -> NDArray[np.bool_]:
        """Which columns are mostly 1 in the first rows."""
        return self.subset(np.arange(min(self.shape[0], BASE_ROWS))).base

    @property
    def very_sparse(self) -> bool:
        """False: the workers list the events of their blocks in each pass."""
        return False

    def fold(
        self, start: Callable[[], T], *, block_cells: int = 1, workers: int = 1 << 16,
        in_chunks: bool = False,
    ) -> T:  # fmt: skip
        """The sum of accumulators, made by `start`, to which all rows were added."""
        base = self.base

        def one_pass(blocks: Sequence[Delayed]) -> list[Delayed]:
            # a task of its own, which Dask repeats if its worker dies; scattered data would be lost
            shared = delayed(start, traverse=False)
            level = [
                delayed(_folded, pure=False)(block, base, self.layout, shared, block_cells)
                for block in blocks
            ]
            while len(level) > 1:
                groups = [level[i : i + _FAN_IN] for i in range(0, len(level), _FAN_IN)]
                level = [delayed(_added, pure=False)(group) for group in groups]
            return level

        total: T | None = self._compute(one_pass)[0]
        if total is None:
            raise InputError("Found array with 0 sample(s): at least one row is needed")
        return total

    def map_reduce(
        self, function: Callable[[Block], A], *, block_cells: int = 1, workers: int = 1 << 16
    ) -> A:
        """The sum of `function` over all rows."""
        return self.fold(partial(Total, function), block_cells=block_cells).value

    def map_rows(
        self, function: Callable[[Block], NDArray[Any]], *, block_cells: int = 1
    ) -> NDArray[Any]:
        """The results of `function` for each row, as a Dask array that is not computed yet."""
        example = _no_rows(self._n_columns, self.layout).map_rows(function)
        blocks = self._persisted or self._lazy_blocks
        lengths = [np.nan] * len(blocks) if self._lengths is None else self._lengths
        apply = delayed(_mapped, pure=False)
        parts = [
            da.from_delayed(
                apply(block, self._n_columns, self.layout, function, block_cells),
                shape=(length, *example.shape[1:]),
                dtype=example.dtype,
            )
            for block, length in zip(blocks, lengths, strict=True)
        ]
        lazy: NDArray[Any] = da.concatenate(parts, allow_unknown_chunksizes=True)
        return lazy

    def _compute(self, make_tasks: Callable[[Sequence[Delayed]], list[Delayed]]) -> Sequence[Any]:
        """The results of tasks on the persisted blocks; all is made again if workers are lost."""
        if self._workers is None:
            self._workers = Workers()
        workers, last_error = self._workers, ""
        for attempt in range(_ATTEMPTS):
            try:
                if attempt:
                    time.sleep(0.5 * (attempt - 1))
                    workers.wait_for_worker()
                if attempt or self._persisted is None:
                    self._persisted = workers.persist(self._lazy_blocks)
                return workers.compute(make_tasks(self._persisted))
            except (InputError, FileFormatError, ClusterError):
                raise
            except Exception as error:
                last_error = f"{type(error).__name__}: {error}".partition("\n")[0]
                if not workers.is_loss(error):
                    number = workers.failed_block(self._persisted or ())
                    which = "a block" if number is None else f"block {number}"
                    raise InputError(f"{which} of X could not be computed: {last_error}") from error
        raise ClusterError(
            f"workers were lost in each of {_ATTEMPTS} attempts at a pass, the last time with "
            f"{last_error}: repair the cluster, then fit again"
        )


def _packed(
    part: Any, n: int, height: int | None, start: int | None, number: int,
    binarize: float | None, missing: bool,
) -> Words:  # fmt: skip
    shape = getattr(part, "shape", None)
    if shape is None or len(shape) != 2 or shape != (shape[0] if height is None else height, n):
        rows = "" if height is None else f"{height:,} rows and "
        got = type(part).__name__ if shape is None else f"shape {tuple(shape)}"
        raise InputError(f"block {number} of X should have {rows}{n:,} columns, but has {got}")
    if shape[0] == 0:
        return np.empty((0, Layout(missing).width(n)), dtype=WORD)
    try:
        words, known, _ = to_words(part, binarize, missing=missing, first_row=start or 0)
    except InputError as error:
        if start is not None:
            raise
        raise InputError(f"{error} (rows counted within block {number} of X)") from None
    if not missing:
        return words
    return np.concatenate([words, all_known(len(words), n) if known is None else known], axis=1)


def _last_word(words: Words) -> Words:
    return words[:, -1]


def _with_weights(words: Words, weights: Ints, width: int) -> Words:
    """The rows with their weights, in place of those that they had."""
    joined = np.concatenate([words[:, :width], weights.astype(WORD)[:, None]], axis=1)
    return joined[weights > 0]


def _column_counts(block: Block) -> Ints:
    """Ones and known cells per column, rows counted by weight."""
    n, known, weights = block.n_columns, block.known, block.weights
    assert known is not None
    counts = np.ones(len(known), dtype=np.int64) if weights is None else weights
    return np.array([counts @ unpack(part, n).astype(np.int64) for part in (block.bits, known)])


def _read(path: str, stamp: str, start: int, stop: int) -> Words:
    file = WordsFile(path)
    if file.stamp != stamp:
        raise InputError(f"{path} was changed while it was read: fit again")
    return file.read(start, stop)


def _rows_of(words: Words, numbers: NDArray[np.int64]) -> Words:
    return words[numbers]


def _folded(
    words: Words, base: NDArray[np.bool_], layout: Layout, start: Callable[[], T], cells: int
) -> T | None:
    if len(words) == 0:
        return None
    rows = BitMatrix.trusted(words, len(base), layout=layout)
    rows.base = base  # of all blocks alike, so that the sums of their events can be added
    with one_thread():
        return rows.fold(start, block_cells=cells)


def _added(parts: list[Any]) -> Any:
    """The sum of the parts that are not None; None if there are no others."""
    present = [part for part in parts if part is not None]
    return reduce(add, present) if present else None


def _mapped(
    words: Words, n: int, layout: Layout, function: Callable[[Block], NDArray[Any]], cells: int
) -> NDArray[Any]:
    if len(words) == 0:
        return _no_rows(n, layout).map_rows(function)[:0]
    with one_thread():
        return BitMatrix.trusted(words, n, layout=layout).map_rows(function, block_cells=cells)


def _no_rows(n: int, layout: Layout) -> BitMatrix:
    """A row of zeros, to see the shape of a result."""
    return BitMatrix.trusted(np.zeros((1, layout.width(n)), dtype=WORD), n, layout=layout)
