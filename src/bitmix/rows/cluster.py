"""Rows on a Dask cluster: the same protocol, and so the same bits.

Workers pack their own blocks and keep them; templates go out to all of them; whole numbers come
back and are added in a tree. With no cluster about, Dask's threads of this process do the same.
"""

import os
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any

import dask.array as da
import numpy as np
from dask.delayed import Delayed, delayed
from numpy.typing import NDArray

from bitmix.errors import ClusterError, FileFormatError, InputError
from bitmix.kernels.bits import WORD, Words, words_for
from bitmix.rows.bitfile import WordsFile
from bitmix.rows.convert import to_words
from bitmix.rows.packed import BitMatrix
from bitmix.rows.protocol import PLAIN, A, Layout
from bitmix.rows.threads import one_thread
from bitmix.rows.workers import Workers, short

_FAN_IN = 8
_BLOCK_BYTES = 1 << 26
_HASHED_ROWS = 1 << 14


class ClusterRows:
    """Rows in blocks that workers keep, packed.

    Use `of_array` or `of_file`. Nothing is computed until it is needed; `map_rows` stays lazy.
    """

    layout: Layout = PLAIN
    remote = True
    """A pass has to be sent out: a few rows are better brought here."""

    def __init__(
        self, blocks: Sequence[Delayed], lengths: Sequence[int] | None, n_columns: int,
        names: tuple[str, ...] | None,
    ) -> None:  # fmt: skip
        self._recipe, self._blocks, self._lengths = list(blocks), list(blocks), lengths
        self._n_columns = n_columns
        self._workers: Workers | None = None
        self.feature_names = names

    @classmethod
    def of_array(cls, X: Any, binarize: float | None = None) -> "ClusterRows":
        """A Dask array or table of 0 and 1, chunked in any way; rows are counted if need be."""
        names = None
        if hasattr(X, "to_dask_array"):
            names = tuple(map(str, X.columns))
            X = X.to_dask_array()
        if X.ndim != 2:
            raise InputError(f"X must have rows and columns, got a Dask array of {X.ndim} axes")
        if np.isnan(X.shape[1]):
            raise InputError("X must know how many columns it has: call X.compute_chunk_sizes()")
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
        spans = [(start, min(start + rows, m)) for start in range(0, m, rows)]
        read = delayed(_read, pure=True)
        blocks = [read(str(file.path), file.stamp, *span) for span in spans]
        return cls(blocks, [stop - start for start, stop in spans], file.n_columns, file.names)

    @property
    def shape(self) -> tuple[int, int]:
        if self._lengths is None:
            self._lengths = self._computed(lambda: list(map(delayed(len), self._blocks)))
            if sum(self._lengths) == 0:
                raise InputError("Found array with 0 sample(s): at least one row is needed")
        return sum(self._lengths), self._n_columns

    def take(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> Words:
        """The packed rows with these numbers, brought here."""
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
        parts = self._computed(
            lambda: [get(self._blocks[b], numbers[owner == b] - starts[b]) for b in asked]
        )
        for b, part in zip(asked, parts, strict=True):
            out[owner == b] = part
        return out

    def chosen(self, indices: NDArray[np.int64]) -> BitMatrix:
        """Only these rows, in memory."""
        return BitMatrix(self.take(indices), self._n_columns)

    def fingerprint(self) -> str:
        """A hash of every row and its number, added up: the same however the rows are cut."""
        m, n = self.shape
        assert self._lengths is not None
        starts = np.cumsum([0, *self._lengths[:-1]]).tolist()
        hashed = delayed(_hashed, pure=False)
        parts = self._computed(lambda: list(map(hashed, self._blocks, starts)))
        return f"{m} {n} {sum(parts) % (1 << 64):016x}"

    def map_reduce(
        self, function: Callable[[Words], A], *, block_cells: int = 1, workers: int = 1 << 16
    ) -> A:
        """The sum of `function` over all rows."""

        def one_pass() -> list[Delayed]:
            # a task like others: where its worker dies it is made again, as scattered data is not
            everywhere = delayed(function, traverse=False)
            level = [
                delayed(_folded, pure=False)(block, self._n_columns, everywhere, block_cells)
                for block in self._blocks
            ]
            while len(level) > 1:
                groups = [level[i : i + _FAN_IN] for i in range(0, len(level), _FAN_IN)]
                level = [delayed(_added, pure=False)(group) for group in groups]
            return level

        total: A | None = self._computed(one_pass)[0]
        if total is None:
            raise InputError("Found array with 0 sample(s): at least one row is needed")
        return total

    def map_rows(
        self, function: Callable[[Words], NDArray[Any]], *, block_cells: int = 1
    ) -> NDArray[Any]:
        """What `function` gives for each row, as a Dask array: nothing is computed yet."""
        example = function(np.zeros((1, words_for(self._n_columns)), dtype=WORD))
        lengths = [np.nan] * len(self._blocks) if self._lengths is None else self._lengths
        apply = delayed(_mapped, pure=False)
        parts = [
            da.from_delayed(
                apply(block, self._n_columns, function, block_cells),
                shape=(length, *example.shape[1:]),
                dtype=example.dtype,
            )
            for block, length in zip(self._blocks, lengths, strict=True)
        ]
        lazy: NDArray[Any] = da.concatenate(parts, allow_unknown_chunksizes=True)
        return lazy

    @property
    def _at_hand(self) -> Workers:
        """Who packs the blocks and keeps them, from the first time on that they are needed."""
        if self._workers is None:
            workers = Workers()
            self._blocks = workers.keep(self._recipe)
            self._workers = workers
        return self._workers

    def _keep_again(self) -> None:
        """What is still held is not computed again: it has the same name."""
        self._blocks = self._at_hand.keep(self._recipe)

    def _computed(self, tasks: Callable[[], list[Delayed]]) -> Sequence[Any]:
        """What comes of tasks on the blocks; they are made anew where workers were lost."""
        try:
            workers = self._at_hand
            return workers.surely(lambda: workers.compute(tasks()), lost=self._keep_again)
        except (InputError, FileFormatError, ClusterError):
            raise
        except Exception as error:
            number = None if self._workers is None else self._workers.failed(self._blocks)
            which = "a block" if number is None else f"block {number}"
            raise InputError(f"{which} of X could not be computed: {short(error)}") from error


def _hashed(words: Words, start: int) -> int:
    """Σ over rows of a hash of the row and its number, modulo 2^64."""
    total = 0
    for first in range(0, len(words), _HASHED_ROWS):
        some = words[first : first + _HASHED_ROWS]
        mixed = np.arange(start + first, start + first + len(some), dtype=np.uint64)
        for column in range(words.shape[1]):  # a step of splitmix64 for each word
            mixed = (mixed ^ some[:, column]) + np.uint64(0x9E3779B97F4A7C15)
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            mixed ^= mixed >> np.uint64(31)
        total += int(mixed.sum(dtype=np.uint64))
    return total


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
        return to_words(part, binarize, start or 0)[0]
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
    return reduce(add, [part for part in parts if part is not None], *_nothing(parts))


def _nothing(parts: list[Any]) -> tuple[Any, ...]:
    return (None,) if all(part is None for part in parts) else ()


def _mapped(
    words: Words, n: int, function: Callable[[Words], NDArray[Any]], cells: int
) -> NDArray[Any]:
    if len(words) == 0:
        return function(np.zeros((1, words_for(n)), dtype=WORD))[:0]
    with one_thread():
        return BitMatrix(words, n).map_rows(function, block_cells=cells)
