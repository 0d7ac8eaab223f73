"""Templates as pictures: strokes if their geometry is known, otherwise a map of the bits.

A picture is drawn once, in its own units; the page refers to it to show it again at another size.
The ink is `currentColor`, so that each theme has its own.
"""

import base64
import io
import itertools
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import InputError
from bitmix.models.mixture import Floats
from bitmix.plots import Geometry, near_square
from bitmix.report.svg import Drawing, number
from bitmix.support import checks
from bitmix.support.extras import need

MAX_CELLS = 8_000
"""Cells of all pictures together that are drawn one by one, each with a tooltip."""
MAX_PIXELS = 1 << 17
"""Pixels of one picture; with more columns, neighbouring columns share a pixel."""
MAX_SHADED_PIXELS = 1 << 20
"""Pixels of all pictures together that are shaded; if there are more, they are black or white."""
MAX_STROKES = 60_000
"""Strokes of all pictures together; the darkest are drawn."""
_TONES = (0.15, 0.35, 0.55, 0.75, 0.9)
"""Shares of ones at which a stroke becomes darker."""


@dataclass(frozen=True)
class Picture:
    """A drawing without its frame."""

    width: float
    height: float
    body: Drawing


Sure = NDArray[np.bool_] | None
"""Which bits are certified; the others are grey. None: nothing is said about it."""


class Painter(Protocol):
    """Draws shares of ones, shape (n,)."""

    def __call__(self, shares: Floats, with_tips: bool, sure: Sure = None) -> Picture: ...


def painter(n: int, n_pictures: int, geometry: Any) -> Painter:
    """A function that draws rows of n bits. The limits hold for this number of pictures."""
    if geometry is None:
        shape = near_square(min(n, MAX_PIXELS))
    elif isinstance(geometry, tuple | list):
        shape = _image_shape(geometry, n)
    else:
        return _stroke_painter(n, n_pictures, geometry)
    if n * n_pictures <= MAX_CELLS:
        return lambda shares, with_tips, sure=None: _cells(shares, shape, with_tips, sure)
    bits = 4 if min(n, MAX_PIXELS) * n_pictures <= MAX_SHADED_PIXELS else 1
    numbers = itertools.count()

    def paint(shares: Floats, with_tips: bool, sure: Sure = None) -> Picture:
        if sure is None:
            return _pixels(shares, shape, bits, f"mask-{next(numbers)}", "currentColor")
        black = _pixels(np.where(sure, shares, 0.0), shape, bits, f"mask-{next(numbers)}")
        grey = _pixels(np.where(sure, 0.0, 0.5), shape, 4, f"mask-{next(numbers)}", "var(--unsure)")
        return Picture(black.width, black.height, Drawing(black.body + grey.body))

    return paint


def _image_shape(geometry: Any, n: int) -> tuple[int, int]:
    if len(geometry) != 2:
        raise InputError(f"geometry must be (rows, columns), got {geometry!r}")
    rows, columns = (checks.whole(side, "geometry", least=1) for side in geometry)
    if rows * columns != n:
        raise InputError(f"geometry {rows} × {columns} must hold the {n} columns of X")
    return rows, columns


def _cells(shares: Floats, shape: tuple[int, int], with_tips: bool, sure: Sure = None) -> Picture:
    parts = []
    for s, share in enumerate(shares.tolist()):
        y, x = divmod(s, shape[1])
        cell = f'x="{x}" y="{y}" width="1" height="1"'
        unsure = sure is not None and not sure[s]
        cell += ' fill="var(--unsure)"' if unsure else f' fill-opacity="{number(share)}"'
        if with_tips:
            tip = f"column {s}: 1 in {share:.0%} of its rows{', not certified' if unsure else ''}"
            parts.append(f'<rect class="mark" {cell}><title>{tip}</title></rect>')
        elif share >= 0.005 or unsure:
            parts.append(f"<rect {cell}/>")
    body = f'<g fill="currentColor" shape-rendering="crispEdges">{"".join(parts)}</g>'
    return Picture(shape[1], shape[0], Drawing(body))


def _pixels(
    shares: Floats, shape: tuple[int, int], bits: int, key: str, ink_name: str = "currentColor"
) -> Picture:
    """An image that masks a rectangle of ink."""
    rows, columns = shape
    per_pixel = -(-len(shares) // (rows * columns))
    padded = np.zeros(rows * columns * per_pixel)
    padded[: len(shares)] = shares
    means = padded.reshape(rows, columns, per_pixel).mean(axis=2)
    ink = means > 0.5 if bits == 1 else np.rint(means * ((1 << bits) - 1))
    image = base64.b64encode(png(ink.astype(np.uint8), bits)).decode()
    rendering = "pixelated" if max(shape) <= 120 else "auto"
    body = (
        f'<mask id="{key}"><image width="{columns}" height="{rows}" image-rendering="{rendering}"'
        f' href="data:image/png;base64,{image}"/></mask>'
        f'<rect width="{columns}" height="{rows}" fill="{ink_name}" mask="url(#{key})"/>'
    )
    return Picture(columns, rows, Drawing(body))


def png(levels: NDArray[np.uint8], bits: int) -> bytes:
    """A grey PNG image with 1 or 4 bits per pixel; level 0 is black."""
    need("PIL")
    from PIL import Image

    height, width = levels.shape
    image = Image.frombytes("P", (width, height), levels.tobytes())
    greys = np.linspace(0, 255, 1 << bits).astype(np.uint8)
    image.putpalette(np.repeat(greys, 3).tobytes())
    file = io.BytesIO()
    image.save(file, "PNG", bits=bits, optimize=True)
    return file.getvalue()


def _stroke_painter(n: int, n_pictures: int, geometry: Geometry) -> Painter:
    if geometry.n_features != n:
        raise InputError(
            f"geometry must have the {n} columns of X, got {geometry.n_features}: "
            "give the geometry of the sketches that the model was fitted to"
        )
    segments = np.asarray(geometry.segments(np.ones(n)))
    xs, ys = segments[:, 0::2], segments[:, 1::2]
    corner = np.array([xs.min(), ys.min()])
    scale = 300 / max(float(np.ptp(xs)), float(np.ptp(ys)), 1e-9)
    ends = np.rint((segments.reshape(-1, 2, 2) - corner) * scale).astype(np.int64) + 6
    width, height = (int(ends[:, :, axis].max()) + 6 for axis in (0, 1))
    n_strokes = max(200, MAX_STROKES // max(1, n_pictures))

    def paint(shares: Floats, with_tips: bool, sure: Sure = None) -> Picture:
        visible = geometry.intensities(shares).clip(0, 1)
        unsure = np.zeros(len(visible), dtype=bool)
        if sure is not None:  # a stroke is certain if the bits it stands for are
            unsure = geometry.intensities((~sure).astype(np.float64)) > 0
        darkest = np.argsort(-visible, kind="stable")[:n_strokes]
        tones = np.searchsorted(_TONES, visible[darkest], side="right")
        grey = unsure[darkest]
        parts = [_path(ends[darkest[grey & (tones > 0)]], 'stroke="var(--unsure)"')]
        for tone in range(1, len(_TONES) + 1):  # dark strokes on top
            opacity = number(0.1 + 0.9 * tone / len(_TONES))
            strokes = ends[darkest[(tones == tone) & ~grey]]
            parts.append(_path(strokes, f'stroke-opacity="{opacity}"'))
        body = f'<g class="strokes" stroke="currentColor">{"".join(parts)}</g>'
        return Picture(width, height, Drawing(body))

    return paint


def _path(ends: NDArray[np.int64], style: str) -> str:
    """Strokes of one look as one path; nothing if there are none."""
    (x0, y0), (x1, y1) = ends.transpose(1, 2, 0)
    moves = np.stack([x0, y0, x1 - x0, y1 - y0], axis=1).tolist()
    path = "".join(f"M{x} {y}l{dx} {dy}" for x, y, dx, dy in moves)
    return f'<path d="{path}" {style}/>' if path else ""
