"""Draw the card that other sites show for a link to these pages: python docs/pictures/card.py."""

from pathlib import Path

from PIL import Image

from bitmix.datasets import sample_mixture, sketch_dogs
from bitmix.features import Alphabet
from bitmix.plots import plot_template, saved_figure

dogs = sketch_dogs()
X, _ = sample_mixture(dogs, [0.6, 0.4], noise=0.2, m=2, random_state=0)

path = Path(__file__).parents[1] / "_static" / "card.png"
with saved_figure(path, (12, 6.3)) as figure:
    top, bottom = figure.subfigures(2, 1, height_ratios=(3, 4))
    top.text(0.04, 0.66, "bitmix", fontsize=58, weight="bold", va="center", color="#0072B2")
    top.text(0.04, 0.22, "groups and their prototypes in tables of 0 and 1", fontsize=27)
    axes = bottom.subplots(1, 4)
    for ax, bits in zip(axes, [*X.to_dense(), *dogs], strict=True):
        plot_template(ax, bits, Alphabet())

image = Image.open(path).convert("RGB").resize((1200, 630), Image.Resampling.LANCZOS)
image.quantize(64).save(path, optimize=True)  # lines need few colours
