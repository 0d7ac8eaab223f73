"""Small drawings as SVG text: bars, histograms, matrices, curves. Colours come from the page's CSS.

A drawing is about 420 units wide, so that its text stays legible when a phone shrinks it. Marks
carry a `title`; `page.js` shows it beside the pointer and, by arrow keys, to the keyboard.
"""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 420, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 20, 14, 40


class Drawing(str):
    """Markup that is safe as it stands: every text in it was escaped when it was made."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Tick:
    """A place on an axis, from 0 to 1, and what is written there."""

    place: float
    text: str


def figure(
    body: str, describes: str, width: float = WIDTH, height: float = HEIGHT,
    *, kind: str = "chart", fixed: bool = False,
) -> Drawing:  # fmt: skip
    """A drawing with the words that stand for it where it cannot be seen; `fixed` in its size."""
    focus = ' tabindex="0"' if "<title>" in body else ""
    size = f' width="{number(width)}" height="{number(height)}"' if fixed else ""
    return Drawing(
        f'<svg class="{kind}" viewBox="0 0 {number(width)} {number(height)}" role="img"'
        f' aria-label="{html.escape(describes)}"{focus}{size}>{body}</svg>'
    )


def bar(share: float, tip: str) -> Drawing:
    """One thin bar from 0 to 1, for a cell of a table."""
    share = min(max(share, 0.0), 1.0)
    return Drawing(
        f'<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img"'
        f' aria-label="{html.escape(tip)}"><rect class="rail" width="100" height="10"/>'
        f'<rect class="ink" width="{number(100 * share)}" height="10"/></svg>'
    )


def histogram(
    counts: Sequence[int], tips: Sequence[str], ticks: Sequence[Tick], describes: str,
    *, across: str, up: str, markers: Sequence[Tick] = (),
) -> Drawing:  # fmt: skip
    """Bars side by side, with marked places across."""
    top, wide, high = max(1, *counts), WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
    step, floor = wide / len(counts), HEIGHT - _BOTTOM
    parts = [_frame(ticks, across, up), _grid(top)]
    for i, (count, tip) in enumerate(zip(counts, tips, strict=True)):
        tall = max(high * count / top, 1.5 if count else 0)
        x, inner = _LEFT + i * step, max(step - 1, 1)
        parts.append(
            f'<g class="mark"><title>{html.escape(tip)}</title>'
            f'<rect class="hit" x="{number(x)}" y="{_TOP}" width="{number(step)}" height="{high}"/>'
            f'<rect class="ink" x="{number(x)}" y="{number(floor - tall)}"'
            f' width="{number(inner)}" height="{number(tall)}"/></g>'
        )
    for marker in markers:
        x = _LEFT + wide * min(max(marker.place, 0.0), 1.0)
        side, off = ("end", -4) if marker.place > 0.5 else ("start", 4)
        parts.append(
            f'<path class="marker" d="M{number(x)} {_TOP - 6}V{floor}"/>'
            f'<text class="marked" x="{number(x + off)}" y="{_TOP - 2}" text-anchor="{side}">'
            f"{html.escape(marker.text)}</text>"
        )
    return figure("".join(parts), describes)


def curve(
    xs: Sequence[int], ys: Sequence[float], tips: Sequence[str], chosen: int, describes: str,
    *, across: str, up: str,
) -> Drawing:  # fmt: skip
    """Points joined by a line, one of them ringed."""
    low, high = min(ys), max(ys)
    span, wide, tall = high - low or 1.0, max(xs) - min(xs) or 1, HEIGHT - _TOP - _BOTTOM
    right = WIDTH - _LEFT - _RIGHT - 16
    at = [
        (_LEFT + 8 + right * (x - min(xs)) / wide, _TOP + tall * (0.94 - 0.88 * (y - low) / span))
        for x, y in zip(xs, ys, strict=True)
    ]
    every = math.ceil(len(xs) / 12)
    frame = (8 + right * (x - min(xs)) / wide for x in xs)
    ticks = [
        Tick(place / (WIDTH - _LEFT - _RIGHT), str(x))
        for i, (place, x) in enumerate(zip(frame, xs, strict=True))
        if i % every == 0
    ]
    parts = [_frame(ticks, across, up)]
    for y, value in ((0.94, low), (0.06, high)):
        parts.append(
            f'<text class="tick" x="{_LEFT - 5}" y="{number(_TOP + tall * y)}" dy="4"'
            f' text-anchor="end">{short(value)}</text>'
        )
    parts.append(f'<path class="line" d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in at)}"/>')
    for k, (x, y), tip in zip(xs, at, tips, strict=True):
        ring = f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="8"/>' if k == chosen else ""
        parts.append(
            f'<g class="mark"><title>{html.escape(tip)}</title>{ring}'
            f'<circle class="ink" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/></g>'
        )
    return figure("".join(parts), describes)


def matrix(
    values: Sequence[Sequence[int]], tips: Sequence[Sequence[str]], describes: str
) -> Drawing:
    """A square table of counts as shades; the numbers are written in where there is room.

    The darkest shade is light enough to read text on, in either theme.
    """
    k = len(values)
    cell = 40 if k <= 8 else 30 if k <= 14 else 18
    most, edge, written = max(1, *(max(row) for row in values)), 26, cell >= 30
    parts = []
    for i in range(k):
        middle = edge + cell * (i + 0.5)
        parts.append(
            f'<text class="tick" x="{edge - 6}" y="{middle + 4}" text-anchor="end">{i}</text>'
            f'<text class="tick" x="{middle}" y="{edge - 8}" text-anchor="middle">{i}</text>'
        )
        for j in range(k):
            if i == j:
                continue
            x, y, share = edge + cell * j, edge + cell * i, values[i][j] / most
            parts.append(
                f'<g class="mark"><title>{html.escape(tips[i][j])}</title>'
                f'<rect class="ink" x="{x + 1}" y="{y + 1}" width="{cell - 2}"'
                f' height="{cell - 2}" rx="2" fill-opacity="{number(0.04 + 0.4 * share)}"/>'
            )
            if written:
                parts.append(
                    f'<text class="in" x="{x + cell / 2}" y="{middle + 4}"'
                    f' text-anchor="middle">{short(values[i][j], 2)}</text>'
                )
            parts.append("</g>")
    side = edge + cell * k + 4
    return figure("".join(parts), describes, side, side, kind="matrix", fixed=True)


def number(value: float) -> str:
    """A coordinate in as few characters as will do."""
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"


def short(value: float, digits: int = 3) -> str:
    """A number in so many digits."""
    if abs(value) < 1000:
        return f"{value:.{digits + 1}g}" if value != int(value) else f"{value:.0f}"
    size, letter = next(
        (pair for pair in ((1e3, "k"), (1e6, "M")) if abs(value) < 999.5 * pair[0]), (1e9, "G")
    )
    scaled = value / size
    return f"{scaled:.{max(0, digits - len(str(int(abs(scaled)))))}f}{letter}"


def _frame(ticks: Sequence[Tick], across: str, up: str) -> str:
    wide, floor = WIDTH - _LEFT - _RIGHT, HEIGHT - _BOTTOM
    parts = [f'<path class="axis" d="M{_LEFT} {floor}H{WIDTH - _RIGHT}"/>']
    for tick in ticks:
        x = number(_LEFT + wide * tick.place)
        parts.append(
            f'<path class="axis" d="M{x} {floor}v4"/><text class="tick" x="{x}" y="{floor + 15}"'
            f' text-anchor="middle">{html.escape(tick.text)}</text>'
        )
    middle = _TOP + (floor - _TOP) / 2
    parts.append(
        f'<text class="label" x="{_LEFT + wide / 2}" y="{HEIGHT - 6}" text-anchor="middle">'
        f'{html.escape(across)}</text><text class="label" text-anchor="middle"'
        f' transform="translate(10 {middle}) rotate(-90)">{html.escape(up)}</text>'
    )
    return "".join(parts)


def _grid(top: int) -> str:
    """Two or three lines across at round counts."""
    high, floor = HEIGHT - _TOP - _BOTTOM, HEIGHT - _BOTTOM
    step = max(1, round(nice_step(top, 3)))
    parts = []
    for count in range(step, top + 1, step):
        y = number(floor - high * count / top)
        parts.append(
            f'<path class="grid" d="M{_LEFT} {y}H{WIDTH - _RIGHT}"/>'
            f'<text class="tick" x="{_LEFT - 5}" y="{y}" dy="4" text-anchor="end">'
            f"{short(count)}</text>"
        )
    return "".join(parts)


def nice_step(top: float, parts: int) -> float:
    """The round number that divides 0 … top into about so many parts."""
    raw = top / parts
    size = 10.0 ** math.floor(math.log10(raw))
    return next(size * f for f in (1, 2, 5, 10) if size * f >= raw * 0.999)
