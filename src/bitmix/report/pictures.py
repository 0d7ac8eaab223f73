"""Templates as pictures: strokes where the geometry is known, otherwise a map of the bits.

A picture is drawn once, in units of its own; the page shows it again at other sizes by reference.
Ink is `currentColor`, so that both themes have their own.
"""

import base64
import itertools
import math
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitmix import checks
from bitmix.errors import InputError
from bitmix.mixture import Floats
from bitmix.plots import Geometry
from bitmix.report.svg import Drawing, number

MOST_CELLS = 8_000
"""Cells of all pictures together that are drawn one by one, each with its own words."""
MOST_PIXELS = 1 << 17
"""Of one picture; of more columns, neighbours share a pixel."""
MOST_SHADED = 1 << 20
"""Pixels of all pictures together up to which shades are kept; beyond, ink or no ink."""
MOST_STROKES = 60_000
"""Of all pictures together, the darkest first."""
_LEVELS = (0.15, 0.35, 0.55, 0.75, 0.9)


@dataclass(frozen=True)
class Picture:
    """A drawing without its frame."""

    width: float
    height: float
    body: Drawing


Painter = Callable[[Floats, bool], Picture]
"""Shares of ones (n,), and whether each cell shall say its own: the picture."""


def painter(n: int, pictures: int, geometry: Any) -> Painter:
    """How rows of n bits are drawn, for about so many pictures."""
    if isinstance(geometry, tuple | list):
        rows, columns = (checks.whole(side, "geometry", least=1) for side in _pair(geometry))
        if rows * columns != n:
            raise InputError(f"geometry {rows} × {columns} must hold the {n} columns of X")
        shape = rows, columns
    elif geometry is not None:
        return _strokes(n, pictures, geometry)
    else:
        shape = near_square(min(n, MOST_PIXELS))
    if n * pictures <= MOST_CELLS:
        return lambda shares, told: _cells(shares, shape, told)
    bits = 4 if min(n, MOST_PIXELS) * pictures <= MOST_SHADED else 1
    numbers = itertools.count()
    return lambda shares, told: _pixels(shares, shape, bits, f"mask-{next(numbers)}")


def near_square(n: int) -> tuple[int, int]:
    """Rows and columns that hold n cells: without a rest where no side need be twice the other."""
    side = math.isqrt(n)
    rows = next((rows for rows in range(side, 0, -1) if n % rows == 0), 1)
    if n <= 2 * rows * rows:
        return rows, n // rows
    columns = math.isqrt(n - 1) + 1
    return -(-n // columns), columns


def _pair(geometry: Any) -> Any:
    if len(geometry) != 2:
        raise InputError(f"geometry must be (rows, columns), got {geometry!r}")
    return geometry


def _cells(shares: Floats, shape: tuple[int, int], told: bool) -> Picture:
    parts = []
    for s, share in enumerate(shares.tolist()):
        y, x = divmod(s, shape[1])
        at = f'x="{x}" y="{y}" width="1" height="1" fill-opacity="{number(share)}"'
        if told:
            tip = f"column {s}: 1 in {share:.0%} of its rows"
            parts.append(f'<rect class="mark" {at}><title>{tip}</title></rect>')
        elif share >= 0.005:
            parts.append(f"<rect {at}/>")
    body = f'<g fill="currentColor" shape-rendering="crispEdges">{"".join(parts)}</g>'
    return Picture(shape[1], shape[0], Drawing(body))


def _pixels(shares: Floats, shape: tuple[int, int], bits: int, key: str) -> Picture:
    """The bits as the mask of a rectangle of ink."""
    rows, columns = shape
    each = -(-len(shares) // (rows * columns))  # neighbours in one pixel
    filled = np.zeros(rows * columns * each)
    filled[: len(shares)] = shares
    levels = (1 << bits) - 1
    pooled = filled.reshape(-1, each).mean(axis=1)
    ink = np.where(pooled > 0.5, 1, 0) if bits == 1 else np.rint(pooled * levels)
    address = base64.b64encode(png(ink.reshape(rows, columns).astype(np.uint8), bits)).decode()
    grain = "pixelated" if max(shape) <= 120 else "auto"
    body = (
        f'<mask id="{key}"><image width="{columns}" height="{rows}" image-rendering="{grain}"'
        f' href="data:image/png;base64,{address}"/></mask>'
        f'<rect width="{columns}" height="{rows}" fill="currentColor" mask="url(#{key})"/>'
    )
    return Picture(columns, rows, Drawing(body))


def png(levels: NDArray[np.uint8], bits: int) -> bytes:
    """A grey PNG of 1 or 4 bits a pixel, 0 black."""
    height, width = levels.shape
    if bits == 4:
        even = np.pad(levels, ((0, 0), (0, width % 2)))
        lines = (even[:, 0::2] << 4 | even[:, 1::2]).astype(np.uint8)
    else:
        lines = np.packbits(levels, axis=1)
    scan = np.pad(lines, ((0, 0), (1, 0))).tobytes()  # filter 0 before every line

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", width, height, bits, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(scan, 9))
        + chunk(b"IEND", b"")
    )


def _strokes(n: int, pictures: int, geometry: Geometry) -> Painter:
    if geometry.n_features != n:
        raise InputError(
            f"geometry must have the {n} columns of X, got {geometry.n_features}: "
            "give the geometry of the sketches the model was fitted to"
        )
    segments = np.asarray(geometry.segments(np.ones(n)))
    xs, ys = segments[:, 0::2], segments[:, 1::2]
    corner = np.array([xs.min(), ys.min()])
    scale = 300 / max(float(np.ptp(xs)), float(np.ptp(ys)), 1e-9)
    places = np.rint((segments.reshape(-1, 2, 2) - corner) * scale).astype(np.int64) + 6
    width, height = (int(places[:, :, axis].max()) + 6 for axis in (0, 1))
    most = max(200, MOST_STROKES // max(1, pictures))

    def paint(shares: Floats, told: bool) -> Picture:
        seen = geometry.shares(shares).clip(0, 1)
        chosen = np.argsort(-seen, kind="stable")[:most]
        level = np.searchsorted(_LEVELS, seen[chosen], side="right")
        parts = []
        for tone in range(1, len(_LEVELS) + 1):  # dark strokes on top
            (x0, y0), (x1, y1) = places[chosen[level == tone]].transpose(1, 2, 0)
            moves = np.stack([x0, y0, x1 - x0, y1 - y0], axis=1).tolist()
            path = "".join(f"M{x} {y}l{dx} {dy}" for x, y, dx, dy in moves)
            if path:
                parts.append(
                    f'<path d="{path}" stroke-opacity="{number(0.1 + 0.9 * tone / len(_LEVELS))}"/>'
                )
        body = f'<g class="strokes" stroke="currentColor">{"".join(parts)}</g>'
        return Picture(width, height, Drawing(body))

    return paint
