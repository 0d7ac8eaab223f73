"""Draw dogs.png, the picture of the README and the first page: python docs/pictures/dogs.py."""

from pathlib import Path

from PIL import Image

from bitmix import TemplateMixture
from bitmix.datasets import sample_mixture, sketch_dogs
from bitmix.features import Alphabet
from bitmix.metrics import templates_recovered
from bitmix.plots import plot_template, saved_figure

dogs = sketch_dogs()
X, _ = sample_mixture(dogs, [0.6, 0.4], noise=0.2, m=1000, random_state=0)
model = TemplateMixture(2, random_state=0).fit(X)
assert templates_recovered(model.templates_, dogs)

path = Path(__file__).with_suffix(".png")
with saved_figure(path, (9, 3.1)) as figure:
    left, middle, right = figure.subfigures(1, 3, width_ratios=(4, 0.55, 4))
    left.suptitle("1,000 rows, a fifth of the bits flipped", fontsize=10)
    right.suptitle("the two templates, every bit right", fontsize=10)
    for ax, row in zip(left.subplots(2, 4).flat, X.to_dense()[:8], strict=True):
        plot_template(ax, row, Alphabet())
    middle.text(0.5, 0.42, "→", fontsize=30, ha="center", va="center", color="#0072B2")
    for ax, template in zip(right.subplots(1, 2), model.templates_, strict=True):
        plot_template(ax, template, Alphabet())

Image.open(path).convert("RGB").quantize(32).save(path, optimize=True)  # lines need few colours
