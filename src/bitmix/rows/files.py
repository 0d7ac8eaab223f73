"""Rows from files: packed bits, NumPy arrays, sparse matrices, text tables."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import FileFormatError, InputError
from bitmix.rows.packed import BitMatrix

_BLOCK_CELLS = 1 << 20
_SEPARATORS = {".csv": ",", ".tsv": "\t"}


def read_table(
    path: Path, names: Sequence[str] | None = None
) -> tuple[BitMatrix, NDArray[np.object_] | None]:
    """The rows of a file, and its column names if it has them.

    `names` picks the columns of a text table by its header, in that order.
    """
    kind = path.suffix.lower()
    if kind == ".bits":
        return BitMatrix.open(path), None
    if kind == ".npy":
        return BitMatrix.from_dense(_numpy(path)), None
    if kind == ".npz":
        return BitMatrix.from_dense(_sparse(path)), None
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


def _text(
    path: Path, separator: str, names: Sequence[str] | None
) -> tuple[BitMatrix, NDArray[np.object_] | None]:
    """A block of lines at a time into packed rows."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        header = [
            name.strip().strip('"') for name in file.readline().rstrip("\r\n").split(separator)
        ]
        has_header = any(name not in ("0", "1") for name in header)
        if not has_header:
            file.seek(0)
        chosen = _columns(path, header, names) if has_header and names is not None else None
        words, n, line = [], 0, 1 + has_header
        while block := list(islice(file, max(1, _BLOCK_CELLS // len(header)))):
            try:
                values = np.loadtxt(block, delimiter=separator, usecols=chosen, ndmin=2)
                part = BitMatrix.from_dense(values)
            except ValueError as error:
                raise InputError(
                    f"{path} must hold 0 and 1 below its header, but in lines {line} to "
                    f"{line + len(block) - 1}: {error}"
                ) from None
            if n not in (0, part.shape[1]):
                raise InputError(f"{path} has {part.shape[1]} columns from line {line}, {n} before")
            n, line = part.shape[1], line + len(block)
            words.append(part.words)
    if not words:
        raise InputError(f"{path} has no rows below its header")
    picked = np.array(names if chosen is not None else header, dtype=object) if has_header else None
    return BitMatrix(np.concatenate(words), n), picked


def _columns(path: Path, header: list[str], names: Sequence[str]) -> list[int]:
    missing = [name for name in names if name not in header]
    if missing:
        raise InputError(f"{path} has no column {missing[0]!r}, which the model was fitted on")
    return [header.index(name) for name in names]
