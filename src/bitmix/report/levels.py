"""Groups of groups in a report: a dendrogram of the largest, and levels to unfold.

A group of groups is shown by the representative of the largest group in it, the one with most rows:
a row that stands for many others. The medoid of all its rows may lie between its groups. Groups
that are drawn elsewhere on the page, as molecules or images, are shown by that drawing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from bitmix.models.tree import Tree
from bitmix.report.facts import printable
from bitmix.report.svg import Drawing

MIN_GROUPS = 12
"""With fewer groups there are no levels."""
_FANOUT, _DRAWN, _N_FEATURES = 8, 16, 3
_WIDTH, _TEXT, _LINE, _MAX_NAME = 260, 340, 22, 24
_DRAWN_TEXT, _DRAWN_LINE, _DRAWN_AT = 260, 72, 150


@dataclass(frozen=True)
class Thumbnail:
    """A drawing of a group that is on the page already, to be shown again."""

    key: str
    width: float
    height: float

    def svg(self, attributes: str) -> Drawing:
        return Drawing(
            f'<svg {attributes} viewBox="0 0 {self.width} {self.height}" aria-hidden="true">'
            f'<use href="#{self.key}" width="{self.width}" height="{self.height}"/></svg>'
        )


@dataclass(frozen=True)
class Node:
    """A group of groups, or a group."""

    title: str
    rows: int
    share: float
    features: tuple[str, ...]
    """The columns that are 1 more often in it than in other rows."""
    children: tuple["Node", ...]
    index: int | None
    """The number of the group, if it is one."""
    representative: str
    """That of the largest group in it; empty if groups have none."""
    picture: Drawing | None
    """A drawing of the largest group in it, if there is one."""


@dataclass(frozen=True)
class Levels:
    """What the report shows of a tree."""

    picture: Drawing
    nodes: tuple[Node, ...]


def levels_of(
    model: Any, sizes: Sequence[int], representatives: Sequence[str], names: Any,
    thumbnails: Sequence[Thumbnail] = (),
) -> Levels | None:  # fmt: skip
    """The levels of a fitted model, if it has a tree and enough groups.

    `sizes` and `representatives` are those of the groups in the model's order, `thumbnails` those
    of the first.
    """
    if not hasattr(model, "tree") or len(model.weights_) < MIN_GROUPS:
        return None
    tree: Tree = model.tree()
    k, counts, largest = tree.n_components, list(sizes), list(range(len(sizes)))
    ones = list(model.means_ * model.weights_[:, None])
    for i, j in tree.merges.tolist():
        counts.append(counts[i] + counts[j])
        largest.append(min(largest[i], largest[j], key=lambda group: (-counts[group], group)))
        ones.append(ones[i] + ones[j])
    shown = [representatives[group] for group in largest]
    drawn = [thumbnails[group] if group < len(thumbnails) else None for group in largest]
    weights, total = tree.node_weights, max(1, counts[-1])
    names = [f"column {s}" for s in range(model.means_.shape[1])] if names is None else names

    def features(node: int) -> tuple[str, ...]:
        inside, weight = ones[node], max(float(weights[node]), 1e-12)
        lead = inside / weight - (ones[-1] - inside) / max(1 - weight, 1e-12)
        best = np.argsort(-lead, kind="stable")[:_N_FEATURES]
        return tuple(printable(str(names[s])) for s in best if lead[s] > 0)

    def made(node: int) -> Node:
        members = tree.members(node)
        children: tuple[Node, ...] = ()
        if len(members) > 1:
            below = _parts(tree, node, min(_FANOUT, len(members)))
            children = tuple(made(each) for each in below)
        title = f"Group {node}" if node < k else f"{len(members):,} groups"
        index = node if node < k else None
        thumbnail = drawn[node]
        picture = None if thumbnail is None else thumbnail.svg('class="thumbnail"')
        share, named = counts[node] / total, features(node)
        return Node(title, counts[node], share, named, children, index, shown[node], picture)

    root = made(2 * k - 2)
    return Levels(_dendrogram(tree, counts, shown, drawn), root.children)


def _parts(tree: Tree, node: int, n_parts: int) -> list[int]:
    """The parts of a node after its highest merges were undone, heaviest first."""
    k, parts = tree.n_components, [node]
    while len(parts) < n_parts:
        inner = [each for each in parts if each >= k]
        highest = max(inner, key=lambda each: (tree.heights[each - k], each))
        parts.remove(highest)
        parts += tree.merges[highest - k].tolist()
    return sorted(parts, key=lambda each: (-tree.node_weights[each], each))


def _dendrogram(
    tree: Tree, counts: list[int], representatives: list[str], drawn: list[Thumbnail | None]
) -> Drawing:
    """The merges of the largest groups of groups, from left to right by the loss of each."""
    k = tree.n_components
    line, width = (_LINE, _TEXT) if drawn[-1] is None else (_DRAWN_LINE, _DRAWN_TEXT)
    leaves = set(tree.groups(min(_DRAWN, k)).tolist())
    top = math.sqrt(float(tree.heights[-1])) or 1.0
    lines: list[str] = []
    texts: list[str] = []

    def place(node: int) -> tuple[float, float]:
        """Draw a node; where it is."""
        if node in leaves:
            y = line * (len(texts) + 0.5) + 4
            n_groups = len(tree.members(node))
            what = f"group {node}" if n_groups == 1 else f"{n_groups:,} groups"
            name, thumbnail, picture = representatives[node], drawn[node], ""
            if len(name) > _MAX_NAME:
                name = name[: _MAX_NAME - 1] + "…"
            named = f" · {escape(name)}" if name and thumbnail is None else ""
            if thumbnail is not None:
                size = f'width="{width - _DRAWN_AT}" height="{line - 4}"'
                corner = f'x="{_WIDTH + _DRAWN_AT}" y="{y - line / 2 + 2:.1f}"'
                picture = thumbnail.svg(f'{corner} {size} preserveAspectRatio="xMinYMid"')
            texts.append(
                f'<text x="{_WIDTH + 8}" y="{y + 4:.1f}">{what}, '
                f"{counts[node]:,} {'row' if counts[node] == 1 else 'rows'}{named}</text>{picture}"
            )
            return float(_WIDTH), y
        x = _WIDTH * (1 - 0.97 * math.sqrt(float(tree.heights[node - k])) / top)
        ends = [place(child) for child in tree.merges[node - k].tolist()]
        (xa, ya), (xb, yb) = ends
        lines.append(f"M{xa:.1f} {ya:.1f}H{x:.1f}V{yb:.1f}H{xb:.1f}")
        return x, (ya + yb) / 2

    place(2 * k - 2)
    height = line * len(texts) + 8
    return Drawing(
        f'<svg class="dendrogram" viewBox="0 0 {_WIDTH + width} {height}" role="img" '
        f'aria-label="Dendrogram of '
        f'{len(texts)} groups of groups" font-size="13" fill="currentColor">'
        f'<path d="{"".join(lines)}" fill="none" stroke="currentColor" stroke-opacity=".6"/>'
        f"{''.join(texts)}</svg>"
    )
