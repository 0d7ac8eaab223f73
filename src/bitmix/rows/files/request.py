"""What a caller asks of a file, and what each of its columns is for."""

import fnmatch
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from bitmix.errors import ColumnWarning, InputError
from bitmix.rows.cells import text_of
from bitmix.rows.codes import Codes, Fingerprint, shown
from bitmix.rows.learn import Wishes
from bitmix.support import checks

INDEX_NAMES = ("", "rownames", "Unnamed: 0", "__index_level_0__")
"""How R, pandas and others name the column of row names that they write before a table."""
_LIKELY_IDS_AND_LABELS = frozenset({"id", "label", "class", "target", "y", "index", "name"})

Columns = str | Sequence[str | int]
"""Columns by name or number; or a text of names, ranges ``first:last`` and patterns."""


@dataclass(frozen=True)
class Request:
    """How a file is to be read. An option that does not apply to a format is refused."""

    columns: Columns | None = None
    """The features, in this order; by default all columns that are nothing else."""
    drop: Columns | None = None
    """Columns to leave out."""
    id_column: str | int | None = None
    label_column: Columns | None = None
    """Columns with known classes; one name, or several."""
    weight_column: str | int | None = None
    one_values: Any = ()
    """Values that are 1, in columns that have one of them; all others are 0 there."""
    items: Columns | None = None
    """Columns with several values."""
    missing: Any = ()
    """Values that stand for a missing cell, beside blank, NA, NaN and null."""
    filled: bool = False
    """Whether a blank cell is 0 and any other 1, as in a list of ticks."""
    binarize: float | None = None
    """Read numbers above this as 1 and all others as 0."""
    codes: Codes | None = None
    """The codes of a model, in place of one_values, items, missing, filled and binarize."""
    sep: str | None = None
    """What separates the cells of a text; by default found by itself."""
    header: bool | None = None
    """Whether the first line names the columns; by default found by itself."""
    encoding: str | None = None
    transpose: bool | None = None
    """Whether features are in rows; by default only where the format says so."""
    packed: str | None = None
    """The bit order of packed bytes: ``"big"`` or ``"little"``."""
    layer: str | None = None
    """The layer of an .h5ad file; by default its X."""
    smiles_column: str | int | None = None
    """A column of molecules, which become fingerprints."""
    fingerprint: Fingerprint | None = None
    skip_errors: bool = False
    """Whether molecules that cannot be read are left out; a warning counts them."""
    pairs: bool = False
    """Whether each line of a text names a row and a column whose cell is 1."""

    def __post_init__(self) -> None:
        if self.packed not in (None, "big", "little"):
            raise InputError(f"packed must be 'big' or 'little', got {self.packed!r}")
        checks.optional(checks.between, self.binarize, "binarize", -float("inf"), float("inf"))
        for name in ("one_values", "missing"):
            given = getattr(self, name)
            values = (given,) if isinstance(given, str | int | float) else tuple(given or ())
            object.__setattr__(self, name, tuple(map(text_of, values)))

    @property
    def threshold(self) -> float | None:
        """The number above which numbers are 1, as the user or the model says."""
        if self.binarize is None and self.codes is not None:
            return self.codes.above
        return self.binarize

    @property
    def bit_order(self) -> str | None:
        """The bit order of packed bytes, as the user or the model says."""
        return self.packed or (self.codes.packed if self.codes is not None else None)

    def refuse(self, path: Path, kind: str, allowed: Iterable[str]) -> None:
        """Refuse every option that was given and that the reader of a format does not know."""
        for option in fields(self):
            if getattr(self, option.name) == option.default or option.name in allowed:
                continue
            raise InputError(f"{option.name}= does not apply to {path}, {kind}: leave it out")

    def wishes(self, names: Sequence[str] | None, n_columns: int) -> Wishes:
        """What is said about the values of these features."""
        items = ColumnFinder(names, n_columns, "the table").choose(self.items, "items")
        return Wishes(
            self.one_values, items=tuple(items), missing=self.missing, filled=self.filled,
            above=self.binarize,
        )  # fmt: skip

    def roles(self, path: Path, n_columns: int, names: Sequence[str] | None = None) -> "Roles":
        """Find the columns by name, or by number where they have no names."""
        id_column, columns = self.id_column, ColumnFinder(names, n_columns, str(path))
        index = None if names is None else _index(names)
        if id_column is None and not self._mentions(index):
            id_column = index
        single = {"id_column": id_column, "weight_column": self.weight_column}
        found = {
            option: None if which is None else columns.find(which, option)
            for option, which in single.items()
        }
        labels = columns.choose(self.label_column, "label_column")
        dropped = set(columns.choose(self.drop, "drop"))
        others = {*labels, *(place for place in found.values() if place is not None)}
        if self.columns is None:
            features: Sequence[int] = range(n_columns)
            if others or dropped:
                features = [i for i in features if i not in others and i not in dropped]
            if index is not None and index != id_column:
                features = [i for i in features if names is None or names[i] != index]
            _note_likely(path, names, features)
        else:
            features = self._chosen(path, columns)
            features = [i for i in features if i not in dropped]
            clash = next((i for i in features if i in others), None)
            if clash is not None:
                raise InputError(
                    f"column {_name(names, clash)!r} of {path} is asked for as a feature: it "
                    "cannot be an id, a label or a weight too"
                )
        if not features:
            raise InputError(f"{path} has no columns but ids and labels: features are needed")
        _check_unique(path, names, features)
        left_out = {}
        if len(features) + len(others) < n_columns:
            used = {*features, *others}
            for i in (i for i in range(n_columns) if i not in used):
                name = _name(names, i)
                why = "row names" if index is not None and name == index else "not asked for"
                left_out[name] = "dropped" if i in dropped else why
        return Roles(
            features,
            None if names is None else tuple(names[i] for i in features),
            found["id_column"], tuple(labels), found["weight_column"], left_out,
            None if names is None else tuple(names),
        )  # fmt: skip

    def _mentions(self, index: str | None) -> bool:
        """Whether the user says what the column of row names is for."""
        given = (self.columns, self.drop, self.label_column, self.weight_column)
        return any(g == index or (isinstance(g, list | tuple) and index in g) for g in given)

    def _chosen(self, path: Path, columns: "ColumnFinder") -> list[int]:
        assert self.columns is not None
        names, n_columns = columns.names, columns.n_columns
        if self.codes is None:
            return columns.choose(self.columns, "columns")
        if names is None:
            if len(self.columns) != n_columns:
                raise InputError(
                    f"{path} has {n_columns:,} columns without names, but the model was fitted on "
                    f"{len(self.columns):,}"
                )
            return list(range(n_columns))
        places = {name: i for i, name in enumerate(names)}
        for name in self.columns:
            if name not in places:
                raise InputError(
                    f"{path} has no column {name!r}, which the model was fitted on: it has "
                    f"{shown(names)}"
                )
        return [places[str(name)] for name in self.columns]


@dataclass(frozen=True)
class Roles:
    """What the columns of a file are for, by their numbers."""

    features: Sequence[int]
    names: tuple[str, ...] | None = None
    """The names of the features, if the file has names."""
    id: int | None = None
    labels: tuple[int, ...] = ()
    weight: int | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    """The columns that are not read, each with the reason."""
    all_names: tuple[str, ...] | None = None

    @property
    def n_features(self) -> int:
        return len(self.features)

    def are_all(self, n_columns: int) -> bool:
        """Whether the features are all columns, in their order."""
        everything = range(n_columns)
        return self.features == everything or list(self.features) == list(everything)

    @property
    def others(self) -> list[int]:
        """The columns that are read as text: the id, the labels, the weight."""
        return [i for i in (self.id, *self.labels, self.weight) if i is not None]

    def name(self, column: int) -> str:
        """The name of a column of the file, or its number as text."""
        return _name(self.all_names, column)

    @property
    def id_name(self) -> str | None:
        return None if self.id is None else self.name(self.id)

    @property
    def label_names(self) -> list[str]:
        return [self.name(column) for column in self.labels]

    @property
    def weight_name(self) -> str | None:
        return None if self.weight is None else self.name(self.weight)


@dataclass(frozen=True)
class ColumnFinder:
    """Finds the columns that a user names."""

    names: Sequence[str] | None
    n_columns: int
    where: str
    """The table, for errors."""

    def choose(self, given: Columns | None, option: str) -> list[int]:
        """The numbers of the columns, each once, in the order asked for."""
        if given is None:
            return []
        if not isinstance(given, str):
            return [self.find(each, option) for each in given]
        if self.names is not None and given in self.names:
            return [list(self.names).index(given)]
        parts = (self._matching(part.strip(), option) for part in given.split(","))
        return list(dict.fromkeys(column for part in parts for column in part))

    def find(self, which: str | int, option: str) -> int:
        """The number of one column."""
        if isinstance(which, int):
            if 0 <= which < self.n_columns:
                return which
        elif self.names is not None and which in self.names:
            return list(self.names).index(which)
        elif self.names is None and which.isdecimal() and int(which) < self.n_columns:
            return int(which)
        raise self._absent(which, option)

    def _matching(self, text: str, option: str) -> Iterable[int]:
        """The columns of one name, range or pattern."""
        labels = [str(i) for i in range(self.n_columns)] if self.names is None else list(self.names)
        if text in labels:
            return [i for i, label in enumerate(labels) if label == text]
        for colon in (i for i, letter in enumerate(text) if letter == ":"):
            first, last = text[:colon].strip(), text[colon + 1 :].strip()
            if first in labels and last in labels:
                a, b = labels.index(first), labels.index(last)
                return range(a, b + 1) if a <= b else range(a, b - 1, -1)
        found = [i for i, label in enumerate(labels) if fnmatch.fnmatchcase(label, text)]
        if not found:
            raise self._absent(text, option)
        return found

    def _absent(self, which: str | int, option: str) -> InputError:
        if self.names is None:
            return InputError(
                f"{self.where} does not name its columns, so that {option}={which!r} cannot be "
                f"found: its columns are 0 to {self.n_columns - 1:,}"
            )
        return InputError(
            f"{self.where} has no column {option}={which!r}: it has {shown(self.names)}"
        )


def _index(names: Sequence[str]) -> str | None:
    """The name of the column of row names, if there is one."""
    if names and names[0] in INDEX_NAMES:
        return names[0]
    return INDEX_NAMES[-1] if INDEX_NAMES[-1] in names else None


def _name(names: Sequence[str] | None, column: int) -> str:
    return str(column) if names is None else names[column]


def _note_likely(path: Path, names: Sequence[str] | None, features: Sequence[int]) -> None:
    """Warn about features that look like ids or labels by their names."""
    for name in [] if names is None else [names[i] for i in features]:
        if name.lower() in _LIKELY_IDS_AND_LABELS:
            warnings.warn(
                f"column {name!r} of {path} is read as a feature: set id_column={name!r} or "
                f"label_column={name!r} if it is not a feature",
                ColumnWarning,
                stacklevel=2,
            )


def _check_unique(path: Path, names: Sequence[str] | None, features: Sequence[int]) -> None:
    chosen = [] if names is None else [names[i] for i in features]
    if len(set(chosen)) < len(chosen):
        twice = next(name for i, name in enumerate(chosen) if name in chosen[:i])
        raise InputError(
            f"{path} has two columns named {twice!r}: give each a name of its own, or set "
            "header=False if its first line is a row"
        )
