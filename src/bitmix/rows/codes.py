"""Codes: how the cells of a table are read as bits, one frozen value that a model keeps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import InputError
from bitmix.kernels.bits import Words
from bitmix.kernels.items import Items
from bitmix.rows.cells import MISSING, Numbers, Vocabulary, as_number, pack_columns

PAIRS = (("0", "1"), ("false", "true"), ("f", "t"), ("no", "yes"), ("n", "y"),
         ("absent", "present"), ("-", "+"))  # fmt: skip
"""Words for 0 and 1 that are known in any case."""
KNOWN = {word: bit for pair in PAIRS for bit, word in enumerate(pair)}
MAX_SHOWN = 6
_UNREAD, _GAP = 255, 254


@dataclass(frozen=True)
class Binary:
    """A column with two values: the texts that are read as 1, and those that are read as 0."""

    ones: tuple[str, ...]
    zeros: tuple[str, ...]

    def state(self, text: str) -> int:
        """1, 0, or 255 for a text that is neither. Known words count in any case."""
        for word in (text, text.lower()):
            if word in self.ones:
                return 1
            if word in self.zeros:
                return 0
            if text.lower() not in KNOWN:
                break
        return _UNREAD

    def plane_names(self, name: str) -> tuple[str, ...]:
        """The name of the column, with the value that is 1 if its name does not say it."""
        told = len(self.ones) != 1 or self.ones[0] in KNOWN or as_number(self.ones[0]) is not None
        return (name if told else f"{name}={self.ones[0]}",)


@dataclass(frozen=True)
class Item:
    """A column with several values: one plane of bits per value, in this order."""

    values: tuple[str, ...]

    def state(self, text: str) -> int:
        """The number of the value, or 255 for a text that is none of them."""
        return self.values.index(text) if text in self.values else _UNREAD

    def plane_names(self, name: str) -> tuple[str, ...]:
        """One name per value."""
        return tuple(f"{name}={value}" for value in self.values)


Code = Binary | Item
PLAIN = Binary(("1", "true"), ("0", "false"))
"""The code of a column of 0 and 1, or of true and false."""


@dataclass(frozen=True)
class Fingerprint:
    """How molecules become bits: Morgan fingerprints of RDKit."""

    radius: int = 2
    bits: int = 2048

    def __post_init__(self) -> None:
        if not (_is_whole(self.radius) and 0 <= self.radius <= 10):
            raise InputError(f"the radius of a fingerprint must be 0 … 10, got {self.radius!r}")
        if not (_is_whole(self.bits) and 8 <= self.bits <= 1 << 20):
            raise InputError(f"a fingerprint must have 8 … 1,048,576 bits, got {self.bits!r}")


@dataclass(frozen=True)
class Codes:
    """How a table is read. A table of 0 and 1 needs no codes."""

    columns: tuple[Code, ...] = ()
    """The code of each column; none if all columns are 0 and 1 in the file itself."""
    names: tuple[str, ...] | None = None
    """The names of the columns, as in the table."""
    missing: tuple[str, ...] = ()
    """Values that stand for a missing cell, beside the usual ones."""
    filled: bool = False
    """Whether a blank cell is 0 and any other 1."""
    above: float | None = None
    """If it is a number, numbers above it are 1 and all others 0."""
    packed: str | None = None
    """The bit order of packed bytes, ``"big"`` or ``"little"``, if rows are such."""
    fingerprint: Fingerprint | None = None
    """How molecules become bits, if rows are molecules."""

    @property
    def vocabulary(self) -> Vocabulary:
        """An empty vocabulary that reads cells as these codes say."""
        return Vocabulary(self.missing, filled=self.filled, above=self.above)

    @cached_property
    def n_planes(self) -> int:
        """The number of columns of bits."""
        return len(self.column_of_plane)

    @cached_property
    def column_of_plane(self) -> NDArray[np.int64]:
        """For each column of bits, the number of the table's column that it belongs to."""
        widths = [len(code.plane_names("")) for code in self.columns]
        return np.repeat(np.arange(len(widths)), widths)

    @cached_property
    def plane_names(self) -> tuple[str, ...] | None:
        """The names of the columns of bits, such as "party=green" for a value of an item."""
        if not self.columns or (self.names is None and not self.has_items):
            return None
        names = self.names or tuple(f"column {i}" for i in range(len(self.columns)))
        pairs = zip(self.columns, names, strict=True)
        return tuple(plane for code, name in pairs for plane in code.plane_names(name))

    @property
    def has_items(self) -> bool:
        return any(isinstance(code, Item) for code in self.columns)

    @property
    def items(self) -> Items | None:
        """The groups of columns of bits that are the values of one item."""
        groups = [
            np.flatnonzero(self.column_of_plane == i).tolist()
            for i, code in enumerate(self.columns)
            if isinstance(code, Item)
        ]
        return Items.of_groups(groups, self.n_planes)

    def agrees_with(self, other: "Codes") -> bool:
        """Whether no cell could be read in two ways by these codes and others."""
        for mine, theirs in ((self.fingerprint, other.fingerprint), (self.above, other.above)):
            if mine is not None and theirs is not None and mine != theirs:
                return False
        if not self.columns or not other.columns:
            return True
        same_length = len(self.columns) == len(other.columns)
        return same_length and all(map(_agree, self.columns, other.columns))

    def describe(self) -> list[str]:
        """What is read in which way, in a few lines."""
        lines = []
        groups: dict[Code, list[str]] = {}
        for i, code in enumerate(self.columns):
            groups.setdefault(code, []).append(str(i) if self.names is None else self.names[i])
        for code, names in groups.items():
            if code == PLAIN:
                continue
            where = shown(names) if len(groups) > 1 else "all columns"
            if isinstance(code, Binary):
                ones, zeros = (" or ".join(map(repr, texts)) for texts in (code.ones, code.zeros))
                lines.append(f"{ones} is read as 1 and {zeros or 'nothing'} as 0 in {where}")
            else:
                lines.append(
                    f"an item with {len(code.values)} values ({shown(code.values)}): {where}"
                )
        if self.filled:
            lines.append("a filled cell is read as 1 and a blank cell as 0")
        if self.above is not None:
            lines.append(f"numbers above {self.above:g} are read as 1")
        if self.missing:
            lines.append(f"{' or '.join(map(repr, self.missing))} is read as missing")
        if self.packed:
            lines.append(f"rows are packed bytes, in {self.packed} bit order")
        if self.fingerprint:
            radius, bits = self.fingerprint.radius, self.fingerprint.bits
            lines.append(f"molecules are read as Morgan fingerprints, radius {radius}, {bits} bits")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """The codes as plain values, for a file."""
        kinds = list(dict.fromkeys(self.columns))
        number = {code: i for i, code in enumerate(kinds)}
        fingerprint = None if self.fingerprint is None else vars(self.fingerprint)
        return {
            "kinds": [vars(code) for code in kinds],
            "columns": [number[code] for code in self.columns],
            "names": self.names, "missing": self.missing, "filled": self.filled,
            "above": self.above, "packed": self.packed, "fingerprint": fingerprint,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, values: Any) -> "Codes":
        """Codes as a file may hold them, checked."""
        if not isinstance(values, Mapping) or values.keys() != Codes().to_dict().keys():
            raise InputError("codes must have the fields that bitmix writes")
        kinds = [_code_from(kind) for kind in _list(values["kinds"])]
        numbers = _list(values["columns"])
        if not all(_is_whole(i) and 0 <= i < len(kinds) for i in numbers):
            raise InputError("codes must name the kind of each column")
        names = None if values["names"] is None else _texts(values["names"])
        if names is not None and len(names) != len(numbers):
            raise InputError(f"codes must name {len(numbers)} columns, got {len(names)}")
        above, fingerprint = values["above"], values["fingerprint"]
        if above is not None and (not isinstance(above, float | int) or not np.isfinite(above)):
            raise InputError(f"codes must have a number as threshold, got {above!r}")
        if type(values["filled"]) is not bool or values["packed"] not in (None, "big", "little"):
            raise InputError("codes must say how blank cells and packed bytes are read")
        if fingerprint is not None:
            if not isinstance(fingerprint, dict) or {*fingerprint} != {"radius", "bits"}:
                raise InputError(f"a fingerprint must have radius and bits, got {fingerprint!r}")
            fingerprint = Fingerprint(**fingerprint)
        return cls(
            tuple(kinds[i] for i in numbers), names, _texts(values["missing"]), values["filled"],
            above, values["packed"], fingerprint,
        )  # fmt: skip


class UnreadCell(Exception):
    """A cell whose value has no code; its column and row are counted from 0."""

    def __init__(self, column: int, row: int) -> None:
        super().__init__(column, row)
        self.column, self.row = column, row


class Encoder:
    """Turns the numbers of cells into bits."""

    def __init__(self, codes: Codes, vocabulary: Vocabulary) -> None:
        self._codes, self._vocabulary = codes, vocabulary
        self._states: dict[Code, NDArray[np.uint8]] = {}

    def words(self, numbers: Numbers) -> tuple[Words, Words | None]:
        """Packed rows, and packed known cells if any is missing."""
        codes = self._codes.columns
        states = np.array([
            self._states_of(code)[cells] for code, cells in zip(codes, numbers, strict=True)
        ])  # fmt: skip
        if (states == _UNREAD).any():
            raise UnreadCell(*np.argwhere(states == _UNREAD)[0].tolist())
        ones: Any = 1
        if self._codes.has_items:  # a plane of a value is 1 where its number is the state
            values = [range(len(c.values)) if isinstance(c, Item) else (1,) for c in codes]
            states = np.repeat(states, list(map(len, values)), axis=0)
            ones = np.concatenate(values).astype(np.uint8)[:, None]
        missing = (states == _GAP).any()
        return pack_columns(states == ones), pack_columns(states != _GAP) if missing else None

    def _states_of(self, code: Code) -> NDArray[np.uint8]:
        """The state of each value of the vocabulary."""
        states = self._states.get(code)
        if states is None or len(states) < len(self._vocabulary):
            texts = self._vocabulary.texts
            states = np.array([_GAP, _UNREAD, *map(code.state, texts[2:])], dtype=np.uint8)
            states[MISSING] = _GAP
            self._states[code] = states
        return states


def shown(names: Sequence[str], quote: bool = False) -> str:
    """The first names of a list, and how many there are in all."""
    words = [repr(name) if quote else str(name) for name in names[:MAX_SHOWN]]
    more = f", … ({len(names):,} in all)" if len(names) > MAX_SHOWN else ""
    return ", ".join(words) + more


def _agree(a: Code, b: Code) -> bool:
    if isinstance(a, Binary) and isinstance(b, Binary):
        return not (set(a.ones) & set(b.zeros) or set(a.zeros) & set(b.ones))
    return a == b


def _code_from(kind: Any) -> Code:
    if isinstance(kind, Mapping) and kind.keys() == {"values"}:
        values = _texts(kind["values"])
        if not 2 <= len(set(values)) == len(values) < _GAP:
            raise InputError(f"an item must have several different values, got {values!r}")
        return Item(values)
    if isinstance(kind, Mapping) and kind.keys() == {"ones", "zeros"}:
        ones, zeros = _texts(kind["ones"]), _texts(kind["zeros"])
        if set(ones) & set(zeros):
            raise InputError(f"a value cannot be read as 1 and as 0, got {kind!r}")
        return Binary(ones, zeros)
    raise InputError(f"codes must have ones and zeros, or values, got {kind!r}")


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise InputError(f"codes must hold lists, got {value!r}")
    return list(value)


def _texts(value: Any) -> tuple[str, ...]:
    texts = tuple(_list(value))
    if not all(isinstance(text, str) for text in texts):
        raise InputError(f"codes must hold texts, got {value!r}")
    return texts


def _is_whole(value: Any) -> bool:
    return type(value) is int
