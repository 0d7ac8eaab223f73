"""Passes over the rows kept in a file, so that a fit that was killed goes on where it was.

A fit is a fixed sequence of passes, each of which sums something over all rows. A pass is known by
what it sums: asked for one that the file has, we read it from there, and everything after it comes
out the same to the last bit.

The file is a magic line, a JSON header that says whose passes these are, and one record a pass:
its length, its SHA-256, and the pass. A record that was cut short is dropped.
"""

import dataclasses
import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bitmix.atomic import naming
from bitmix.em.step import PASSES
from bitmix.errors import FileFormatError, InputError
from bitmix.kernels.bits import Words, words_for
from bitmix.rows import Rows
from bitmix.rows.protocol import A, Layout

MAGIC = b"BITMIXCK"
VERSION = 1
_MOST_BYTES = 1 << 36
_HEAD = 40  # bytes of a record before the pass: its length and SHA-256
_SECONDS = 0.5  # of work that a kill may lose beside the pass under way
_WORTH = 0.02  # seconds of a pass that is kept; a shorter one is sooner made again than read


class Checkpoint:
    """The file. Use as a context manager: at the end it is written out and closed."""

    def __init__(self, path: str | os.PathLike[str], owner: dict[str, Any]) -> None:
        self._path, owner = Path(path), {"version": VERSION, **owner}
        if self._path.exists() and not self._path.is_file():
            raise FileExistsError(f"{self._path} is no file: give another name for the checkpoint")
        self._places: dict[str, tuple[int, int]] = {}  # where the pass is in the file, how long
        self._pending: dict[str, bytes] = {}
        self._written = time.monotonic()
        if not self._path.parent.is_dir():
            raise FileNotFoundError(
                f"there is no folder {self._path.parent} to write {self._path.name} into"
            )
        if self._path.is_symlink():
            raise InputError(
                f"{self._path} is a symbolic link, which a checkpoint does not follow: "
                "give the name of the file itself"
            )
        is_new = not self._path.exists()
        self._file = open(self._path, "a+b")  # noqa: SIM115 closed by __exit__
        try:
            self._lock()
            with naming(self._path):
                self._read(owner)
        except BaseException as error:
            if is_new and isinstance(error, OSError) and error.errno is not None:
                self._path.unlink(missing_ok=True)  # nothing of it could be written
            self._close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        try:
            self._flush()
        finally:
            self._close()

    def recall(self, key: str, fits: Callable[[Any], bool]) -> Any:
        """What a pass gave, or None; it must be of a kind that the pass can give."""
        payload = self._pending.get(key)
        if payload is None and key in self._places:
            place, length = self._places[key]
            with naming(self._path):
                self._file.seek(place)
                payload = self._file.read(length)
        if payload is None:
            return None
        try:
            value = _decoded(payload)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
            raise self._damaged() from None
        if not fits(value):
            raise self._damaged()
        return value

    def keep(self, key: str, value: Any) -> None:
        """Remember what a pass gave."""
        self._pending[key] = _encoded(key, value)
        if time.monotonic() - self._written >= _SECONDS:
            self._flush()

    def _flush(self) -> None:
        with naming(self._path):
            for key, payload in self._pending.items():
                at = self._file.seek(0, os.SEEK_END)
                self._file.write(_record(payload))
                self._places[key] = at + _HEAD, len(payload)
            self._file.flush()
            os.fsync(self._file.fileno())
        self._pending.clear()
        self._written = time.monotonic()

    def _close(self) -> None:
        with suppress(OSError):  # what could not be written has been told by the flush
            self._file.close()

    def _lock(self) -> None:
        try:
            import fcntl
        except ModuleNotFoundError:  # not on this system
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{self._path} is in use by another fit: give each fit a checkpoint of its own"
            ) from None

    def _read(self, owner: dict[str, Any]) -> None:
        size, good = os.fstat(self._file.fileno()).st_size, 0
        self._file.seek(0)
        magic = self._file.read(len(MAGIC))
        if not MAGIC.startswith(magic):
            raise FileFormatError(
                f"{self._path} is not a bitmix checkpoint: give another name for it"
            )
        header = self._next(size) if len(magic) == len(MAGIC) else None
        if header is None:  # new, or killed while it was begun
            self._file.truncate(0)
            self._file.write(MAGIC + _record(json.dumps(owner, sort_keys=True).encode()))
            self._file.flush()
            return
        self._refuse_others(header, owner)
        good = self._file.tell()
        while (payload := self._next(size)) is not None:
            try:
                place = self._file.tell() - len(payload), len(payload)
                self._places[str(_skeleton(payload)["key"])] = place
            except (ValueError, KeyError, TypeError, RecursionError):
                raise self._damaged() from None
            good = self._file.tell()
        self._file.truncate(good)
        self._file.seek(good)

    def _next(self, size: int) -> bytes | None:
        """The next record, or None where none is whole."""
        head = self._file.read(_HEAD)
        length = int.from_bytes(head[:8], "little")
        if len(head) < _HEAD or length > min(size - self._file.tell(), _MOST_BYTES):
            return None
        payload = self._file.read(length)
        return payload if hashlib.sha256(payload).digest() == head[8:] else None

    def _refuse_others(self, header: bytes, owner: dict[str, Any]) -> None:
        try:
            theirs = json.loads(header)
            differing = [name for name in owner if theirs.get(name) != owner[name]]
        except (ValueError, AttributeError, RecursionError):
            raise self._damaged() from None
        if differing:
            name = differing[0]
            raise InputError(
                f"{self._path} is a checkpoint of another fit: its {name} was "
                f"{_short(theirs.get(name))}, now {_short(owner[name])}. "
                "Give another name, or remove it to start anew"
            )

    def _damaged(self) -> FileFormatError:
        return FileFormatError(f"{self._path} is damaged: remove it and fit again")


def seed_in(path: str | os.PathLike[str]) -> int | None:
    """The seed of the fit whose checkpoint this is, if there is one."""
    try:
        with open(path, "rb") as file:
            start = file.read(len(MAGIC) + _HEAD)
            length = int.from_bytes(start[len(MAGIC) : len(MAGIC) + 8], "little")
            seed = json.loads(file.read(min(length, 1 << 26)))["seed"]
    except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return seed if type(seed) is int else None


class CheckpointedRows:
    """Rows whose passes are kept in a checkpoint."""

    def __init__(self, rows: Rows, checkpoint: Checkpoint) -> None:
        self._rows, self._checkpoint = rows, checkpoint

    @property
    def shape(self) -> tuple[int, int]:
        return self._rows.shape

    @property
    def layout(self) -> Layout:
        return self._rows.layout

    @property
    def remote(self) -> bool:
        return self._rows.remote

    def take(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> Words:
        return self._rows.take(indices)

    def chosen(self, indices: NDArray[np.int64]) -> Rows:
        return self._rows.chosen(indices)

    def fingerprint(self) -> str:
        return self._rows.fingerprint()

    def map_reduce(
        self, function: Callable[[Words], A], *, block_cells: int = 1, workers: int = 1 << 16
    ) -> A:
        key = _digest(function)
        known: A | None = self._checkpoint.recall(key, self._may_give(function))
        if known is not None:
            return known
        start = time.monotonic()
        value = self._rows.map_reduce(function, block_cells=block_cells, workers=workers)
        if time.monotonic() - start >= _WORTH:
            self._checkpoint.keep(key, value)
        return value

    def map_rows(
        self, function: Callable[[Words], NDArray[Any]], *, block_cells: int = 1
    ) -> NDArray[Any]:
        return self._rows.map_rows(function, block_cells=block_cells)

    def _may_give(self, function: Any) -> Callable[[Any], bool]:
        """Whether a value from a file is of the kind that this pass gives."""
        scores = function.keywords.get("scores")
        n = self.shape[1]

        def fits(value: Any) -> bool:
            if scores is None:  # rows, and ones in each column
                columns = 64 * words_for(n) * (2 if self.layout.missing else 1)
                return (
                    isinstance(value, np.ndarray)
                    and value.shape == (1 + columns,)
                    and bool(np.all((value >= 0) & (value <= value[0])) and value[0] > 0)
                )
            if isinstance(value, np.ndarray):
                return bool(value.shape == (len(scores.const),))
            return type(value) in PASSES.values() and bool(value.fits(len(scores.const), n))

        return fits


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _record(payload: bytes) -> bytes:
    return len(payload).to_bytes(8, "little") + hashlib.sha256(payload).digest() + payload


def _digest(function: Any) -> str:
    """A hash of what a pass sums: a function and the plain values it was given."""
    digest = hashlib.sha256()

    def add(value: Any) -> None:
        if isinstance(value, np.ndarray):
            digest.update(f"{value.dtype} {value.shape} ".encode())
            digest.update(np.ascontiguousarray(value).data)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            digest.update(type(value).__name__.encode())
            for field in dataclasses.fields(value):
                digest.update(field.name.encode())
                add(getattr(value, field.name))
        else:
            digest.update(f"{value!r} ".encode())

    assert isinstance(function, partial)
    digest.update(function.func.__qualname__.encode())
    for name, value in sorted(function.keywords.items()):
        digest.update(name.encode())
        add(value)
    return digest.hexdigest()


def _encoded(key: str, value: Any) -> bytes:
    arrays: list[bytes] = []

    def plain(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, np.ndarray):
            arrays.append(np.ascontiguousarray(value, dtype="<i8").tobytes())
            return {"shape": list(value.shape)}
        if dataclasses.is_dataclass(value):
            fields = dataclasses.fields(value)
            return {
                "kind": type(value).__name__,
                "fields": [plain(getattr(value, field.name)) for field in fields],
            }
        return {"whole": str(value)}

    skeleton = json.dumps({"key": key, "value": plain(value)}).encode()
    return b"".join([len(skeleton).to_bytes(8, "little"), skeleton, *arrays])


def _skeleton(payload: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(payload[8 : 8 + int.from_bytes(payload[:8], "little")])
    return found


def _decoded(payload: bytes) -> Any:
    at = 8 + int.from_bytes(payload[:8], "little")

    def whole(entry: Any) -> Any:
        nonlocal at
        if entry is None:
            return None
        if "whole" in entry:
            return int(entry["whole"])
        if "kind" in entry:
            return PASSES[entry["kind"]](*map(whole, entry["fields"]))
        shape = tuple(entry["shape"])
        count = math.prod(shape)
        if min(shape, default=1) < 1:
            raise ValueError("an array without cells")
        array = np.frombuffer(payload, dtype="<i8", count=count, offset=at).reshape(shape)
        at += array.nbytes
        return array.astype(np.int64)

    return whole(_skeleton(payload)["value"])
