"""Packed files, whose rows stay on disk."""

from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from bitmix.errors import InputError
from bitmix.kernels.bits import Words, pack, unpack
from bitmix.rows.bitfile import WordsFile
from bitmix.rows.convert import block_spans
from bitmix.rows.files.request import Request
from bitmix.rows.files.table import Chunk, Loaded, Parts, Table
from bitmix.rows.packed import BitMatrix


def open_bits(path: Path, request: Request) -> Table:
    """A packed file. If only some of its columns are features, its rows are packed again."""
    request.refuse(path, "a packed file", ("columns", "drop", "id_column", "label_column", "codes"))
    file = WordsFile(path)
    m, n, layout = len(file), file.n_columns, file.layout
    codes, expected = file.codes, request.codes
    if codes is not None and expected is not None and not codes.agrees_with(expected):
        raise InputError(f"{path} was made from a table with other codes than those of the model")
    if expected is not None and expected.columns:  # the model names the table, not its bits
        request = replace(request, columns=expected.plane_names)
    roles = request.roles(path, n, file.names)
    unchanged = roles.are_all(n)
    has_own_ids = file.has_ids and roles.id is None

    def features(words: Words) -> Words:
        if unchanged:
            return np.ascontiguousarray(words)
        return pack(unpack(words, n)[:, roles.features])

    def parts() -> Parts:
        own_ids = file.ids() if has_own_ids else iter(())
        for start, stop in block_spans(m, n):
            words = file.read(start, stop)
            bits, known = layout.bits(words, n), layout.known(words, n)
            ids = list(islice(own_ids, stop - start)) if has_own_ids else None
            ids = ids if roles.id is None else _texts(bits, n, roles.id)
            labels = {roles.name(i): _texts(bits, n, i) for i in roles.labels}
            known = None if known is None else features(known)
            yield Chunk(features(bits), known, ids, labels), stop / m

    def whole() -> Loaded:
        return Loaded(BitMatrix.open(path), list(file.ids()) if has_own_ids else None)

    if layout.weight_one and not unchanged:
        raise InputError(f"{path} has weights: its columns are used as they are, all of them")
    own = replace(
        roles, id=n, all_names=(*(file.names or map(str, range(n))), file.id_name or "id")
    )
    return Table(
        path, path.stat().st_size, own if has_own_ids else roles, parts, codes,
        whole=whole if unchanged and not roles.others else None, n_rows=m, about=file.about,
    )  # fmt: skip


def _texts(bits: Words, n: int, column: int) -> list[str]:
    return [str(bit) for bit in unpack(bits, n)[:, column].tolist()]
