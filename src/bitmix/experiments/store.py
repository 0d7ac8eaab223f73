"""Results on disk: one SQLite file, one row a cell, each written as soon as it is known."""

import csv
import io
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from bitmix.atomic import atomic_write
from bitmix.errors import FileFormatError, InputError
from bitmix.experiments.cells import Cell, Result, canonical

_APPLICATION = 0x6269746D  # "bitm"
_SCHEMA = 1
_COLUMNS = ("key", "version", "task", "setting", "method", "seed", "result", "seconds")
_WAIT_SECONDS = 10.0


class Store:
    """Finished cells. Only the process that opened it writes; a crash loses nothing written."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"there is no folder {self.path.parent} to keep results in")
        with self._explained():
            self._db = sqlite3.connect(self.path, timeout=_WAIT_SECONDS, isolation_level=None)
            try:
                self._prepare()
            except BaseException:
                self._db.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def __len__(self) -> int:
        with self._explained():
            return int(self._db.execute("SELECT count(*) FROM cells").fetchone()[0])

    def get(self, cell: Cell) -> Result | None:
        """The result of a cell, None where it has not been run."""
        with self._explained():
            found = self._db.execute("SELECT result FROM cells WHERE key = ?", (cell.key,))
            row = found.fetchone()
        if row is None:
            return None
        result: Result = json.loads(row[0])
        return result

    def put(self, cell: Cell, result: Result, seconds: float) -> None:
        """Keep a result: there for good when this returns."""
        about = cell.identity
        row = (
            cell.key, about["version"], cell.task, canonical(about["setting"]),
            canonical(about["method"]), cell.seed, canonical(result), seconds,
        )  # fmt: skip
        with self._explained():
            self._db.execute("INSERT OR IGNORE INTO cells VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def export(self, path: str | os.PathLike[str]) -> int:
        """All cells into a CSV or Parquet file, sorted by key; how many there are."""
        with self._explained():
            query = f"SELECT {', '.join(_COLUMNS)} FROM cells ORDER BY key"
            rows = self._db.execute(query).fetchall()
        if Path(path).suffix.lower() == ".parquet":
            _write_parquet(path, rows)
        elif Path(path).suffix.lower() == ".csv":
            write_csv(path, [dict(zip(_COLUMNS, row, strict=True)) for row in rows], _COLUMNS)
        else:
            raise InputError(f"{Path(path).name} must end in .csv or .parquet")
        return len(rows)

    def _prepare(self) -> None:
        """Look before touching: another program's database, or another version's, is left alone."""
        application, schema = (
            self._db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version")
        )
        if (application, schema) == (0, 0):
            if self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise FileFormatError(f"{self.path} is a database of another program")
            self._create()
        elif application != _APPLICATION:
            raise FileFormatError(f"{self.path} is a database of another program")
        elif schema != _SCHEMA:
            raise FileFormatError(
                f"{self.path} holds results in layout {schema}, this bitmix reads layout "
                f"{_SCHEMA}: use the bitmix that wrote it, or another folder"
            )
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("BEGIN IMMEDIATE")  # may we write at all?
        self._db.execute("ROLLBACK")

    def _create(self) -> None:
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS cells (key TEXT PRIMARY KEY, version TEXT NOT NULL, "
            "task TEXT NOT NULL, setting TEXT NOT NULL, method TEXT NOT NULL, "
            "seed INTEGER NOT NULL, result TEXT NOT NULL, seconds REAL NOT NULL) WITHOUT ROWID"
        )
        self._db.execute(f"PRAGMA application_id = {_APPLICATION}")
        self._db.execute(f"PRAGMA user_version = {_SCHEMA}")
        self._db.execute("COMMIT")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """SQLite's errors as ours: what happened to which file, and what to do."""
        try:
            yield
        except sqlite3.OperationalError as error:
            remedy = (
                "another program holds it; wait for it to end"
                if "locked" in str(error)
                else "is the folder writable, is the disk full?"
            )
            raise FileFormatError(f"cannot use {self.path}: {error} ({remedy})") from None
        except sqlite3.DatabaseError as error:
            raise FileFormatError(
                f"{self.path} is no store of results, or is damaged ({error}): "
                "move it away, or use another folder"
            ) from None


def write_csv(path: str | os.PathLike[str], rows: list[dict[str, Any]], columns: Any) -> None:
    """A CSV file, whole or not at all; missing entries are empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with atomic_write(path) as file:
        file.write(text.getvalue().encode())


def _write_parquet(path: str | os.PathLike[str], rows: list[tuple[Any, ...]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {"seed": pa.int64(), "seconds": pa.float64()}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in _COLUMNS])
    table = pa.Table.from_pylist(
        [dict(zip(_COLUMNS, row, strict=True)) for row in rows], schema=schema
    )
    with atomic_write(path) as file:
        pq.write_table(table, file)
