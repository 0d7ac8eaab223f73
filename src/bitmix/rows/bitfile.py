"""The packed file: a magic line, a JSON header, then the words, aligned to 64 bytes.

bytes 0-7    b"BITMIX\\r\\n"  (a transfer in text mode changes it, which is noticed)
bytes 8-15   length of the header in bytes, little-endian
then         JSON: {"format": "bits", "version": 1, "rows": m, "columns": n}, padded with spaces;
             "names" (of the columns) and "about" (what the source says about itself) may follow
then         m × ceil(n/64) little-endian 64-bit words

Version 2 has rows with missing cells ("missing": true: as many words again per row, a 1 for each
known cell) or with weights ("weight_one": w: one more word per row, which is w for a weight of 1).

Version 3 has the ids of rows ("ids": {"name": of their column or null, "bytes": b}: b bytes after
the words, one line per id, escaped as in Python) or the codes of a table that was not 0 and 1
("codes", as `Codes.to_dict` writes them).
"""

import json
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import FileFormatError, InputError
from bitmix.kernels.bits import WORD, Words, padding_is_zero
from bitmix.kernels.fixed import MAX_ROWS
from bitmix.rows.codes import Codes
from bitmix.rows.protocol import PLAIN, Layout
from bitmix.support.atomic import atomic_write, naming
from bitmix.system import fetch_ahead, open_to_read, read_at

MAGIC = b"BITMIX\r\n"
_START = len(MAGIC) + 8
_MAX_COUNT = 1 << 48
_CHECKED_BYTES = 1 << 24  # a file of at most this size is read when it is opened, to check it
_VERSION_2, _VERSION_3 = {"missing", "weight_one"}, {"codes", "ids"}
_READ_AHEAD = 1 << 24  # bytes the system is asked to fetch while a block is worked on


class Writer:
    """Appends rows to a file. The header, which has their number, is written again at the end."""

    def __init__(
        self, file: IO[bytes], ids: IO[bytes], n_columns: int, more: Mapping[str, Any],
    ) -> None:  # fmt: skip
        self._file, self._ids = file, ids
        self._n_columns, self._more = n_columns, dict(more)
        self.rows = 0
        self._length = len(self._header(_MAX_COUNT, _MAX_COUNT))
        self._length += -(_START + self._length) % 64
        self._write_header()

    def append(self, words: Words, ids: Sequence[str] | None = None) -> None:
        """Write more rows, and their ids if they have any."""
        self._file.write(np.ascontiguousarray(words, dtype=WORD).data)
        self.rows += len(words)
        for text in ids or ():
            self._ids.write(text.encode("unicode_escape") + b"\n")

    def finish(self) -> None:
        """Write the ids after the rows, and the number of rows into the header."""
        self._ids.seek(0)
        shutil.copyfileobj(self._ids, self._file)
        self._file.seek(0)
        self._write_header()

    def _write_header(self) -> None:
        header = self._header(self.rows, self._ids.tell()).ljust(self._length)
        self._file.write(MAGIC + len(header).to_bytes(8, "little") + header)

    def _header(self, rows: int, id_bytes: int) -> bytes:
        more = dict(self._more)
        if "ids" in more:
            more["ids"] = {"name": more["ids"], "bytes": id_bytes}
        version = 3 if more.keys() & _VERSION_3 else 2 if more.keys() & _VERSION_2 else 1
        shape = {"rows": rows, "columns": self._n_columns}
        return json.dumps({"format": "bits", "version": version, **shape, **more}).encode()


@contextmanager
def writing(
    path: str | os.PathLike[str], n_columns: int, names: Sequence[str] | None = None,
    about: Mapping[str, Any] | None = None, layout: Layout = PLAIN, codes: Codes | None = None,
    *, has_ids: bool = False, id_name: str | None = None,
) -> Iterator[Writer]:  # fmt: skip
    """A `Writer`. The file appears when the block ends without an error, or not at all."""
    more: dict[str, Any] = {
        **({"missing": True} if layout.missing else {}),
        **({"weight_one": layout.weight_one} if layout.weight_one else {}),
        **({} if names is None else {"names": [str(name) for name in names]}),
        **({} if not about else {"about": dict(about)}),
        **({} if codes is None else {"codes": codes.to_dict()}),
        **({"ids": id_name} if has_ids else {}),
    }
    with atomic_write(path) as file, tempfile.SpooledTemporaryFile(1 << 24) as ids:
        writer = Writer(file, ids, n_columns, more)
        yield writer
        writer.finish()


class WordsFile:
    """The words of a packed file, which are read when they are needed.

    It is not mapped into memory, so that a file that shrinks is an error and not the end of the
    process. A copy in another process opens the file again.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self._handle = open_to_read(self.path)
        weakref.finalize(self, os.close, self._handle)
        with naming(self.path), open(self._handle, "rb", closefd=False) as file:
            self._offset, header = _read_header(self.path, file)
        self.n_columns: int = header["columns"]
        self.names: tuple[str, ...] | None = header.get("names")
        self.about: dict[str, Any] = header.get("about", {})
        self.layout = Layout(header.get("missing", False), header.get("weight_one", 0))
        self.codes: Codes | None = header.get("codes")
        ids = header.get("ids")
        self.has_ids: bool = ids is not None
        self.id_name: str | None = ids["name"] if ids else None
        self.shape = (header["rows"], self.layout.width(self.n_columns))
        self._this_thread, self._lock = threading.local(), threading.Lock()
        if self.nbytes <= _CHECKED_BYTES:  # damage of a larger file is noticed when it is read
            self.read(0, len(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return WordsFile, (self.path,)

    def __len__(self) -> int:
        return int(self.shape[0])

    @property
    def nbytes(self) -> int:
        return int(8 * self.shape[0] * self.shape[1])

    @property
    def stamp(self) -> str:
        """A text that changes when the file does."""
        status = os.fstat(self._handle)
        return f"{status.st_size} {status.st_mtime_ns}"

    def read(self, start: int, stop: int, *, reuse: bool = False) -> Words:
        """The rows start … stop.

        With `reuse`, they are valid until the next such call of the same thread.
        """
        shape = (stop - start, self.shape[1])
        return self._fill(start, self._buffer(shape) if reuse else np.empty(shape, dtype=WORD))

    def ids(self) -> Iterator[str]:
        """The ids of the rows, in order."""
        with naming(self.path), self.path.open("rb") as file:
            file.seek(self._offset + self.nbytes)
            for _ in range(len(self)):
                line = file.readline()
                try:
                    text = line.decode("unicode_escape")
                except UnicodeDecodeError:
                    text = ""
                if not text.endswith("\n"):
                    raise FileFormatError(f"{self.path} is damaged: a row has no id")
                yield text[:-1]

    def take(self, indices: NDArray[np.intp]) -> Words:
        """The rows with these numbers."""
        numbers = np.where(indices < 0, indices + len(self), indices)
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(self):
            raise IndexError(f"{self.path} has {len(self):,} rows, asked for row {numbers.max()}")
        words = np.empty((len(numbers), self.shape[1]), dtype=WORD)
        for i in np.argsort(numbers, kind="stable"):
            self._fill(int(numbers[i]), words[i : i + 1])
        return words

    def _buffer(self, shape: tuple[int, int]) -> Words:
        """Memory of this thread for a block."""
        buffer = getattr(self._this_thread, "buffer", None)
        if buffer is None or len(buffer) < shape[0]:
            buffer = self._this_thread.buffer = np.empty(shape, dtype=WORD)
        return buffer[: shape[0]]

    def _fill(self, start: int, words: Words) -> Words:
        """Read the rows from `start` on into `words`."""
        position = self._offset + 8 * start * self.shape[1]
        octets, done = words.reshape(-1).view(np.uint8), 0
        if len(words) > 1:
            fetch_ahead(self._handle, position + len(octets), _READ_AHEAD)
        while done < len(octets):
            with naming(self.path):
                count = read_at(self._handle, octets.data[done:], position + done, self._lock)
            if count == 0:
                raise FileFormatError(
                    f"{self.path} was cut short while it was read, at byte {position + done:,}: "
                    "copy or convert it again"
                )
            done += count
        self._check(words)
        return words

    def _check(self, words: Words) -> None:
        """Refuse rows that no writer can have written."""
        n, layout = self.n_columns, self.layout
        bits, known, weights = layout.bits(words, n), layout.known(words, n), layout.weights(words)
        if not all(padding_is_zero(part, n) for part in (bits, known) if part is not None):
            raise FileFormatError(
                f"{self.path} is damaged: bits are set past its last column ({n - 1})"
            )
        if known is not None and np.any(bits & ~known):
            raise FileFormatError(f"{self.path} is damaged: bits of missing cells are set")
        if weights is not None and not np.all((weights > 0) & (weights <= MAX_ROWS)):
            raise FileFormatError(f"{self.path} is damaged: the weights of its rows make no sense")


def _read_header(path: Path, file: IO[bytes]) -> tuple[int, dict[str, Any]]:
    """The position of the first word, and the header, after both and the file size are checked."""
    start = file.read(_START)
    if start[: len(MAGIC)] != MAGIC:
        raise FileFormatError(
            f"{path} is not a packed bitmix file: write one with `bitmix convert {path.name} "
            "-o OUT.bits` or BitMatrix.from_dense(X).save(path)"
        )
    length = int.from_bytes(start[len(MAGIC) :], "little")
    size = os.fstat(file.fileno()).st_size
    if len(start) < _START or length > size:
        raise FileFormatError(f"{path} is damaged: its header cannot be read")
    try:
        header = json.loads(file.read(length))
        kind, version = header["format"], header["version"]
        m, n = header["rows"], header["columns"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise FileFormatError(f"{path} is damaged: its header cannot be read") from None
    if kind != "bits" or version is True or version not in (1, 2, 3):
        raise FileFormatError(
            f"{path} is of format {kind!r} version {version!r}; this bitmix reads 'bits' versions "
            "1 to 3: write it again with this version"
        )
    later = {1: _VERSION_2 | _VERSION_3, 2: _VERSION_3, 3: set()}[version]
    header = {key: header[key] for key in header if key not in later}
    if not (_is_count(m, 0) and _is_count(n, 1)) or max(m, n) > _MAX_COUNT:
        raise FileFormatError(f"{path} is damaged: it claims {m!r} rows and {n!r} columns")
    missing, weight_one = header.get("missing", False), header.get("weight_one", 0)
    if type(missing) is not bool or not _is_count(weight_one, 0) or weight_one > _MAX_COUNT:
        raise FileFormatError(f"{path} is damaged: its header cannot be read")
    offset, ids = _START + length, header.get("ids", {"name": None, "bytes": 0})
    if not _are_ids(ids):
        raise FileFormatError(f"{path} is damaged: its header cannot be read")
    needs = offset + 8 * m * Layout(missing, weight_one).width(n) + ids["bytes"]
    if size != needs:
        raise FileFormatError(
            f"{path} should be {needs:,} bytes for {m:,} rows of {n:,} columns, but is {size:,}: "
            "it was cut short or added to; copy or convert it again"
        )
    names = header.get("names")
    if names is not None:
        if not isinstance(names, list) or len(names) != n or {str} != set(map(type, names)):
            raise FileFormatError(f"{path} is damaged: it must name its {n:,} columns, or none")
        header["names"] = tuple(names)
    if not isinstance(header.get("about", {}), dict):
        raise FileFormatError(f"{path} is damaged: its header cannot be read")
    if "codes" in header:
        header["codes"] = _checked_codes(path, header["codes"], n)
    return offset, header


def _checked_codes(path: Path, values: Any, n: int) -> Codes:
    try:
        codes = Codes.from_dict(values)
    except InputError as error:
        raise FileFormatError(f"{path} is damaged: {error}") from None
    if codes.columns and codes.n_planes != n:
        raise FileFormatError(f"{path} is damaged: its codes are for {codes.n_planes:,} columns")
    return codes


def _are_ids(ids: Any) -> bool:
    if not isinstance(ids, dict) or ids.keys() != {"name", "bytes"}:
        return False
    return isinstance(ids["name"], str | None) and _is_count(ids["bytes"], 0)


def _is_count(value: Any, least: int) -> bool:
    return type(value) is int and value >= least
