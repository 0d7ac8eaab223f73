"""Zarr arrays, a folder of chunks."""

from pathlib import Path
from typing import Any

from bitmix.errors import FileFormatError, InputError
from bitmix.kernels.bits import pack
from bitmix.rows.files import table
from bitmix.rows.files.table import (
    Piece,
    Stream,
    Table,
    Wanted,
    checked_bits,
    checked_shape,
    library,
    spans,
)

_FREE_CELLS, _CELLS_A_BYTE = 1 << 28, 1 << 16  # more than any codec packs into a byte
_MOST_CELLS = 1 << 27  # a row of chunks larger than this is read in parts, each more than once


def open_zarr(path: Path, wanted: Wanted) -> Table:
    """A two-dimensional array of 0 and 1, read by rows of chunks."""
    zarr = library("zarr", "dask", path)
    if not any((path / name).exists() for name in ("zarr.json", ".zarray", ".zgroup")):
        raise FileFormatError(f"{path} is not a zarr folder: it holds no zarr.json")
    array = _guarded(path, lambda: zarr.open(str(path), mode="r"))
    if not hasattr(array, "shape"):
        inside = ", ".join(sorted(name for name, _ in array.arrays())) or "none"
        raise InputError(
            f"{path} is a group of arrays ({inside}), not one array: give the folder of the array, "
            "under a name that ends in .zarr"
        )
    m, n = checked_shape(path, array.shape, array.dtype)
    size = sum(entry.stat().st_size for entry in path.rglob("*") if entry.is_file())
    if m * n > max(_FREE_CELLS, size * _CELLS_A_BYTE):  # chunks that are not there cost nothing
        raise FileFormatError(
            f"{path} is damaged: {size:,} bytes claim to hold {m:,} rows of {n:,} columns"
        )
    if min(array.chunks) < 1:
        raise FileFormatError(f"{path} is damaged: its chunks are said to be {array.chunks}")
    wanted.check_nameless(path, n)

    def stream() -> Stream:
        step = _step(array)
        for start in range(0, m, step):
            block = _guarded(path, lambda a=start: array[a : a + step])
            for first, last in spans(len(block), n):
                bits = checked_bits(path, block[first:last], start + first)
                yield Piece(pack(bits)), (start + last) / m

    return Table(path=path, n_columns=n, size=size, stream=stream, n_rows=m)


def _step(array: Any) -> int:
    """Rows to read at once: whole chunks, so that none is unpacked twice, if they are not huge."""
    n = array.shape[1]
    rows: int = (getattr(array, "shards", None) or array.chunks)[0]
    block: int = max(1, table.BLOCK_CELLS // n)
    return block if rows * n > _MOST_CELLS else -(-block // rows) * rows


def _guarded(path: Path, read: Any) -> Any:
    try:
        return read()
    except Exception as error:  # whatever the codec of a damaged chunk raises
        reason = str(error).partition("\n")[0]
        raise FileFormatError(f"{path} is damaged or cut short: {reason}") from None
