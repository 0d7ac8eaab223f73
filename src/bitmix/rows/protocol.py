"""The protocol of rows, which every algorithm is written against."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from bitmix.kernels.bits import Words, words_for
from bitmix.kernels.events import Events
from bitmix.kernels.fixed import Ints


class Adds(Protocol):
    """A value whose sums have the same bits in any order and grouping."""

    def __add__(self, other: Self, /) -> Self: ...


A = TypeVar("A", bound=Adds)


@dataclass(frozen=True)
class Layout:
    """What the words of a row hold: its bits, then perhaps its known bits, then perhaps its weight.

    The words of `map_reduce` and `map_rows` are laid out this way. Scores are computed from the
    bits and the known bits together, which are the *scored* words.
    """

    missing: bool = False
    """Cells may be missing: as many words again have a 1 for each known cell. The bits of missing
    cells are 0.
    """
    weight_one: int = 0
    """The value of the last word for a row of weight 1. With 0, there is no such word, and every
    row has weight 1.
    """

    def scored(self, words: Words) -> Words:
        """The bits and known bits of each row, without its weight."""
        return np.ascontiguousarray(words[:, :-1]) if self.weight_one else words

    def weights(self, words: Words) -> Ints:
        """The weight of each row as a whole number; `weight_one`, or 1 without weights, means 1."""
        if self.weight_one:
            return words[:, -1].astype(np.int64)
        return np.ones(len(words), dtype=np.int64)

    def bits(self, words: Words) -> Words:
        """The bits of each row. Missing cells are 0."""
        scored = self.scored(words)
        return scored[:, : scored.shape[1] // 2] if self.missing else scored

    def known(self, words: Words) -> Words | None:
        """The known cells of each row, one bit per cell, or None if no cell can be missing."""
        scored = self.scored(words)
        return scored[:, scored.shape[1] // 2 :] if self.missing else None

    def columns(
        self, per_bit: NDArray[Any], n_columns: int
    ) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Split a table with one column per bit of the scored words: for bits and for known bits.

        Padding columns are left out. The second table is None if no cell can be missing.
        """
        start = 64 * words_for(n_columns)
        known = per_bit[..., start : start + n_columns] if self.missing else None
        return per_bit[..., :n_columns], known


PLAIN = Layout()


class Rows(Protocol):
    """m rows of n bits, in memory, on disk or on a cluster."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def layout(self) -> Layout: ...

    @property
    def remote(self) -> bool:
        """Whether the rows are on a cluster, so that few of them are better fetched."""

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weight of each row."""

    @property
    def total_weight(self) -> float:
        """The sum of the weights: the number of rows if they have none."""

    def take(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> Words:
        """The packed bits of the rows with these numbers."""

    def repeated(self) -> "Rows":
        """Each row as often as its weight says, where that is possible."""

    def draw(self, l: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """The numbers of l random rows, drawn as often as their weights say."""

    def subset(self, indices: NDArray[np.int64]) -> "Rows":
        """The rows with these numbers, in memory, with their known cells and weights."""

    def map_reduce(self, function: Callable[[Words], A], *, block_cells: int, workers: int) -> A:
        """The sum of `function` over blocks of rows."""

    @property
    def base(self) -> NDArray[np.bool_]:
        """Which columns are mostly 1, as far as the first rows show."""

    def listed(self) -> Events | None:
        """The events of all rows, if they are kept."""

    def map_events(
        self, function: Callable[[Events, Ints | None], A], *, block_cells: int, workers: int
    ) -> A:
        """The sum of `function` over blocks of rows, given their events and their weights."""

    def map_rows(
        self, function: Callable[[Words], NDArray[Any]], *, block_cells: int
    ) -> NDArray[Any]:
        """The results of `function` for each block of rows, concatenated."""
