"""Rows from files: packed bits, NumPy arrays, sparse matrices, text tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import FileFormatError, InputError
from bitmix.rows.packed import BitMatrix

_SEPARATORS = {".csv": ",", ".tsv": "\t"}


def read_table(path: Path, names: Sequence[str] | None = None) -> Any:
    """The rows of a file, in a form `BitMatrix.from_dense` takes.

    `names` picks the columns of a text table by its header, in that order.
    """
    kind = path.suffix.lower()
    if kind == ".bits":
        return BitMatrix.open(path)
    if kind == ".npy":
        return _numpy(path)
    if kind == ".npz":
        return _sparse(path)
    if kind in _SEPARATORS:
        return _text(path, _SEPARATORS[kind], names)
    raise InputError(
        f"{path} must be one of .bits, .npy, .npz, .csv, .tsv, got {kind or 'no ending'}"
    )


def _numpy(path: Path) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise FileFormatError(f"{path} is not a NumPy array of numbers: {error}") from None
    return array


def _sparse(path: Path) -> Any:
    import scipy.sparse

    try:
        return scipy.sparse.load_npz(path)
    except (ValueError, KeyError, EOFError, BadZipFile) as error:
        raise FileFormatError(f"{path} is not a sparse matrix of scipy: {error}") from None


def _text(path: Path, separator: str, names: Sequence[str] | None) -> NDArray[Any]:
    with path.open(newline="") as file:
        header = [
            name.strip().strip('"') for name in file.readline().rstrip("\r\n").split(separator)
        ]
    has_header = any(name not in ("0", "1") for name in header)
    chosen = None
    if names is not None and has_header:
        missing = [name for name in names if name not in header]
        if missing:
            raise InputError(f"{path} has no column {missing[0]!r}, which the model was fitted on")
        chosen = [header.index(name) for name in names]
    try:
        return np.loadtxt(
            path, delimiter=separator, skiprows=int(has_header), usecols=chosen, ndmin=2
        )
    except ValueError as error:
        raise InputError(f"{path} must hold 0 and 1 below its header: {error}") from None
