"""Parquet and Arrow tables: a column a bit, or one column of packed bytes, read by batches."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bitmix.errors import FileFormatError, InputError
from bitmix.kernels.bits import Words, pack
from bitmix.rows.files import table
from bitmix.rows.files.table import (
    Picked,
    Piece,
    Stream,
    Table,
    Wanted,
    damage_named,
    library,
    packed_octets,
)

_BUFFERS = 1 << 24  # bytes, of all columns together
_IN_MEMORY = 1 << 28  # bytes, of an Arrow file

Batches = Callable[[Sequence[str], int], Iterator[Any]]
"""Record batches of the columns with these names, of about so many rows."""


def open_parquet(path: Path, wanted: Wanted) -> Table:
    """A Parquet file."""
    parquet = library("pyarrow.parquet", "files", path)

    def opened(columns: int = 1) -> Any:
        """Not mapped, so that a file that shrinks is an error; without a buffer for each column
        pyarrow would load a row group whole.
        """
        buffer = min(max(_BUFFERS // columns, 1 << 12), 1 << 20)
        return parquet.ParquetFile(path, buffer_size=buffer, pre_buffer=False)

    def batches(columns: Sequence[str], rows: int) -> Iterator[Any]:
        with _errors_named(path), opened(len(columns)) as file:
            yield from file.iter_batches(rows, columns=list(columns), use_threads=False)

    with _errors_named(path), opened() as file:
        schema, n_rows = file.schema_arrow, file.metadata.num_rows
    return _table(path, wanted, schema, batches, n_rows)


def open_arrow(path: Path, wanted: Wanted) -> Table:
    """An Arrow file (Feather 2 is one) or stream."""
    arrow = library("pyarrow", "files", path)
    ipc = library("pyarrow.ipc", "files", path)

    size = path.stat().st_size

    def source() -> Any:
        """In memory, or mapped if large: the only batch may be the whole table."""
        if size > _IN_MEMORY:
            return arrow.memory_map(str(path))
        with path.open("rb") as file:
            return arrow.BufferReader(file.read(size + 1))

    def opened() -> Any:
        octets = source()
        try:
            return ipc.open_file(octets)
        except arrow.ArrowInvalid:
            octets.seek(0)
            return ipc.open_stream(octets)

    def batches(columns: Sequence[str], rows: int) -> Iterator[Any]:
        with _errors_named(path):
            for batch in _unchanged(_batches_of(opened()), path, size):
                chosen = batch.select(list(columns))
                slices = (chosen.slice(start, rows) for start in range(0, batch.num_rows, rows))
                yield from _unchanged(slices, path, size)

    with _errors_named(path):
        schema = opened().schema
    return _table(path, wanted, schema, batches, None)


def _unchanged(values: Iterator[Any], path: Path, size: int) -> Iterator[Any]:
    """The values, each made while the file has its size: to look at what is mapped and no longer
    there would end the process.
    """
    while True:
        found = path.stat().st_size
        if found != size:
            raise FileFormatError(
                f"{path} had {size:,} bytes and has {found:,} now: it was changed while it was read"
            )
        try:
            value = next(values)
        except StopIteration:
            return
        yield value


def _batches_of(reader: Any) -> Iterator[Any]:
    if not hasattr(reader, "get_batch"):
        return iter(reader)
    return (reader.get_batch(i) for i in range(reader.num_record_batches))


def _errors_named(path: Path) -> AbstractContextManager[None]:
    return damage_named(f"{path} is not what its ending says, or is cut short or damaged")


def _table(path: Path, wanted: Wanted, schema: Any, batches: Batches, n_rows: int | None) -> Table:
    types = library("pyarrow", "files", path).types
    with _errors_named(path):
        header = schema.names
    picked = wanted.pick(path, header)
    packed = [i for i in picked.features if types.is_fixed_size_binary(schema.field(i).type)]
    if packed and picked.features != packed[:1]:
        raise InputError(
            f"{path} has packed bytes in column {header[packed[0]]!r}, which must be the "
            "only feature: say --id-column or --label-column for the others, or drop them"
        )
    for i in () if packed else picked.features:
        kind = schema.field(i).type
        if not (types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)):
            name = header[i]
            raise InputError(
                f"{path} must hold 0 and 1, but column {name!r} holds {kind}: "
                f"say --id-column {name} or --label-column {name} if it is no feature"
            )
    names = tuple(header[i] for i in picked.features)
    n_columns = 8 * schema.field(packed[0]).type.byte_width if packed else len(names)
    reader = _Reader(path, header, picked, bool(packed), n_columns, n_rows, batches)
    return Table(
        path=path,
        n_columns=n_columns,
        size=path.stat().st_size,
        stream=reader.stream,
        names=None if packed else names,
        n_rows=n_rows,
        has_ids=picked.id is not None,
        has_labels=picked.label is not None,
    )


@dataclass(frozen=True)
class _Reader:
    path: Path
    names: Sequence[str]
    picked: Picked
    packed: bool
    n_columns: int
    n_rows: int | None
    batches: Batches

    def stream(self) -> Stream:
        row = 0
        features = [self.names[i] for i in self.picked.features]
        apart = [None if i is None else self.names[i] for i in (self.picked.id, self.picked.label)]
        columns = [*features, *(name for name in dict.fromkeys(apart) if name is not None)]
        for batch in self.batches(columns, max(1, table.BLOCK_CELLS // self.n_columns)):
            if batch.num_rows == 0:
                continue
            words = self._packed(batch, row) if self.packed else self._bits(batch, features, row)
            ids, labels = (None if name is None else _texts(batch.column(name)) for name in apart)
            row += batch.num_rows
            yield Piece(words, ids, labels), row / (self.n_rows or row)

    def _bits(self, batch: Any, features: Sequence[str], row: int) -> Words:
        cells = np.empty((len(features), batch.num_rows), dtype=np.bool_)
        for bits, name in zip(cells, features, strict=True):
            column = batch.column(name)
            self._check_filled(column, name, row)
            values = column.to_numpy(zero_copy_only=False)
            np.equal(values, 1, out=bits)
            wrong = ~bits & (values != 0)
            if wrong.any():
                i = int(wrong.argmax())
                raise InputError(
                    f"{self.path} must hold 0 and 1, but row {row + i:,} (counted from 0) has "
                    f"{values[i]} in column {name!r}: say --id-column {name} or --label-column "
                    f"{name} if it is no feature"
                )
        return pack(np.ascontiguousarray(cells.T))

    def _packed(self, batch: Any, row: int) -> Words:
        name = self.names[self.picked.features[0]]
        column = batch.column(name)
        self._check_filled(column, name, row)
        octets = np.frombuffer(column.buffers()[1], dtype=np.uint8)
        width = self.n_columns // 8
        start = column.offset * width
        return packed_octets(octets[start : start + len(column) * width].reshape(-1, width))

    def _check_filled(self, column: Any, name: str, row: int) -> None:
        if column.null_count:
            i = column.is_null().to_numpy(zero_copy_only=False).argmax()
            raise InputError(
                f"{self.path} must hold 0 and 1, but row {row + i:,} (counted from 0) has no value "
                f"in column {name!r}: fill or drop missing cells first"
            )


def _texts(column: Any) -> list[str]:
    return ["" if value is None else str(value) for value in column.to_pylist()]
