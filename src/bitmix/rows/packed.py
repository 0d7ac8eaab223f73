"""BitMatrix: rows of bits, 64 columns per word, in memory or in a file."""

import html
import math
import operator
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from functools import partial, reduce
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bitmix.errors import InputError
from bitmix.kernels.bits import WORD, Words, pack, padding_is_zero, unpack, words_for
from bitmix.kernels.events import BASE_ROWS, Events, majority
from bitmix.kernels.fixed import Ints
from bitmix.rows import bitfile
from bitmix.rows.bitfile import WordsFile
from bitmix.rows.convert import column_names, spans, to_words
from bitmix.rows.listed import ListedWords, list_events, list_sparse, of_events
from bitmix.rows.protocol import PLAIN, A, Layout
from bitmix.rows.threads import available as threads_available
from bitmix.rows.threads import pool as thread_pool
from bitmix.support import checks
from bitmix.support.progress import meter
from bitmix.support.randomness import draw_without_replacement

_MIN_BLOCK_ROWS = 512
_BLOCK_WORK = 1 << 19  # words times values per row: some tenths of a millisecond
_BLOCK_BYTES = 1 << 21
_ROWS_AT_ONCE = 1 << 14  # when rows are saved or compared
_MAX_COUNTED_BYTES = 1 << 28  # counting the ones of more would make a notebook wait
_LONG_WORK = 1 << 32  # words times values per row: about two seconds, enough to show a bar


class BitMatrix:
    """A matrix of bits: m rows of n columns, packed into 64-bit words.

    Column s of a row is bit ``s % 64`` of its word ``s // 64``; bits past the last column are zero.

    Parameters
    ----------
    words : array of uint64, shape (m, ceil(n / 64))
        Packed rows. Use `from_dense` for anything that is not packed yet.
    n_columns : int
        n, the number of bits per row.

    Examples
    --------
    >>> from bitmix import BitMatrix
    >>> X = BitMatrix.from_dense([[0, 1, 1], [1, 0, 0]])
    >>> X.shape, X.nbytes, X.density
    ((2, 3), 16, 0.5)
    >>> X[1:].to_dense()
    array([[1, 0, 0]], dtype=uint8)
    """

    __hash__ = None  # type: ignore[assignment]
    layout: Layout = PLAIN
    remote = False
    _events: Events | None = None
    _is_listed = False
    _base: NDArray[np.bool_] | None = None

    def __init__(self, words: Words, n_columns: int) -> None:
        words = np.asarray(words)
        n_columns = operator.index(n_columns)
        if n_columns < 1:
            raise InputError(f"n_columns must be at least 1, got {n_columns}")
        if words.ndim != 2 or words.dtype != WORD or words.shape[1] != words_for(n_columns):
            raise InputError(
                f"words must be uint64 of shape (rows, {words_for(n_columns)}) for {n_columns} "
                f"columns, got {words.dtype} of shape {words.shape}: "
                "use BitMatrix.from_dense to pack"
            )
        if not padding_is_zero(words, n_columns):
            raise InputError(
                f"bits past column {n_columns - 1} must be zero: mask the last word of each row"
            )
        self._words: Words | WordsFile | ListedWords = words
        self._n_columns = n_columns
        self.feature_names: tuple[str, ...] | None = None

    @classmethod
    def _trusted(
        cls,
        words: Words | WordsFile | ListedWords,
        n_columns: int,
        names: tuple[str, ...] | None = None,
    ) -> Self:
        """Skip the checks, which read every row, for words that are known to be right."""
        self = cls.__new__(cls)
        self._words, self._n_columns, self.feature_names = words, n_columns, names
        return self

    def with_words(self, words: Words | ListedWords) -> Self:
        """Other rows with the same columns."""
        return self._trusted(words, self._n_columns, self.feature_names)

    @classmethod
    def from_dense(cls, X: Any, *, binarize: float | None = None) -> Self:
        """Pack an array, sparse matrix or table of 0 and 1, a block of rows at a time.

        Parameters
        ----------
        X : array-like, scipy sparse matrix, pandas / polars / pyarrow table, or BitMatrix
            Any other value than 0 and 1 is an error that names its place.
        binarize : float, optional
            Read values above this threshold as 1 instead.
        """
        binarize = _threshold(binarize)
        if not isinstance(X, BitMatrix):
            if hasattr(X, "tocsr") and (listed := list_sparse(X, binarize)) is not None:
                return cls._trusted(ListedWords(listed), len(listed.base))
            words, _, n = to_words(X, binarize)
            return cls._trusted(words, n, column_names(X))
        if len(X) == 0:
            raise InputError("Found 0 sample(s): at least one row is needed")
        if binarize is None or 0 <= binarize < 1:
            return cls._trusted(X._words, X._n_columns, X.feature_names)
        constant = pack(np.full((1, X._n_columns), binarize < 0))
        return cls._trusted(np.repeat(constant, len(X), axis=0), X._n_columns, X.feature_names)

    @classmethod
    def from_incomplete(cls, X: Any, *, binarize: float | None = None) -> tuple[Self, Self | None]:
        """Pack cells of which some may be missing: NaN, masked, or empty in a nullable column.

        Returns the bits, 0 for a missing cell, and the known cells as a second matrix, or None if
        no cell is missing.
        """
        if isinstance(X, BitMatrix):
            return cls.from_dense(X, binarize=binarize), None
        if hasattr(X, "tocsr") and (listed := list_sparse(X, _threshold(binarize))) is not None:
            return cls._trusted(ListedWords(listed), len(listed.base)), None
        words, known, n = to_words(X, _threshold(binarize), missing=True)
        bits = cls._trusted(words, n, column_names(X))
        return bits, None if known is None else bits.with_words(known)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, in_memory: bool = False) -> Self:
        """Open a file written by `save`.

        Rows stay on disk and are read a block at a time, unless ``in_memory=True``.
        """
        file = WordsFile(path)
        words = file.read(0, len(file)) if in_memory else file
        return cls._trusted(words, file.n_columns, file.names)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the rows to one file, which appears whole or not at all."""
        with bitfile.writing(path, self._n_columns, self.feature_names) as writer:
            for start, stop in spans(len(self), _ROWS_AT_ONCE):
                writer.append(self._read(start, stop))

    @property
    def words(self) -> Words:
        """The packed rows, shape (m, ceil(n / 64)). Rows on disk are all read into memory."""
        return self._read(0, len(self))

    @property
    def file(self) -> WordsFile | None:
        """The file the rows are in, if they are not in memory."""
        return self._words if isinstance(self._words, WordsFile) else None

    @property
    def shape(self) -> tuple[int, int]:
        return len(self._words), self._n_columns

    @property
    def nbytes(self) -> int:
        return int(self._words.nbytes)

    @property
    def density(self) -> float:
        """The proportion of bits that are 1."""
        m, n = self.shape
        return self.map_reduce(_ones) / (m * n) if m else 0.0

    def to_dense(self, dtype: DTypeLike = np.uint8) -> NDArray[Any]:
        """The bits as an array of 0 and 1."""
        return unpack(self.words, self._n_columns).astype(dtype, copy=False)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("a BitMatrix cannot become an array without a copy")
        return self.to_dense(np.uint8 if dtype is None else dtype)

    def __len__(self) -> int:
        return len(self._words)

    def __getitem__(self, rows: Any) -> Any:
        """One row as an array of bits; several rows (slice, indices or mask) as a BitMatrix."""
        if isinstance(rows, tuple) and len(rows) == 2 and _is_everything(rows[1]):
            rows = rows[0]  # X[rows, ...] and X[rows, :], as scikit-learn writes it
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            if step == 1:
                return self.with_words(self._read(start, max(start, stop)))
            rows = np.arange(start, stop, step)
        chosen = np.asarray(rows)
        if chosen.size == 0 and chosen.ndim == 1:
            chosen = chosen.astype(np.intp)
        if (
            isinstance(rows, tuple)
            or chosen.ndim > 1
            or chosen.dtype.kind not in "iub"[: 2 + chosen.ndim]
        ):
            raise IndexError("a BitMatrix is indexed by rows: a number, a slice, numbers or a mask")
        if chosen.ndim == 0:
            return unpack(self.take(chosen.reshape(1)), self._n_columns)[0]
        if chosen.dtype == np.bool_:
            if chosen.shape != (len(self),):
                raise IndexError(f"a mask of the rows must have {len(self)} values")
            chosen = np.flatnonzero(chosen)
        return self.with_words(self.take(chosen))

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BitMatrix):
            return NotImplemented
        return self.shape == other.shape and all(
            np.array_equal(self._read(*span), other._read(*span))
            for span in spans(len(self), _ROWS_AT_ONCE)
        )

    def __repr__(self) -> str:
        m, n = self.shape
        where = "" if self.file is None else f" in {self.file.path}"
        return f"BitMatrix({m:,} rows × {n:,} columns, {self.nbytes:,} bytes{where})"

    def _repr_html_(self) -> str:
        (m, n), names = self.shape, self.feature_names
        facts = {"rows": f"{m:,}", "columns": f"{n:,}", "bytes": f"{self.nbytes:,}"}
        if self.file is not None:
            facts["file"] = str(self.file.path)
        elif self.nbytes <= _MAX_COUNTED_BYTES:
            facts["proportion of ones"] = f"{self.density:.3f}"
        if names is not None:
            facts["named"] = ", ".join(names[:4]) + (", …" if n > 4 else "")
        cells = "".join(
            f"<tr><th>{name}</th><td>{html.escape(value)}</td></tr>"
            for name, value in facts.items()
        )
        return f"<table><caption>BitMatrix</caption>{cells}</table>"

    def take(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> Words:
        """The packed rows with these numbers."""
        numbers = np.asarray(indices, dtype=np.intp)
        if isinstance(self._words, np.ndarray):
            return np.ascontiguousarray(self._words[numbers])
        return self._words.take(numbers)

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weight of each row: 1."""
        return np.ones(len(self))

    @property
    def total_weight(self) -> float:
        """The number of rows."""
        return float(len(self))

    def repeated(self) -> "BitMatrix":
        """Each row as often as its weight says: the rows themselves."""
        return self

    def draw(self, l: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """The numbers of l random rows."""
        return draw_without_replacement(len(self), l, rng)

    def subset(self, indices: NDArray[np.int64]) -> "BitMatrix":
        """The rows with these numbers, in memory."""
        if isinstance(self._words, ListedWords):
            return self.with_words(ListedWords(self._words.events.take(indices)))
        return self.with_words(self.take(indices))

    def map_reduce(
        self, function: Callable[[Words], A], *, block_cells: int = 1, workers: int = 1 << 16
    ) -> A:
        """The sum of `function` over blocks of rows, shared among threads.

        `function` makes about `block_cells` values per row and may run in `workers` threads at
        once. Its results must add to the same value in any order, as integers do. They must not be
        views of the block, whose memory is used again.
        """
        return self.fold(
            lambda start, stop: function(self._read(start, stop, reuse=True)),
            block_cells=block_cells,
            workers=workers,
        )

    def map_events(
        self, function: Callable[[Events, Ints | None], A], *, block_cells: int, workers: int
    ) -> A:
        """The sum of `function` over blocks of rows, given their events and their weights.

        Events are listed once, if they are few, and kept for the next pass.
        """
        listed = self.listed()
        if listed is None:
            of_words = partial(
                of_events, function=function, base=self.base, n_columns=self._n_columns
            )
            return self.map_reduce(of_words, block_cells=block_cells, workers=workers)
        return self.fold(
            lambda start, stop: function(listed.rows(start, stop), None),
            block_cells=block_cells,
            workers=workers,
        )

    def listed(self) -> Events | None:
        """The events of all rows, if these are in memory and their lists are not too long."""
        if isinstance(self._words, ListedWords):
            return self._words.events
        if not self._is_listed and isinstance(self._words, np.ndarray):
            self._events = list_events(self._words, PLAIN, self._n_columns, self.base)
            self._is_listed = True
        return self._events

    @property
    def base(self) -> NDArray[np.bool_]:
        """Which columns are mostly 1 in the first rows."""
        if self._base is None:
            head = self._read(0, min(len(self), BASE_ROWS))
            self._base = majority(head, self._n_columns)
        return self._base

    def fold(
        self, function: Callable[[int, int], A], *, block_cells: int = 1, workers: int = 1 << 16
    ) -> A:
        """The sum of `function` over spans (start, stop) of rows, shared among threads."""
        work = len(self) * words_for(self._n_columns) * block_cells
        if work <= _BLOCK_WORK:  # one block
            return function(0, len(self))
        threads = min(threads_available(), workers)
        block_rows = self._block_rows(block_cells, threads)
        threads = min(threads, max(1, -(-len(self) // block_rows)))
        with meter("rows", len(self) if work >= _LONG_WORK else 0) as show:
            blocks = _reporting(spans(len(self), block_rows), show)
            return reduce(operator.add, _fold_in_threads(function, blocks, threads))

    def map_rows(
        self, function: Callable[[Words], NDArray[Any]], *, block_cells: int = 1
    ) -> NDArray[Any]:
        """The results of `function` for each block of rows, concatenated."""
        threads = threads_available()
        blocks = spans(len(self), self._block_rows(block_cells, threads))

        def apply(span: tuple[int, int]) -> NDArray[Any]:
            return function(self._read(*span))

        if threads == 1 or len(self) <= _MIN_BLOCK_ROWS:
            return np.concatenate([apply(span) for span in blocks])
        futures = [thread_pool().submit(apply, span) for span in blocks]
        try:
            return np.concatenate([future.result() for future in futures])
        finally:
            for future in futures:
                future.cancel()

    def _block_rows(self, block_cells: int, threads: int) -> int:
        """Rows per block.

        Every thread should get work, a block should stay in the second-level cache, and it should
        be large enough that handing it out costs little.
        """
        words = words_for(self._n_columns)
        least = max(_MIN_BLOCK_ROWS, _BLOCK_WORK // (words * block_cells))
        most = min(_BLOCK_BYTES // (8 * words), _BLOCK_BYTES // (8 * block_cells))
        fair = -(-len(self) // (2 * threads))
        blocks = -(-len(self) // max(least, min(fair, most)))
        if blocks > 1:
            blocks = -(-blocks // threads) * threads
        return max(1, -(-len(self) // max(1, blocks)))

    def _read(self, start: int, stop: int, *, reuse: bool = False) -> Words:
        if isinstance(self._words, np.ndarray):
            return self._words[start:stop]
        return self._words.read(start, stop, reuse=reuse)


def _threshold(binarize: Any) -> float | None:
    return checks.optional(checks.between, binarize, "binarize", -math.inf, math.inf)


def _reporting(
    blocks: Iterator[tuple[int, int]], show: Callable[[int, str], None]
) -> Iterator[tuple[int, int]]:
    for block in blocks:
        show(block[0], "")
        yield block


def _ones(words: Words) -> int:
    return int(np.bitwise_count(words).sum(dtype=np.int64))


def _is_everything(columns: Any) -> bool:
    return columns is ... or (isinstance(columns, slice) and columns == slice(None))


def _fold_in_threads(
    function: Callable[[int, int], A], blocks: Iterator[tuple[int, int]], threads: int
) -> list[A]:
    """One partial sum per thread. After an error or Ctrl-C, threads stop at their next block."""
    lock, stop = threading.Lock(), threading.Event()

    def next_block() -> tuple[int, int] | None:
        with lock:
            return None if stop.is_set() else next(blocks, None)

    def fold() -> list[A]:
        total: list[A] = []
        try:
            while (block := next_block()) is not None:
                value = function(*block)
                total = [total[0] + value] if total else [value]
        except BaseException:
            stop.set()
            raise
        return total

    if threads == 1:
        return fold()
    futures: list[Future[list[A]]] = []
    try:
        for _ in range(threads):
            futures.append(thread_pool().submit(fold))
        return [part for future in futures for part in future.result()]
    except BaseException:
        stop.set()
        wait(futures)
        raise
