"""Files that list the cells that are not 0: Matrix Market, AnnData, and pairs of names."""

import gzip
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import FileFormatError, InputError
from bitmix.rows.cells import as_number
from bitmix.rows.codes import Codes
from bitmix.rows.files.arrays import check_sparse_shape
from bitmix.rows.files.lines import Lines
from bitmix.rows.files.request import Request
from bitmix.rows.files.table import Loaded, Table, damage_named
from bitmix.rows.packed import BitMatrix
from bitmix.support.extras import need

_FREE_CELLS, _CELLS_PER_BYTE = 1 << 28, 1 << 16  # more than any codec packs into a byte
_OPTIONS = ("columns", "drop", "binarize", "codes")


def open_mtx(path: Path, request: Request) -> Table:
    """A Matrix Market file, as it is written.

    Beside features.tsv (or genes.tsv) and barcodes.tsv its lines are features, and it is turned.
    """
    request.refuse(path, "a Matrix Market file", (*_OPTIONS, "transpose"))
    matrix = _read_mtx(path)
    features, rows = _names_beside(path, ("features", "genes")), _names_beside(path, ("barcodes",))
    turned = bool(request.transpose)
    if features is not None and rows is not None:
        turned = matrix.shape == (len(features), len(rows))
        expected = (len(features), len(rows)) if turned else (len(rows), len(features))
        if matrix.shape != expected:
            raise InputError(
                f"{path} has {matrix.shape[0]:,} × {matrix.shape[1]:,} cells, but the files beside "
                f"it name {len(features):,} features and {len(rows):,} rows"
            )
    if turned:
        matrix = matrix.T
    return matrix_table(path, request, matrix, features, rows if features is not None else None)


def _read_mtx(path: Path) -> Any:
    """The entries of a Matrix Market file. SciPy's reader can write past its memory."""
    first, line, size = b"", 0, None
    places, values = [], []
    for block, _ in Lines(path).blocks():
        while size is None and block:
            text, _, block = block.partition(b"\n")
            line += 1
            first = first or text
            if not text.startswith(b"%") and text.strip():
                size = _mtx_size(path, first, text, line)
        if not block:
            continue
        assert size is not None
        numbers = _mtx_numbers(path, block, line, size)
        line += block.count(b"\n")
        places.append(np.array([column.astype(np.int32) - 1 for column in numbers[:2]]))
        ones = np.ones(len(numbers[0]), dtype=np.uint8)
        values.append(ones if size.pattern else numbers[2])
    if size is None:
        raise FileFormatError(f"{path} is not a Matrix Market file, or is cut short")
    found = sum(map(len, values))
    if found != size.entries:
        raise FileFormatError(
            f"{path} is damaged or cut short: it claims {size.entries:,} entries and has {found:,}"
        )
    sparse = import_module("scipy.sparse")
    rows, columns = np.concatenate([*places, np.empty((2, 0), dtype=np.int32)], axis=1)
    entries = np.concatenate([*values, np.empty(0, dtype=np.uint8)])
    return sparse.coo_array((entries, (rows, columns)), shape=(size.m, size.n))


@dataclass(frozen=True)
class _Size:
    """What the first lines of a Matrix Market file say."""

    m: int
    n: int
    entries: int
    pattern: bool


def _mtx_size(path: Path, first: bytes, text: bytes, line: int) -> _Size:
    words = first.decode(errors="replace").lower().split()
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        raise FileFormatError(f"{path} is not a Matrix Market file: its first line does not say so")
    form, field, symmetry = words[2:]
    kinds = ("integer", "real", "pattern")
    if (form, symmetry) != ("coordinate", "general") or field not in kinds:
        raise InputError(
            f"{path} must be 'coordinate' entries of {', '.join(kinds)}, 'general', got "
            f"{form} {field} {symmetry}"
        )
    numbers = text.split()
    if len(numbers) != 3 or not all(number.isdigit() and len(number) < 19 for number in numbers):
        raise FileFormatError(f"{path}, line {line:,}: rows, columns and entries are needed")
    m, n, entries = map(int, numbers)
    if min(m, n) == 0:
        raise InputError(f"{path} must have rows and columns, got {m} × {n}")
    check_sparse_shape(path, m, n, entries)
    return _Size(m, n, entries, field == "pattern")


def _mtx_numbers(path: Path, block: bytes, line: int, size: _Size) -> Sequence[NDArray[Any]]:
    """The rows, columns and perhaps values of some lines."""
    quick = _by_pyarrow(block, 2 if size.pattern else 3)
    if quick is not None:
        inside = [
            column.min() >= 1 and column.max() <= end
            for column, end in zip(quick, (size.m, size.n), strict=False)
        ]
        if all(inside) and len(quick[0]) == block.count(b"\n"):
            return quick
    return _mtx_numbers_slowly(path, block, line, size)


def _by_pyarrow(block: bytes, width: int) -> Sequence[NDArray[Any]] | None:
    """The columns of lines with one blank between numbers; None if there is anything else."""
    try:
        import pyarrow as pa
        from pyarrow import csv
    except ModuleNotFoundError:
        return None
    types = {"row": pa.int32(), "column": pa.int32(), "value": pa.float64()}
    names = list(types)[:width]
    try:
        table = csv.read_csv(
            pa.BufferReader(block), csv.ReadOptions(column_names=names),
            csv.ParseOptions(delimiter=" ", quote_char=False),
            csv.ConvertOptions(column_types={name: types[name] for name in names}, null_values=[]),
        )  # fmt: skip
    except (pa.ArrowInvalid, pa.ArrowKeyError):
        return None
    return [table.column(name).to_numpy() for name in names]


def _mtx_numbers_slowly(
    path: Path, block: bytes, line: int, size: _Size
) -> Sequence[NDArray[np.float64]]:
    """The same for lines with any blanks, and the place of what is wrong."""
    width = 2 if size.pattern else 3
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # NumPy's word for a text that is none
        try:
            numbers = np.fromstring(block.decode("ascii"), sep=" ").reshape(-1, width)
        except (ValueError, DeprecationWarning):
            numbers = np.empty((0, width))
    inside = (numbers[:, :2] >= 1) & (numbers[:, :2] <= (size.m, size.n))
    whole = numbers[:, :2] == np.floor(numbers[:, :2])
    if len(numbers) != block.count(b"\n") or not (inside & whole).all():
        for number, text in enumerate(block.split(b"\n")[:-1], line + 1):
            cells = text.decode(errors="replace").split()
            places = [int(cell) if cell.isdecimal() else 0 for cell in cells[:2]]
            right = len(cells) == width and 1 <= places[0] <= size.m and 1 <= places[1] <= size.n
            if not right or (width == 3 and as_number(cells[2]) is None):
                raise InputError(
                    f"{path} must have a row of 1 … {size.m:,} and a column of 1 … {size.n:,}"
                    f"{'' if size.pattern else ' and a number'} per line, got {' '.join(cells)!r} "
                    f"at line {number:,}"
                )
        raise InputError(f"{path} has lines with other numbers than entries after line {line:,}")
    return list(numbers.T)


def _names_beside(path: Path, stems: Sequence[str]) -> list[str] | None:
    """The first cells of the lines of a file of names beside a matrix, if there is one."""
    for stem in stems:
        for ending in (".tsv", ".tsv.gz"):
            file = path.with_name(stem + ending)
            if file.exists():
                data = file.read_bytes()
                data = gzip.decompress(data) if ending.endswith("gz") else data
                return [line.split("\t")[0] for line in data.decode().splitlines()]
    return None


def open_h5ad(path: Path, request: Request) -> Table:
    """An AnnData file: its X, or a layer of it."""
    request.refuse(path, "an AnnData file", (*_OPTIONS, "layer", "label_column"))
    need("h5py")
    with (
        damage_named(f"{path} is not an AnnData file, or is cut short or damaged"),
        import_module("h5py").File(path) as file,
    ):
        layers = list(file.get("layers", ()))
        if "X" not in file if request.layer is None else request.layer not in layers:
            absent = "X" if request.layer is None else f"layer {request.layer!r}"
            raise InputError(f"{path} has no {absent}: its layers are {layers}, set layer=")
        matrix = _h5ad_matrix(
            path, file["X"] if request.layer is None else file["layers"][request.layer]
        )
        names, ids = (
            _h5ad_column(file[axis], file[axis].attrs["_index"]) for axis in ("var", "obs")
        )
        wanted = request.label_column or ()
        labels = {}
        for name in [wanted] if isinstance(wanted, str) else map(str, wanted):
            if name not in file["obs"]:
                raise InputError(
                    f"{path} has no column {name!r} in obs: it has {list(file['obs'])}"
                )
            labels[name] = _h5ad_column(file["obs"], name)
    return matrix_table(path, replace(request, label_column=None), matrix, names, ids, labels)


def _h5ad_matrix(path: Path, part: Any) -> Any:
    """A dense matrix, or a sparse one by rows or columns."""
    if hasattr(part, "shape"):
        if part.size > max(_FREE_CELLS, path.stat().st_size * _CELLS_PER_BYTE):
            raise FileFormatError(f"{path} is damaged: it claims an array of {part.shape}")
        return part[:]
    m, n = map(int, part.attrs["shape"])
    check_sparse_shape(path, m, n, len(part["data"]))
    sparse = import_module("scipy.sparse")
    kind = {"csr_matrix": sparse.csr_array, "csc_matrix": sparse.csc_array}
    parts = tuple(part[name][:] for name in ("data", "indices", "indptr"))
    matrix = kind[part.attrs["encoding-type"]](parts, shape=tuple(part.attrs["shape"]))
    matrix.check_format(full_check=True)  # compiled code trusts what is checked here
    return matrix


def _h5ad_column(group: Any, name: str) -> list[str]:
    """The values of a column of a table, which may be a category, as texts."""
    column = group[name]
    if hasattr(column, "shape"):
        return [v.decode() if isinstance(v, bytes) else str(v) for v in column[:].tolist()]
    categories = _h5ad_column(column, "categories" if "categories" in column else "values")
    codes = column["codes"][:].tolist() if "codes" in column else range(len(categories))
    return ["" if code < 0 else categories[code] for code in codes]


def pairs_table(reader: Any, request: Request) -> Table:
    """Pairs of a row and a column, one per line. Rows and columns are in the order they come."""
    request.refuse(
        reader.path, "pairs", ("columns", "drop", "codes", "sep", "header", "encoding", "pairs")
    )
    if reader.header.n_cells != 2:
        raise InputError(
            f"{reader.path} must have two columns to be read as pairs of a row and a column, got "
            f"{reader.header.n_cells:,}"
        )
    ids: dict[str, int] = {}
    names: dict[str, int] = {}
    if request.codes is not None:  # a column of the model that is not in the file has no 1
        names = {str(name): i for i, name in enumerate(request.columns or ())}
    places: list[tuple[int, int]] = []
    for part, _ in reader.parts():
        for row, column in zip(*part.texts(), strict=True):
            places.append((ids.setdefault(row, len(ids)), names.setdefault(column, len(names))))
    if not places:
        raise InputError(f"{reader.path} has no rows")
    rows, columns = np.array(places).T
    ones = np.ones(len(places), dtype=np.uint8)
    sparse = import_module("scipy.sparse")
    matrix = sparse.coo_array((ones, (rows, columns)), shape=(len(ids), len(names))).tocsr()
    matrix.data[:] = 1  # a pair that comes twice is 1 too
    return matrix_table(reader.path, request, matrix, list(names), list(ids))


def matrix_table(
    path: Path, request: Request, matrix: Any, names: Sequence[str] | None,
    ids: Sequence[str] | None, labels: Mapping[str, list[str]] | None = None,
) -> Table:  # fmt: skip
    """A matrix in memory, perhaps with names of its columns and rows."""
    m, n = matrix.shape
    roles = request.roles(path, n, names)
    if ids is not None:
        all_names = (*(names or map(str, range(n))), "id")
        roles = replace(roles, id=n, all_names=all_names)
    above = request.threshold
    codes = None if above is None else Codes(above=above)

    def whole() -> Loaded:
        chosen = matrix
        if not roles.are_all(n):
            chosen = _by_columns(matrix, roles.features)
        try:
            rows = BitMatrix.from_dense(chosen, binarize=above, missing=True)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
        rows.feature_names, rows.codes = roles.names, codes
        return Loaded(rows, None if ids is None else list(ids), labels or {})

    return Table(path, path.stat().st_size if path.exists() else 0, roles, whole=whole, n_rows=m)


def _by_columns(matrix: Any, columns: Sequence[int]) -> Any:
    """Some columns of a matrix, in this order."""
    if hasattr(matrix, "tocsc"):
        return matrix.tocsc()[:, list(columns)]
    return np.asarray(matrix)[:, list(columns)]
