"""Labels of rows, written as they come: text, Parquet or NumPy."""

import csv
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from bitmix.atomic import atomic_write

Write = Callable[[Sequence[Any], Any, Any], None]
"""Takes the ids, labels and probabilities of some rows."""

ENDINGS = (".csv", ".tsv", ".parquet", ".npy")
_NPY_HEADER = 128
_GROUP_ROWS = 100_000  # of a Parquet file; each group costs a footer


@contextmanager
def writing(target: Path | None, ids: str | None) -> Iterator[Write]:
    """Something to write labels with; rows are numbered unless there is a column of ids, whose
    name this is. No target: CSV, as one reads it.
    """
    name = "row" if ids is None else "id" if ids in ("label", "probability") else ids
    if target is None:
        yield _text(sys.stdout, ",", name)
        return
    kind = target.suffix.lower()
    with atomic_write(target) as file:
        if kind == ".parquet":
            with _parquet(file, name, numbered=ids is None) as write:
                yield write
        elif kind == ".npy":
            with _npy(file) as write:
                yield write
        else:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="")
            try:
                yield _text(text, "," if kind == ".csv" else "\t", name)
            finally:
                text.detach()  # which writes out what is left; the file is closed elsewhere


def _text(file: Any, separator: str, name: str) -> Write:
    lines = csv.writer(file, delimiter=separator, lineterminator="\n")
    lines.writerow([name, "label", "probability"])

    def write(ids: Sequence[Any], labels: Any, probabilities: Any) -> None:
        shown = (f"{p:.6g}" for p in probabilities.tolist())
        lines.writerows(zip(ids, labels.tolist(), shown, strict=True))

    return write


@contextmanager
def _parquet(file: IO[bytes], name: str, *, numbered: bool) -> Iterator[Write]:
    import pyarrow
    from pyarrow import parquet

    kind = pyarrow.int64() if numbered else pyarrow.string()
    schema = pyarrow.schema(
        [(name, kind), ("label", pyarrow.int64()), ("probability", pyarrow.float64())]
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
            if sum(map(len, waiting)) >= _GROUP_ROWS:
                flush()

        yield write
        flush()


@contextmanager
def _npy(file: IO[bytes]) -> Iterator[Write]:
    """Labels only. How many there are is known at the end, so the header is written again then."""
    import numpy as np

    total = 0

    def header() -> bytes:
        text = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({total},), }}"
        start = np.lib.format.magic(1, 0) + (_NPY_HEADER - 10).to_bytes(2, "little")
        return (start + text.encode()).ljust(_NPY_HEADER - 1) + b"\n"

    def write(ids: Sequence[Any], labels: Any, probabilities: Any) -> None:
        nonlocal total
        file.write(np.ascontiguousarray(labels, dtype="<i8").data)
        total += len(labels)

    file.write(header())
    yield write
    file.seek(0)
    file.write(header())
