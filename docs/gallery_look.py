"""The look of the pictures in the gallery: called before each example."""

from typing import Any


def reset(gallery_conf: dict[str, Any], fname: str) -> None:
    """Okabe and Ito's colours, which people with colour-blindness can tell apart."""
    import matplotlib
    from cycler import cycler

    matplotlib.rcParams.update(
        {
            "axes.prop_cycle": cycler(color=["#0072B2", "#D55E00", "#009E73", "#CC79A7"]),
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlesize": 11,
            "figure.titlesize": 11,
            "font.size": 9.5,
            "savefig.dpi": 130,
        }
    )


_ORDER = (
    "digits", "fingerprints", "survey", "pictures", "how_many", "paper_numbers", "certificate",
)  # fmt: skip


class Order:
    """Examples of data first, then questions about them."""

    def __init__(self, src_dir: str) -> None:
        pass

    def __call__(self, filename: str) -> int:
        return _ORDER.index(filename.removeprefix("plot_").removesuffix(".py"))
