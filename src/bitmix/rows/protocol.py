"""The protocol of rows, which every algorithm is written against."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from bitmix.kernels.bits import Words, words_for
from bitmix.kernels.events import Events
from bitmix.kernels.fixed import Ints


@dataclass(frozen=True)
class Layout:
    """What the words of a row hold: its bits, then perhaps its known bits, then perhaps its weight.

    Only this class and `Block` take the words of a row apart.
    """

    missing: bool = False
    """Cells may be missing: as many words again have a 1 for each known cell. The bits of missing
    cells are 0.
    """
    weight_one: int = 0
    """The value of the last word for a row of weight 1. With 0, there is no such word, and every
    row has weight 1.
    """

    def width(self, n_columns: int) -> int:
        """The number of words per row."""
        return words_for(n_columns) * (2 if self.missing else 1) + (self.weight_one > 0)

    def bits(self, words: Words, n_columns: int) -> Words:
        """The bits of each row. Missing cells are 0."""
        return words[:, : words_for(n_columns)]

    def known(self, words: Words, n_columns: int) -> Words | None:
        """The known cells of each row, one bit per cell, or None if no cell can be missing."""
        width = words_for(n_columns)
        return words[:, width : 2 * width] if self.missing else None

    def weights(self, words: Words) -> Ints | None:
        """The weight of each row in units of 1 / `weight_one`; None if every row has weight 1."""
        return words[:, -1].astype(np.int64) if self.weight_one else None


PLAIN = Layout()


class Blocks(Protocol):
    """Rows of which blocks are made."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def layout(self) -> Layout: ...

    @property
    def base(self) -> NDArray[np.bool_]:
        """The row that events are counted from."""

    @property
    def listed(self) -> Events | None:
        """The events of all rows, if they are at hand."""

    def read_words(self, start: int, stop: int, *, reuse: bool = False) -> Words:
        """The rows start … stop as they are laid out; with `reuse`, in memory that is used again
        for the next ones."""


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive rows, as a pass sees them. Words are read, and events listed, when asked for."""

    rows: Blocks
    start: int
    stop: int
    """The number of the first row, and of the one after the last. On a cluster, rows are counted
    within a partition."""

    @property
    def n_columns(self) -> int:
        return self.rows.shape[1]

    @cached_property
    def words(self) -> Words:
        """The rows as they are laid out."""
        return self.rows.read_words(self.start, self.stop, reuse=True)

    @property
    def bits(self) -> Words:
        """The packed bits; those of missing cells are 0."""
        return np.ascontiguousarray(self.words[:, : words_for(self.rows.shape[1])])

    @property
    def known(self) -> Words | None:
        """1 for each cell that is not missing, packed; None if no cell can be missing."""
        return self.rows.layout.known(self.words, self.rows.shape[1])

    @property
    def weights(self) -> Ints | None:
        """The weight of each row in units of 1 / `weight_one`; None if every row has weight 1."""
        layout = self.rows.layout
        return layout.weights(self.words) if layout.weight_one else None

    @property
    def events(self) -> Events:
        """The rows as lists of events."""
        if (listed := self.rows.listed) is not None:
            return listed.rows(self.start, self.stop)
        return Events.of_words(self.bits, self.known, self.rows.shape[1], self.rows.base)


class Adds(Protocol):
    """A value whose sums have the same bits in any order and grouping."""

    def __add__(self, other: Self, /) -> Self: ...


class Accumulator(Adds, Protocol):
    """A sum to which blocks of rows are added."""

    def add(self, block: Block, /) -> None: ...


A = TypeVar("A", bound=Adds)
T = TypeVar("T", bound=Accumulator)


class Rows(Protocol):
    """m rows of n bits, in memory, on disk or on a cluster."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def layout(self) -> Layout: ...

    @property
    def feature_names(self) -> tuple[str, ...] | None: ...

    @property
    def remote(self) -> bool:
        """Whether the rows are on a cluster, so that few of them are better fetched."""

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weight of each row."""

    @property
    def total_weight(self) -> float:
        """The sum of the weights: the number of rows if they have none."""

    @property
    def base(self) -> NDArray[np.bool_]:
        """The row that the events of all blocks are counted from."""

    @property
    def very_sparse(self) -> bool:
        """Whether a row has fewer events than words, and its events are at hand."""

    def take(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> Words:
        """The packed bits of the rows with these numbers.

        A missing cell has the value of most rows in its column.
        """

    def draw(self, l: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """The numbers of l random rows, drawn as often as their weights say."""

    def repeated(self) -> "Rows":
        """Each row as often as its weight says, if that is possible."""

    def distinct(self) -> "Rows":
        """The distinct rows, each with its weight, if there are much fewer of them."""

    def subset(self, indices: NDArray[np.int64]) -> Any:
        """The rows with these numbers as a BitMatrix, with their known cells and weights."""

    def fold(
        self, start: Callable[[], T], *, block_cells: int, workers: int, in_chunks: bool = False
    ) -> T:
        """The sum of accumulators, made by `start`, to which all blocks of rows were added."""

    def map_reduce(self, function: Callable[[Block], A], *, block_cells: int, workers: int) -> A:
        """The sum of `function` over blocks of rows."""

    def map_rows(
        self, function: Callable[[Block], NDArray[Any]], *, block_cells: int
    ) -> NDArray[Any]:
        """The results of `function` for each block of rows, concatenated."""
