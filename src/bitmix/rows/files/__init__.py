"""Files of rows, read in a stream: one format a file."""

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import IO

from bitmix.atomic import naming
from bitmix.errors import InputError
from bitmix.rows.files.arrays import open_npy, open_npz
from bitmix.rows.files.arrow import open_arrow, open_parquet
from bitmix.rows.files.bits import open_bits
from bitmix.rows.files.fps import fps_table, open_fps
from bitmix.rows.files.lines import PipedLines
from bitmix.rows.files.store import open_zarr
from bitmix.rows.files.table import Piece, Table, Wanted
from bitmix.rows.files.text import open_text, text_table

__all__ = ["FORMATS", "Piece", "Table", "ending", "open_stream", "open_table"]

FORMATS: dict[str, Callable[[Path, Wanted], Table]] = {
    ".bits": open_bits,
    ".npy": open_npy,
    ".npz": open_npz,
    ".csv": open_text,
    ".csv.gz": open_text,
    ".tsv": open_text,
    ".tsv.gz": open_text,
    ".parquet": open_parquet,
    ".arrow": open_arrow,
    ".feather": open_arrow,
    ".ipc": open_arrow,
    ".fps": open_fps,
    ".fps.gz": open_fps,
    ".zarr": open_zarr,
}


def open_table(
    path: str | PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    id_column: str | None = None,
    label_column: str | None = None,
) -> Table:
    """A file of rows of 0 and 1, by its ending.

    Parameters
    ----------
    path : path
        One of `FORMATS`; a ``.zarr`` is a folder.
    columns : sequence of str, optional
        Pick these columns by name, in this order; by default all but ids and labels.
    id_column, label_column : str, optional
        Columns that are no features.
    """
    path = Path(path)
    kind = ending(path)
    if kind is None:
        raise InputError(
            f"{path} must be one of {', '.join(FORMATS)}, got {path.suffix or 'no ending'}"
        )
    if not path.exists():
        raise InputError(f"there is no file {path}")
    if path.is_dir() != (kind == ".zarr"):
        raise InputError(f"{path} must be a {'folder' if kind == '.zarr' else 'file'}")
    wanted = Wanted(None if columns is None else tuple(map(str, columns)), id_column, label_column)
    with naming(path):
        return FORMATS[kind](path, wanted)


def open_stream(
    file: IO[bytes],
    kind: str,
    *,
    columns: Sequence[str] | None = None,
    id_column: str | None = None,
    label_column: str | None = None,
) -> Table:
    """Text that comes through a pipe: ``csv``, ``tsv`` or ``fps``. Its pieces are read once."""
    wanted = Wanted(None if columns is None else tuple(map(str, columns)), id_column, label_column)
    if kind == "fps":
        return fps_table(PipedLines(file), wanted)
    return text_table(PipedLines(file), "\t" if kind == "tsv" else ",", wanted)


def ending(path: Path) -> str | None:
    """The ending of a file we read, `.csv.gz` and not `.gz`; None of others."""
    name = path.name.lower()
    return next((kind for kind in FORMATS if name.endswith(kind)), None)
