"""What every reader returns: a table whose rows come in chunks, and what each column is for."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import ColumnWarning, FileFormatError, InputError
from bitmix.kernels.bits import WORD, Words, words_for
from bitmix.rows.convert import Origin, all_known, pack_cells
from bitmix.rows.packed import BitMatrix
from bitmix.rows.protocol import Layout
from bitmix.support.atomic import naming
from bitmix.support.progress import meter

_LARGE = 1 << 24  # bytes of a file whose reading takes long enough to show progress
_LIKELY_IDS_AND_LABELS = frozenset({"id", "label", "class", "target", "y", "index", "name"})
_PANDAS_INDEX = ("", "__index_level_0__")

FILL = "fill or drop missing cells first, or read them in Python by open_table(missing=True)"
NOT_A_FEATURE = "set id_column={column} or label_column={column} if it is not a feature"


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of a table."""

    words: Words
    """Packed rows; the bits of missing cells are 0."""
    known: Words | None = None
    """Packed as `words`, 1 for each cell that is not missing; None if no cell is missing."""
    ids: list[str] | None = None
    """The id of each row, if the table has ids."""
    labels: list[str] | None = None
    """The label of each row, if a label column was named."""


Chunks = Iterator[tuple[Chunk, float]]
"""Chunks, each with the fraction of the file that has been read."""


@dataclass(frozen=True)
class Roles:
    """What the columns of a file are for."""

    features: Sequence[int]
    """The numbers of the columns that are features, in their order."""
    names: tuple[str, ...] | None = None
    """The names of the features, if the file has names."""
    id: int | None = None
    label: int | None = None


@dataclass(frozen=True)
class Table:
    """Rows of bits in a file, which are read a chunk at a time."""

    path: Path
    n_columns: int
    """The number of features."""
    size: int
    """Bytes of the file, 0 if that is not known."""
    read_chunks: Callable[[], Chunks] = field(repr=False)
    roles: Roles = field(repr=False)
    n_rows: int | None = None
    """None if it is not known before the file is read."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What the file says about itself."""
    on_disk: Callable[[], BitMatrix] | None = field(default=None, repr=False)
    """Opens the rows without reading them, if the file is packed already."""
    weighted: bool = False
    """Whether the rows have weights, which are not in the chunks."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the features, in order."""
        return self.roles.names

    @property
    def has_ids(self) -> bool:
        return self.roles.id is not None

    @property
    def has_labels(self) -> bool:
        return self.roles.label is not None

    def check_unweighted(self) -> None:
        """Refuse a table whose weights would be lost."""
        if self.weighted:
            raise InputError(f"{self.path} has weights, which would be lost: use the file as it is")

    def chunks(self) -> Iterator[Chunk]:
        """All rows, in chunks of bounded size. May be called again, except for standard input."""
        rows = 0
        megabytes = self.size // 1_000_000 if self.size >= _LARGE else 0
        with naming(self.path), meter(f"reading {self.path.name}", megabytes) as show:
            for chunk, fraction in self.read_chunks():
                show(int(fraction * megabytes), "MB")
                rows += len(chunk.words)
                yield chunk
        if rows == 0:
            raise InputError(f"{self.path} has no rows")

    def read(self) -> BitMatrix:
        """All rows, packed in memory. The rows of a packed file stay on disk."""
        return self.read_all()[0]

    def read_all(self) -> tuple[BitMatrix, list[str] | None, list[str] | None]:
        """All rows, their ids and their labels."""
        if self.on_disk is not None:
            return self.on_disk(), None, None
        self.check_unweighted()
        octets = bytearray()  # grows in place: never two copies of the rows
        ids: list[str] = []
        labels: list[str] = []
        incomplete: list[tuple[int, Words]] = []
        width = 8 * words_for(self.n_columns)
        for chunk in self.chunks():
            if chunk.known is not None:
                incomplete.append((len(octets) // width, chunk.known))
            octets += chunk.words.data
            ids += chunk.ids or ()
            labels += chunk.labels or ()
        words = np.frombuffer(octets, dtype=WORD).reshape(-1, width // 8)
        if incomplete:
            known = all_known(len(words), self.n_columns)
            for first_row, part in incomplete:
                known[first_row : first_row + len(part)] = part
            words = np.concatenate([words, known], axis=1)
        rows = BitMatrix.trusted(words, self.n_columns, self.names, Layout(bool(incomplete)))
        return rows, ids if self.has_ids else None, labels if self.has_labels else None


@dataclass(frozen=True)
class Request:
    """What the caller wants from a file."""

    columns: tuple[str, ...] | None = None
    """The names of the features, in this order; None for all columns but ids and labels."""
    id_column: str | None = None
    label_column: str | None = None
    missing: bool = False
    """Whether cells may be missing."""

    def roles(self, path: Path, n_columns: int, names: Sequence[str] | None = None) -> Roles:
        """Find the columns by name. Without names, all columns are features."""
        others = {"id_column": self.id_column, "label_column": self.label_column}
        for option, name in others.items():
            if name is None:
                continue
            if names is None:
                raise InputError(
                    f"{path} does not name its columns, so that {option}={name!r} cannot be found: "
                    "leave it out"
                )
            if name not in names:
                raise InputError(f"{path} has no column {option}={name!r}: {_listed(names)}")
            if self.columns is not None and name in self.columns:
                raise InputError(
                    f"{option}={name!r} is a feature of the model: it cannot be something else too"
                )
        if names is None:
            if self.columns is not None and len(self.columns) != n_columns:
                raise InputError(
                    f"{path} has {n_columns:,} columns without names, but the model was fitted on "
                    f"{len(self.columns):,}"
                )
            return Roles(range(n_columns))
        features = self.columns
        if features is None:
            features = tuple(name for name in names if name not in others.values())
            _check_likely_features(path, features)
        if not features:
            raise InputError(f"{path} has no columns but ids and labels: features are needed")
        where = {name: i for i, name in enumerate(names)}
        for name in features:
            if name not in where:
                raise InputError(
                    f"{path} has no column {name!r}, which the model was fitted on: "
                    f"{_listed(names)}"
                )
        _check_unique(path, names, features)
        places = [None if name is None else where[name] for name in others.values()]
        return Roles([where[name] for name in features], features, *places)


def array_table(
    path: Path,
    request: Request,
    shape: tuple[int, int],
    blocks: Callable[[], Iterator[NDArray[Any]]],
    size: int,
) -> Table:
    """A table of numbers without names, whose rows come in dense blocks."""
    m, n = shape
    roles = request.roles(path, n)
    origin = Origin(str(path), None, "write 0 and 1 in place of other values", FILL)

    def read_chunks() -> Chunks:
        row = 0
        for block in blocks():
            words, known = pack_cells(block, origin, row, missing=request.missing)
            row += len(block)
            yield Chunk(words, known), row / m

    return Table(path, n, size, read_chunks, roles, n_rows=m)


def check_array(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, int]:
    """The rows and columns of an array of numbers."""
    if len(shape) != 2 or 0 in shape or dtype.kind not in "biuf":
        raise InputError(
            f"{path} must be rows and columns of 0 and 1, got {dtype} of shape {shape}"
        )
    return shape[0], shape[1]


def octets_to_words(octets: NDArray[np.uint8]) -> Words:
    """Rows of packed bytes as words: column s is bit s mod 8 of byte s // 8."""
    rows, width = octets.shape
    padded = np.zeros((rows, 8 * words_for(8 * width)), dtype=np.uint8)
    padded[:, :width] = octets
    return padded.view(WORD)


@contextmanager
def damage_named(problem: str) -> Iterator[None]:
    """Turn whatever a library raises for a damaged file into one error, which begins so."""
    try:
        yield
    except (InputError, FileFormatError):
        raise
    except Exception as error:  # zip, zlib, NumPy, SciPy, Arrow and Zarr fail in many ways
        if isinstance(error, FileNotFoundError | PermissionError) and error.errno is not None:
            raise
        reason = str(error).partition("\n")[0]
        raise FileFormatError(f"{problem}: {reason}") from None


def _listed(names: Sequence[str]) -> str:
    return f"it has {', '.join(names[:5])}{', …' if len(names) > 5 else ''}"


def _check_likely_features(path: Path, features: Sequence[str]) -> None:
    """Refuse a pandas index, and warn about columns that look like ids or labels."""
    for name in features:
        if name in _PANDAS_INDEX:
            raise InputError(
                f"{path} has a column named {name!r}, as pandas writes its index: write the table "
                f"without it (index=False), or read it as ids with id_column={name!r}"
            )
    for name in features:
        if name.lower() in _LIKELY_IDS_AND_LABELS:
            warnings.warn(
                f"column {name!r} of {path} is read as a feature: "
                f"{NOT_A_FEATURE.format(column=repr(name))}",
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
