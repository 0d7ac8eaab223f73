"""The results of runs on disk: one SQLite file, one row per run, written when the run ends."""

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

from bitmix.errors import FileFormatError, InputError
from bitmix.support.atomic import atomic_write
from bitmix.support.extras import need
from reproduction.runs import Result, Run, canonical_json

_APPLICATION = 0x6269746D  # "bitm"
_LAYOUT = 2
_TABLE = (
    "CREATE TABLE runs (key TEXT PRIMARY KEY, version TEXT NOT NULL, task TEXT NOT NULL, "
    "setting TEXT NOT NULL, method TEXT NOT NULL, seed INTEGER NOT NULL, result TEXT NOT NULL, "
    "seconds REAL NOT NULL) WITHOUT ROWID"
)
_COLUMNS = ("key", "version", "task", "setting", "method", "seed", "result", "seconds")
_WAIT_SECONDS = 10.0


class Store:
    """The stored results; only the main process opens it, never a worker."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"there is no folder {self.path.parent} to store results in")
        with self._clear_errors():
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
        with self._clear_errors():
            return int(self._db.execute("SELECT count(*) FROM runs").fetchone()[0])

    def get(self, run: Run) -> Result | None:
        """The result of a run, or None if it has not been executed."""
        with self._clear_errors():
            query = "SELECT result FROM runs WHERE key = ?"
            row = self._db.execute(query, (run.key,)).fetchone()
        return None if row is None else json.loads(row[0])

    def put(self, run: Run, result: Result, seconds: float) -> None:
        """Store a result. It survives a crash of any program; a power cut may lose the latest."""
        self._check_place()
        row = (
            run.key, run.identity["version"], run.task, canonical_json(run.setting),
            canonical_json(run.method), run.seed, canonical_json(result), seconds,
        )  # fmt: skip
        with self._clear_errors():
            self._db.execute("INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write all runs to a CSV or Parquet file, sorted by key; returns how many there are."""
        check_export(path)
        with self._clear_errors():
            query = f"SELECT {', '.join(_COLUMNS)} FROM runs ORDER BY key"
            rows = self._db.execute(query).fetchall()
        if Path(path).suffix.lower() == ".parquet":
            _write_parquet(path, rows)
        else:
            write_csv(path, [dict(zip(_COLUMNS, row, strict=True)) for row in rows], _COLUMNS)
        return len(rows)

    def _prepare(self) -> None:
        """Create the table in a new file; leave files of other programs and layouts unchanged."""
        self._db.execute("BEGIN IMMEDIATE")  # nobody else can create it at the same time
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
            raise FileFormatError(
                f"{self.path} is a database of another program: use another folder"
            )
        elif layout != _LAYOUT:
            raise FileFormatError(
                f"{self.path} has layout {layout}, but this version of bitmix reads layout "
                f"{_LAYOUT}: use the version that wrote it, or another folder"
            )
        self._db.execute("COMMIT")
        self._write_ahead()
        self._db.execute("PRAGMA synchronous = NORMAL")

    def _write_ahead(self) -> None:
        """Switch to write-ahead logging; SQLite itself does not wait for others who do the same."""
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
        """Check that the file that was opened still has its name."""
        try:
            same = os.path.samestat(self.path.stat(), self._opened)
        except FileNotFoundError:
            same = False
        if not same:
            raise FileFormatError(
                f"{self.path} was moved or deleted meanwhile: put it back and run the command again"
            )

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        """Turn SQLite's errors into ours: what happened to which file, and what to do."""
        try:
            yield
        except sqlite3.OperationalError as error:
            remedy = (
                "another program has locked it: wait for it to end"
                if "locked" in str(error)
                else "is the folder writable, or the disk full?"
            )
            raise FileFormatError(f"cannot use {self.path}: {error} ({remedy})") from None
        except sqlite3.DatabaseError as error:
            raise FileFormatError(
                f"{self.path} is not a store of results, or it is damaged ({error}): "
                "move it away, or use another folder"
            ) from None


def check_export(path: str | os.PathLike[str]) -> None:
    """Raise an error if runs cannot be exported to that path."""
    target = Path(path)
    if target.suffix.lower() not in (".csv", ".parquet"):
        raise InputError(f"{target.name} must end in .csv or .parquet")
    if target.suffix.lower() == ".parquet":
        need("pyarrow")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent} to write {target.name} into")


def write_csv(path: str | os.PathLike[str], rows: list[dict[str, Any]], columns: Any) -> None:
    """Write a CSV file atomically; missing entries are empty."""
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
