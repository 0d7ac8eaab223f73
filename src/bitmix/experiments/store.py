"""Results on disk: one SQLite file, one row a cell, each written as soon as it is known."""

import csv
import io
import json
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from bitmix.atomic import atomic_write
from bitmix.errors import FileFormatError, InputError
from bitmix.experiments.cells import Cell, Result, canonical
from bitmix.extras import need

_APPLICATION = 0x6269746D  # "bitm"
_LAYOUT = 1
_TABLE = (
    "CREATE TABLE cells (key TEXT PRIMARY KEY, version TEXT NOT NULL, task TEXT NOT NULL, "
    "setting TEXT NOT NULL, method TEXT NOT NULL, seed INTEGER NOT NULL, result TEXT NOT NULL, "
    "seconds REAL NOT NULL) WITHOUT ROWID"
)
_COLUMNS = ("key", "version", "task", "setting", "method", "seed", "result", "seconds")
_WAIT_SECONDS = 10.0


class Store:
    """Finished cells; workers never see it."""

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
        self._opened = self.path.stat()

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
        """Keep a result: no crash of a program loses it (a power cut may lose the latest)."""
        self._check_place()
        about = cell.identity
        row = (
            cell.key, about["version"], cell.task, canonical(about["setting"]),
            canonical(about["method"]), cell.seed, canonical(result), seconds,
        )  # fmt: skip
        with self._explained():
            self._db.execute("INSERT OR IGNORE INTO cells VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def export(self, path: str | os.PathLike[str]) -> int:
        """All cells into a CSV or Parquet file, sorted by key; how many there are."""
        check_export(path)
        with self._explained():
            query = f"SELECT {', '.join(_COLUMNS)} FROM cells ORDER BY key"
            rows = self._db.execute(query).fetchall()
        if Path(path).suffix.lower() == ".parquet":
            _write_parquet(path, rows)
        else:
            write_csv(path, [dict(zip(_COLUMNS, row, strict=True)) for row in rows], _COLUMNS)
        return len(rows)

    def _prepare(self) -> None:
        """Look before touching: another program's database, or another version's, is left alone."""
        self._db.execute("BEGIN IMMEDIATE")  # nobody else makes it meanwhile
        application, layout, tables = (
            self._db.execute(query).fetchone()[0]
            for query in (
                "PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master"
            )
        )  # fmt: skip
        if (application, layout, tables) == (0, 0, 0):
            self._db.execute(_TABLE)
            self._db.execute(f"PRAGMA application_id = {_APPLICATION}")
            self._db.execute(f"PRAGMA user_version = {_LAYOUT}")
        elif application != _APPLICATION:
            raise FileFormatError(f"{self.path} is a database of another program")
        elif layout != _LAYOUT:
            raise FileFormatError(
                f"{self.path} holds results in layout {layout}, this bitmix reads layout "
                f"{_LAYOUT}: use the bitmix that wrote it, or another folder"
            )
        self._db.execute("COMMIT")
        self._write_ahead()
        self._db.execute("PRAGMA synchronous = NORMAL")

    def _write_ahead(self) -> None:
        """Switch to WAL; SQLite does not wait here for others who do the same."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def _check_place(self) -> None:
        """The file we opened must still be there under its name."""
        try:
            same = os.path.samestat(self.path.stat(), self._opened)
        except FileNotFoundError:
            same = False
        if not same:
            raise FileFormatError(
                f"{self.path} was moved or deleted during the run: put it back, then run again"
            )

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


def check_export(path: str | os.PathLike[str]) -> None:
    """Whether cells could be exported there."""
    target = Path(path)
    if target.suffix.lower() not in (".csv", ".parquet"):
        raise InputError(f"{target.name} must end in .csv or .parquet")
    if target.suffix.lower() == ".parquet":
        need("pyarrow")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent} to write {target.name} into")


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
