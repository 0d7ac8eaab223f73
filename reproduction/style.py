"""The look of curves: Okabe and Ito's colours, with lines and markers that differ in grey too."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, SKY, ORANGE, RED, GREEN, PURPLE, YELLOW, BLACK = (
    "#0072B2", "#56B4E9", "#E69F00", "#D55E00", "#009E73", "#CC79A7", "#F0E442", "#000000",
)  # fmt: skip


def line(color: str, dashes: str, marker: str = "", width: float = 1.4) -> dict[str, Any]:
    return {
        "color": color, "linestyle": dashes, "marker": marker, "linewidth": width,
        "markersize": 4.5, "markeredgewidth": 0.8,
    }  # fmt: skip


STYLES: dict[str, dict[str, Any]] = {
    "two-round EM": line(BLUE, "-", "o", 2.0),
    "ten-round EM": line(SKY, "--", "s", 1.6),
    "original EM, 2×1": line(ORANGE, ":", "v"),
    "original EM, 2×5": line(ORANGE, "--", "<"),
    "original EM, 2×10": line(ORANGE, "-", ">"),
    "original EM, 10×1": line(RED, ":", "1"),
    "original EM, 10×5": line(RED, "--", "2"),
    "original EM, 10×10": line(RED, "-", "x"),
    "TemplateMixture": line(GREEN, "-", "D", 1.8),
    "membership oracle": line(BLACK, "-.", "", 1.2),
    "certificate": line(GREEN, "--", "P", 1.2),
    "certificate, Hamming pruning": line(GREEN, ":", "X", 1.2),
    "Theorem 1, as printed": line(PURPLE, "-", "", 4.0) | {"alpha": 0.5},
    "Theorem 1, corrected": line(PURPLE, "--", "", 1.6),
}


def style(label: str) -> dict[str, Any]:
    return dict(STYLES[label])


def legend_beside(figure: "Figure", axes: "Any", **options: Any) -> None:
    """Draw one legend for all panels to the right of them, with each label once."""
    handles: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(
        handles.values(), handles.keys(), loc="outside right upper", frameon=False,
        fontsize=8, handlelength=3.2, **options,
    )  # fmt: skip


def tidy(ax: "Axes") -> None:
    """Draw a light grid and no box."""
    ax.grid(True, which="major", alpha=0.25, linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_axisbelow(True)
