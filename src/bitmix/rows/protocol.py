"""The small protocol every algorithm is written against."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from bitmix.kernels.bits import Words


class Adds(Protocol):
    """A value that adds to others of its kind, in any order and grouping, to the same bits."""

    def __add__(self, other: Self, /) -> Self: ...


A = TypeVar("A", bound=Adds)


class Rows(Protocol):
    """m rows of n bits, in memory, on disk or on a cluster."""

    @property
    def shape(self) -> tuple[int, int]: ...

    def take(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> Words:
        """The packed rows with these global numbers."""

    def map_reduce(self, function: Callable[[Words], A], *, block_cells: int, workers: int) -> A:
        """The sum of `function` over blocks of rows."""

    def map_rows(
        self, function: Callable[[Words], NDArray[Any]], *, block_cells: int
    ) -> NDArray[Any]:
        """What `function` gives for each block of rows, one after the other."""


def as_rows(X: Any, binarize: float | None = None) -> Rows:
    """The rows of whatever the user brought, by its type."""
    from bitmix.rows.packed import BitMatrix

    return BitMatrix.from_dense(X, binarize=binarize)
