"""Packed files, whose rows stay on disk."""

from functools import partial
from pathlib import Path

import numpy as np

from bitmix.errors import InputError
from bitmix.kernels.bits import Words, pack, unpack
from bitmix.rows.bitfile import WordsFile
from bitmix.rows.convert import block_spans
from bitmix.rows.files.table import FILL, Chunk, Chunks, Request, Table
from bitmix.rows.packed import BitMatrix


def open_bits(path: Path, request: Request) -> Table:
    """A packed file. If only some of its columns are features, its rows are packed again."""
    file = WordsFile(path)
    m, n, layout = len(file), file.n_columns, file.layout
    if layout.missing and not request.missing:
        raise InputError(f"{path} has missing cells: {FILL}")
    roles = request.roles(path, n, file.names)
    unchanged = list(roles.features) == list(range(n))

    def features(words: Words) -> Words:
        if unchanged:
            return np.ascontiguousarray(words)
        return pack(unpack(words, n)[:, roles.features])

    def read_chunks() -> Chunks:
        for start, stop in block_spans(m, n):
            words = file.read(start, stop)
            bits, known = layout.bits(words, n), layout.known(words, n)
            ids, labels = (
                None if column is None else [str(bit) for bit in unpack(bits, n)[:, column]]
                for column in (roles.id, roles.label)
            )
            known = None if known is None else features(known)
            yield Chunk(features(bits), known, ids, labels), stop / m

    return Table(
        path, len(roles.features), path.stat().st_size, read_chunks, roles, n_rows=m,
        about=file.about, on_disk=partial(BitMatrix.open, path) if unchanged else None,
        weighted=layout.weight_one > 0,
    )  # fmt: skip
