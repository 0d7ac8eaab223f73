"""Figure 1: the alphabet of 18 patterns, a template, and examples of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitmix.datasets import sample_mixture, sketch_dogs
from bitmix.features.alphabet import PATTERNS, Alphabet
from bitmix.plots import plot_template
from reproduction.session import Session

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOISE = 0.01  # at .1 the dog cannot be seen: 146 switched strokes against its own 46
EXAMPLES = 6


def reproduce(session: Session) -> list[Path]:
    template = sketch_dogs()[:1]
    examples, _ = sample_mixture(template, [1.0], NOISE, EXAMPLES, random_state=session.first_seed)

    def draw(figure: "Figure") -> None:
        left, middle, right = figure.subfigures(1, 3, width_ratios=[1.15, 0.9, 1.35])  # type: ignore[misc]
        left.suptitle("alphabet: the 18 patterns of a cell", fontsize=10)
        for number, ax in enumerate(left.subplots(3, 6).flat):
            x0, y0, x1, y1 = PATTERNS[number]
            ax.plot([x0, x1], [y0, y1], color="black", linewidth=1.8, solid_capstyle="round")
            ax.set(xlim=(-0.12, 1.12), ylim=(1.12, -0.12), xticks=[], yticks=[])
            ax.set_aspect("equal")
            for spine in ax.spines.values():
                spine.set(color="0.75", linewidth=0.6)
        middle.suptitle("template: 9×9 cells, 1,458 bits", fontsize=10)
        plot_template(middle.subplots(), template[0], Alphabet())
        right.suptitle(f"examples, {NOISE:.0%} of the bits switched", fontsize=10)
        for ax, bits in zip(right.subplots(2, 3).flat, examples, strict=True):
            plot_template(ax, bits, Alphabet())

    rows: list[dict[str, Any]] = [
        {"what": "pattern", "number": i, "x0": x0, "y0": y0, "x1": x1, "y1": y1}
        for i, (x0, y0, x1, y1) in enumerate(PATTERNS)
    ]
    for what, number, bits in [
        ("template", 0, template[0]),
        *(("example", i, bits) for i, bits in enumerate(examples)),
    ]:
        rows += [
            {"what": what, "number": number, "x0": x0, "y0": y0, "x1": x1, "y1": y1}
            for x0, y0, x1, y1 in Alphabet().decode(bits)
        ]
    return session.write("fig1", rows, draw, (11, 3.1))
