"""Figure 5: the two dogs of the sketch experiment, and rows sampled from them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitmix.datasets import sample_mixture, sketch_dogs
from bitmix.features.alphabet import Alphabet
from bitmix.plots import plot_template
from reproduction.session import Session

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOISE = 0.1
EXAMPLES = 5


def reproduce(session: Session) -> list[Path]:
    dogs = sketch_dogs()
    examples, labels = sample_mixture(
        dogs, [0.6, 0.4], NOISE, EXAMPLES, random_state=session.first_seed
    )

    def draw(figure: "Figure") -> None:
        above, below = figure.subfigures(2, 1)  # type: ignore[misc]
        above.suptitle(f"rows, {NOISE:.0%} of their bits switched", fontsize=10)
        for ax, bits in zip(above.subplots(1, EXAMPLES), examples, strict=True):
            plot_template(ax, bits, Alphabet())
        distance = int((dogs[0] != dogs[1]).sum())
        below.suptitle(f"templates, {distance} of {dogs.shape[1]:,} bits apart", fontsize=10)
        axes = below.subplots(1, EXAMPLES)
        for ax in axes:
            ax.axis("off")
        for ax, bits in zip(axes[1:4:2], dogs, strict=True):
            ax.axis("on")
            plot_template(ax, bits, Alphabet())

    rows: list[dict[str, Any]] = [
        {"what": "template", "number": i, "template": i, "bits_set": int(dog.sum())}
        for i, dog in enumerate(dogs)
    ]
    rows += [
        {"what": "row", "number": i, "template": int(label), "bits_set": int(bits.sum()),
         "bits_switched": int((bits != dogs[label]).sum())}
        for i, (bits, label) in enumerate(zip(examples, labels, strict=True))
    ]  # fmt: skip
    return session.write("fig5", rows, draw, (8, 3.9))
