"""Zarr arrays, folders of chunks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from bitmix.errors import FileFormatError, InputError
from bitmix.rows import convert
from bitmix.rows.files.request import Request
from bitmix.rows.files.table import Table, array_table, check_array, damage_named
from bitmix.support.extras import need

_FREE_CELLS, _CELLS_PER_BYTE = 1 << 28, 1 << 16  # more than any codec packs into a byte
_MAX_CELLS = 1 << 27  # a row of chunks larger than this is read in parts, each more than once


def open_zarr(path: Path, request: Request) -> Table:
    """An array of rows and columns, which is read by rows of chunks."""
    need("zarr")
    import zarr

    if not any((path / name).exists() for name in ("zarr.json", ".zarray", ".zgroup")):
        raise FileFormatError(f"{path} is not a zarr folder: it holds no zarr.json")
    damaged = f"{path} is damaged or cut short"
    with damage_named(damaged):
        array: Any = zarr.open(str(path), mode="r")
    if not hasattr(array, "shape"):
        inside = ", ".join(sorted(name for name, _ in array.arrays())) or "none"
        raise InputError(
            f"{path} is a group of arrays ({inside}), not one array: give the folder of the array, "
            "under a name that ends in .zarr"
        )
    m, n = check_array(path, array.shape, array.dtype)
    size = sum(entry.stat().st_size for entry in path.rglob("*") if entry.is_file())
    if m * n > max(_FREE_CELLS, size * _CELLS_PER_BYTE):  # chunks that are not there cost nothing
        raise FileFormatError(
            f"{path} is damaged: {size:,} bytes claim to hold {m:,} rows of {n:,} columns"
        )
    if min(array.chunks) < 1:
        raise FileFormatError(f"{path} is damaged: its chunks are said to be {array.chunks}")

    def blocks() -> Iterator[NDArray[Any]]:
        for start, stop in convert.spans(m, _rows_at_once(array)):
            with damage_named(damaged):
                rows = array[start:stop]
            for first, last in convert.block_spans(len(rows), n):
                yield rows[first:last]

    return array_table(path, request, (m, n), blocks, size)


def _rows_at_once(array: Any) -> int:
    """Whole chunks, so that none is decoded twice, unless they are huge."""
    n = array.shape[1]
    rows: int = (getattr(array, "shards", None) or array.chunks)[0]
    block: int = max(1, convert.BLOCK_CELLS // n)
    return block if rows * n > _MAX_CELLS else -(-block // rows) * rows
