"""Molecules of a report: the representative of each group, its scaffolds, and what its bits mean.

Bits of a Morgan fingerprint are fragments: an atom and its neighbours. The fragment of a column is
drawn from a member of the group that has it. Drawings are RDKit's, with the ink of the page in
place of their colours, and without styles, which the page's security policy forbids.
"""

import html
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from bitmix.errors import InputError
from bitmix.kernels.fixed import Ints
from bitmix.report.facts import MAX_GROUPS, Feature, Group, printable
from bitmix.report.svg import Drawing
from bitmix.rows import Rows
from bitmix.rows.codes import Fingerprint
from bitmix.rows.files.molecules import Generator
from bitmix.support.progress import progress

MAX_FRAGMENTS = 3
MAX_SCAFFOLDS = 500
"""Members of a group whose scaffolds are counted."""
MAX_EXAMPLES = 50
"""Members of a group among which one with a fragment is looked for."""
SIZE, FRAGMENT_SIZE = (260, 180), (110, 90)


@dataclass(frozen=True)
class Fragment:
    """What a column means in a group."""

    feature: Feature
    drawing: Drawing


@dataclass(frozen=True)
class Molecules:
    """The molecules of one group."""

    drawing: Drawing | None
    """Of the representative."""
    scaffold: str
    """The commonest one as SMILES; empty for molecules without rings."""
    scaffold_share: float
    n_scaffolds: int
    n_counted: int
    """Members whose scaffolds were counted."""
    fragments: tuple[Fragment, ...]


def molecules_of(
    smiles: Sequence[str], rows: Rows, labels: Ints, medoids: Ints, groups: Sequence[Group],
    fingerprint: Fingerprint | None = None,
) -> tuple[Molecules, ...]:  # fmt: skip
    """The molecules of the groups that have a card; none if RDKit is missing or reads nothing.

    Without a fingerprint, it is looked for: there are no fragments unless it gives the same bits.
    """
    try:
        chem = import_module("rdkit.Chem")
        import_module("rdkit.Chem.Draw")
    except ImportError:
        return ()
    block = import_module("rdkit.rdBase").BlockLogs()
    if chem.MolFromSmiles(smiles[int(medoids.max())]) is None:
        return ()
    shown, fingerprint = groups[:MAX_GROUPS], fingerprint or guessed(smiles, rows, medoids)
    bits = None if fingerprint is None else _Bits(fingerprint)
    found = tuple(
        _of_group(smiles, np.flatnonzero(labels == group.index), int(medoids[group.index]), group,
                  bits)
        for group in progress(shown, "drawing molecules")
    )  # fmt: skip
    del block
    return found


def guessed(smiles: Sequence[str], rows: Rows, medoids: Ints) -> Fingerprint | None:
    """The Morgan fingerprint that gives the bits of the representatives, if there is one."""
    some = medoids[medoids >= 0][:MAX_EXAMPLES]
    for radius in (2, 3, 1) if rows.shape[1] % 8 == 0 else ():
        fingerprint = Fingerprint(radius, rows.shape[1])
        try:
            words, _ = Generator(Path("ids"), fingerprint, False).words(
                [smiles[i] for i in some], 1
            )
        except InputError:
            return None
        if np.array_equal(words, rows.take(some)):
            return fingerprint
    return None


def _of_group(
    smiles: Sequence[str], members: Ints, medoid: int, group: Group, bits: "_Bits | None"
) -> Molecules:
    chem = import_module("rdkit.Chem")
    murcko = import_module("rdkit.Chem.Scaffolds.MurckoScaffold")
    if not len(members):
        return Molecules(None, "", 0.0, 0, 0, ())
    some = members[np.unique(np.linspace(0, len(members) - 1, MAX_SCAFFOLDS).astype(int))]
    scaffolds: Counter[str] = Counter()
    for row in some.tolist():
        if (molecule := chem.MolFromSmiles(smiles[row])) is not None:
            scaffolds[murcko.MurckoScaffoldSmiles(mol=molecule)] += 1
    common, count = min(scaffolds.items(), key=lambda item: (-item[1], item[0]), default=("", 0))
    examples = [medoid, *(row for row in some[:MAX_EXAMPLES].tolist() if row != medoid)]
    fragments: list[Fragment] = []
    for feature in group.features:
        if bits is None or len(fragments) == MAX_FRAGMENTS:
            break
        if feature.share > feature.other_share:
            drawn = bits.draw((smiles[row] for row in examples), feature.column)
            if drawn is not None:
                fragments.append(Fragment(feature, drawn))
    total = max(1, scaffolds.total())
    return Molecules(
        drawing(smiles[medoid]), printable(common), count / total, len(scaffolds),
        scaffolds.total(), tuple(fragments),
    )  # fmt: skip


def drawing(smiles: str) -> Drawing | None:
    """A molecule as SVG, or None if RDKit cannot read it."""
    chem, drawer = import_module("rdkit.Chem"), import_module("rdkit.Chem.Draw.rdMolDraw2D")
    molecule = chem.MolFromSmiles(smiles)
    if molecule is None:
        return None
    canvas = drawer.MolDraw2DSVG(*SIZE, -1, -1, True)
    _plain(canvas.drawOptions())
    drawer.PrepareAndDrawMolecule(canvas, molecule)
    canvas.FinishDrawing()
    return inked(canvas.GetDrawingText(), SIZE, printable(smiles))


class _Bits:
    """Draws the fragments of bits."""

    def __init__(self, fingerprint: Fingerprint) -> None:
        generators = import_module("rdkit.Chem.rdFingerprintGenerator")
        self._generator = generators.GetMorganGenerator(
            radius=fingerprint.radius, fpSize=fingerprint.bits
        )
        self._output = generators.AdditionalOutput
        self._where: dict[str, tuple[Any, dict[int, Any]]] = {}

    def _bits_of(self, smiles: str) -> tuple[Any, dict[int, Any]]:
        if smiles not in self._where:
            molecule = import_module("rdkit.Chem").MolFromSmiles(smiles)
            bits: dict[int, Any] = {}
            if molecule is not None:
                output = self._output()
                output.AllocateBitInfoMap()
                self._generator.GetFingerprint(molecule, additionalOutput=output)
                bits = dict(output.GetBitInfoMap())
            self._where[smiles] = molecule, bits
        return self._where[smiles]

    def draw(self, examples: Any, column: int) -> Drawing | None:
        """The fragment of a column, from the first of the molecules that has it."""
        draw = import_module("rdkit.Chem.Draw")
        for smiles in examples:
            molecule, bits = self._bits_of(smiles)
            if column in bits:
                options = draw.rdMolDraw2D.MolDrawOptions()
                _plain(options)
                atom, radius = bits[column][0]
                text = draw.DrawMorganEnv(
                    molecule, atom, radius, molSize=FRAGMENT_SIZE, useSVG=True,
                    aromaticColor=None, ringColor=None, drawOptions=options,
                )  # fmt: skip
                return inked(text, FRAGMENT_SIZE, f"fragment of column {column}")
        return None


def _plain(options: Any) -> None:
    options.clearBackground = False
    options.useBWAtomPalette()
    options.bondLineWidth = 1


_ELEMENT = re.compile(r"<(path|ellipse|text)\b([^>]*?)/?>(?:([^<]*)</text>)?", re.S)
_ATTRIBUTE = re.compile(r"([\w:-]+)='([^']*)'")
_SPACES = re.compile(r"\s*([MLQCZ])\s*|\s*,\s*|\s+")


def inked(text: str, size: tuple[int, int], description: str) -> Drawing:
    """RDKit's drawing in the ink of the page: dark lines full, pale ones faint."""
    lines: dict[tuple[str, str, str], list[str]] = {}
    others = []
    for kind, attributes, letter in _ELEMENT.findall(text):
        has = dict(_ATTRIBUTE.findall(attributes))
        style = dict(part.split(":", 1) for part in has.get("style", "").split(";") if ":" in part)
        fill = has.get("fill") or style.get("fill", "none")
        ink = fill if fill != "none" else style.get("stroke", "none")
        opacity = _opacity(ink)
        if kind == "path":
            width = "0" if fill != "none" else style.get("stroke-width", "1px").removesuffix("px")
            path = _SPACES.sub(lambda match: match.group(1) or " ", has.get("d", "")).strip()
            lines.setdefault((opacity, "none" if fill == "none" else "ink", width), []).append(path)
        elif kind == "ellipse":
            x, y, rx, ry = (has[name] for name in ("cx", "cy", "rx", "ry"))
            others.append(
                f'<ellipse cx="{x}" cy="{y}" rx="{rx}" ry="{ry}" fill="currentColor" '
                f'fill-opacity="{opacity}"/>'
            )
        else:
            height = style.get("font-size", "12px").removesuffix("px")
            others.append(
                f'<text x="{has["x"]}" y="{has["y"]}" font-size="{height}" fill="currentColor" '
                f'fill-opacity="{opacity}">{html.escape(html.unescape(letter))}</text>'
            )
    paths = "".join(
        f'<path d="{"".join(parts)}" opacity="{opacity}" '
        + ('fill="currentColor"/>' if filled == "ink"
           else f'fill="none" stroke="currentColor" stroke-width="{width}"/>')
        for (opacity, filled, width), parts in lines.items()
    )  # fmt: skip
    return Drawing(
        f'<svg class="molecule" viewBox="0 0 {size[0]} {size[1]}" role="img" '
        f'aria-label="{html.escape(description)}">{"".join(others)}{paths}</svg>'
    )


def _opacity(colour: str) -> str:
    """How strong the ink is in place of a colour such as #E5E5E5."""
    if not re.fullmatch("#[0-9A-Fa-f]{6}", colour):
        return "1"
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    if max(red, green, blue) - min(red, green, blue) > 40:
        return ".2"  # a highlight
    return ".35" if red > 160 else "1"
