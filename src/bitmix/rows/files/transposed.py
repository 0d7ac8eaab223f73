"""Tables whose lines are features and whose columns are rows, as genes by strains."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bitmix.errors import InputError
from bitmix.kernels.bits import WORD, Words, words_for
from bitmix.rows.codes import Codes, Item
from bitmix.rows.files.request import Request, Roles
from bitmix.rows.files.table import Loaded, Table
from bitmix.rows.packed import BitMatrix
from bitmix.rows.protocol import Layout


def for_inner(path: Path, request: Request, n_rows: int) -> Request:
    """What is asked of the table as it comes, whose columns are rows: one code for all of them."""
    codes = request.codes
    if codes is not None and codes.columns:
        if len(set(codes.columns)) > 1:
            raise InputError(
                f"{path} has features in its rows, which have one code, but those of the model "
                "have several: turn the table"
            )
        codes = replace(codes, columns=codes.columns[:1] * n_rows, names=None)
    return replace(request, columns=None, drop=None, items=None, codes=codes)


def transposed(inner: Table, request: Request) -> Table:
    """The table with rows and columns exchanged, of which `inner` has one feature per row.

    The packed bits of the file are in memory once as they come and once turned.
    """
    if request.label_column is not None or request.weight_column is not None:
        raise InputError(
            f"{inner.path} has features in its rows, so that no column holds labels or weights: "
            "leave out label_column= and weight_column="
        )
    loaded = inner.load()
    rows, names = loaded.rows, loaded.ids
    request = replace(request, id_column=None)  # it names the features
    codes = _codes(inner, rows.codes, len(rows), names)
    roles = request.roles(inner.path, len(rows), names) if names else Roles(range(len(rows)))
    roles = replace(roles, left_out={**inner.roles.left_out, **roles.left_out})
    if inner.roles.names is not None:
        roles = replace(roles, id=len(rows), all_names=(*(names or ()), "id"))

    def whole() -> Loaded:
        chosen = list(roles.features)
        n, width = rows.shape[1], words_for(rows.shape[1])
        words = rows.words[chosen]
        parts = [_turned(words[:, :width], n)]
        if rows.layout.missing:
            parts.append(_turned(words[:, width:], n))
        codes_of_chosen = codes
        if codes is not None and codes.columns:
            codes_of_chosen = replace(
                codes, columns=tuple(codes.columns[i] for i in chosen), names=roles.names
            )
        turned = BitMatrix.trusted(
            np.concatenate(parts, axis=1), len(chosen), roles.names, Layout(rows.layout.missing),
            codes_of_chosen,
        )  # fmt: skip
        ids = None if inner.roles.names is None else list(inner.roles.names)
        return Loaded(turned, ids)

    return Table(inner.path, inner.size, roles, whole=whole, n_rows=rows.shape[1])


def _codes(
    inner: Table, codes: Codes | None, n_features: int, names: Sequence[str] | None
) -> Codes | None:
    """The one code of all cells, for each feature."""
    if codes is None or not codes.columns:
        return codes
    if isinstance(codes.columns[0], Item):
        raise InputError(
            f"{inner.path} has features in its rows, which must have two values: set one_values="
        )
    columns = codes.columns[:1] * n_features
    return replace(codes, columns=columns, names=None if names is None else tuple(names))


def _turned(words: Words, n_columns: int) -> Words:
    """The transposed bits, shape (n_columns, words of len(words) bits), 64 lines at a time."""
    out = np.zeros((n_columns, words_for(len(words))), dtype=WORD)
    octets = np.ascontiguousarray(words).view(np.uint8)
    for i in range(out.shape[1]):
        some = octets[64 * i : 64 * (i + 1)]
        bits = np.unpackbits(some, axis=1, count=n_columns, bitorder="little")
        packed = np.zeros((n_columns, 8), dtype=np.uint8)
        packed[:, : -(-len(some) // 8)] = np.packbits(bits, axis=0, bitorder="little").T
        out[:, i] = packed.view(WORD)[:, 0]
    return out
