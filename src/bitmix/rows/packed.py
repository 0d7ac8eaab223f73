"""BitMatrix: rows of bits, 64 columns a word, in memory or in a file."""

import hashlib
import html
import math
import operator
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from functools import reduce
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bitmix import checks
from bitmix.errors import InputError
from bitmix.kernels.bits import WORD, Words, pack, padding_is_zero, unpack, words_for
from bitmix.progress import meter
from bitmix.rows import bitfile
from bitmix.rows.bitfile import WordsFile
from bitmix.rows.convert import column_names, to_words, to_words_and_known
from bitmix.rows.protocol import PLAIN, A, Layout
from bitmix.rows.threads import available as threads_available
from bitmix.rows.threads import pool as thread_pool

_MIN_BLOCK_ROWS = 512
_BLOCK_WORK = 1 << 19  # words times values a row: some tenths of a millisecond
_BLOCK_BYTES = 1 << 21
_SAVED_ROWS = 1 << 14
_SHOWN_BYTES = 1 << 28  # of more, counting the ones would make a notebook wait
_LONG_WORK = 1 << 32  # words times values a row: about two seconds, time enough to show a bar


class BitMatrix:
    """A matrix of bits: m rows of n columns, packed into 64-bit words.

    Column s of a row is bit ``s % 64`` of its word ``s // 64``; bits past the last column are zero.

    Parameters
    ----------
    words : array of uint64, shape (m, ceil(n / 64))
        Packed rows. Use `from_dense` for anything that is not packed yet.
    n_columns : int
        n, the number of bits in a row.

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
    remote = False

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
        self._words: Words | WordsFile = words
        self._n_columns = n_columns
        self.feature_names: tuple[str, ...] | None = None

    @classmethod
    def _trusted(
        cls, words: Words | WordsFile, n_columns: int, names: tuple[str, ...] | None = None
    ) -> Self:
        """Without the checks, which read every row: for words that were checked or made here."""
        self = cls.__new__(cls)
        self._words, self._n_columns, self.feature_names = words, n_columns, names
        return self

    def _like(self, words: Words) -> Self:
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
            return cls._trusted(*to_words(X, binarize), column_names(X))
        if len(X) == 0:
            raise InputError("Found 0 sample(s): at least one row is needed")
        if binarize is None or 0 <= binarize < 1:
            return cls._trusted(X._words, X._n_columns, X.feature_names)
        constant = pack(np.full((1, X._n_columns), binarize < 0))
        return cls._trusted(np.repeat(constant, len(X), axis=0), X._n_columns, X.feature_names)

    @classmethod
    def from_incomplete(cls, X: Any, *, binarize: float | None = None) -> tuple[Self, Self]:
        """Pack a source with missing cells (NaN, masked, nullable): its bits, and what is known."""
        words, known, n = to_words_and_known(X, _threshold(binarize))
        names = column_names(X)
        return cls._trusted(words, n, names), cls._trusted(known, n, names)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, in_memory: bool = False) -> Self:
        """Open a file written by `save`. Rows stay on disk and are read a block at a time, when
        they are needed, unless ``in_memory=True``.
        """
        file = WordsFile(path)
        words = file.read(0, len(file)) if in_memory else file
        return cls._trusted(words, file.n_columns, file.names)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one self-describing file; it appears whole or not at all."""
        with bitfile.writing(path, self._n_columns, self.feature_names) as writer:
            for start, stop in self._spans(_SAVED_ROWS):
                writer.append(self._read(start, stop))

    @property
    def words(self) -> Words:
        """The packed rows, shape (m, ceil(n / 64)); of a file, all of them read into memory."""
        return self._read(0, len(self))

    @property
    def file(self) -> WordsFile | None:
        """The file the rows are in, if they are not in memory."""
        return self._words if isinstance(self._words, WordsFile) else None

    @property
    def shape(self) -> tuple[int, int]:
        return len(self._words), self._n_columns

    @property
    def layout(self) -> Layout:
        return PLAIN

    @property
    def nbytes(self) -> int:
        return int(self._words.nbytes)

    @property
    def density(self) -> float:
        """Share of bits that are 1."""
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
        """A row as bits, or several rows (slice, indices or mask) as a BitMatrix."""
        if isinstance(rows, tuple) and len(rows) == 2 and _is_everything(rows[1]):
            rows = rows[0]  # X[rows, ...] and X[rows, :], as scikit-learn writes it
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            if step == 1:
                return self._like(self._read(start, max(start, stop)))
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
        return self._like(self.take(chosen))

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BitMatrix):
            return NotImplemented
        return self.shape == other.shape and all(
            np.array_equal(self._read(*span), other._read(*span))
            for span in self._spans(_SAVED_ROWS)
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
        elif self.nbytes <= _SHOWN_BYTES:
            facts["share of ones"] = f"{self.density:.3f}"
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
        if isinstance(self._words, WordsFile):
            return self._words.take(numbers)
        return np.ascontiguousarray(self._words[numbers])

    def chosen(self, indices: NDArray[np.int64]) -> "BitMatrix":
        """Only these rows, in memory."""
        return self._like(self.take(indices))

    def fingerprint(self) -> str:
        """A hash of all rows; of a file, of its size, its time and some rows."""
        (m, n), digest = self.shape, hashlib.sha256()
        if self.file is None:
            digest.update(np.ascontiguousarray(self._words).data)
        else:
            digest.update(self.file.stamp.encode())
            digest.update(self.take(np.linspace(0, m - 1, min(m, 1024)).astype(np.intp)).data)
        return f"{m} {n} {digest.hexdigest()}"

    def map_reduce(
        self, function: Callable[[Words], A], *, block_cells: int = 1, workers: int = 1 << 16
    ) -> A:
        """The sum of `function` over blocks of rows, shared among threads.

        `function` makes about `block_cells` values a row and may run in `workers` threads at once.
        Its results must add to the same value in any order, as integers do, and must not be views
        of the block: its memory is used again.
        """
        threads = min(threads_available(), workers)
        block_rows = self._block_rows(block_cells, threads)
        threads = min(threads, max(1, -(-len(self) // block_rows)))
        long = len(self) * words_for(self._n_columns) * block_cells >= _LONG_WORK
        with meter("rows", len(self) if long else 0) as tell:
            spans = _telling(self._spans(block_rows), tell)
            return reduce(operator.add, _fold_in_threads(function, spans, self._read, threads))

    def map_rows(
        self, function: Callable[[Words], NDArray[Any]], *, block_cells: int = 1
    ) -> NDArray[Any]:
        """What `function` gives for each block of rows, one after the other."""
        threads = threads_available()
        spans = self._spans(self._block_rows(block_cells, threads))

        def of_span(span: tuple[int, int]) -> NDArray[Any]:
            return function(self._read(*span))

        if threads == 1 or len(self) <= _MIN_BLOCK_ROWS:
            return np.concatenate([of_span(span) for span in spans])
        futures = [thread_pool().submit(of_span, span) for span in spans]
        try:
            return np.concatenate([future.result() for future in futures])
        finally:
            for future in futures:
                future.cancel()

    def _block_rows(self, block_cells: int, threads: int) -> int:
        """Rows a block: something to do for every thread, within the second-level cache, yet so
        much that handing it out costs little.
        """
        words = words_for(self._n_columns)
        least = max(_MIN_BLOCK_ROWS, _BLOCK_WORK // (words * block_cells))
        most = min(_BLOCK_BYTES // (8 * words), _BLOCK_BYTES // (8 * block_cells))
        fair = -(-len(self) // (2 * threads))
        blocks = -(-len(self) // max(least, min(fair, most)))
        if blocks > 1:
            blocks = -(-blocks // threads) * threads
        return max(1, -(-len(self) // max(1, blocks)))

    def _spans(self, rows: int) -> Iterator[tuple[int, int]]:
        m = len(self)
        return ((start, min(start + rows, m)) for start in range(0, m, rows))

    def _read(self, start: int, stop: int, *, reuse: bool = False) -> Words:
        if isinstance(self._words, WordsFile):
            return self._words.read(start, stop, reuse=reuse)
        return self._words[start:stop]


def _threshold(binarize: Any) -> float | None:
    return checks.optional(checks.between, binarize, "binarize", -math.inf, math.inf)


def _telling(
    spans: Iterator[tuple[int, int]], tell: Callable[[int, str], None]
) -> Iterator[tuple[int, int]]:
    for span in spans:
        tell(span[0], "")
        yield span


def _ones(words: Words) -> int:
    return int(np.bitwise_count(words).sum(dtype=np.int64))


def _is_everything(columns: Any) -> bool:
    return columns is ... or (isinstance(columns, slice) and columns == slice(None))


def _fold_in_threads(
    function: Callable[[Words], A],
    spans: Iterator[tuple[int, int]],
    read: Callable[..., Words],
    threads: int,
) -> list[A]:
    """One partial sum a thread; an error or Ctrl-C stops the others at their next block."""
    lock, stop = threading.Lock(), threading.Event()

    def next_span() -> tuple[int, int] | None:
        with lock:
            return None if stop.is_set() else next(spans, None)

    def fold() -> list[A]:
        total: list[A] = []
        try:
            while (span := next_span()) is not None:
                value = function(read(*span, reuse=True))
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
