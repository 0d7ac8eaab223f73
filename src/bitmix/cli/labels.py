"""Write labels block by block, as text, Parquet or NumPy."""

import csv
import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from bitmix.support.atomic import atomic_write

Write = Callable[[Sequence[Any], Any, Sequence[Any]], None]
"""Takes the ids and labels of some rows, and a list of values for each further column."""

ENDINGS = (".csv", ".tsv", ".parquet", ".npy")
_ROWS_PER_GROUP = 100_000  # in a Parquet file; small groups would make it large and slow to read


@contextmanager
def open_writer(
    target: Path | None, id_name: str | None, columns: Mapping[str, type]
) -> Iterator[Write]:
    """Give a function that writes labels to a file, or prints CSV if there is no target.

    The first column holds the ids under their name, or row numbers if there are no ids. The given
    columns of floats, integers or strings follow the label. A NumPy file has labels only.
    """
    name = "row" if id_name is None else "id" if id_name in ("label", *columns) else id_name
    if target is None:
        yield _text_writer(sys.stdout, ",", name, columns)
        return
    kind = target.suffix.lower()
    with atomic_write(target) as file:
        if kind == ".parquet":
            with _parquet_writer(file, name, columns, numbered=id_name is None) as write:
                yield write
        elif kind == ".npy":
            with _npy_writer(file) as write:
                yield write
        else:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="")
            try:
                yield _text_writer(text, "," if kind == ".csv" else "\t", name, columns)
            finally:
                text.detach()  # flushes; atomic_write closes the file


def _text_writer(file: Any, separator: str, name: str, columns: Mapping[str, type]) -> Write:
    lines = csv.writer(file, delimiter=separator, lineterminator="\n")
    lines.writerow([name, "label", *columns])

    def write(ids: Sequence[Any], labels: Any, values: Sequence[Any]) -> None:
        texts = [
            [f"{value:.6g}" for value in each] if kind is float else each
            for each, kind in zip(values, columns.values(), strict=True)
        ]
        lines.writerows(zip(ids, labels.tolist(), *texts, strict=True))

    return write


@contextmanager
def _parquet_writer(
    file: IO[bytes], name: str, columns: Mapping[str, type], *, numbered: bool
) -> Iterator[Write]:
    import pyarrow
    from pyarrow import parquet

    types = {float: pyarrow.float64(), int: pyarrow.int64(), str: pyarrow.string()}
    schema = pyarrow.schema(
        [
            (name, types[int if numbered else str]),
            ("label", pyarrow.int64()),
            *((column, types[kind]) for column, kind in columns.items()),
        ]
    )
    waiting: list[Any] = []
    with parquet.ParquetWriter(file, schema) as writer:

        def flush() -> None:
            if waiting:
                writer.write_table(pyarrow.concat_tables(waiting))
                waiting.clear()

        def write(ids: Sequence[Any], labels: Any, values: Sequence[Any]) -> None:
            waiting.append(pyarrow.table([list(ids), labels, *values], schema=schema))
            if sum(map(len, waiting)) >= _ROWS_PER_GROUP:
                flush()

        yield write
        flush()


@contextmanager
def _npy_writer(file: IO[bytes]) -> Iterator[Write]:
    """Write labels only. Their number is written into the header at the end.

    NumPy pads the header so that it has the same length for any number of rows.
    """
    import numpy as np

    total = 0

    def write_header() -> None:
        about = {"descr": "<i8", "fortran_order": False, "shape": (total,)}
        np.lib.format.write_array_header_1_0(file, about)

    def write(ids: Sequence[Any], labels: Any, values: Sequence[Any]) -> None:
        nonlocal total
        file.write(np.ascontiguousarray(labels, dtype="<i8").data)
        total += len(labels)

    write_header()
    yield write
    file.seek(0)
    write_header()
