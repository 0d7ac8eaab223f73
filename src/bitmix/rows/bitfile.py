"""The packed file: a magic line, a JSON header, then the words, aligned to 64 bytes.

bytes 0-7    b"BITMIX\\r\\n"  (a text-mode transfer breaks it, and we notice)
bytes 8-15   length of the header in bytes, little-endian
then         JSON: {"format": "bits", "version": 1, "rows": m, "columns": n}, padded with spaces
then         m × ceil(n/64) little-endian 64-bit words
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from bitmix.atomic import atomic_write
from bitmix.errors import FileFormatError
from bitmix.kernels.bits import WORD, Words, padding_is_zero, words_for

MAGIC = b"BITMIX\r\n"
VERSION = 1
_START = len(MAGIC) + 8
_MAX_HEADER = 1 << 20


def write(path: str | os.PathLike[str], words: Words, n_columns: int) -> None:
    header = json.dumps(
        {"format": "bits", "version": VERSION, "rows": len(words), "columns": n_columns}
    ).encode()
    header += b" " * (-(_START + len(header)) % 64)
    with atomic_write(path) as file:
        file.write(MAGIC + len(header).to_bytes(8, "little") + header)
        for start in range(0, len(words), 1 << 16):
            file.write(np.ascontiguousarray(words[start : start + (1 << 16)]).data)


def read(path: str | os.PathLike[str], *, mmap: bool) -> tuple[Words, int]:
    """The words (mapped or read) and the number of columns, once header and size are checked."""
    path = Path(path)
    with path.open("rb") as file:
        m, n, offset = _read_header(path, file)
        shape = (m, words_for(n))
        if mmap and m:
            words: Words = np.memmap(path, dtype=WORD, mode="r", offset=offset, shape=shape)
        else:
            words = np.fromfile(file, dtype=WORD, count=shape[0] * shape[1]).reshape(shape)
    if not padding_is_zero(words, n):
        raise FileFormatError(f"{path} is damaged: bits are set past its last column ({n - 1})")
    return words, n


def _read_header(path: Path, file: Any) -> tuple[int, int, int]:
    start = file.read(_START)
    if start[: len(MAGIC)] != MAGIC:
        raise FileFormatError(
            f"{path} is not a packed bitmix file: "
            "pack your data with BitMatrix.from_dense(X).save(path)"
        )
    length = int.from_bytes(start[len(MAGIC) :], "little")
    if len(start) < _START or length > _MAX_HEADER:
        raise FileFormatError(f"{path} is damaged: its header cannot be read")
    try:
        header = json.loads(file.read(length))
        kind, version = header["format"], header["version"]
        m, n = header["rows"], header["columns"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise FileFormatError(f"{path} is damaged: its header cannot be read") from None
    if kind != "bits" or version is True or version != VERSION:
        raise FileFormatError(
            f"{path} is of format {kind!r} version {version!r}; this bitmix reads 'bits' version "
            f"{VERSION}: write it again with this version"
        )
    if not (_is_count(m, 0) and _is_count(n, 1)) or max(m, n) > 1 << 48:
        raise FileFormatError(f"{path} is damaged: it claims {m!r} rows and {n!r} columns")
    offset = _START + length
    has, needs = os.fstat(file.fileno()).st_size, offset + 8 * m * words_for(n)
    if has != needs:
        raise FileFormatError(
            f"{path} should be {needs:,} bytes for {m:,} rows of {n:,} columns, but is {has:,}: "
            "it was cut short or added to; copy or convert it again"
        )
    return m, n, offset


def _is_count(value: Any, least: int) -> bool:
    return type(value) is int and value >= least
