"""Parquet and Arrow tables, read by batches: one column per bit, or one column of packed bytes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import InputError
from bitmix.kernels.bits import Words
from bitmix.rows import convert
from bitmix.rows.convert import Origin, pack_cells, spans
from bitmix.rows.files.table import (
    FILL,
    NOT_A_FEATURE,
    Chunk,
    Chunks,
    Request,
    Table,
    damage_named,
    octets_to_words,
)
from bitmix.support.extras import need

_BUFFERS = 1 << 24  # bytes, of all columns together

Batches = Callable[[Sequence[str], int], Iterator[Any]]
"""Record batches of the columns with these names, of about this many rows each."""


def open_parquet(path: Path, request: Request) -> Table:
    """A Parquet file."""
    need("pyarrow")
    from pyarrow.parquet import ParquetFile

    def opened(columns: int = 1) -> Any:
        """The file is not mapped, so that one that shrinks is an error. Without a buffer for each
        column pyarrow would load a whole row group.
        """
        buffer = min(max(_BUFFERS // columns, 1 << 12), 1 << 20)
        return ParquetFile(path, buffer_size=buffer, pre_buffer=False)

    def batches(columns: Sequence[str], rows: int) -> Iterator[Any]:
        with _damage(path), opened(len(columns)) as file:
            yield from file.iter_batches(rows, columns=list(columns), use_threads=False)

    with _damage(path), opened() as file:
        schema, n_rows = file.schema_arrow, file.metadata.num_rows
    return _table(path, request, schema, batches, n_rows)


def open_arrow(path: Path, request: Request) -> Table:
    """An Arrow file (Feather 2 is one) or stream."""
    need("pyarrow")
    import pyarrow as pa

    def opened() -> Any:
        """A reader of plain reads, so that a file that shrinks is an error."""
        octets = pa.OSFile(str(path))
        try:
            return pa.ipc.open_file(octets)
        except pa.ArrowInvalid:
            octets.seek(0)
            return pa.ipc.open_stream(octets)

    def batches(columns: Sequence[str], rows: int) -> Iterator[Any]:
        with _damage(path):
            for batch in _batches_of(opened()):
                chosen = batch.select(list(columns))
                for start, stop in spans(batch.num_rows, rows):
                    yield chosen.slice(start, stop - start)

    with _damage(path):
        schema = opened().schema
    return _table(path, request, schema, batches, None)


def _batches_of(reader: Any) -> Iterator[Any]:
    """The record batches of a file or of a stream."""
    if not hasattr(reader, "get_batch"):
        return iter(reader)
    return map(reader.get_batch, range(reader.num_record_batches))


def _damage(path: Path) -> AbstractContextManager[None]:
    return damage_named(f"{path} is not what its ending says, or is cut short or damaged")


def _table(
    path: Path, request: Request, schema: Any, batches: Batches, n_rows: int | None
) -> Table:
    from pyarrow import types

    with _damage(path):
        header = schema.names
    roles = request.roles(path, len(header), header)
    packed = [i for i in roles.features if types.is_fixed_size_binary(schema.field(i).type)]
    if packed and roles.features != packed[:1]:
        raise InputError(
            f"{path} has packed bytes in column {header[packed[0]]!r}, which must be the only "
            "feature: set id_column= or label_column= for the others, or drop them"
        )
    for i in () if packed else roles.features:
        kind = schema.field(i).type
        if not (types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)):
            raise InputError(
                f"{path} must hold 0 and 1, but column {header[i]!r} holds {kind}: "
                f"{NOT_A_FEATURE.format(column=repr(header[i]))}"
            )
    n_columns = len(roles.features)
    if packed:
        n_columns, roles = 8 * schema.field(packed[0]).type.byte_width, replace(roles, names=None)
    features = [header[i] for i in roles.features]
    others = [None if i is None else header[i] for i in (roles.id, roles.label)]
    columns = [*features, *(name for name in dict.fromkeys(others) if name is not None)]
    origin = Origin(str(path), features, NOT_A_FEATURE, FILL)

    def read_chunks() -> Chunks:
        row = 0
        for batch in batches(columns, max(1, convert.BLOCK_CELLS // n_columns)):
            if batch.num_rows == 0:
                continue
            known: Words | None = None
            if packed:
                words = _packed_bytes(batch.column(features[0]), origin, row)
            else:
                cells = columns_to_cells([batch.column(name) for name in features])
                words, known = pack_cells(cells, origin, row, missing=request.missing)
            ids, labels = (
                None if name is None else column_to_texts(batch.column(name)) for name in others
            )
            row += batch.num_rows
            yield Chunk(words, known, ids, labels), row / (n_rows or row)

    return Table(path, n_columns, path.stat().st_size, read_chunks, roles, n_rows)


def _packed_bytes(column: Any, origin: Origin, row: int) -> Words:
    """A column of packed bytes, one value per row, as words."""
    if column.null_count:
        empty = column.is_null().to_numpy(zero_copy_only=False).argmax()
        raise origin.missing(origin.place(row + empty, 0))
    width = column.type.byte_width
    octets = np.frombuffer(column.buffers()[1], dtype=np.uint8)
    start = column.offset * width
    return octets_to_words(octets[start : start + len(column) * width].reshape(-1, width))


def columns_to_cells(columns: Sequence[Any]) -> NDArray[Any]:
    """Columns of numbers or booleans as a block of cells, empty ones as NaN."""
    kinds = {np.float64 if c.null_count else c.type.to_pandas_dtype() for c in columns}
    cells = np.empty((len(columns), len(columns[0])), dtype=np.result_type(*kinds))
    for row, column in zip(cells, columns, strict=True):
        if column.null_count and column.type == "bool":
            column = column.cast("uint8")  # NumPy has no booleans with gaps
        row[:] = column.to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(cells.T)


def column_to_texts(column: Any) -> list[str]:
    """The values of a column as text; an empty cell is an empty text."""
    return ["" if value is None else str(value) for value in column.to_pylist()]
