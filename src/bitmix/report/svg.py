"""Small charts as SVG text: bars, histograms, curves. Their colours come from the page's CSS.

A chart is about 420 units wide, so that its text stays legible when a phone shrinks it. Each mark
has a `title`; `page.js` shows it beside the pointer and, with the arrow keys, to the keyboard.
"""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 420, 190
_LEFT, _TOP = 44, 14
_PLOT_WIDTH, _PLOT_HEIGHT = WIDTH - _LEFT - 20, HEIGHT - _TOP - 40
_FLOOR = _TOP + _PLOT_HEIGHT

_DASHES = ("none", "6 3", "2 3", "9 3 2 3", "1 4", "12 4")
MAX_LINES = len(_DASHES)
"""Lines of a profile that can be told apart."""


class Drawing(str):
    """Markup that needs no escaping: every text in it was escaped when it was made."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Tick:
    """A position on an axis, from 0 to 1, and its label."""

    place: float
    text: str


def chart(body: str, description: str) -> Drawing:
    """A chart with a description for those who cannot see it."""
    return Drawing(
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        f' aria-label="{html.escape(description)}" tabindex="0">{body}</svg>'
    )


def bar(share: float, tip: str) -> Drawing:
    """A thin bar from 0 to 1, for a cell of a table."""
    share = min(max(share, 0.0), 1.0)
    return Drawing(
        f'<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img"'
        f' aria-label="{html.escape(tip)}"><rect class="rail" width="100" height="10"/>'
        f'<rect class="ink" width="{number(100 * share)}" height="10"/></svg>'
    )


def histogram(
    counts: Sequence[int], tips: Sequence[str], ticks: Sequence[Tick], description: str,
    *, across: str, up: str, marker: Tick,
) -> Drawing:  # fmt: skip
    """Bars side by side, and a marked position on the axis across."""
    highest, step = max(1, *counts), _PLOT_WIDTH / len(counts)
    parts = [_frame(ticks, across, up), _grid(highest)]
    for i, (count, tip) in enumerate(zip(counts, tips, strict=True)):
        x, height = _LEFT + i * step, max(_PLOT_HEIGHT * count / highest, 1.5 if count else 0)
        parts.append(
            f'<g class="mark"><title>{html.escape(tip)}</title>'
            f'<rect class="hit" x="{number(x)}" y="{_TOP}" width="{number(step)}"'
            f' height="{_PLOT_HEIGHT}"/>'
            f'<rect class="ink" x="{number(x)}" y="{number(_FLOOR - height)}"'
            f' width="{number(max(step - 1, 1))}" height="{number(height)}"/></g>'
        )
    x = _LEFT + _PLOT_WIDTH * min(max(marker.place, 0.0), 1.0)
    anchor, shift = ("end", -4) if marker.place > 0.5 else ("start", 4)
    parts.append(
        f'<path class="marker" d="M{number(x)} {_TOP - 6}V{_FLOOR}"/>'
        f'<text class="marked" x="{number(x + shift)}" y="{_TOP - 2}" text-anchor="{anchor}">'
        f"{html.escape(marker.text)}</text>"
    )
    return chart("".join(parts), description)


def curve(
    xs: Sequence[int], ys: Sequence[float], tips: Sequence[str], chosen: int, description: str,
    *, across: str, up: str,
) -> Drawing:  # fmt: skip
    """Points joined by a line; the chosen one has a ring."""
    low, high = min(ys), max(ys)
    places = [0.02 + 0.96 * (x - min(xs)) / (max(xs) - min(xs) or 1) for x in xs]
    heights = [0.06 + 0.88 * (y - low) / (high - low or 1.0) for y in ys]
    points = [
        (_LEFT + _PLOT_WIDTH * place, _FLOOR - _PLOT_HEIGHT * height)
        for place, height in zip(places, heights, strict=True)
    ]
    ticks = [Tick(place, str(x)) for place, x in zip(places, xs, strict=True)]
    parts = [_frame(ticks[:: math.ceil(len(xs) / 12)], across, up)]
    for height, value in ((0.06, low), (0.94, high)):
        parts.append(_tick_up(height, short(value)))
    parts.append(f'<path class="line" d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in points)}"/>')
    for k, (x, y), tip in zip(xs, points, tips, strict=True):
        ring = f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="8"/>' if k == chosen else ""
        parts.append(
            f'<g class="mark"><title>{html.escape(tip)}</title>{ring}'
            f'<circle class="ink" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/></g>'
        )
    return chart("".join(parts), description)


def profile(
    lines: Sequence[Sequence[float]], tips: Sequence[Sequence[str]], ticks: Sequence[Tick],
    names: Sequence[str], description: str, *, across: str, up: str,
) -> Drawing:  # fmt: skip
    """A line from 0 to 1 for each of several groups over the same places, named at its end."""
    parts = [_frame(ticks, across, up)]
    for height in (0.0, 0.5, 1.0):
        parts.append(_grid_line(height) + _tick_up(height, number(height)))
    for i, values in enumerate(lines):
        xs = [_LEFT + _PLOT_WIDTH * (j + 0.5) / len(values) for j in range(len(values))]
        points = [(x, _FLOOR - _PLOT_HEIGHT * y) for x, y in zip(xs, values, strict=True)]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        parts.append(f'<path class="line" stroke-dasharray="{_DASHES[i]}" d="M{path}"/>')
        for (x, y), tip in zip(points, tips[i], strict=True):
            parts.append(
                f'<g class="mark"><title>{html.escape(tip)}</title>'
                f'<circle class="ink" cx="{x:.1f}" cy="{y:.1f}" r="3"/></g>'
            )
        x, y = points[-1]
        parts.append(
            f'<text class="tick" x="{x + 6:.1f}" y="{y:.1f}" dy="4">{html.escape(names[i])}</text>'
        )
    return chart("".join(parts), description)


def number(value: float) -> str:
    """A coordinate with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"


def short(value: float) -> str:
    """A number with three or four digits, and k, M or G for thousands, millions and billions."""
    if abs(value) < 1000:
        return f"{value:.4g}" if value != int(value) else f"{value:.0f}"
    size, letter = next(
        (pair for pair in ((1e3, "k"), (1e6, "M")) if abs(value) < 999.5 * pair[0]), (1e9, "G")
    )
    scaled = value / size
    return f"{scaled:.{3 - len(str(int(abs(scaled))))}f}{letter}"


def _frame(ticks: Sequence[Tick], across: str, up: str) -> str:
    """The axis across with its ticks, and the labels of both axes."""
    parts = [f'<path class="axis" d="M{_LEFT} {_FLOOR}h{_PLOT_WIDTH}"/>']
    for tick in ticks:
        x = number(_LEFT + _PLOT_WIDTH * tick.place)
        parts.append(
            f'<path class="axis" d="M{x} {_FLOOR}v4"/><text class="tick" x="{x}" y="{_FLOOR + 15}"'
            f' text-anchor="middle">{html.escape(tick.text)}</text>'
        )
    parts.append(
        f'<text class="label" x="{_LEFT + _PLOT_WIDTH / 2}" y="{HEIGHT - 6}" text-anchor="middle">'
        f'{html.escape(across)}</text><text class="label" text-anchor="middle"'
        f' transform="translate(10 {_TOP + _PLOT_HEIGHT / 2}) rotate(-90)">{html.escape(up)}</text>'
    )
    return "".join(parts)


def _grid(highest: int) -> str:
    """Two or three grid lines at round counts."""
    step = max(1, round(nice_step(highest, 3)))
    return "".join(
        _grid_line(count / highest) + _tick_up(count / highest, short(count))
        for count in range(step, highest + 1, step)
    )


def _grid_line(height: float) -> str:
    """A line across at a height from 0 to 1."""
    return f'<path class="grid" d="M{_LEFT} {_level(height)}h{_PLOT_WIDTH}"/>'


def _tick_up(height: float, text: str) -> str:
    """A label of the axis upwards."""
    place = f'x="{_LEFT - 5}" y="{_level(height)}"'
    return f'<text class="tick" {place} dy="4" text-anchor="end">{text}</text>'


def _level(height: float) -> str:
    return number(_FLOOR - _PLOT_HEIGHT * height)


def nice_step(top: float, parts: int) -> float:
    """A round number that divides the range from 0 to `top` into about this many parts."""
    raw = top / parts
    size = 10.0 ** math.floor(math.log10(raw))
    return next(size * f for f in (1, 2, 5, 10) if size * f >= raw * 0.999)
