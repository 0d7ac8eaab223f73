"""Fitted models on disk: an npz of plain arrays and a JSON header. Loading never runs code."""

import json
import os
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import FileFormatError
from bitmix.support.atomic import atomic_write, naming
from bitmix.support.npy import read_npy_header

VERSION = 1
_MOST_TIMES = 8  # times the size of the file: arrays are stored uncompressed


def write(
    path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> None:
    """Write a model; the file appears whole or not at all."""
    text = json.dumps({"format": "bitmix-model", "version": VERSION, **header}, default=_plain)
    members = {"header": np.frombuffer(text.encode(), dtype=np.uint8), **arrays}
    with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in members.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def is_model(path: str | os.PathLike[str]) -> bool:
    """Whether a file holds a model, by its content."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "header.npy" in archive.namelist()
    except (OSError, ValueError, zipfile.BadZipFile):
        return False


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"cannot save a parameter of type {type(value).__name__}")


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays of a model file, after its format and version are checked."""
    path = Path(path)
    with naming(path), path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise FileFormatError(f"{path} is not a bitmix model: write one with model.save(path)")
        try:
            members = _members(file)
            header = json.loads(members.pop("header").tobytes())
        except Exception as error:  # a hostile archive can fail in any way zlib, zip or JSON know
            raise FileFormatError(
                f"{path} is not a bitmix model or is damaged ({error}): models hold plain arrays "
                "only; write one with model.save(path)"
            ) from None
    _check_version(path, header)
    return header, members


def _members(file: IO[bytes]) -> dict[str, NDArray[Any]]:
    """The arrays of an npz, none larger than what the archive itself says it holds."""
    size = file.seek(0, os.SEEK_END)
    with zipfile.ZipFile(file) as archive:
        unpacked = sum(entry.file_size for entry in archive.infolist())
    if unpacked > _MOST_TIMES * size + (1 << 20):
        raise ValueError(f"{size:,} bytes claim to hold {unpacked:,}")
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        return {name: _array(arrays, name) for name in arrays.files}


def _array(arrays: Any, name: str) -> NDArray[Any]:
    with arrays.zip.open(f"{name}.npy") as member:
        read_npy_header(member, arrays.zip.getinfo(f"{name}.npy").file_size)
    return arrays[name]


def _check_version(path: Path, header: Any) -> None:
    header = header if isinstance(header, dict) else {}
    kind, version = header.get("format"), header.get("version")
    if kind != "bitmix-model" or version is True or version != VERSION:
        raise FileFormatError(
            f"{path} is of format {kind!r} version {version!r}; this bitmix reads 'bitmix-model' "
            f"version {VERSION}: fit and save it again with this version"
        )
