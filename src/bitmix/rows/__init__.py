"""Where rows live: in memory, in a file or on a cluster. All of them follow `protocol.Rows`."""

from typing import Any

import numpy as np

from bitmix.errors import InputError
from bitmix.rows.packed import BitMatrix
from bitmix.rows.protocol import Rows

__all__ = ["Rows", "as_rows", "fetch_if_small", "is_dask", "unweighted"]


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
    if is_dask(X) or getattr(type(X), "remote", False) is True:
        from bitmix.rows.cluster import ClusterRows

        return ClusterRows.of(X, binarize, missing=missing, mask=mask, sample_weight=sample_weight)
    rows = BitMatrix.from_dense(X, binarize=binarize, missing=missing)
    if mask is not None:
        rows = rows.masked(mask)
    return rows if sample_weight is None else rows.weighted(sample_weight)


def unweighted(rows: Rows) -> Rows:
    """The rows, after it is checked that they have no weights, which would be ignored."""
    if rows.layout.weight_one:
        raise InputError("X has weights, which only TemplateMixture.fit uses: give it without them")
    return rows


def fetch_if_small(rows: Rows, limit: int) -> Rows:
    """Load remote rows into memory if there are at most `limit`."""
    m = rows.shape[0]
    return rows.subset(np.arange(m)) if rows.remote and m <= limit else rows
