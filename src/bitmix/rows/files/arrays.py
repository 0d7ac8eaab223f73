"""NumPy's .npy and .npz, and the sparse matrices that scipy writes as .npz. No pickles."""

import math
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import FileFormatError, InputError
from bitmix.kernels.bits import Words, pack
from bitmix.rows.files.table import (
    Piece,
    Stream,
    Table,
    Wanted,
    checked_bits,
    checked_shape,
    damage_named,
    packed_octets,
    spans,
)

_MOST_INFLATED = 1032  # bytes that deflate can make of one
_MOST_SPARSE_COLUMNS = 1 << 24  # a row is made dense before it is packed
_SPARSE_ROWS = 1 << 20, 10  # so many, and so many for each entry, where rows cost no bytes


def open_npy(path: Path, wanted: Wanted) -> Table:
    """One array."""
    size = path.stat().st_size
    return _dense(path, wanted, _Array.of(path, lambda: path.open("rb"), size))


def open_npz(path: Path, wanted: Wanted) -> Table:
    """An archive of one array, or of the parts of a sparse matrix."""
    neither = f"{path} is not a sparse matrix of scipy nor an archive of one array"
    with damage_named(neither), zipfile.ZipFile(path) as archive:
        sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
    held, claimed = path.stat().st_size, sum(sizes.values())
    if claimed > _MOST_INFLATED * held:
        raise FileFormatError(f"{path} is damaged: {held:,} bytes claim to hold {claimed:,}")
    arrays = {
        name.removesuffix(".npy"): _Array.of(path, partial(_member, path, name), size)
        for name, size in sizes.items()
    }
    if {"format", "shape", "data"} <= arrays.keys():
        return _sparse(path, wanted, arrays)
    if len(arrays) != 1:
        raise InputError(
            f"{path} must hold one array or a sparse matrix, got {', '.join(arrays) or 'nothing'}: "
            "save the rows alone"
        )
    return _dense(path, wanted, *arrays.values())


@dataclass(frozen=True)
class _Array:
    """An array in a file or in a member of an archive, read from its start on."""

    path: Path
    open: Callable[[], AbstractContextManager[IO[bytes]]]
    shape: tuple[int, ...]
    by_columns: bool
    dtype: np.dtype[Any]

    @classmethod
    def of(
        cls, path: Path, opened: Callable[[], AbstractContextManager[IO[bytes]]], size: int
    ) -> "_Array":
        """After its header, which must not claim more than the file has."""
        with damage_named(f"{path} is not a NumPy array of numbers"), opened() as file:
            shape, by_columns, dtype = _header(file)
        if math.prod(shape) * dtype.itemsize > size:
            raise FileFormatError(
                f"{path} is cut short: it claims {dtype} of shape {shape}, but has {size:,} bytes"
            )
        return cls(path, opened, shape, by_columns, dtype)

    @contextmanager
    def reading(self) -> Iterator[Callable[[int], NDArray[Any]]]:
        """A function that gives the next so many values."""
        with self.open() as file:
            _header(file)

            def following(count: int) -> NDArray[Any]:
                needed = count * self.dtype.itemsize
                with damage_named(f"{self.path} is damaged"):
                    octets = file.read(needed)
                if len(octets) < needed:
                    raise FileFormatError(f"{self.path} is cut short: copy or write it again")
                return np.frombuffer(octets, dtype=self.dtype)

            yield following

    def all(self) -> NDArray[Any]:
        with self.reading() as following:
            values = following(math.prod(self.shape))
        return values.reshape(self.shape, order="F" if self.by_columns else "C")


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, by_columns, dtype = np.lib.format.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, by_columns, dtype = np.lib.format.read_array_header_2_0(file)
    else:
        raise ValueError(f"version {version} of the format is for tables of mixed types")
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are never loaded")
    if not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError(f"it claims the shape {shape}")
    return shape, by_columns, dtype


@contextmanager
def _member(path: Path, name: str) -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(path) as archive, archive.open(name) as file:
        yield file


def _dense(path: Path, wanted: Wanted, array: _Array) -> Table:
    m, n = checked_shape(path, array.shape, array.dtype)
    wanted.check_nameless(path, n)
    return Table(
        path=path,
        n_columns=n,
        size=path.stat().st_size,
        stream=lambda: _by_columns(array, m, n) if array.by_columns else _by_rows(array, m, n),
        n_rows=m,
    )


def _by_rows(array: _Array, m: int, n: int) -> Stream:
    with array.reading() as following:
        for start, stop in spans(m, n):
            block = following((stop - start) * n).reshape(-1, n)
            yield Piece(pack(checked_bits(array.path, block, start))), stop / m


def _by_columns(array: _Array, m: int, n: int) -> Stream:
    """Fortran order: no row is whole before the last column, so that all wait, packed."""
    octets = np.zeros((m, -(-n // 8)), dtype=np.uint8)
    with array.reading() as following:
        for column in range(n):
            bits = checked_bits(array.path, following(m).reshape(-1, 1), 0, column)
            octets[:, column // 8] |= bits[:, 0].astype(np.uint8) << column % 8
    for start, stop in spans(m, n):
        yield Piece(packed_octets(octets[start:stop])), stop / m


def _sparse(path: Path, wanted: Wanted, arrays: dict[str, _Array]) -> Table:
    with damage_named(f"{path} is not a sparse matrix of scipy"):
        kind = arrays["format"].all().item()
        shape = tuple(map(int, arrays["shape"].all()))
    m, n = checked_shape(path, shape, arrays["data"].dtype)
    wanted.check_nameless(path, n)
    by_rows = kind in (b"csr", "csr") and {"indptr", "indices"} <= arrays.keys()
    if min(m, n) < 0 or n > _MOST_SPARSE_COLUMNS:
        raise InputError(
            f"{path} claims {m:,} rows of {n:,} columns, at most {_MOST_SPARSE_COLUMNS:,} columns "
            "of a sparse matrix are read: leave out those that are always 0"
        )
    entries, (free, a_entry) = math.prod(arrays["data"].shape), _SPARSE_ROWS
    if not by_rows and m > free + a_entry * entries:
        raise InputError(
            f"{path} claims {m:,} rows, but has {entries:,} entries: save it as CSR (.tocsr())"
        )
    return Table(
        path=path,
        n_columns=n,
        size=path.stat().st_size,
        stream=lambda: _compressed_rows(path, arrays, m, n) if by_rows else _other(path, m, n),
        n_rows=m,
    )


def _compressed_rows(path: Path, arrays: dict[str, _Array], m: int, n: int) -> Stream:
    with damage_named(f"{path} is damaged"), ExitStack() as stack:
        pointers, columns, values = (
            stack.enter_context(arrays[name].reading()) for name in ("indptr", "indices", "data")
        )
        last = pointers(1)
        for start, stop in spans(m, n):
            ends = np.concatenate([last, pointers(stop - start)])
            count = int(ends[-1]) - int(ends[0])
            if np.any(np.diff(ends) < 0):
                raise FileFormatError(f"{path} is damaged: its row pointers go back")
            parts = values(count), columns(count), ends - ends[0]
            yield Piece(_sparse_words(path, parts, start, (stop - start, n))), stop / m
            last = ends[-1:]


def _other(path: Path, m: int, n: int) -> Stream:
    """Formats that do not go row by row: the entries are loaded, rows made a block at a time."""
    import scipy.sparse

    with damage_named(f"{path} is not a sparse matrix of scipy"):
        matrix = scipy.sparse.load_npz(path)
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)
        matrix = matrix.tocsr()
    for start, stop in spans(m, n):
        part = matrix[start:stop]
        parts = part.data, part.indices, part.indptr
        yield Piece(_sparse_words(path, parts, start, part.shape)), stop / m


def _sparse_words(
    path: Path, parts: tuple[NDArray[Any], ...], start: int, shape: tuple[int, int]
) -> Words:
    import scipy.sparse

    with damage_named(f"{path} is damaged"):
        block = scipy.sparse.csr_array(parts, shape=shape)
        block.check_format(full_check=True)  # compiled code trusts the column numbers
    return pack(checked_bits(path, block.toarray(), start))
