"""Parquet and Arrow tables, read by batches: one column per bit, or one column of packed bytes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import FileFormatError, InputError
from bitmix.kernels.bits import Words
from bitmix.rows import convert
from bitmix.rows.coded import Columns, PlainReader
from bitmix.rows.codes import Codes
from bitmix.rows.convert import Origin, octets_to_words, pack_cells, spans
from bitmix.rows.files.request import Request, Roles
from bitmix.rows.files.table import Chunk, Parts, Table, damage_named, make_table
from bitmix.support.extras import need

_OPTIONS = (
    "columns", "drop", "id_column", "label_column", "weight_column", "one_values", "items",
    "missing", "filled", "binarize", "codes", "packed",
)  # fmt: skip
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
        left = n_rows
        with _damage(path), opened(len(columns)) as file:
            for batch in file.iter_batches(rows, columns=list(columns), use_threads=False):
                left -= batch.num_rows
                yield batch
        if left:  # an old pyarrow ends without an error
            raise FileFormatError(
                f"{path} was cut short while it was read, {left:,} of its {n_rows:,} rows are "
                "missing: copy or write it again"
            )

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

    request.refuse(path, "a table of Arrow", _OPTIONS)
    with _damage(path):
        header = schema.names
    roles = request.roles(path, len(header), header)
    kinds = [schema.field(i).type for i in roles.features]
    features = [header[i] for i in roles.features]
    others = [header[i] for i in roles.others]
    columns = list(dict.fromkeys([*features, *others]))
    if any(map(types.is_fixed_size_binary, kinds)):
        return _packed_table(path, request, roles, kinds, batches, n_rows)
    numeric = all(
        types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)
        for kind in kinds
    )
    origin = Origin(str(path), features, "write 0 and 1")

    def parts() -> Parts:
        row = 0
        for batch in batches(columns, max(1, convert.BLOCK_CELLS // len(features))):
            if batch.num_rows:
                chosen, more = (list(map(batch.column, names)) for names in (features, others))
                part = BatchPart(chosen, origin, row, more, numeric)
                row += batch.num_rows
                yield part, row / (n_rows or row)

    categories = frozenset(i for i, kind in enumerate(kinds) if types.is_dictionary(kind))
    size = path.stat().st_size
    return make_table(path, size, request, roles, parts, n_rows=n_rows, categories=categories)


@dataclass(frozen=True)
class BatchPart(Columns):
    """The features of a record batch, and its other columns."""

    other_columns: Sequence[Any] = ()
    numeric: bool = False
    """Whether all features are numbers or booleans."""

    def plain(self) -> tuple[Words, Words | None]:
        if not self.numeric:
            return PlainReader(len(self.columns), self.origin.name).words(self)
        cells = columns_to_cells(self.columns)
        return pack_cells(cells, self.origin, self.first_row, missing=True)

    def others(self) -> Sequence[list[str]]:
        return [column_to_texts(column) for column in self.other_columns]


def _packed_table(
    path: Path, request: Request, roles: Roles, kinds: Sequence[Any], batches: Batches,
    n_rows: int | None,
) -> Table:  # fmt: skip
    """A table with one column of packed bytes; the others are ids and labels."""
    name = roles.name(roles.features[0])
    if len(kinds) > 1:
        raise InputError(
            f"{path} has packed bytes in a column, which must be the only feature: set columns= "
            "to it, and id_column= or label_column= for others"
        )
    others = [roles.name(i) for i in roles.others]
    bitorder = request.bit_order or "little"
    origin = Origin(str(path), [name])

    def parts() -> Parts:
        row = 0
        for batch in batches([name, *others], convert.BLOCK_CELLS // 64):
            if batch.num_rows == 0:
                continue
            words = _packed_bytes(batch.column(name), origin, row, bitorder)
            row += batch.num_rows
            texts = {each: column_to_texts(batch.column(each)) for each in others}
            ids = None if roles.id_name is None else texts[roles.id_name]
            labels = {label: texts[label] for label in roles.label_names}
            yield Chunk(words, None, ids, labels), row / (n_rows or row)

    bits = replace(roles, features=range(8 * kinds[0].byte_width), names=None)
    codes = None if request.bit_order is None else Codes(packed=bitorder)
    return Table(path, path.stat().st_size, bits, parts, codes, n_rows=n_rows)


def _packed_bytes(column: Any, origin: Origin, row: int, bitorder: str) -> Words:
    """A column of packed bytes, one value per row, as words."""
    if column.null_count:
        empty = column.is_null().to_numpy(zero_copy_only=False).argmax()
        raise InputError(
            f"{origin.name} has a missing row of packed bytes at {origin.place(row + empty, 0)}: "
            "drop it"
        )
    width = column.type.byte_width
    octets = np.frombuffer(column.buffers()[1], dtype=np.uint8)
    start = column.offset * width
    return octets_to_words(octets[start : start + len(column) * width].reshape(-1, width), bitorder)


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
