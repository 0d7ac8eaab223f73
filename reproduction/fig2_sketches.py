"""Figure 2: images and their binary sketches."""

from pathlib import Path
from typing import TYPE_CHECKING

from bitmix.plots import plot_image, plot_template
from reproduction.images import ANIMALS, VEHICLES
from reproduction.session import Session

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_CLASSES = 6


def reproduce(session: Session) -> list[Path]:
    images = session.image_set(VEHICLES + ANIMALS)
    shown = [
        [i for i, label in enumerate(images.labels) if label == name][:2]
        for name in images.classes[:MAX_CLASSES]
    ]

    def draw(figure: "Figure") -> None:
        figure.suptitle(images.title, fontsize=9)
        axes = figure.subplots(4, len(shown), squeeze=False)
        for ax in axes.flat:
            ax.axis("off")
        for column, members in enumerate(shown):
            axes[0, column].set_title(images.labels[members[0]], fontsize=9)
            for number, i in enumerate(members):
                axes[2 * number, column].axis("on")
                axes[2 * number + 1, column].axis("on")
                plot_image(axes[2 * number, column], images.images[i], images.geometry.shape)
                plot_template(axes[2 * number + 1, column], images.rows[i], images.geometry)

    rows = [
        {
            "image": name,
            "class": label,
            "columns": images.rows.shape[1],
            "bits_set": int(bits.sum()),
        }
        for name, label, bits in zip(images.names, images.labels, images.rows, strict=True)
    ]
    return session.write("fig2", rows, draw, (1.5 * len(shown), 6.4))
