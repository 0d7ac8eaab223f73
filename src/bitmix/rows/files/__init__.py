"""Files of rows, which are read in a stream. Each format has a reader of its own."""

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import IO, Any

from bitmix.errors import InputError
from bitmix.rows.files.arrays import open_npy, open_npz
from bitmix.rows.files.arrow import open_arrow, open_parquet
from bitmix.rows.files.bits import open_bits
from bitmix.rows.files.fps import fps_table, open_fps
from bitmix.rows.files.lines import PipedLines
from bitmix.rows.files.store import open_zarr
from bitmix.rows.files.table import Chunk, Request, Table
from bitmix.rows.files.text import open_text, text_table
from bitmix.support.atomic import naming

__all__ = ["FORMATS", "Chunk", "Table", "ending", "open_stream", "open_table"]

FORMATS: dict[str, Callable[[Path, Request], Table]] = {
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
    missing: bool = False,
) -> Table:
    """Open a file of rows of 0 and 1 by its ending.

    Parameters
    ----------
    path : path
        A file that ends as one of `FORMATS`; a ``.zarr`` is a folder.
    columns : sequence of str, optional
        The names of the features, in this order; by default all columns but ids and labels.
    id_column, label_column : str, optional
        The names of columns that are not features.
    missing : bool, default=False
        Whether cells may be missing: NaN or null, and in text also empty cells, NA, NaN and null.
        Otherwise a missing cell is an error.
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
    request = _request(columns, id_column=id_column, label_column=label_column, missing=missing)
    with naming(path):
        return FORMATS[kind](path, request)


def open_stream(file: IO[bytes], kind: str, **options: Any) -> Table:
    """Open text that comes through a pipe: ``csv``, ``tsv`` or ``fps``. It can be read once.

    The options are those of `open_table`.
    """
    request = _request(**options)
    if kind == "fps":
        return fps_table(PipedLines(file), request)
    return text_table(PipedLines(file), "\t" if kind == "tsv" else ",", request)


def ending(path: Path) -> str | None:
    """The ending of a file that can be read, `.csv.gz` and not `.gz`; None of others."""
    name = path.name.lower()
    return next((kind for kind in FORMATS if name.endswith(kind)), None)


def _request(columns: Sequence[str] | None = None, **options: Any) -> Request:
    return Request(None if columns is None else tuple(map(str, columns)), **options)
