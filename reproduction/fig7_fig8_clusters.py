"""Figures 7 and 8: templates learned from images, each beside images of its cluster."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitmix import TemplateMixture, TwoRoundEM
from bitmix.errors import BitmixWarning
from bitmix.plots import draw_sheet
from reproduction.images import ANIMALS, VEHICLES
from reproduction.session import Session

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLASSES = {"fig7": VEHICLES, "fig8": ANIMALS}
STARTS = 10


def reproduce(session: Session, name: str) -> list[Path]:
    """The likeliest of ten two-round fits above, TemplateMixture below."""
    images = session.image_set(CLASSES[name])
    k = len(images.classes)
    models: dict[str, Any] = {
        f"the likeliest of {STARTS} two-round fits": TwoRoundEM(
            k, n_init=STARTS, random_state=session.first_seed
        ),
        "TemplateMixture (ours)": TemplateMixture(k, random_state=session.first_seed),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BitmixWarning)  # as few rows as in the paper
        labels = [model.fit_predict(images.rows) for model in models.values()]

    def draw(figure: "Figure") -> None:
        parts: Any = figure.subfigures(2, 1)
        for part, (title, model), clusters in zip(parts, models.items(), labels, strict=True):
            part.suptitle(f"{images.title}: {title}", fontsize=9)
            draw_sheet(part, images.images, clusters, model.means_, images.geometry, images.labels)

    rows = [
        {"image": image, "class": label, "two_round": int(two), "template_mixture": int(ours)}
        for image, label, two, ours in zip(images.names, images.labels, *labels, strict=True)
    ]
    return session.write(name, rows, draw, (10.4, 2 * (1.45 * k + 0.3)))
