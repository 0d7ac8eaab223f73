"""Fitted models on disk: an npz of plain arrays and a JSON header. Loading never runs code."""

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.atomic import atomic_write
from bitmix.errors import FileFormatError

VERSION = 1


def write(
    path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> None:
    """Write a model; the file appears whole or not at all."""
    text = json.dumps({"format": "bitmix-model", "version": VERSION, **header})
    with atomic_write(path) as file:
        members: dict[str, Any] = {"header": np.frombuffer(text.encode(), dtype=np.uint8), **arrays}
        np.savez(file, **members)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays of a model file, after its format and version are checked."""
    path = Path(path)
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise FileFormatError(f"{path} is not a bitmix model: write one with model.save(path)")
        file.seek(0)
        try:
            with np.load(file, allow_pickle=False) as members:
                header = json.loads(members["header"].tobytes())
                _check_version(path, header)
                return header, {name: members[name] for name in members.files if name != "header"}
        except FileFormatError:
            raise
        except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise FileFormatError(
                f"{path} is not a bitmix model or is damaged ({error}): models hold plain arrays "
                "only; write one with model.save(path)"
            ) from None


def _check_version(path: Path, header: Any) -> None:
    kind, version = header.get("format"), header.get("version")
    if kind != "bitmix-model" or version != VERSION:
        raise FileFormatError(
            f"{path} is of format {kind!r} version {version!r}; this bitmix reads 'bitmix-model' "
            f"version {VERSION}: fit and save it again with this version"
        )
