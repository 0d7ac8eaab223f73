"""BitMatrix: rows of bits, 64 columns per word, in memory or in a file."""

import html
import itertools
import math
import operator
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial, reduce
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bitmix.errors import InputError
from bitmix.kernels import backend
from bitmix.kernels.bits import WORD, Words, pack, padding_is_zero, unpack, words_for
from bitmix.kernels.events import BASE_ROWS, Events
from bitmix.kernels.fixed import MAX_ROWS, Ints
from bitmix.kernels.threads import available as threads_available
from bitmix.kernels.threads import run_in_threads
from bitmix.rows import bitfile
from bitmix.rows.bitfile import WordsFile
from bitmix.rows.codes import Codes
from bitmix.rows.convert import (
    all_known,
    column_names,
    fixed_weights,
    is_anndata,
    octets_to_words,
    spans,
    to_words,
    words_to_octets,
)
from bitmix.rows.listed import ListedWords, list_events, list_sparse
from bitmix.rows.protocol import PLAIN, A, Block, Layout, T
from bitmix.support import checks
from bitmix.support.progress import meter
from bitmix.support.randomness import draw_by_weight, draw_without_replacement

_MIN_BLOCK_ROWS = 512
_BLOCK_WORK = 1 << 19  # words times values per row: some tenths of a millisecond
_BLOCK_BYTES = 1 << 21
_ROWS_AT_ONCE = 1 << 14  # when rows are saved or compared
_MAX_COUNTED_BYTES = 1 << 28  # counting the ones of more would make a notebook wait
_LONG_WORK = 1 << 32  # words times values per row: about two seconds, enough to show a bar
_MAX_REPEATED = 100_000

V = TypeVar("V")
_sharing = threading.Lock()


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
        self._words: Words | WordsFile | ListedWords = words
        self.shape: tuple[int, int] = len(words), n_columns
        self.layout = PLAIN
        self.feature_names: tuple[str, ...] | None = None
        self.codes: Codes | None = None

    @classmethod
    def trusted(
        cls,
        words: Words | WordsFile | ListedWords,
        n_columns: int,
        names: tuple[str, ...] | None = None,
        layout: Layout = PLAIN,
        codes: Codes | None = None,
    ) -> Self:
        """Words that are known to be right, laid out as `layout` says, without the checks.

        Codes say how cells of a table became these bits, if they were not 0 and 1.
        """
        self = cls.__new__(cls)
        self._words, self.shape, self.feature_names = words, (len(words), n_columns), names
        self.layout, self.codes = layout, codes
        return self

    def _with(self, words: Words | ListedWords, layout: Layout) -> Self:
        """Rows with the same columns that are laid out in another way."""
        return self.trusted(words, self.shape[1], self.feature_names, layout, self.codes)

    @classmethod
    def from_dense(cls, X: Any, *, binarize: float | None = None, missing: bool = False) -> Self:
        """Pack an array, sparse matrix or table of 0 and 1, a block of rows at a time.

        Parameters
        ----------
        X : array-like, scipy sparse matrix, pandas / polars / pyarrow table, or BitMatrix
            Any other value than 0 and 1 is an error that names its place.
        binarize : float, optional
            Read values above this threshold as 1 instead.
        missing : bool, default=False
            Whether cells may be missing: NaN, masked, or empty in a nullable column.
        """
        if binarize is not None:
            binarize = checks.between(binarize, "binarize", -math.inf, math.inf)
        if isinstance(X, BitMatrix):
            return cls._from_bits(X, binarize, missing)
        is_array = isinstance(X, np.ndarray)
        matrix = X if is_array or not is_anndata(X) else X.X
        if hasattr(type(matrix), "tocsr") and (listed := list_sparse(matrix, binarize)) is not None:
            return cls.trusted(ListedWords(listed), len(listed.base), column_names(X))
        words, known, n = to_words(X, binarize, missing=missing)
        if known is not None:
            words = np.concatenate([words, known], axis=1)
        names = None if is_array else column_names(X)
        return cls.trusted(words, n, names, Layout(known is not None))

    @classmethod
    def from_packed(cls, octets: Any, n_columns: int | None = None, bitorder: str = "big") -> Self:
        """Rows of packed bytes, as `numpy.packbits`, fingerprint tools and vector databases write.

        Parameters
        ----------
        octets : array of uint8, shape (m, ceil(n / 8))
        n_columns : int, optional
            n, by default 8 per byte. Bits past the last column must be 0.
        bitorder : {"big", "little"}, default="big"
            Whether the first column is the highest bit of the first byte, or the lowest.

        Examples
        --------
        >>> import numpy as np
        >>> BitMatrix.from_packed(np.packbits([[0, 1, 1]], axis=1), 3).to_dense()
        array([[0, 1, 1]], dtype=uint8)
        """
        array = np.asarray(octets)
        if array.ndim != 2 or array.dtype != np.uint8 or 0 in array.shape:
            raise InputError(
                f"packed rows must be an array of uint8 with rows and columns, got {array.dtype} "
                f"of shape {array.shape}"
            )
        n = 8 * array.shape[1] if n_columns is None else operator.index(n_columns)
        if -(-n // 8) != array.shape[1]:
            raise InputError(
                f"{n} columns take {-(-n // 8)} bytes per row, got {array.shape[1]} bytes"
            )
        words = octets_to_words(array, bitorder)
        return cls(words, n)

    def to_packed(self, bitorder: str = "big") -> NDArray[np.uint8]:
        """The rows as bytes, eight columns each: the inverse of `from_packed`."""
        if self.layout.missing:
            raise InputError("cells are missing, which packed bytes cannot say: fill them first")
        bits = self.layout.bits(self.words, self.shape[1])
        return words_to_octets(bits, self.shape[1], bitorder)

    @classmethod
    def _from_bits(cls, X: "BitMatrix", binarize: float | None, missing: bool) -> Self:
        if len(X) == 0:
            raise InputError("Found 0 sample(s): at least one row is needed")
        if X.layout.missing and not missing:
            raise InputError("X has missing cells: fill them first, or use TemplateMixture")
        if binarize is None or 0 <= binarize < 1:
            return cls.trusted(X._words, X.shape[1], X.feature_names, X.layout, X.codes)
        words, n = X.words.copy(), X.shape[1]  # all known cells are above the threshold, or none
        known = X.layout.known(words, n)
        ones = all_known(len(words), n) if known is None else known
        X.layout.bits(words, n)[:] = ones if binarize < 0 else 0
        return cls.trusted(words, n, X.feature_names, X.layout)

    def masked(self, mask: Any) -> Self:
        """The same rows, in memory, in which cells that are True in `mask` are missing."""
        gaps = np.asarray(mask)
        if self.codes is not None and gaps.shape == (len(self), len(self.codes.columns)):
            gaps = gaps[:, self.codes.column_of_plane]
        if gaps.shape != self.shape or gaps.dtype.kind not in "bui":
            raise InputError(
                f"mask must be True where a cell of X is missing, shape {self.shape}, "
                f"got {gaps.dtype} of shape {gaps.shape}"
            )
        if not gaps.any():
            return self
        words, n = self.words, self.shape[1]
        known, before = pack(gaps == 0), self.layout.known(words, n)
        known = known if before is None else known & before
        parts = [self.layout.bits(words, n) & known, known]
        if self.layout.weight_one:
            parts.append(words[:, -1:])
        layout = Layout(True, self.layout.weight_one)
        return self._with(np.concatenate(parts, axis=1), layout)

    def weighted(self, sample_weight: Any) -> Self:
        """The same rows, in memory, each with a weight; rows of weight 0 are left out."""
        weights, weight_one = fixed_weights(sample_weight, len(self))
        chosen = np.flatnonzero(weights)
        layout = Layout(self.layout.missing, weight_one)
        if isinstance(self._words, ListedWords):
            events = self._words.events
            events = events if len(chosen) == len(self) else events.take(chosen)
            return self._with(ListedWords(events, weights[chosen]), layout)
        words = self.subset(chosen).words
        if self.layout.weight_one:
            words = words[:, :-1]
        words = np.concatenate([words, weights[chosen].astype(WORD)[:, None]], axis=1)
        return self._with(words, layout)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, in_memory: bool = False) -> Self:
        """Open a file written by `save`.

        Rows stay on disk and are read a block at a time, unless ``in_memory=True``.
        """
        file = WordsFile(path)
        words = file.read(0, len(file)) if in_memory else file
        return cls.trusted(words, file.n_columns, file.names, file.layout, file.codes)

    def save(self, path: str | os.PathLike[str], about: Mapping[str, Any] | None = None) -> None:
        """Write the rows to one file, which appears whole or not at all.

        `about` is kept with them: what is to be known of the rows, as JSON can write it.
        """
        with bitfile.writing(
            path, self.shape[1], self.feature_names, about, self.layout, self.codes
        ) as writer:
            for start, stop in spans(len(self), _ROWS_AT_ONCE):
                writer.append(self.read_words(start, stop))

    @property
    def words(self) -> Words:
        """The packed rows as they are laid out: ceil(n/64) words per row for its bits, as many for
        its known cells if cells are missing, and one for its weight if it has one. Rows on disk
        are all read into memory."""
        return self.read_words(0, self.shape[0])

    @property
    def file(self) -> WordsFile | None:
        """The file the rows are in, if they are not in memory."""
        return self._words if isinstance(self._words, WordsFile) else None

    @property
    def nbytes(self) -> int:
        return int(self._words.nbytes)

    @property
    def density(self) -> float:
        """The proportion of known cells that are 1."""
        ones, known = self.map_reduce(_count_ones)
        return int(ones) / max(1, int(known))

    @property
    def n_missing(self) -> int:
        """The number of missing cells; a missing answer to an item is one cell."""
        if not self.layout.missing:
            return 0
        missing = len(self) - self.map_reduce(_count_known)
        if self.codes is not None and self.codes.has_items:
            missing = missing[np.unique(self.codes.column_of_plane, return_index=True)[1]]
        return int(missing.sum())

    def to_dense(self, dtype: DTypeLike | None = None) -> NDArray[Any]:
        """The bits as an array of 0 and 1: of uint8, or of floats with NaN if cells are missing."""
        words, n = self.words, self.shape[1]
        bits = unpack(self.layout.bits(words, n), n)
        known = self.layout.known(words, n)
        if known is None:
            return bits.astype(np.uint8 if dtype is None else dtype, copy=False)
        dtype = np.dtype(np.float64 if dtype is None else dtype)
        if dtype.kind != "f":
            raise InputError(f"cells are missing, for which {dtype} has no value: ask for floats")
        return np.where(unpack(known, n) == 1, bits, np.nan).astype(dtype)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("a BitMatrix cannot become an array without a copy")
        return self.to_dense(dtype)

    def __len__(self) -> int:
        return len(self._words)

    def __getitem__(self, rows: Any) -> Any:
        """One row as an array of bits; several rows (slice, indices or mask) as a BitMatrix."""
        if isinstance(rows, tuple) and len(rows) == 2 and _is_everything(rows[1]):
            rows = rows[0]  # X[rows, ...] and X[rows, :], as scikit-learn writes it
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            if step == 1:
                return self._with(self.read_words(start, max(start, stop)), self.layout)
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
            return self.subset(chosen.reshape(1)).to_dense()[0]
        if chosen.dtype == np.bool_:
            if chosen.shape != (len(self),):
                raise IndexError(f"a mask of the rows must have {len(self)} values")
            chosen = np.flatnonzero(chosen)
        return self.subset(chosen)

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BitMatrix):
            return NotImplemented
        return (self.shape, self.layout) == (other.shape, other.layout) and all(
            np.array_equal(self.read_words(*span), other.read_words(*span))
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
        """The packed bits of the rows with these numbers.

        A missing cell has the value of most rows in its column.
        """
        words, n = self.subset(indices).words, self.shape[1]
        if self.layout == PLAIN:
            return words
        bits, known = self.layout.bits(words, n), self.layout.known(words, n)
        return np.ascontiguousarray(bits) if known is None else bits | (self._majority & ~known)

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """The weight of each row."""
        one = self.layout.weight_one
        return self._weight_units / one if one else np.ones(len(self))

    @property
    def total_weight(self) -> float:
        """The sum of the weights: the number of rows if they have none."""
        return float(self.weights.sum()) if self.layout.weight_one else float(self.shape[0])

    @property
    def _weight_units(self) -> Ints:
        """The weights in units of 1 / `weight_one`, of rows that have weights."""
        if isinstance(self._words, ListedWords):
            assert self._words.weights is not None
            return self._words.weights
        blocks = (self.read_words(*span) for span in spans(len(self), _ROWS_AT_ONCE))
        units = np.concatenate([self.layout.weights(words) for words in blocks])
        if units.sum() > MAX_ROWS:  # of rows that were repeated, or in a file that is not ours
            raise InputError(f"the integer sums have no room for the weights of {self!r}")
        return units

    def repeated(self) -> "BitMatrix":
        """Each row as often as its weight says, if weights are whole and not too many."""
        if self.layout.weight_one != 1 or (units := self._weight_units).sum() > _MAX_REPEATED:
            return self
        rows = self.subset(np.repeat(np.arange(len(units)), units))
        if isinstance(rows._words, ListedWords):
            words: Any = ListedWords(rows._words.events)
        else:
            words = np.ascontiguousarray(rows.words[:, :-1])
        return self._with(words, Layout(self.layout.missing))

    def keys(self) -> list[bytes]:
        """The bits and known cells of each row as bytes, the same for equal rows."""
        if isinstance(self._words, ListedWords):
            return self._words.keys()
        words = self.words[:, :-1] if self.layout.weight_one else self.words
        return np.ascontiguousarray(words).view(f"V{8 * words.shape[1]}")[:, 0].tolist()

    def distinct(self) -> "BitMatrix":
        """The distinct rows in the order in which they first appear, each with its weight, if they
        are at most half of all rows or have weights. Otherwise all rows, copies of a row together.
        """
        keys, weighted = self.keys(), self.layout.weight_one > 0
        number_of = dict(zip(dict.fromkeys(keys), itertools.count(), strict=False))
        numbers = np.array(list(map(number_of.__getitem__, keys)))
        if not weighted and 2 * len(number_of) > len(keys):
            return self.subset(np.argsort(numbers, kind="stable"))
        weights = np.zeros(len(number_of), dtype=np.int64)
        np.add.at(weights, numbers, self._weight_units if weighted else 1)
        first = self.subset(np.unique(numbers, return_index=True)[1])
        if isinstance(first._words, ListedWords):
            joined: Any = ListedWords(first._words.events, weights)
        else:
            bits = first.words[:, :-1] if weighted else first.words
            joined = np.concatenate([bits, weights.astype(WORD)[:, None]], axis=1)
        layout = Layout(self.layout.missing, self.layout.weight_one or 1)
        return self._with(joined, layout)

    def draw(self, l: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """The numbers of l random rows, drawn as often as their weights say."""
        if self.layout.weight_one:
            return draw_by_weight(self._weight_units, l, rng)
        return draw_without_replacement(self.shape[0], l, rng)

    def column_counts(self) -> Ints:
        """The number of ones in each column, rows counted by weight."""
        if isinstance(self._words, ListedWords):
            return self._words.column_counts()
        one = self.layout.weight_one
        counts = self._weight_units if one else np.ones(len(self), dtype=np.int64)
        bits = np.ascontiguousarray(self.layout.bits(self.words, self.shape[1]))
        return backend(6e-8 * bits.size).column_sums(bits, counts[:, None], self.shape[1])[0]

    def with_columns(self, columns: NDArray[np.int64]) -> "BitMatrix":
        """These columns alone, in memory."""
        if isinstance(self._words, ListedWords):
            words: Any = self._words.with_columns(columns)
            return self.trusted(words, len(columns), None, self.layout)
        n, parts = self.shape[1], []
        for start, stop in spans(len(self), _MIN_BLOCK_ROWS):
            block = self.read_words(start, stop)
            bits, known = self.layout.bits(block, n), self.layout.known(block, n)
            planes = [pack(unpack(p, n)[:, columns]) for p in (bits, known) if p is not None]
            weights = [block[:, -1:]] if self.layout.weight_one else []
            parts.append(np.concatenate([*planes, *weights], axis=1))
        return self.trusted(np.concatenate(parts), len(columns), None, self.layout)

    def subset(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> "BitMatrix":
        """The rows with these numbers, in memory, with their known cells and weights."""
        numbers, words = np.asarray(indices, dtype=np.intp), self._words
        if isinstance(words, np.ndarray):
            some: Any = np.ascontiguousarray(words[numbers])
        else:
            some = words.subset(numbers) if isinstance(words, ListedWords) else words.take(numbers)
        return self.trusted(some, self.shape[1], self.feature_names, self.layout, self.codes)

    @cached_property
    def base(self) -> NDArray[np.bool_]:
        """The row that events are counted from: which columns are mostly 1 in the first rows."""
        if isinstance(self._words, ListedWords):
            return self._words.events.base
        head = Block(self, 0, min(self.shape[0], BASE_ROWS)).bits
        ones = unpack(head, self.shape[1]).sum(axis=0, dtype=np.int64)
        base: NDArray[np.bool_] = 2 * ones > len(head)
        return base

    @cached_property
    def _majority(self) -> Words:
        """The value of most known cells in each column, rows counted by weight, packed."""
        n, one = self.shape[1], self.layout.weight_one
        counts = self._weight_units if one else np.ones(len(self), dtype=np.int64)
        words: Any = self.words
        ones, known = (
            backend(6e-8 * words.size).column_sums(np.ascontiguousarray(part), counts[:, None], n)
            for part in (self.layout.bits(words, n), self.layout.known(words, n))
        )
        return pack(2 * ones > known)

    @cached_property
    def listed(self) -> Events | None:
        """The events of all rows, if these are in memory and their lists are not too long."""
        if isinstance(self._words, ListedWords):
            return self._words.events
        if isinstance(self._words, np.ndarray):
            return list_events(self._words, self.layout, self.shape[1], self.base)
        return None

    @cached_property
    def very_sparse(self) -> bool:
        """Whether a row has fewer events than words, and its events are at hand."""
        if isinstance(self._words, np.ndarray):
            head = Block(self, 0, min(self.shape[0], BASE_ROWS)).bits
            if np.bitwise_count(head ^ pack(self.base[None])).sum() > 2 * head.size:
                return False  # clearly not, so that lists are not made
        n_words = len(self) * words_for(self.shape[1])
        return self.listed is not None and len(self.listed.cells) < n_words

    def fold(
        self, start: Callable[[], T], *, block_cells: int = 1, workers: int = 1 << 16,
        in_chunks: bool = False,
    ) -> T:  # fmt: skip
        """The sum of accumulators, made by `start`, to which all blocks of rows were added.

        There is one accumulator per thread. A pass makes about `block_cells` values per row and may
        run in `workers` threads at once. Sums must be the same in any order, as those of integers
        are. Blocks must not be kept: their memory is used again. If accumulators take the events of
        rows `in_chunks`, listed rows come in few large blocks: a thread that comes back to Python
        after every small one may wait for the other threads each time.
        """
        m, n = self.shape
        work = m * words_for(n) * block_cells
        if work <= _BLOCK_WORK:  # one block
            total = start()
            total.add(Block(self, 0, m))
            return total
        threads = min(threads_available(), workers)
        chunks = in_chunks and self.listed is not None
        block_rows = self._block_rows(block_cells, threads, in_chunks=chunks)
        threads = min(threads, max(1, -(-m // block_rows)))
        with meter("rows", m if work >= _LONG_WORK else 0) as show:
            unread, stop = _reporting(spans(m, block_rows), show), threading.Event()

            def one_sum() -> T | None:
                total = None
                for span in _shared(unread, stop):
                    total = start() if total is None else total
                    total.add(Block(self, *span))
                return total

            sums = run_in_threads(one_sum, threads, stop)
            return reduce(operator.add, [total for total in sums if total is not None])

    def map_reduce(
        self, function: Callable[[Block], A], *, block_cells: int = 1, workers: int = 1 << 16
    ) -> A:
        """The sum of `function` over blocks of rows, as `fold` has it."""
        total = self.fold(partial(Total, function), block_cells=block_cells, workers=workers)
        return total.value

    def map_rows(
        self, function: Callable[[Block], NDArray[Any]], *, block_cells: int = 1
    ) -> NDArray[Any]:
        """The results of `function` for each block of rows, concatenated."""
        threads = threads_available() if len(self) > _MIN_BLOCK_ROWS else 1
        blocks = list(spans(len(self), self._block_rows(block_cells, threads)))
        results: list[Any] = [None] * len(blocks)
        unread, stop = iter(range(len(blocks))), threading.Event()

        def work() -> None:
            for number in _shared(unread, stop):
                results[number] = function(Block(self, *blocks[number]))

        run_in_threads(work, min(threads, len(blocks)), stop)
        return np.concatenate(results)

    def _block_rows(self, block_cells: int, threads: int, *, in_chunks: bool = False) -> int:
        """Rows per block.

        Every thread should get work, a block should stay in the second-level cache, unless rows are
        taken `in_chunks` that do, and it should be large enough that handing it out costs little.
        """
        words = words_for(self.shape[1])
        least = max(_MIN_BLOCK_ROWS, _BLOCK_WORK // (words * block_cells))
        most = min(_BLOCK_BYTES // (8 * words), _BLOCK_BYTES // (8 * block_cells))
        fair = -(-len(self) // (2 * threads))
        blocks = -(-len(self) // max(least, fair if in_chunks else min(fair, most)))
        if blocks > 1:
            blocks = -(-blocks // threads) * threads
        return max(1, -(-len(self) // max(1, blocks)))

    def read_words(self, start: int, stop: int, *, reuse: bool = False) -> Words:
        """The packed rows start … stop as they are laid out. With `reuse`, rows from a file are in
        memory that the next call in this thread uses again.
        """
        if isinstance(self._words, np.ndarray):
            return self._words[start:stop]
        return self._words.read(start, stop, reuse=reuse)


class Total(Generic[A]):
    """The sum of a function over blocks, as an accumulator."""

    value: A

    def __init__(self, function: Callable[[Block], A]) -> None:
        self._function = function

    def add(self, block: Block) -> None:
        value = self._function(block)
        self.value = self.value + value if hasattr(self, "value") else value

    def __add__(self, other: "Total[A]") -> "Total[A]":
        self.value = self.value + other.value
        return self


def _reporting(
    blocks: Iterator[tuple[int, int]], show: Callable[[int, str], None]
) -> Iterator[tuple[int, int]]:
    for block in blocks:
        show(block[0], "")
        yield block


def _count_ones(block: Block) -> Ints:
    """The ones, and the known cells."""
    ones, known = np.bitwise_count(block.bits).sum(dtype=np.int64), block.known
    cells = len(block.words) * block.n_columns
    return np.array([ones, cells if known is None else np.bitwise_count(known).sum()])


def _count_known(block: Block) -> Ints:
    """The known cells of each column."""
    assert block.known is not None
    return unpack(block.known, block.n_columns).sum(axis=0, dtype=np.int64)


def _is_everything(columns: Any) -> bool:
    return columns is ... or (isinstance(columns, slice) and columns == slice(None))


def _shared(values: Iterator[V], stop: threading.Event) -> Iterator[V]:
    """The values, each given to one of the threads that ask; none after `stop` or an error."""
    try:
        while not stop.is_set():
            with _sharing:
                value = next(values, None)
            if value is None:
                return
            yield value
    except BaseException:
        stop.set()
        raise
