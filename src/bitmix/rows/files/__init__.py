"""Files of rows, which are read in a stream. Each format has a reader of its own."""

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import IO, Any

from bitmix.errors import InputError
from bitmix.rows.files.arrays import open_npy, open_npz
from bitmix.rows.files.arrow import open_arrow, open_parquet
from bitmix.rows.files.bits import open_bits
from bitmix.rows.files.fps import fps_table, open_fps
from bitmix.rows.files.lines import check_encoding, piped
from bitmix.rows.files.molecules import open_smi
from bitmix.rows.files.request import Request
from bitmix.rows.files.sparse import open_h5ad, open_mtx
from bitmix.rows.files.store import open_zarr
from bitmix.rows.files.table import Chunk, Loaded, Table
from bitmix.rows.files.text import open_rtab, open_text, text_table
from bitmix.support.atomic import naming

__all__ = ["FORMATS", "Chunk", "Loaded", "Request", "Table", "ending", "open_stream", "open_table"]

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
    ".rtab": open_rtab,
    ".rtab.gz": open_rtab,
    ".txt": open_text,
    ".txt.gz": open_text,
    ".data": open_text,
    ".mtx": open_mtx,
    ".mtx.gz": open_mtx,
    ".h5ad": open_h5ad,
    ".smi": open_smi,
    ".fps": open_fps,
    ".fps.gz": open_fps,
    ".zarr": open_zarr,
}


def open_table(path: str | PathLike[str], **options: Any) -> Table:
    """Open a file of rows by its ending.

    Parameters
    ----------
    path : path
        A file that ends as one of `FORMATS`; a ``.zarr`` is a folder.
    **options
        How it is read: the fields of `Request`. An option that does not apply to a format is an
        error.
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
    request = Request(**options)
    with naming(path):
        return FORMATS[kind](path, request)


def open_stream(file: IO[bytes], kind: str, **options: Any) -> Table:
    """Open text that comes through a pipe: ``csv``, ``tsv`` or ``fps``.

    The options are those of `open_table`.
    """
    request = Request(**options)
    check_encoding(request.encoding)
    lines = piped(file, request.encoding)
    if kind == "fps":
        return fps_table(lines, request)
    return text_table(lines, "\t" if kind == "tsv" else ",", request)


def ending(path: Path) -> str | None:
    """The ending of a file that can be read, `.csv.gz` and not `.gz`; None of others."""
    name = path.name.lower()
    return next((kind for kind in FORMATS if name.endswith(kind)), None)
