"""NumPy's .npy and .npz, and sparse matrices that SciPy wrote as .npz. Pickles are never loaded."""

import math
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import FileFormatError, InputError
from bitmix.rows.convert import block_spans, source
from bitmix.rows.files.request import Request
from bitmix.rows.files.table import Table, array_table, check_array, damage_named
from bitmix.support.npy import read_npy_header

_MAX_EXPANSION = 1032  # bytes that deflate can make of one
_MAX_SPARSE_COLUMNS = 1 << 24  # a row is made dense before it is packed
_FREE_SPARSE_ROWS, _ROWS_PER_ENTRY = 1 << 20, 10  # rows of a matrix that is not CSR cost no bytes


def open_npy(path: Path, request: Request) -> Table:
    """One array."""
    return _dense(path, request, lambda: path.open("rb"), path.stat().st_size, seekable=True)


def open_npz(path: Path, request: Request) -> Table:
    """An archive of one array, or of the parts of a sparse matrix."""
    problem = f"{path} is not a sparse matrix of scipy nor an archive of one array"
    with damage_named(problem), zipfile.ZipFile(path) as archive:
        sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
    size, claimed = path.stat().st_size, sum(sizes.values())
    if claimed > _MAX_EXPANSION * size:
        raise FileFormatError(f"{path} is damaged: {size:,} bytes claim to hold {claimed:,}")
    names = [name.removesuffix(".npy") for name in sizes]
    if {"format", "shape", "data"} <= set(names):
        return _sparse(path, request, sizes)
    if len(names) != 1:
        raise InputError(
            f"{path} must hold one array or a sparse matrix, got {', '.join(names) or 'nothing'}: "
            "save the rows alone"
        )
    (member,) = sizes
    opened = partial(_opened_member, path, member)
    return _dense(path, request, opened, sizes[member], seekable=False)


def _dense(
    path: Path,
    request: Request,
    opened: Callable[[], AbstractContextManager[IO[bytes]]],
    size: int,
    *,
    seekable: bool,
) -> Table:
    """An array in a file, or in a member of an archive, which cannot go back cheaply."""
    with damage_named(f"{path} is not a NumPy array of numbers, or is cut short"), opened() as file:
        shape, fortran_order, dtype = read_npy_header(file, size)
        first_byte = file.tell()
    m, n = check_array(path, shape, dtype)

    def read(file: IO[bytes], count: int) -> NDArray[Any]:
        with damage_named(f"{path} is damaged"):
            octets = file.read(count * dtype.itemsize)
        if len(octets) < count * dtype.itemsize:
            raise FileFormatError(f"{path} is cut short: copy or write it again")
        return np.frombuffer(octets, dtype=dtype)

    def blocks() -> Iterator[NDArray[Any]]:
        with opened() as file:
            read_npy_header(file, size)
            if not fortran_order:
                for start, stop in block_spans(m, n):
                    yield read(file, (stop - start) * n).reshape(-1, n)
            elif seekable:
                for start, stop in block_spans(m, n):
                    block = np.empty((stop - start, n), dtype=dtype)
                    for column in range(n):
                        file.seek(first_byte + (column * m + start) * dtype.itemsize)
                        block[:, column] = read(file, stop - start)
                    yield block
            else:
                array = read(file, m * n).reshape(n, m).T
                for start, stop in block_spans(m, n):
                    yield array[start:stop]

    return array_table(path, request, (m, n), blocks, path.stat().st_size)


@contextmanager
def _opened_member(path: Path, name: str) -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(path) as archive, archive.open(name) as file:
        yield file


def _load_member(path: Path, name: str) -> NDArray[Any]:
    with np.load(path, allow_pickle=False) as archive:
        return archive[name]


def check_sparse_shape(path: Path, m: int, n: int, entries: int | None) -> None:
    """Refuse rows and columns that cost nothing in the file, but would cost memory."""
    if min(m, n) < 0 or n > _MAX_SPARSE_COLUMNS:
        raise InputError(
            f"{path} claims {m:,} rows of {n:,} columns, at most {_MAX_SPARSE_COLUMNS:,} columns "
            "of a sparse matrix are read: leave out those that are always 0"
        )
    if entries is not None and m > _FREE_SPARSE_ROWS + _ROWS_PER_ENTRY * entries:
        raise InputError(
            f"{path} claims {m:,} rows, but has {entries:,} entries: save it as CSR (.tocsr())"
        )


def _sparse(path: Path, request: Request, sizes: dict[str, int]) -> Table:
    """A sparse matrix. Its entries are loaded, and made dense a block of rows at a time."""
    problem = f"{path} is not a sparse matrix of scipy"
    headers = {}
    with damage_named(problem):
        for name, size in sizes.items():
            with _opened_member(path, name) as file:
                headers[name] = read_npy_header(file, size)
        entries, _, dtype = headers["data.npy"]
        shape = tuple(map(int, _load_member(path, "shape")))
        kind = _load_member(path, "format").item()
    m, n = check_array(path, shape, dtype)
    check_sparse_shape(path, m, n, None if kind in (b"csr", "csr") else math.prod(entries))

    def blocks() -> Iterator[NDArray[Any]]:
        import scipy.sparse

        with damage_named(f"{path} is damaged, or {problem}"):
            matrix = scipy.sparse.load_npz(path)
            if hasattr(matrix, "indptr"):  # compiled code trusts what is checked here
                if np.any(np.diff(matrix.indptr) < 0):
                    raise FileFormatError(f"{path} is damaged: its row pointers decrease")
                matrix.check_format(full_check=True)
            shape, block, _ = source(matrix)
        return (block(slice(*span)) for span in block_spans(*shape))

    return array_table(path, request, (m, n), blocks, path.stat().st_size)
