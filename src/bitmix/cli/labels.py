"""Files of labels, written block by block: text, Parquet or NumPy."""

import csv
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from bitmix.support.atomic import atomic_write

Write = Callable[[Sequence[Any], Any, Any], None]
"""Takes the ids, labels and probabilities of some rows."""

ENDINGS = (".csv", ".tsv", ".parquet", ".npy")
_ROWS_PER_GROUP = 100_000  # of a Parquet file; small groups would make it large and slow to read


@contextmanager
def open_writer(target: Path | None, id_name: str | None) -> Iterator[Write]:
    """A function that writes labels to a file; without a target it prints CSV.

    The first column holds the ids under their name, or row numbers if there are no ids.
    """
    name = "row" if id_name is None else "id" if id_name in ("label", "probability") else id_name
    if target is None:
        yield _text_writer(sys.stdout, ",", name)
        return
    kind = target.suffix.lower()
    with atomic_write(target) as file:
        if kind == ".parquet":
            with _parquet_writer(file, name, numbered=id_name is None) as write:
                yield write
        elif kind == ".npy":
            with _npy_writer(file) as write:
                yield write
        else:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="")
            try:
                yield _text_writer(text, "," if kind == ".csv" else "\t", name)
            finally:
                text.detach()  # flushes, and leaves the closing of the file to atomic_write


def _text_writer(file: Any, separator: str, name: str) -> Write:
    lines = csv.writer(file, delimiter=separator, lineterminator="\n")
    lines.writerow([name, "label", "probability"])

    def write(ids: Sequence[Any], labels: Any, probabilities: Any) -> None:
        rounded = (f"{p:.6g}" for p in probabilities.tolist())
        lines.writerows(zip(ids, labels.tolist(), rounded, strict=True))

    return write


@contextmanager
def _parquet_writer(file: IO[bytes], name: str, *, numbered: bool) -> Iterator[Write]:
    import pyarrow
    from pyarrow import parquet

    id_type = pyarrow.int64() if numbered else pyarrow.string()
    schema = pyarrow.schema(
        [(name, id_type), ("label", pyarrow.int64()), ("probability", pyarrow.float64())]
    )
    waiting: list[Any] = []
    with parquet.ParquetWriter(file, schema) as writer:

        def flush() -> None:
            if waiting:
                writer.write_table(pyarrow.concat_tables(waiting))
                waiting.clear()

        def write(ids: Sequence[Any], labels: Any, probabilities: Any) -> None:
            columns = [list(ids), labels, probabilities]
            waiting.append(pyarrow.table(columns, schema=schema))
            if sum(map(len, waiting)) >= _ROWS_PER_GROUP:
                flush()

        yield write
        flush()


@contextmanager
def _npy_writer(file: IO[bytes]) -> Iterator[Write]:
    """Writes labels only. Their number goes into the header at the end.

    NumPy pads the header so that it has the same length for any number of rows.
    """
    import numpy as np

    total = 0

    def write_header() -> None:
        about = {"descr": "<i8", "fortran_order": False, "shape": (total,)}
        np.lib.format.write_array_header_1_0(file, about)

    def write(ids: Sequence[Any], labels: Any, probabilities: Any) -> None:
        nonlocal total
        file.write(np.ascontiguousarray(labels, dtype="<i8").data)
        total += len(labels)

    write_header()
    yield write
    file.seek(0)
    write_header()
