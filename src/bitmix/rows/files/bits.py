"""Packed files, whose rows stay on disk."""

from functools import partial
from pathlib import Path

from bitmix.kernels.bits import pack, unpack
from bitmix.rows.bitfile import WordsFile
from bitmix.rows.convert import block_spans
from bitmix.rows.files.table import Chunk, Chunks, Request, Table
from bitmix.rows.packed import BitMatrix


def open_bits(path: Path, request: Request) -> Table:
    """A packed file. If only some of its columns are features, its rows are packed again."""
    file = WordsFile(path)
    m, n = len(file), file.n_columns
    roles = request.roles(path, n, file.names)
    unchanged = list(roles.features) == list(range(n))

    def read_chunks() -> Chunks:
        for start, stop in block_spans(m, n):
            words = file.read(start, stop)
            if unchanged:
                yield Chunk(words), stop / m
                continue
            bits = unpack(words, n)
            ids, labels = (
                None if column is None else [str(bit) for bit in bits[:, column]]
                for column in (roles.id, roles.label)
            )
            yield Chunk(pack(bits[:, roles.features]), None, ids, labels), stop / m

    return Table(
        path, len(roles.features), path.stat().st_size, read_chunks, roles, n_rows=m,
        about=file.about, on_disk=partial(BitMatrix.open, path) if unchanged else None,
    )  # fmt: skip
