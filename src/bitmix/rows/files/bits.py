"""Our packed file: rows stay on disk."""

from pathlib import Path

from bitmix.kernels.bits import pack, unpack
from bitmix.rows.bitfile import WordsFile
from bitmix.rows.files.table import Piece, Stream, Table, Wanted, spans
from bitmix.rows.packed import BitMatrix


def open_bits(path: Path, wanted: Wanted) -> Table:
    """A packed file; where columns are picked, its rows are packed again."""
    file = WordsFile(path)
    m, n, names = len(file), file.n_columns, file.names
    features, id_column, label_column = list(range(n)), None, None
    if names is None:
        wanted.check_nameless(path, n)
    else:
        picked = wanted.pick(path, names)
        features, id_column, label_column = picked.features, picked.id, picked.label
    as_it_is = features == list(range(n))

    def stream() -> Stream:
        for start, stop in spans(m, n):
            words = file.read(start, stop)
            if as_it_is:
                yield Piece(words), stop / m
                continue
            bits = unpack(words, n)
            ids, labels = (
                None if column is None else [str(bit) for bit in bits[:, column]]
                for column in (id_column, label_column)
            )
            yield Piece(pack(bits[:, features]), ids, labels), stop / m

    return Table(
        path=path,
        n_columns=len(features),
        size=path.stat().st_size,
        stream=stream,
        names=None if names is None else tuple(names[i] for i in features),
        n_rows=m,
        about=file.about,
        has_ids=id_column is not None,
        has_labels=label_column is not None,
        on_disk=(lambda: BitMatrix.open(path)) if as_it_is else None,
    )
