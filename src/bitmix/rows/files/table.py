"""What every format gives: a table whose rows are read in pieces, and which columns are what."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.atomic import naming
from bitmix.errors import ColumnWarning, FileFormatError, InputError
from bitmix.kernels.bits import WORD, Words, words_for
from bitmix.progress import meter
from bitmix.rows.packed import BitMatrix

BLOCK_CELLS = 1 << 20
_SHOWN = 1 << 24  # bytes of a file that is worth a progress bar
_NO_FEATURES = frozenset({"id", "label", "class", "target", "y", "index", "name"})
_INDEX_OF_PANDAS = ("", "__index_level_0__")


@dataclass(frozen=True)
class Piece:
    """Some rows, one after the other."""

    words: Words
    """Packed rows."""
    ids: list[str] | None = None
    """The id of each row, where the file has ids."""
    labels: list[str] | None = None
    """The label of each row, where a label column was named."""


Stream = Iterator[tuple[Piece, float]]
"""Pieces, each with the share of the file that has been read."""


@dataclass(frozen=True)
class Table:
    """Rows of bits in a file, read a piece at a time."""

    path: Path
    n_columns: int
    """Columns that are features."""
    size: int
    """Bytes of the file."""
    stream: Callable[[], Stream] = field(repr=False)
    names: tuple[str, ...] | None = field(default=None, repr=False)
    """The names of the features, in order."""
    n_rows: int | None = None
    """None where it is not known before the file is read."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What the file says of itself."""
    has_ids: bool = False
    has_labels: bool = False
    on_disk: Callable[[], BitMatrix] | None = field(default=None, repr=False)
    """The rows where they are, for a file that is packed already."""

    def pieces(self, *, quiet: bool = False) -> Iterator[Piece]:
        """The rows from the first on, in pieces of bounded size; may be called again."""
        rows = 0
        with naming(self.path):
            for piece in self._with_progress(quiet or self.size < _SHOWN):
                rows += len(piece.words)
                yield piece
        if rows == 0:
            raise InputError(f"{self.path} has no rows")

    def read(self) -> BitMatrix:
        """All rows, packed in memory; of a packed file, where they are."""
        return self.read_all()[0]

    def read_all(self) -> tuple[BitMatrix, list[str] | None, list[str] | None]:
        """All rows, their ids and their labels."""
        if self.on_disk is not None:
            return self.on_disk(), None, None
        octets = bytearray()  # grows in place: never two copies of the rows
        ids: list[str] = []
        labels: list[str] = []
        for piece in self.pieces():
            octets += piece.words.data
            ids += piece.ids or ()
            labels += piece.labels or ()
        words = np.frombuffer(octets, dtype=WORD).reshape(-1, words_for(self.n_columns))
        rows = BitMatrix(words, self.n_columns)
        rows.feature_names = self.names
        return rows, ids if self.has_ids else None, labels if self.has_labels else None

    def _with_progress(self, quiet: bool) -> Iterator[Piece]:
        if quiet:
            yield from (piece for piece, _ in self.stream())
            return
        megabytes = self.size // 1_000_000
        with meter(f"reading {self.path.name}", megabytes) as show:
            for piece, share in self.stream():
                show(int(share * megabytes), "MB")
                yield piece


@dataclass(frozen=True)
class Picked:
    """Which column is what, by number."""

    features: list[int]
    id: int | None
    label: int | None


@dataclass(frozen=True)
class Wanted:
    """What the user said of the columns."""

    columns: tuple[str, ...] | None = None
    """The features of a model: these, in this order."""
    id_column: str | None = None
    label_column: str | None = None

    def pick(self, path: Path, names: Sequence[str]) -> Picked:
        """Find the columns by name; what is no feature never becomes one unseen."""
        where = {name: i for i, name in enumerate(names)}
        apart = {"--id-column": self.id_column, "--label-column": self.label_column}
        for option, name in apart.items():
            if name is not None and name not in where:
                raise InputError(f"{path} has no column {name!r} ({option}): {_listed(names)}")
            if name is not None and self.columns is not None and name in self.columns:
                raise InputError(
                    f"{option} {name} is a feature of the model: it cannot be something else too"
                )
        features = self.columns
        if features is None:
            features = tuple(name for name in names if name not in apart.values())
            _check_unnamed(path, features)
        else:
            missing = next((name for name in features if name not in where), None)
            if missing is not None:
                raise InputError(
                    f"{path} has no column {missing!r}, which the model was fitted on: "
                    f"{_listed(names)}"
                )
        if not features:
            raise InputError(f"{path} has no columns but ids and labels: features are needed")
        _check_unique(path, names, features)
        id_column, label_column = (
            None if name is None else where[name] for name in (self.id_column, self.label_column)
        )
        return Picked([where[name] for name in features], id_column, label_column)

    def check_nameless(self, path: Path, n_columns: int) -> None:
        """For a file whose columns have no names: nothing can be picked."""
        for option, name in (("id", self.id_column), ("label", self.label_column)):
            if name is not None:
                raise InputError(
                    f"{path} does not name its columns, so that --{option}-column {name} "
                    "cannot be found: leave it out"
                )
        if self.columns is not None and len(self.columns) != n_columns:
            raise InputError(
                f"{path} has {n_columns:,} columns without names, but the model was fitted on "
                f"{len(self.columns):,}"
            )


def _listed(names: Sequence[str]) -> str:
    return f"it has {', '.join(names[:5])}{', …' if len(names) > 5 else ''}"


def _check_unnamed(path: Path, features: Sequence[str]) -> None:
    """Of columns that nobody named: an index is refused, an id or label in disguise is told."""
    for name in features:
        if name in _INDEX_OF_PANDAS:
            raise InputError(
                f"{path} has a column named {name!r}, as pandas writes its index: write the table "
                f"without it (index=False), or read it as ids with --id-column '{name}'"
            )
    for name in features:
        if name.lower() in _NO_FEATURES:
            warnings.warn(
                f"column {name!r} of {path} is read as a feature: if it is none, say "
                f"--id-column {name} or --label-column {name}",
                ColumnWarning,
                stacklevel=2,
            )


def _check_unique(path: Path, names: Sequence[str], features: Sequence[str]) -> None:
    if len(set(names)) == len(names):
        return
    seen, wanted = set(), set(features)
    for name in names:
        if name in seen and name in wanted:
            raise InputError(
                f"{path} has two columns named {name!r}: give each a name of its own, or, if its "
                "first line is a row, add a line of names above it"
            )
        seen.add(name)


def checked_shape(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, int]:
    """Rows and columns of an array that can be a table."""
    if len(shape) != 2 or 0 in shape or dtype.kind not in "biuf":
        raise InputError(
            f"{path} must be rows and columns of 0 and 1, got {dtype} of shape {shape}"
        )
    return shape[0], shape[1]


def spans(m: int, n: int) -> Iterator[tuple[int, int]]:
    """Blocks of rows of bounded size."""
    step = max(1, BLOCK_CELLS // n)
    return ((start, min(start + step, m)) for start in range(0, m, step))


def checked_bits(
    path: Path, block: NDArray[Any], first_row: int, first_column: int = 0
) -> NDArray[np.bool_]:
    """Numbers as bits; the place of any that is not 0 or 1 is told."""
    if block.dtype.kind == "b":
        return block
    bits: NDArray[np.bool_] = block == 1
    wrong = ~bits & (block != 0)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise InputError(
            f"{path} must hold 0 and 1, but row {first_row + row:,} has {block[row, column]!s} in "
            f"column {first_column + column:,} (counted from 0)"
        )
    return bits


def packed_octets(octets: NDArray[np.uint8]) -> Words:
    """Rows of packed bytes, column s bit s mod 8 of byte s // 8, as words."""
    rows, width = octets.shape
    padded = np.zeros((rows, 8 * words_for(8 * width)), dtype=np.uint8)
    padded[:, :width] = octets
    return padded.view(WORD)


@contextmanager
def damage_named(says: str) -> Iterator[None]:
    """Whatever a library raises for a hostile file, as an error of ours that begins with `says`."""
    try:
        yield
    except (InputError, FileFormatError, FileNotFoundError, PermissionError):
        raise
    except Exception as error:  # zip, zlib, NumPy, scipy and Arrow know many ways to fail
        raise FileFormatError(f"{says}: {error}") from None


def library(name: str, extra: str, path: Path) -> Any:
    """A library that only some formats need."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise InputError(
            f"{path} needs {name.split('.')[0]} to be read: pip install 'bitmix[{extra}]'"
        ) from None
