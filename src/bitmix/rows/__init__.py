"""Where rows live: in memory, in a file or on a cluster. All of them follow `protocol.Rows`."""

from typing import Any

import numpy as np

from bitmix.errors import InputError
from bitmix.rows.augmented import AugmentedRows, fixed_weights
from bitmix.rows.packed import BitMatrix
from bitmix.rows.protocol import Rows

__all__ = ["Rows", "as_rows", "fetch_if_small", "is_dask"]


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array or table. Looks at the type: a table has columns of any name."""
    return hasattr(type(X), "__dask_graph__")


def as_rows(
    X: Any,
    binarize: float | None = None,
    *,
    missing: bool = False,
    mask: Any = None,
    sample_weight: Any = None,
) -> Rows:
    """The rows of an array, table or matrix, by its type.

    With `missing`, cells may be missing: NaN, masked, empty, or True in `mask`. Without it such a
    cell is an error. Rows of weight 0 are left out.
    """
    on_cluster = getattr(type(X), "remote", False) is True
    if on_cluster or is_dask(X):
        if mask is not None or sample_weight is not None:
            raise InputError(
                "mask and sample_weight need rows in memory, X is on a cluster: leave them out, or "
                "compute() X first"
            )
        if on_cluster:
            return X
        from bitmix.rows.cluster import ClusterRows

        return ClusterRows.of_array(X, binarize)
    if isinstance(X, AugmentedRows):
        if not missing:
            raise InputError("X has missing cells: fill them first, or use TemplateMixture")
        if mask is None and sample_weight is None:
            return X
        bits, known = X.bits, X.known
    elif not missing:
        bits, known = BitMatrix.from_dense(X, binarize=binarize), None
    else:
        bits, known = BitMatrix.from_incomplete(X, binarize=binarize)
    if mask is not None:
        bits, known = _masked(bits, known, mask)
    if sample_weight is None:
        return bits if known is None else AugmentedRows(bits, known)
    weights, weight_one = fixed_weights(sample_weight, len(bits))
    present = weights > 0
    known = None if known is None else known[present]
    return AugmentedRows(bits[present], known, weights[present], weight_one)


def fetch_if_small(rows: Rows, limit: int) -> Rows:
    """Load remote rows into memory if there are at most `limit`."""
    m = rows.shape[0]
    return rows.subset(np.arange(m)) if rows.remote and m <= limit else rows


def _masked(
    bits: BitMatrix, known: BitMatrix | None, mask: Any
) -> tuple[BitMatrix, BitMatrix | None]:
    """Bits and known cells after the cells that are True in `mask` are taken as missing."""
    gaps = np.asarray(mask)
    if gaps.shape != bits.shape or gaps.dtype.kind not in "bui":
        raise InputError(
            f"mask must be True where a cell of X is missing, shape {bits.shape}, "
            f"got {gaps.dtype} of shape {gaps.shape}"
        )
    if not gaps.any():
        return bits, known
    unmasked = BitMatrix.from_dense(gaps == 0)
    if known is not None:
        unmasked = known.with_words(known.words & unmasked.words)
    return bits.with_words(bits.words & unmasked.words), unmasked
