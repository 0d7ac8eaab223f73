"""Cells as numbers: every distinct value of a table has a number, and each cell the number of its
value. Text files, Arrow and Python tables and arrays are all read into this form.
"""

import math
import re
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import CellTypeError
from bitmix.kernels.bits import WORD, Words, words_for

Numbers = NDArray[np.uint16]
"""The number of each cell's value, shape (columns, rows)."""

MISSING, TOO_MANY = 0, 1
"""Two numbers that are no values: a missing cell, and one of more values than are counted."""
MAX_VALUES = 1000
"""Of a column with more distinct values than this, the values are not listed."""
_MAX_TEXTS = 60_000
_MISSING_TEXTS = frozenset({"", "na", "nan", "null", "<na>"})
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def as_number(text: str) -> float | None:
    """The number that a text is, or None."""
    return float(text) if _NUMBER.fullmatch(text) else None


def text_of(value: Any) -> str:
    """A value as text, without blanks around it. Equal numbers have equal texts; NaN has none."""
    if isinstance(value, str):
        text = value.strip()
        number = as_number(text)
        return text if number is None else _number_text(number, text)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(value, bytes):
        return text_of(value.decode(errors="replace"))
    if isinstance(value, int | bool):
        return str(value)
    array = isinstance(value, np.ndarray) and value.ndim > 0
    if array or isinstance(value, dict | list | tuple | set):
        raise CellTypeError(
            f"argument must be a string or a number: cells must hold one value, got {value!r}"
        )
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return str(value).strip()
    return "" if math.isnan(number) else _number_text(number, str(value))


def is_missing(text: str) -> bool:
    """Whether a text is one of the usual ones for a missing cell: blank, NA, NaN, null."""
    return text.lower() in _MISSING_TEXTS


def _number_text(number: float, text: str) -> str:
    if not math.isfinite(number) or abs(number) >= 1e15:  # an id, perhaps, with all its digits
        return text
    return str(int(number)) if number == int(number) else repr(number)


class Vocabulary:
    """The distinct values of a table as texts, each with a number.

    Parameters
    ----------
    missing : texts, optional
        Values that stand for a missing cell, beside an empty text, NA, NaN and null.
    filled : bool, default=False
        Whether an empty text is 0 and any other 1, as in a list of ticks.
    above : float, optional
        Read numbers above this as 1 and all others as 0.
    """

    def __init__(
        self, missing: Iterable[str] = (), *, filled: bool = False, above: float | None = None
    ) -> None:
        self._missing = frozenset(map(text_of, missing))
        self._filled, self._above = filled, above
        self.texts = ["", ""]
        self._number_of: dict[str, int] = {}
        self._cache: dict[Any, int] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.texts)

    def numbers_of(self, values: Sequence[Any]) -> Numbers:
        """The numbers of these values. Of very many values, all have the number `TOO_MANY`."""
        if len(values) > MAX_VALUES and self._above is None and not self._filled:
            numbers = np.full(len(values), TOO_MANY, dtype=np.uint16)
            for i, value in enumerate(values):
                if self._is_missing(text_of(value)):
                    numbers[i] = MISSING
            return numbers
        return np.array([self._number(value) for value in values], dtype=np.uint16)

    def number(self, text: str) -> int:
        """The number of a text, which is new if it has none yet."""
        found = self._number_of.get(text)
        if found is not None:
            return found
        with self._lock:
            if text in self._number_of:
                return self._number_of[text]
            if len(self.texts) >= _MAX_TEXTS:
                return TOO_MANY
            self.texts.append(text)
            self._number_of[text] = len(self.texts) - 1
            return self._number_of[text]

    def _number(self, value: Any) -> int:
        key = (type(value), value)  # 1, 1.0 and True are equal, but not their texts
        found = self._cache.get(key)
        if found is None:
            if len(self._cache) > _MAX_TEXTS:
                self._cache.clear()
            found = self._cache[key] = self._read(text_of(value))
        return found

    def _read(self, text: str) -> int:
        if self._filled:
            return self.number("1" if text else "0")
        if self._is_missing(text):
            return MISSING
        if self._above is not None and (number := as_number(text)) is not None:
            return self.number("1" if number > self._above else "0")
        return self.number(text)

    def _is_missing(self, text: str) -> bool:
        return is_missing(text) or text in self._missing


class Seen:
    """The distinct values of each column, as numbers."""

    def __init__(self, n_columns: int) -> None:
        self.values: list[set[int]] = [set() for _ in range(n_columns)]

    def add(self, numbers: Numbers) -> None:
        """Count the cells of more rows."""
        for column, cells in enumerate(numbers):
            counts = np.bincount(cells)
            values = self.values[column]
            values.update(np.flatnonzero(counts).tolist())
            values.discard(MISSING)
            if len(values) > MAX_VALUES:
                values.add(TOO_MANY)

    def pooled(self) -> "Seen":
        """The values of all columns, as if they were one."""
        seen = Seen(1)
        seen.values = [set().union(*self.values)]
        return seen

    @property
    def has_many(self) -> bool:
        """Whether a column has more values than are listed."""
        return any(TOO_MANY in values for values in self.values)


def factor(column: Any) -> tuple[NDArray[np.integer[Any]], list[Any]]:
    """For each cell the place of its value in a list; -1 for a cell that is missing.

    Takes columns of pandas and Arrow, arrays, and lists of texts.
    """
    if isinstance(column, list):
        texts: dict[str, int] = {}
        return np.array([texts.setdefault(text, len(texts)) for text in column]), list(texts)
    if hasattr(column, "cat") and hasattr(column, "factorize"):  # a category of pandas
        return column.cat.codes.to_numpy(), list(column.cat.categories)
    if hasattr(column, "factorize"):
        try:
            places, values = column.factorize()
            return np.asarray(places), list(values)
        except TypeError:  # a value that has no hash
            column = column.to_numpy()
    if hasattr(column, "dictionary_encode"):
        return _factor_arrow(column)
    if column.dtype.kind in "biuf":
        values, places = np.unique(column, return_inverse=True, equal_nan=True)
        return places, values.tolist()
    places_of: dict[Any, int] = {}
    places = np.empty(len(column), dtype=np.int64)
    for i, value in enumerate(column.tolist()):
        places[i] = places_of.setdefault(_hashable(value), len(places_of))
    return places, [key[1] for key in places_of]


def _factor_arrow(column: Any) -> tuple[NDArray[np.integer[Any]], list[Any]]:
    if hasattr(column, "combine_chunks"):
        column = column.combine_chunks()
    encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
    places = encoded.indices
    if places.null_count:
        places = places.cast("int64").fill_null(-1)
    return places.to_numpy(zero_copy_only=False), encoded.dictionary.to_pylist()


def _hashable(value: Any) -> tuple[type, Any]:
    try:
        hash(value)
    except TypeError:
        return str, str(value)
    return type(value), value


def number_columns(columns: Iterable[Any], vocabulary: Vocabulary) -> Numbers:
    """The numbers of the cells in these columns."""
    rows = []
    for column in columns:
        places, values = factor(column)
        rows.append(vocabulary.numbers_of([*values, None])[places])  # place -1 is the last
    return np.array(rows, dtype=np.uint16)


def pack_columns(bits: NDArray[np.bool_]) -> Words:
    """Columns of bits, shape (columns, rows), as packed rows."""
    n, m = bits.shape
    padded = np.zeros((m, 8 * words_for(n)), dtype=np.uint8)
    padded[:, : -(-n // 8)] = np.packbits(bits, axis=0, bitorder="little").T
    return padded.view(WORD)
