"""The small protocol every algorithm is written against."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import InputError
from bitmix.kernels.bits import Words


class Adds(Protocol):
    """A value that adds to others of its kind, in any order and grouping, to the same bits."""

    def __add__(self, other: Self, /) -> Self: ...


A = TypeVar("A", bound=Adds)


@dataclass(frozen=True)
class Layout:
    """What the words of a row hold: its bits, then perhaps which are known, then a weight."""

    missing: bool = False
    """As many words again, a bit for each cell that is known; unknown cells are 0."""
    weight_one: int = 0
    """One more word, the weight of the row, in units of which this many make 1; 0: no such word."""


PLAIN = Layout()


class Rows(Protocol):
    """m rows of n bits, in memory, on disk or on a cluster."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def layout(self) -> Layout: ...

    @property
    def remote(self) -> bool: ...

    def take(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> Words:
        """The packed rows with these global numbers."""

    def chosen(self, indices: NDArray[np.int64]) -> "Rows":
        """Only these rows, with all that belongs to them, in memory."""

    def fingerprint(self) -> str:
        """A text that other rows hardly share."""

    def map_reduce(self, function: Callable[[Words], A], *, block_cells: int, workers: int) -> A:
        """The sum of `function` over blocks of rows."""

    def map_rows(
        self, function: Callable[[Words], NDArray[Any]], *, block_cells: int
    ) -> NDArray[Any]:
        """What `function` gives for each block of rows, one after the other."""


def is_lazy(X: Any) -> bool:
    """Whether X is an array or table of Dask. Asks the type: a table has columns of any name."""
    return hasattr(type(X), "__dask_graph__")


def _is_remote(X: Any) -> bool:
    return getattr(type(X), "remote", False) is True


def brought(rows: Rows, most: int) -> Rows:
    """Rows that are elsewhere, if they are no more than so many, here in memory."""
    m = rows.shape[0]
    return rows.chosen(np.arange(m)) if rows.remote and m <= most else rows


def as_rows(X: Any, binarize: float | None = None) -> Rows:
    """The rows of whatever the user brought, by its type."""
    from bitmix.rows.packed import BitMatrix

    if _is_remote(X):
        return X  # type: ignore[no-any-return]
    if is_lazy(X):
        from bitmix.rows.cluster import ClusterRows

        return ClusterRows.of_array(X, binarize)
    return BitMatrix.from_dense(X, binarize=binarize)


def as_incomplete_rows(
    X: Any, binarize: float | None = None, *, mask: Any = None, sample_weight: Any = None
) -> Rows:
    """As `as_rows`, where cells may be missing (NaN, masked, `mask`) and rows may have weights."""
    from bitmix.rows.augmented import AugmentedRows, fixed_weights
    from bitmix.rows.packed import BitMatrix

    if is_lazy(X) or _is_remote(X):
        if mask is not None or sample_weight is not None:
            raise InputError(
                "mask and sample_weight need rows in memory, X is on a cluster: leave them out, or "
                "compute() X first"
            )
        return as_rows(X, binarize)
    if isinstance(X, BitMatrix):
        bits, known = BitMatrix.from_dense(X, binarize=binarize), None
    else:
        bits, known = BitMatrix.from_incomplete(X, binarize=binarize)
    if mask is not None:
        there = np.asarray(mask)
        if there.shape != bits.shape or there.dtype.kind not in "bui":
            raise InputError(
                f"mask must be True where a cell of X is missing, shape {bits.shape}, "
                f"got {there.dtype} of shape {there.shape}"
            )
        unmasked = BitMatrix.from_dense(there == 0)
        known = (
            unmasked if known is None else BitMatrix(known.words & unmasked.words, known.shape[1])
        )
        bits = BitMatrix(bits.words & known.words, bits.shape[1])
    if known is not None and known.density == 1:
        known = None
    if sample_weight is None:
        return bits if known is None else AugmentedRows(bits, known)
    weights, one = fixed_weights(sample_weight, len(bits))
    there = weights > 0  # a row of weight 0 is no row
    known = None if known is None else known[there]
    return AugmentedRows(bits[there], known, weights[there], one)
