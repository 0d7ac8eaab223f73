"""Figures 7 and 8: templates learned from images, each beside images of its cluster."""

import warnings
from typing import TYPE_CHECKING, Any

from bitmix.errors import BitmixWarning
from bitmix.estimators import TwoRoundEM
from bitmix.experiments.bench import Bench
from bitmix.experiments.images import ANIMALS, VEHICLES
from bitmix.plots import draw_sheet
from bitmix.template_mixture import TemplateMixture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES = {"fig7": VEHICLES, "fig8": ANIMALS}
STARTS = 10


def reproduce(bench: Bench, name: str) -> None:
    """The likeliest of ten two-round fits, and below it what TemplateMixture finds."""
    images = bench.image_set(FIGURES[name])
    k = len(images.classes)
    models: dict[str, Any] = {
        f"the likeliest of {STARTS} two-round fits": TwoRoundEM(
            k, n_init=STARTS, random_state=bench.first_seed
        ),
        "TemplateMixture (ours)": TemplateMixture(k, random_state=bench.first_seed),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BitmixWarning)  # few rows, as in the paper
        labels = [model.fit_predict(images.rows) for model in models.values()]

    def draw(figure: "Figure") -> None:
        parts: Any = figure.subfigures(2, 1)
        for part, (title, model), found in zip(parts, models.items(), labels, strict=True):
            part.suptitle(f"{images.title}: {title}", fontsize=9)
            draw_sheet(part, images.images, found, model.means_, images.geometry, images.labels)

    rows = [
        {"image": image, "class": label, "two_round": int(two), "template_mixture": int(ours)}
        for image, label, two, ours in zip(images.names, images.labels, *labels, strict=True)
    ]
    bench.write(name, rows, draw, (10.4, 2 * (1.45 * k + 0.3)))
