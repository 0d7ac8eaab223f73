"""Items with several values: groups of columns, one per value, of which each row has one 1."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import InputError
from bitmix.kernels import fixed
from bitmix.kernels.bits import Words, pack
from bitmix.kernels.fixed import Ints

MAX_VALUES = 20
"""An item with more values is a name, a count or a number, not an answer."""


@dataclass(frozen=True, eq=False)
class Items:
    """Which columns are the values of one item. Other columns are binary items of their own."""

    of_column: Ints
    """The number of the item that each column is a value of, 0, 1, …, or -1; shape (n,)."""

    @classmethod
    def of_groups(cls, groups: Sequence[Sequence[int]], n_columns: int) -> "Items | None":
        """Items from groups of column numbers; None if there are no groups."""
        of_column = np.full(n_columns, -1)
        for number, group in enumerate(groups):
            columns = np.asarray(group)
            if columns.ndim != 1 or columns.dtype.kind not in "iu" or len(columns) < 2:
                raise InputError(
                    f"items must be groups of at least two column numbers each, got {group!r}"
                )
            if len(columns) > MAX_VALUES:
                raise InputError(
                    f"items must have at most {MAX_VALUES} values, got {len(columns)}: put rare "
                    "values together, or leave the item out"
                )
            if columns.min() < 0 or columns.max() >= n_columns:
                raise InputError(f"items must name columns 0 … {n_columns - 1}, got {group!r}")
            if len(set(columns.tolist())) < len(columns) or np.any(of_column[columns] >= 0):
                raise InputError(f"items must name each column at most once, got {group!r} again")
            of_column[columns] = number
        return cls(of_column) if len(groups) else None

    @classmethod
    def from_array(cls, of_column: NDArray[Any], n_columns: int) -> "Items":
        """Items as a file may hold them, checked."""
        if of_column.shape != (n_columns,) or of_column.dtype.kind not in "iu":
            raise InputError(f"items must be one whole number per column, {n_columns} in all")
        numbers, counts = np.unique(of_column[of_column >= 0], return_counts=True)
        if not np.array_equal(numbers, np.arange(len(numbers))) or np.any(counts < 2):
            raise InputError("items must be numbered 0, 1, …, and have at least two columns each")
        return cls(of_column.astype(np.int64))

    @property
    def groups(self) -> list[list[int]]:
        """The columns of each item."""
        return [np.flatnonzero(self.of_column == i).tolist() for i in range(self.n_items)]

    @property
    def n_items(self) -> int:
        return int(self.of_column.max(initial=-1)) + 1

    @cached_property
    def is_value(self) -> NDArray[np.bool_]:
        """Which columns are values of an item."""
        return self.of_column >= 0

    @cached_property
    def n_values(self) -> Ints:
        """The number of values of each column's item: 2 for binary columns."""
        counts = np.bincount(self.of_column[self.is_value], minlength=self.n_items)
        return np.where(self.is_value, counts[self.of_column], 2)

    @cached_property
    def log_others(self) -> NDArray[np.float64]:
        """ln(R - 1) of each column, R the number of values; the same on every machine."""
        logs = {int(r): fixed.wide_log(int(r) - 1, 1) / 2.0**128 for r in np.unique(self.n_values)}
        return np.array([logs[r] for r in self.n_values.tolist()])

    @cached_property
    def _order(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The columns of all items, one item after the other, and where each item starts."""
        columns = np.flatnonzero(self.is_value)
        columns = columns[np.argsort(self.of_column[columns], kind="stable")]
        starts = np.searchsorted(self.of_column[columns], np.arange(self.n_items))
        return columns, starts

    def one_per_item(self, values: NDArray[Any], bits: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The bits, with one 1 per item: where the value is largest, the first of equals."""
        chosen, (columns, starts) = bits.copy(), self._order
        chosen[:, columns] = False
        largest = np.maximum.reduceat(values[:, columns], starts, axis=1)
        is_largest = values[:, columns] == largest[:, self.of_column[columns]]
        before = np.cumsum(is_largest, axis=1)  # of all columns; less those of earlier items
        earlier = np.where(starts > 0, before[:, starts - 1], 0)
        first = is_largest & (before - earlier[:, self.of_column[columns]] == 1)
        chosen[:, columns] = first
        return chosen

    def pooled(self, values: Any) -> Any:
        """The values, with the sum over an item's columns in each of them; shape (k, n)."""
        (columns, starts), out = self._order, values.copy()
        out[:, columns] = np.add.reduceat(values[:, columns], starts, axis=1)[
            :, self.of_column[columns]
        ]
        return out

    @cached_property
    def masks(self) -> Words:
        """A 1 for each column of an item, packed, shape (items, words)."""
        return pack(self.of_column == np.arange(self.n_items)[:, None])
