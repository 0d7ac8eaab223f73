"""Where rows live: in memory, in a file or on a cluster. All of them follow `protocol.Rows`."""

import warnings
from functools import partial
from typing import Any

import numpy as np

from bitmix.errors import CodesWarning, InputError, NotPlainError
from bitmix.kernels.bits import Words
from bitmix.kernels.fixed import Ints
from bitmix.kernels.items import Items
from bitmix.rows.coded import coded_words, learn_codes
from bitmix.rows.codes import Codes
from bitmix.rows.learn import NO_WISHES, Wishes
from bitmix.rows.packed import BitMatrix
from bitmix.rows.protocol import Block, Layout, Rows

__all__ = ["Rows", "as_rows", "check_items", "table_hash"]

MAX_HASHED_ROWS, MAX_HASHED_BYTES = 4_096, 1 << 25


def as_rows(
    X: Any,
    binarize: float | None = None,
    *,
    missing: bool = False,
    mask: Any = None,
    sample_weight: Any = None,
    codes: Codes | Wishes | None = None,
) -> Rows:
    """The rows of an array, table or matrix, by its type.

    With `missing`, cells may be missing: NaN, masked, empty, or True in `mask`. Without it such a
    cell is an error. Rows of weight 0 are left out. Cells must be 0 and 1, unless `codes` says how
    others are read; wishes allow that codes are learned, which is said by a warning.
    """
    coded = codes != NO_WISHES if isinstance(codes, Wishes) else codes is not None and codes.columns
    is_dask = hasattr(type(X), "__dask_graph__")  # of the type: a table has columns of any name
    if is_dask or getattr(type(X), "remote", False) is True:
        from bitmix.rows.cluster import ClusterRows

        if coded and is_dask:
            raise InputError(
                "X is on a cluster, where it must hold 0 and 1: write it as bits first, with "
                "bitmix convert or by .map_partitions"
            )
        return ClusterRows.of(X, binarize, missing=missing, mask=mask, sample_weight=sample_weight)
    rows, is_read = None, isinstance(X, BitMatrix) or binarize is not None
    if is_read:
        _check_unread(X, codes)
    if is_read or not coded:
        try:
            rows = BitMatrix.from_dense(X, binarize=binarize, missing=missing)
        except NotPlainError:
            if is_read or not isinstance(codes, Wishes) or hasattr(type(X), "tocsr"):
                raise
    if rows is None:
        rows = _coded_rows(X, codes, missing)
    if mask is not None:
        rows = rows.masked(mask)
    return rows if sample_weight is None else rows.weighted(sample_weight)


def _coded_rows(X: Any, codes: Any, missing: bool) -> BitMatrix:
    """The rows of a table whose cells are read by codes, which are learned if wishes are given."""
    if isinstance(codes, Wishes):
        codes = _learned(X, codes)
    words, known = coded_words(X, codes, missing=missing)
    if known is not None:
        words = np.concatenate([words, known], axis=1)
    layout = Layout(known is not None)
    return BitMatrix.trusted(words, codes.n_planes, codes.plane_names, layout, codes)


def _learned(X: Any, wishes: Wishes) -> Codes:
    """The codes of a table, after a warning that says how cells are read unless the user did."""
    codes, guessed = learn_codes(X, wishes)
    if guessed:
        warnings.warn(
            f"{'; '.join(codes.describe())}: set one_values= or items= to read it in another way",
            CodesWarning,
            stacklevel=5,
        )
    return codes


def _check_unread(X: Any, codes: Codes | Wishes | None) -> None:
    """Refuse codes that would be ignored, or that differ from those of packed rows."""
    if isinstance(codes, Wishes) and codes != NO_WISHES:
        raise InputError(
            "X is packed already, so that one_values= and the names of items= come too late: give "
            "the table itself"
            if isinstance(X, BitMatrix)
            else "set binarize= or one_values= and items=, not both"
        )
    own = getattr(X, "codes", None)
    if isinstance(codes, Codes) and isinstance(own, Codes) and not own.agrees_with(codes):
        raise InputError("the cells of X became bits by other codes than those of the fit")


def table_hash(rows: Rows) -> str:
    """A number for a table: of up to 4,096 rows, or 32 MB, evenly spaced, in any order.

    It tells whether a table is the one of the fit; a part of that table has another number.
    """
    m, n = rows.shape
    most = min(m, MAX_HASHED_ROWS, max(1, MAX_HASHED_BYTES // (8 * rows.layout.width(n))))
    spaced = np.linspace(0, m - 1, most).astype(np.int64)
    words: Words = rows.subset(spaced).words
    factors = np.random.default_rng(n).integers(1 << 63, size=words.shape[1], dtype=np.uint64)
    with np.errstate(over="ignore"):
        keys = ((words ^ (words >> np.uint64(29))) * (2 * factors + np.uint64(1))).sum(axis=1)
        for shift in (32, 29, 32):  # so that equal sums are no accident of few bits
            keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(0xD6E8FEB86659FD93)
        total = int(keys.sum(dtype=np.uint64))
    return f"{m}x{n}:{total:016x}"


def check_items(rows: Rows, items: Items) -> None:
    """Raise an error unless every row has one value per item, or all its columns missing."""
    counts = rows.map_reduce(partial(_count_wrong, items=items), block_cells=1, workers=1 << 16)
    wrong = np.flatnonzero(counts)
    if wrong.size:
        group = items.groups[int(wrong[0])]
        raise InputError(
            f"every row must have one value per item, but {counts[wrong[0]]:,} rows do not "
            f"have exactly one 1 in columns {group}: a missing answer is missing in all of "
            "them, and a value that the fit has not seen has no column"
        )


def _count_wrong(block: Block, *, items: Items) -> Ints:
    """The number of rows per item that do not have exactly one of its values."""
    counts = np.zeros(items.n_items, dtype=np.int64)
    bits, known = block.bits, block.known
    for i, mask in enumerate(items.masks):
        words = np.flatnonzero(mask)
        ones = np.bitwise_count(bits[:, words] & mask[words]).sum(axis=1)
        wrong = ones != 1
        if known is not None:
            n_known = np.bitwise_count(known[:, words] & mask[words]).sum(axis=1)
            complete = n_known == np.bitwise_count(mask).sum()
            wrong = (wrong & complete) | (~complete & (n_known > 0))
        counts[i] = np.count_nonzero(wrong)
    return counts
