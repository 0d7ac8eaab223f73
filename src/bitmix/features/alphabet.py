"""The alphabet of 18 sketch patterns of Figure 1: strokes between corners and side mid-points."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitmix.errors import InputError
from bitmix.support import checks

Stroke = tuple[float, float, float, float]
"""x0, y0, x1, y1 in cells, y downwards."""

_CORNERS = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0))
_MIDDLES = ((0.5, 0.0), (1.0, 0.5), (0.5, 1.0), (0.0, 0.5))


def _patterns() -> tuple[Stroke, ...]:
    """2 diagonals, 6 between mid-points, 8 from a corner to a far mid-point, 2 sides."""
    diagonals = [(*_CORNERS[0], *_CORNERS[3]), (*_CORNERS[1], *_CORNERS[2])]
    middles = [(*a, *b) for a, b in itertools.combinations(_MIDDLES, 2)]
    far = [
        (*corner, *middle)
        for corner in _CORNERS
        for middle in _MIDDLES
        if corner[0] != middle[0] and corner[1] != middle[1]
    ]
    sides = [(*_CORNERS[0], *_CORNERS[1]), (*_CORNERS[0], *_CORNERS[2])]  # top and left
    return tuple(diagonals + middles + far + sides)


PATTERNS = _patterns()


@dataclass(frozen=True)
class Alphabet:
    """Strokes on a grid of cells as bits: one bit per cell and pattern.

    The right and bottom sides of a cell are the left and top sides of its neighbours.
    """

    rows: int = 9
    columns: int = 9

    @property
    def n_features(self) -> int:
        return self.rows * self.columns * len(PATTERNS)

    def encode(self, strokes: Iterable[Stroke]) -> NDArray[np.uint8]:
        """Bits of strokes (x0, y0, x1, y1), each a pattern or a straight run of patterns."""
        bits = np.zeros((self.rows, self.columns, len(PATTERNS)), dtype=np.uint8)
        for stroke in strokes:
            if not np.all(np.isfinite(stroke)):
                raise InputError(f"a stroke is four finite numbers x0, y0, x1, y1, got {stroke!r}")
            for piece in _pieces(stroke):
                bits[self._place(piece)] = 1
        return bits.ravel()

    def decode(self, bits: ArrayLike) -> list[Stroke]:
        """The strokes of the bits that are 1, one pattern each."""
        return [tuple(segment) for segment in self.segments(bits).tolist()]

    def segments(self, bits: ArrayLike) -> NDArray[np.float64]:
        """The strokes of the bits that are 1, as an array of (x0, y0, x1, y1) in cells."""
        where = np.flatnonzero(checks.row_of(bits, self.n_features))
        row, column, pattern = np.unravel_index(where, (self.rows, self.columns, len(PATTERNS)))
        corner = np.stack([column, row, column, row], axis=1)
        return np.array(PATTERNS)[pattern] + corner

    def intensities(self, values: ArrayLike) -> NDArray[np.float64]:
        """How dark to draw each stroke: the bits or means as they are."""
        return checks.row_of(values, self.n_features)

    def draw(self, bits: ArrayLike, resolution: int = 8) -> NDArray[np.uint8]:
        """The strokes as an image of 0 and 1, with `resolution` pixels per cell."""
        height, width = self.rows * resolution + 1, self.columns * resolution + 1
        image = np.zeros((height, width), dtype=np.uint8)
        for x0, y0, x1, y1 in self.segments(bits) * resolution:
            steps = 2 * resolution + 1
            x, y = np.linspace(x0, x1, steps), np.linspace(y0, y1, steps)
            image[np.rint(y).astype(int), np.rint(x).astype(int)] = 1
        return image

    def _place(self, piece: Stroke) -> tuple[int, int, int]:
        """Row, column and pattern of a stroke within one cell."""
        x0, y0, x1, y1 = piece
        for column, row in itertools.product(
            {int(min(x0, x1)), int(max(x0, x1)) - (x0 != x1)},
            {int(min(y0, y1)), int(max(y0, y1)) - (y0 != y1)},
        ):
            inside = (x0 - column, y0 - row, x1 - column, y1 - row)
            for ends in (inside, inside[2:] + inside[:2]):
                if ends in PATTERNS and 0 <= row < self.rows and 0 <= column < self.columns:
                    return row, column, PATTERNS.index(ends)
        raise InputError(
            f"({x0:g}, {y0:g}) to ({x1:g}, {y1:g}) is no pattern of a {self.rows}×{self.columns} "
            "grid: join corners and side mid-points of a cell; the right and bottom edges of the "
            "grid belong to no cell"
        )


def _pieces(stroke: Stroke) -> list[Stroke]:
    """A straight run, cut into unit steps along its longer direction; a short stroke as it is."""
    x0, y0, x1, y1 = stroke
    count = max(1, round(max(abs(x1 - x0), abs(y1 - y0))))
    x, y = np.linspace(x0, x1, count + 1).tolist(), np.linspace(y0, y1, count + 1).tolist()
    return list(zip(x[:-1], y[:-1], x[1:], y[1:], strict=True))
