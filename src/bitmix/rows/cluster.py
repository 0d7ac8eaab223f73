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
from bitmix.kernels.bits import WORD, Words, words_for
from bitmix.kernels.events import BASE_ROWS, Events, majority
from bitmix.kernels.fixed import Ints
from bitmix.rows.bitfile import WordsFile
from bitmix.rows.convert import spans, to_words
from bitmix.rows.listed import of_events
from bitmix.rows.packed import BitMatrix
from bitmix.rows.protocol import PLAIN, A, Layout
from bitmix.rows.threads import one_thread
from bitmix.rows.workers import Workers
from bitmix.support.randomness import draw_without_replacement

_FAN_IN = 8
_BLOCK_BYTES = 1 << 26
_ATTEMPTS = 6


class ClusterRows:
    """Rows in blocks that workers keep, packed.

    Use `of_array` or `of_file`. Nothing is computed until it is needed, and `map_rows` is lazy.
    """

    layout: Layout = PLAIN
    remote = True

    def __init__(
        self, blocks: Sequence[Delayed], lengths: Sequence[int] | None, n_columns: int,
        names: tuple[str, ...] | None,
    ) -> None:  # fmt: skip
        self._lazy_blocks, self._lengths, self._n_columns = list(blocks), lengths, n_columns
        self._workers: Workers | None = None
        self._persisted: list[Delayed] | None = None
        self.feature_names = names

    @classmethod
    def of_array(cls, X: Any, binarize: float | None = None) -> "ClusterRows":
        """A Dask array or table of 0 and 1, chunked in any way.

        Rows are counted when they are needed, if the sizes of the chunks are not known.
        """
        names = None
        if hasattr(X, "to_dask_array"):
            names = tuple(map(str, X.columns))
            X = X.to_dask_array()
        if X.ndim != 2:
            raise InputError(f"X must have rows and columns, got a Dask array of {X.ndim} axes")
        if np.isnan(X.shape[1]):
            raise InputError("the number of columns of X is not known: X.compute_chunk_sizes()")
        n = int(X.shape[1])
        X = X.rechunk({1: n})
        heights = X.chunks[0]
        known = not any(np.isnan(height) for height in heights)
        if known and sum(heights) == 0:
            raise InputError("Found array with 0 sample(s): at least one row is needed")
        lengths = [int(height) for height in heights] if known else None
        starts = np.cumsum([0, *heights[:-1]]).tolist() if known else [None] * len(heights)
        pack = delayed(_packed, pure=True)
        blocks = [
            pack(part, n, lengths and lengths[number], start, number, binarize)
            for number, (part, start) in enumerate(zip(X.to_delayed().ravel(), starts, strict=True))
        ]
        return cls(blocks, lengths, n, names)

    @classmethod
    def of_file(
        cls, path: str | os.PathLike[str], *, block_bytes: int | None = None
    ) -> "ClusterRows":
        """A packed file that every worker can read: each reads its own part."""
        file = WordsFile(path)
        m, words = file.shape
        rows = max(1, (block_bytes or _BLOCK_BYTES) // (8 * words))
        read = delayed(_read, pure=True)
        parts = list(spans(m, rows))
        blocks = [read(str(file.path), file.stamp, *part) for part in parts]
        return cls(blocks, [stop - start for start, stop in parts], file.n_columns, file.names)

    @property
    def shape(self) -> tuple[int, int]:
        if self._lengths is None:
            self._lengths = self._compute(lambda blocks: list(map(delayed(len), blocks)))
            if sum(self._lengths) == 0:
                raise InputError("Found array with 0 sample(s): at least one row is needed")
        return sum(self._lengths), self._n_columns

    def take(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> Words:
        """The packed rows with these numbers, fetched from the workers."""
        numbers = np.asarray(indices, dtype=np.int64)
        m, _ = self.shape
        assert self._lengths is not None
        if numbers.size and not -m <= numbers.min() <= numbers.max() < m:
            raise IndexError(f"there are {m:,} rows, asked for row {numbers.max()}")
        numbers = np.where(numbers < 0, numbers + m, numbers)
        starts = np.cumsum([0, *self._lengths])
        owner = np.searchsorted(starts, numbers, side="right") - 1
        out = np.empty((len(numbers), words_for(self._n_columns)), dtype=WORD)
        asked = np.unique(owner)
        get = delayed(_rows_of, pure=False)
        parts = self._compute(
            lambda blocks: [get(blocks[b], numbers[owner == b] - starts[b]) for b in asked]
        )
        for b, part in zip(asked, parts, strict=True):
            out[owner == b] = part
        return out

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weight of each row: 1."""
        return np.ones(self.shape[0])

    @property
    def total_weight(self) -> float:
        """The number of rows."""
        return float(self.shape[0])

    def repeated(self) -> "ClusterRows":
        """Each row as often as its weight says: the rows themselves."""
        return self

    def draw(self, l: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """The numbers of l random rows."""
        return draw_without_replacement(self.shape[0], l, rng)

    def subset(self, indices: NDArray[np.int64]) -> BitMatrix:
        """The rows with these numbers, in memory."""
        return BitMatrix(self.take(indices), self._n_columns)

    def map_reduce(
        self, function: Callable[[Words], A], *, block_cells: int = 1, workers: int = 1 << 16
    ) -> A:
        """The sum of `function` over all rows."""

        def one_pass(blocks: Sequence[Delayed]) -> list[Delayed]:
            # a task of its own, which Dask repeats if its worker dies; scattered data would be lost
            shared = delayed(function, traverse=False)
            level = [
                delayed(_folded, pure=False)(block, self._n_columns, shared, block_cells)
                for block in blocks
            ]
            while len(level) > 1:
                groups = [level[i : i + _FAN_IN] for i in range(0, len(level), _FAN_IN)]
                level = [delayed(_added, pure=False)(group) for group in groups]
            return level

        total: A | None = self._compute(one_pass)[0]
        if total is None:
            raise InputError("Found array with 0 sample(s): at least one row is needed")
        return total

    @cached_property
    def base(self) -> NDArray[np.bool_]:
        """Which columns are mostly 1 in the first rows."""
        return majority(self.take(np.arange(min(self.shape[0], BASE_ROWS))), self._n_columns)

    def listed(self) -> None:
        """None: the workers list the events of their blocks in each pass."""

    def map_events(
        self, function: Callable[[Events, Ints | None], A], *, block_cells: int, workers: int
    ) -> A:
        """The sum of `function` over blocks of rows, given their events and their weights."""
        of_words = partial(of_events, function=function, base=self.base, n_columns=self._n_columns)
        return self.map_reduce(of_words, block_cells=block_cells, workers=workers)

    def map_rows(
        self, function: Callable[[Words], NDArray[Any]], *, block_cells: int = 1
    ) -> NDArray[Any]:
        """The results of `function` for each row, as a Dask array that is not computed yet."""
        example = function(np.zeros((1, words_for(self._n_columns)), dtype=WORD))
        blocks = self._persisted or self._lazy_blocks
        lengths = [np.nan] * len(blocks) if self._lengths is None else self._lengths
        apply = delayed(_mapped, pure=False)
        parts = [
            da.from_delayed(
                apply(block, self._n_columns, function, block_cells),
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
    part: Any, n: int, height: int | None, start: int | None, number: int, binarize: float | None
) -> Words:
    shape = getattr(part, "shape", None)
    if shape is None or len(shape) != 2 or shape != (shape[0] if height is None else height, n):
        rows = "" if height is None else f"{height:,} rows and "
        got = type(part).__name__ if shape is None else f"shape {tuple(shape)}"
        raise InputError(f"block {number} of X should have {rows}{n:,} columns, but has {got}")
    if shape[0] == 0:
        return np.empty((0, words_for(n)), dtype=WORD)
    try:
        return to_words(part, binarize, first_row=start or 0)[0]
    except InputError as error:
        if start is not None:
            raise
        raise InputError(f"{error} (rows counted within block {number} of X)") from None


def _read(path: str, stamp: str, start: int, stop: int) -> Words:
    file = WordsFile(path)
    if file.stamp != stamp:
        raise InputError(f"{path} was changed while it was read: fit again")
    return file.read(start, stop)


def _rows_of(words: Words, numbers: NDArray[np.int64]) -> Words:
    return words[numbers]


def _folded(words: Words, n: int, function: Callable[[Words], A], cells: int) -> A | None:
    if len(words) == 0:
        return None
    with one_thread():
        return BitMatrix(words, n).map_reduce(function, block_cells=cells)


def _added(parts: list[Any]) -> Any:
    """The sum of the parts that are not None; None if there are no others."""
    present = [part for part in parts if part is not None]
    return reduce(add, present) if present else None


def _mapped(
    words: Words, n: int, function: Callable[[Words], NDArray[Any]], cells: int
) -> NDArray[Any]:
    if len(words) == 0:
        return function(np.zeros((1, words_for(n)), dtype=WORD))[:0]
    with one_thread():
        return BitMatrix(words, n).map_rows(function, block_cells=cells)
