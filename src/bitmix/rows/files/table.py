"""What every reader returns: a table whose rows come in chunks."""

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import CodesWarning, FileFormatError, InputError, NotPlainError
from bitmix.kernels.bits import WORD, Words, words_for
from bitmix.rows import bitfile
from bitmix.rows.coded import CodedReader, Columns, Part, learn_from_parts
from bitmix.rows.codes import PLAIN, Codes
from bitmix.rows.convert import Origin, all_known, block_spans, octets_to_words, pack_cells
from bitmix.rows.files.request import Request, Roles
from bitmix.rows.learn import NO_WISHES, Advice, Wishes
from bitmix.rows.packed import BitMatrix
from bitmix.rows.protocol import Layout
from bitmix.support.atomic import naming
from bitmix.support.progress import meter

_LARGE = 1 << 24  # bytes of a file whose reading takes long enough to show progress


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of a table."""

    words: Words
    """Packed rows; the bits of missing cells are 0."""
    known: Words | None = None
    """Packed as `words`, 1 for each cell that is not missing; None if no cell is missing."""
    ids: list[str] | None = None
    """The id of each row, if the table has ids."""
    labels: Mapping[str, list[str]] = field(default_factory=dict)
    """For each label column, the label of each row."""
    weights: list[float] | None = None
    """The weight of each row, if a weight column was named."""
    smiles: list[str] | None = None
    """The molecule of each row, if rows are molecules."""

    def rows(self, n_columns: int) -> BitMatrix:
        """The rows, without their weights."""
        words = self.words
        if self.known is not None:
            words = np.concatenate([words, self.known], axis=1)
        return BitMatrix.trusted(words, n_columns, layout=Layout(self.known is not None))


class FilePart(Part, Protocol):
    """Consecutive rows of a file, before they are read as bits."""

    def plain(self) -> tuple[Words, Words | None]:
        """Packed rows and packed known cells. Raises NotPlainError if a cell is not 0 or 1."""

    def others(self) -> Sequence[list[str]]:
        """The cells of the columns that are not features, in the order of `Roles.others`."""

    def where(self, row: int) -> str:
        """The line or the row number, for errors."""


Parts = Iterator[tuple[FilePart | Chunk, float]]
"""Rows, each with the fraction of the file that has been read."""


@dataclass(frozen=True)
class Loaded:
    """All rows of a table, and what is known about them."""

    rows: BitMatrix
    ids: list[str] | None = None
    labels: Mapping[str, list[str]] = field(default_factory=dict)
    smiles: list[str] | None = None


@dataclass(frozen=True)
class Table:
    """Rows of bits in a file, which are read a chunk at a time."""

    path: Path
    size: int
    """Bytes of the file, 0 if that is not known."""
    roles: Roles = field(repr=False)
    parts: Callable[[], Parts] | None = field(default=None, repr=False)
    """Reads the rows; None if they are only read as a whole."""
    codes: Codes | None = None
    """How cells are read; None if they are 0 and 1, or if that is not known yet."""
    wishes: Wishes | None = field(default=None, repr=False)
    """What the user says about the values; None if codes are given or are not needed."""
    whole: Callable[[], Loaded] | None = field(default=None, repr=False)
    """Opens or reads all rows at once, if the format allows it."""
    n_rows: int | None = None
    """None if it is not known before the file is read."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What the file says about itself."""
    categories: frozenset[int] = frozenset()
    """Features whose type says that their values are categories."""
    pooled: bool = False
    """Whether all columns of the file have one code."""

    @property
    def n_columns(self) -> int:
        """The number of columns of bits."""
        return self.codes.n_planes if self.codes and self.codes.columns else self.roles.n_features

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the columns of bits, in order."""
        if self.codes is not None and self.codes.columns:
            return self.codes.plane_names
        return self.roles.names

    @property
    def has_ids(self) -> bool:
        return self.roles.id is not None

    def learned(self) -> "Table":
        """The same table with codes, which are learned from the values of each column.

        A warning says how cells are read, unless the user said it.
        """
        assert self.wishes is not None
        parts = lambda: (part for part, _ in self._read())  # noqa: E731
        codes, guessed = learn_from_parts(
            parts, len(self.roles.features), self.wishes, Advice(self.roles.names, for_file=True),
            self.categories, name=str(self.path), pooled=self.pooled,
        )  # fmt: skip
        if codes is None:
            return replace(self, wishes=None)
        if guessed:
            warnings.warn(
                f"{self.path}: {'; '.join(codes.describe())}: set one_values= or items= to read "
                "it in another way",
                CodesWarning,
                stacklevel=4,
            )
        if self.pooled:
            codes = replace(codes, columns=codes.columns * len(self.roles.features))
        return replace(self, codes=codes, wishes=None)

    def chunks(self) -> Iterator[Chunk]:
        """All rows, in chunks of bounded size. May be called again."""
        if self.parts is None:
            yield from self._slices()
            return
        reader = None
        if self.codes is not None and self.codes.columns:
            reader = CodedReader(self.codes, str(self.path))
        for part, _ in self._read():
            yield part if isinstance(part, Chunk) else self._chunk(part, reader)

    def _slices(self) -> Iterator[Chunk]:
        """The rows of a table that is read as a whole."""
        loaded = self.load()
        rows, n = loaded.rows, loaded.rows.shape[1]
        for start, stop in block_spans(*rows.shape):
            words = rows[start:stop].words
            known = rows.layout.known(words, n)
            ids = None if loaded.ids is None else loaded.ids[start:stop]
            labels = {name: texts[start:stop] for name, texts in loaded.labels.items()}
            yield Chunk(rows.layout.bits(words, n), known, ids, labels)

    def _read(self) -> Iterator[tuple[Any, float]]:
        """The parts of the file, with a bar if there are many."""
        assert self.parts is not None
        empty = True
        megabytes = self.size // 1_000_000 if self.size >= _LARGE else 0
        with naming(self.path), meter(f"reading {self.path.name}", megabytes) as show:
            for part, fraction in self.parts():
                show(int(fraction * megabytes), "MB")
                empty = False
                yield part, fraction
        if empty:
            raise InputError(f"{self.path} has no rows")

    def _chunk(self, part: FilePart, reader: CodedReader | None) -> Chunk:
        words, known = part.plain() if reader is None else reader.words(part)
        others = list(part.others())
        ids = others.pop(0) if self.roles.id is not None else None
        weights = None
        if self.roles.weight is not None:
            weights = _weights(others.pop(), part, self)
        labels = dict(zip(self.roles.label_names, others, strict=True))
        return Chunk(words, known, ids, labels, weights)

    def read(self) -> BitMatrix:
        """All rows, packed in memory. The rows of a packed file stay on disk."""
        return self.load().rows

    def load(self) -> Loaded:
        """All rows, their ids and their labels."""
        if self.whole is not None:
            with naming(self.path):
                return self.whole()
        try:
            return self._load()
        except NotPlainError:
            if self.wishes is None:
                raise
        return self.learned()._load()

    def _load(self) -> Loaded:
        octets = bytearray()  # grows in place: never two copies of the rows
        ids: list[str] = []
        smiles: list[str] = []
        weights: list[float] = []
        labels: dict[str, list[str]] = {}
        incomplete: list[tuple[int, Words]] = []
        width = 8 * words_for(self.n_columns)
        for chunk in self.chunks():
            if chunk.known is not None:
                incomplete.append((len(octets) // width, chunk.known))
            octets += np.ascontiguousarray(chunk.words).data
            ids += chunk.ids or ()
            smiles += chunk.smiles or ()
            weights += chunk.weights or ()
            for name, texts in chunk.labels.items():
                labels.setdefault(name, []).extend(texts)
        words = np.frombuffer(octets, dtype=WORD).reshape(-1, width // 8)
        if incomplete:
            known = all_known(len(words), self.n_columns)
            for first_row, part in incomplete:
                known[first_row : first_row + len(part)] = part
            words = np.concatenate([words, known], axis=1)
        layout = Layout(bool(incomplete))
        rows = BitMatrix.trusted(words, self.n_columns, self.names, layout, self.codes)
        if weights:
            rows = rows.weighted(weights)  # leaves out rows of weight 0
            used = [i for i, weight in enumerate(weights) if weight]
            ids = [ids[i] for i in used] if ids else ids
            labels = {name: [texts[i] for i in used] for name, texts in labels.items()}
        return Loaded(rows, ids if self.has_ids else None, labels, smiles or None)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the rows and their ids to a packed file, a chunk at a time.

        Weights are an exception: all rows are read first. Labels are not written.
        """
        if self.whole is not None or self.roles.weight is not None:
            loaded = self.load()
            with self._writing(path, loaded.rows) as writer:
                for start, stop in block_spans(*loaded.rows.shape):
                    ids = None if loaded.ids is None else loaded.ids[start:stop]
                    writer.append(loaded.rows[start:stop].words, ids)
            return None
        table, missing = self, False
        while True:
            try:
                return table._save(path, missing)
            except NotPlainError:
                if table.wishes is None:
                    raise
                table = table.learned()
            except _MissingCells:
                missing = True

    def _save(self, path: str | os.PathLike[str], missing: bool) -> None:
        empty = BitMatrix.trusted(
            np.empty((0, 0), dtype=WORD), self.n_columns, self.names, Layout(missing), self.codes
        )
        with self._writing(path, empty) as writer:
            for chunk in self.chunks():
                words = chunk.words
                if missing:
                    known = chunk.known
                    known = all_known(len(words), self.n_columns) if known is None else known
                    words = np.concatenate([words, known], axis=1)
                elif chunk.known is not None:
                    raise _MissingCells
                writer.append(words, chunk.ids)

    def _writing(self, path: str | os.PathLike[str], like: BitMatrix) -> Any:
        return bitfile.writing(
            path, like.shape[1], like.feature_names, self.about, like.layout, like.codes,
            has_ids=self.has_ids, id_name=self.roles.id_name,
        )  # fmt: skip


class _MissingCells(Exception):
    """Cells are missing in a file that is written without room for them."""


def make_table(
    path: Path, size: int, request: Request, roles: Roles, parts: Callable[[], Parts],
    **options: Any,
) -> Table:  # fmt: skip
    """A table of cells, which are read by codes that are given or learned."""
    codes, n = request.codes, len(roles.features)
    if codes is not None:
        missing = tuple(dict.fromkeys([*codes.missing, *request.missing]))
        codes = replace(codes, missing=missing)
        if missing or codes.filled or codes.above is not None:
            codes = replace(codes, columns=codes.columns or (PLAIN,) * n)
        return Table(path, size, roles, parts, codes, **options)
    wishes = request.wishes(roles.names, n)
    table = Table(path, size, roles, parts, None, wishes, **options)
    return table if wishes == NO_WISHES else table.learned()


@dataclass(frozen=True)
class CellsPart(Columns):
    """A block of cells of an array, without names."""

    columns: NDArray[Any]
    """The features alone, shape (columns, rows)."""
    texts: Sequence[list[str]] = ()

    def plain(self) -> tuple[Words, Words | None]:
        return pack_cells(self.columns.T, self.origin, self.first_row, missing=True)

    def others(self) -> Sequence[list[str]]:
        return self.texts


def array_table(
    path: Path, request: Request, shape: tuple[int, int],
    blocks: Callable[[], Iterator[NDArray[Any]]], size: int,
) -> Table:  # fmt: skip
    """A table of numbers without names, whose rows come in dense blocks."""
    m, n = shape
    if request.bit_order is not None:
        return packed_table(path, request, shape, blocks, size)
    roles = request.roles(path, n)
    origin = Origin(str(path), None, "write 0 and 1 in place of other values")
    everything = roles.are_all(n)
    above = request.threshold

    def parts() -> Parts:
        row = 0
        for block in blocks():
            features = block if everything else block[:, roles.features]
            if above is not None:
                features = np.where(np.isnan(features), np.nan, features > above)
            others = [list(map(str, block[:, i].tolist())) for i in roles.others]
            yield CellsPart(features.T, origin, row, others), (row + len(block)) / m
            row += len(block)

    if above is not None:
        if request.one_values or request.items or request.missing:
            raise InputError("set binarize= or one_values=, items= and missing=, not both")
        return Table(path, size, roles, parts, Codes(above=above), n_rows=m)
    return make_table(path, size, request, roles, parts, n_rows=m)


def packed_table(
    path: Path, request: Request, shape: tuple[int, int],
    blocks: Callable[[], Iterator[NDArray[Any]]], size: int,
) -> Table:  # fmt: skip
    """A table of packed bytes, eight columns each."""
    m, width = shape
    request.refuse(path, "rows of packed bytes", ("packed", "codes", "columns"))
    bitorder = request.bit_order or "little"

    def parts() -> Parts:
        row = 0
        for block in blocks():
            if block.dtype != np.uint8:
                raise InputError(
                    f"{path} must hold bytes (uint8) to be read by packed=, got {block.dtype}"
                )
            row += len(block)
            yield Chunk(octets_to_words(block, bitorder)), row / m

    roles = Roles(range(8 * width))
    if isinstance(request.columns, tuple) and len(request.columns) != 8 * width:
        raise InputError(f"{path} has {8 * width:,} bits per row, got {len(request.columns):,}")
    return Table(path, size, roles, parts, Codes(packed=bitorder), n_rows=m)


def check_array(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, int]:
    """The rows and columns of an array of numbers."""
    if len(shape) != 2 or 0 in shape or dtype.kind not in "biuf":
        raise InputError(
            f"{path} must be rows and columns of 0 and 1, got {dtype} of shape {shape}"
        )
    return shape[0], shape[1]


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


def _weights(texts: list[str], part: FilePart, table: Table) -> list[float]:
    weights = []
    for row, text in enumerate(texts):
        try:
            weight = float(text)
        except ValueError:
            weight = -1.0
        if not 0 <= weight < float("inf"):
            raise InputError(
                f"{table.path} must hold weights that are numbers from 0, got {text!r} at "
                f"{part.where(row)}, column {table.roles.weight_name!r}"
            )
        weights.append(weight)
    return weights
