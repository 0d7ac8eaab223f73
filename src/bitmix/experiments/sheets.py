"""Figures 7 and 8: templates learned from images, each beside images of its cluster."""

import warnings
from typing import TYPE_CHECKING

from bitmix.errors import BitmixWarning
from bitmix.estimators import TwoRoundEM
from bitmix.experiments.bench import Bench
from bitmix.experiments.images import ANIMALS, VEHICLES
from bitmix.plots import draw_sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES = {"fig7": VEHICLES, "fig8": ANIMALS}
STARTS = 10


def reproduce(bench: Bench, name: str) -> None:
    """The likeliest of ten two-round fits: the figure shows what is there to find."""
    images = bench.image_set(FIGURES[name])
    k = len(images.classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BitmixWarning)  # few rows, as in the paper
        model = TwoRoundEM(k, n_init=STARTS, random_state=bench.first_seed).fit(images.rows)
    labels = model.predict(images.rows)

    def draw(figure: "Figure") -> None:
        figure.suptitle(f"{images.title}: the likeliest of {STARTS} two-round fits", fontsize=9)
        draw_sheet(figure, images.images, labels, model.means_, images.geometry, images.labels)

    rows = [
        {"image": image, "class": label, "cluster": int(cluster)}
        for image, label, cluster in zip(images.names, images.labels, labels, strict=True)
    ]
    bench.write(name, rows, draw, (10.4, 1.45 * k + 0.3))
