"""Pictures, on axes you give or on new ones. matplotlib is loaded when one is drawn."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitmix.atomic import atomic_write
from bitmix.extras import need
from bitmix.features.gabor import GaborGeometry
from bitmix.features.images import read_grey, without_size_warnings
from bitmix.metrics import conditional_purity
from bitmix.progress import progress
from bitmix.theory import limit, plan
from bitmix.theory.checks import one_light
from bitmix.theory.limit import vote_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

__all__ = [
    "draw_sheet",
    "plot_domain",
    "plot_image",
    "plot_margins",
    "plot_template",
    "plot_templates",
    "save_domain",
    "save_sheet",
    "save_sketches",
    "saved_figure",
]

# Okabe and Ito's colours, with line styles that still differ in grey
_STYLES: dict[str, dict[str, Any]] = {
    "paper": {"color": "#0072B2", "linestyle": "-", "marker": "o"},
    "certificate": {"color": "#D55E00", "linestyle": "--", "marker": "s"},
    "limit": {"color": "#000000", "linestyle": ":"},
}


def plot_templates(
    model: Any,
    *,
    axes: Any = None,
    geometry: "Geometry | None" = None,
    shape: tuple[int, int] | None = None,
) -> NDArray[Any]:
    """The templates of a fitted model, a picture each; darker where more of its rows have a 1.

    Parameters
    ----------
    model : a fitted estimator
    axes : array of matplotlib axes, optional
        At least one a template; by default new ones.
    geometry : geometry of sketches, optional
        Draws strokes: `GaborSketch.geometry_` or an `Alphabet`.
    shape : (rows, columns), optional
        How the columns lie in a picture; by default as near to a square as can be.

    Returns
    -------
    array of axes
    """
    k, n = model.means_.shape
    if axes is None:
        need("matplotlib")
        import matplotlib.pyplot as plt

        across = min(k, 5)
        down = -(-k // across)
        size = (2 * across, 2.2 * down)
        axes = plt.subplots(down, across, figsize=size, squeeze=False, layout="constrained")[1]
    places = np.ravel(axes)
    if len(places) < k:
        raise ValueError(f"{k} templates need as many axes, got {len(places)}")
    if shape is not None and shape[0] * shape[1] != n:
        raise ValueError(f"shape must hold {n} columns, got {shape[0]} × {shape[1]}")
    for i, ax in enumerate(places):
        if i >= k:
            ax.set_axis_off()
            continue
        if geometry is None:
            _plot_bits(ax, model.means_[i], shape or near_square(n))
        else:
            plot_template(ax, model.means_[i], geometry)
        ax.set_title(f"{i}: {model.weights_[i]:.0%}", fontsize="medium")
    return places[:k]


def near_square(n: int) -> tuple[int, int]:
    """Rows and columns that hold n cells: exactly if some are near to a square, or a few more."""
    down = math.isqrt(n)
    exact = next(d for d in range(down, 0, -1) if n % d == 0)
    return (exact, n // exact) if 4 * exact >= down else (down, -(-n // down))


def _plot_bits(ax: "Axes", values: NDArray[np.float64], shape: tuple[int, int]) -> None:
    cells = np.full(shape[0] * shape[1], np.nan)  # what is past the last column stays empty
    cells[: len(values)] = values
    ax.imshow(cells.reshape(shape), cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
    ax.set(xticks=[], yticks=[])


def plot_margins(model: Any, X: Any, *, ax: "Axes | None" = None) -> "Axes":
    """How sure the labels are: rows by the odds of their best template against the second.

    Parameters
    ----------
    model : a fitted estimator with two templates or more
    X : rows, as the model takes them
    ax : matplotlib axes, optional
    """
    if len(model.weights_) < 2:
        raise ValueError("with one template there is nothing to be unsure of")
    ax = _axes(ax)
    margins = np.asarray(model.margins(X)) / math.log(10)
    most = float(min(np.quantile(margins, 0.99), 60.0))
    clear = math.log10(20)
    heights, edges, _ = ax.hist(
        np.minimum(margins, most), bins=40, range=(0, max(most, 2 * clear)), color="#0072B2"
    )
    ax.axvline(clear, color="#D55E00", linestyle="--")
    share = float((margins >= clear).mean())
    ax.set(
        xlabel="odds of the best template against the second, powers of ten",
        ylabel="rows",
        title=f"{share:.0%} of rows have odds of 20 to 1 or better",
    )
    return ax


def _axes(ax: "Axes | None") -> "Axes":
    if ax is not None:
        return ax
    need("matplotlib")
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def plot_domain(
    ax: "Axes | None" = None,
    *,
    over: Literal["m", "w_min"] = "m",
    k: int = 2,
    q: float,
    n: int | None = None,
    m: int = 300,
    c: float = 1.0,
    w_min: float = 0.5,
    delta: float = 0.1,
    epsilon: float = 0.1,
    reading: str = "corrected",
    pruning: str = "l1",
) -> "Axes":
    """Where recovery is guaranteed: least n over m, or least c over w_min, above each curve."""
    ax = _axes(ax)
    fixed: dict[str, Any] = {
        "k": k, "q": q, "delta": delta, "epsilon": epsilon, "reading": reading, "pruning": pruning,
    }  # fmt: skip
    if over == "m":
        across = np.unique(np.geomspace(20, max(1000, 2 * m), 16).astype(int))

        def least(x: Any, method: str) -> float | None:
            return plan("n", m=int(x), c=c, w_min=w_min, method=method, **fixed).value  # type: ignore[arg-type]
    else:
        if n is None:
            raise ValueError("to draw c over w_min give n")
        across = np.linspace(0.04, 1 / k, 16)

        def least(x: Any, method: str) -> float | None:
            return plan("c", n=n, m=m, w_min=float(x), method=method, **fixed).value  # type: ignore[arg-type]

    top = 1e6 if over == "m" else 1.0
    _curve(ax, across, lambda x: least(x, "theorem"), f"Theorem 1 ({reading})", "paper", top)
    _curve(
        ax, across, lambda x: least(x, "certificate"), "certificate, first on a grid", "certificate"
    )
    if over == "m":
        rows = np.arange(2, 400)
        most = np.log1p(-delta) / np.log1p(-vote_error(rows, q))  # recovery_masks = 1 - δ
        seen = (most <= top) & (most >= 1)
        ax.plot(rows[seen], most[seen], label="limit: no method above", **_STYLES["limit"])
        ax.set(xscale="log", yscale="log", xlabel="rows m", ylabel="columns n", ylim=(1, top))
        ax.set_title(f"least n: c = {c:g}, k = {k}, q = {q:g}, w_min = {w_min:g}, δ = {delta:g}")
    else:
        assert n is not None
        ax.axvline(
            _least_weight(n, m, k, q, delta),
            label="limit: no method left of it\n(labels known, uniform templates)",
            **_STYLES["limit"],
        )
        ax.set(yscale="log", xlabel="least weight w_min", ylabel="separation c", ylim=(None, top))
        ax.set_title(f"least c: n = {n:,}, m = {m}, k = {k}, q = {q:g}, δ = {delta:g}")
    ax.grid(True, which="major", alpha=0.3)
    ax.legend(loc="upper left", bbox_to_anchor=(1.02, 1), frameon=False)
    return ax


def _least_weight(n: int, m: int, k: int, q: float, delta: float) -> float:
    """The weight from which a cluster's own majority vote can be right with probability 1 - δ."""
    for w in np.linspace(0.002, 1 / k, 200):
        if limit(n, m, k, q, 1, one_light(float(w), k)).recovery_uniform >= 1 - delta:
            return float(w)
    return 1 / k


def save_domain(path: str | PathLike[str], **settings: Any) -> None:
    """`plot_domain` into a PNG or SVG file."""
    with saved_figure(path, (8, 4.5)) as figure:
        plot_domain(figure.subplots(), **settings)


@contextmanager
def saved_figure(path: str | PathLike[str], size: tuple[float, float]) -> "Iterator[Figure]":
    """A new figure in inches; drawn into the PNG or SVG file when the block ends."""
    need("matplotlib")
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    yield figure
    form = Path(path).suffix.lower()[1:] or "png"
    undated = {"Date": None} if form == "svg" else {}  # the same picture is the same file
    with atomic_write(path) as file, rc_context({"svg.hashsalt": "bitmix"}):
        figure.savefig(file, format=form, dpi=150, metadata=undated)


def _curve(
    ax: "Axes",
    across: Any,
    least: Callable[[Any], float | None],
    label: str,
    style: str,
    top: float | None = None,
) -> None:
    """One boundary; with `top`, the domain above it is shaded."""
    points = [(x, y) for x in progress(across, label) if (y := least(x)) is not None]
    if points:
        x, y = np.array(points, dtype=np.float64).T
        ax.plot(x, y, label=label, markersize=3.5, **_STYLES[style])
        if top is not None:
            ax.fill_between(x, y, top, color=_STYLES[style]["color"], alpha=0.1, linewidth=0)
    else:
        ax.plot([], [], label=f"{label}: nowhere", **_STYLES[style])


class Geometry(Protocol):
    """Knows where the stroke of each bit is: `GaborGeometry` or `Alphabet`."""

    @property
    def n_features(self) -> int: ...

    def segments(self, bits: ArrayLike) -> NDArray[np.float64]: ...

    def shares(self, values: ArrayLike) -> NDArray[np.float64]: ...


def plot_template(ax: "Axes", values: ArrayLike, geometry: Geometry) -> "Axes":
    """A template or row as strokes; a mean template with grey by probability."""
    from matplotlib.collections import LineCollection

    shares = geometry.shares(values).clip(0, 1)
    seen = np.flatnonzero(shares > 0.02)
    everything = geometry.segments(np.ones(geometry.n_features))
    order = seen[np.argsort(shares[seen], kind="stable")]  # dark strokes on top
    ax.add_collection(
        LineCollection(
            list(everything[order].reshape(-1, 2, 2)),
            colors=[str(round(1 - share, 3)) for share in shares[order]],
            linewidths=0.9,
            capstyle="round",
        )
    )
    x, y = everything[:, 0::2], everything[:, 1::2]
    pad = 0.02 * (x.max() - x.min())
    ax.set(xlim=(x.min() - pad, x.max() + pad), ylim=(y.max() + pad, y.min() - pad))
    ax.set_aspect("equal")
    return _bare(ax)


def plot_image(ax: "Axes", source: Any, shape: tuple[int, int]) -> "Axes":
    """An image file or array in grey, scaled as the sketch saw it."""
    with without_size_warnings():
        ax.imshow(read_grey(source, shape), cmap="gray", vmin=0, vmax=1)
    return _bare(ax)


def save_sketches(
    path: str | PathLike[str], images: Sequence[Any], rows: Any, geometry: GaborGeometry
) -> None:
    """Images beside their sketches (Figure 2), at most twelve of them."""
    chosen = _spread(len(images), 12)
    across = min(4, len(chosen))
    down = -(-len(chosen) // across)
    with saved_figure(path, (2.6 * across, 1.35 * down)) as figure:
        axes = figure.subplots(down, 2 * across, squeeze=False)
        for ax in axes.flat:
            ax.axis("off")
        for ax, i in zip(axes.reshape(-1, 2), chosen, strict=False):
            plot_image(ax[0], images[i], geometry.shape)
            plot_template(ax[1], rows[i], geometry)


def save_sheet(
    path: str | PathLike[str], images: Sequence[Any], found: ArrayLike, means: NDArray[np.float64],
    geometry: GaborGeometry, truth: Sequence[str] | None = None,
) -> None:  # fmt: skip
    """The cluster sheet of Figures 7 and 8: the template first, then images of its cluster."""
    with saved_figure(path, (10.35, 1.45 * len(means))) as figure:
        draw_sheet(figure, images, found, means, geometry, truth)


def draw_sheet(
    figure: "Figure | SubFigure", images: Sequence[Any], found: ArrayLike,
    means: NDArray[np.float64], geometry: GaborGeometry, truth: Sequence[str] | None = None,
) -> None:  # fmt: skip
    """`save_sheet` on a figure you give."""
    labels = np.asarray(found)
    k, across = len(means), 9
    axes = figure.subplots(k, across, squeeze=False)
    for i in range(k):
        members = np.flatnonzero(labels == i)
        plot_template(axes[i, 0], means[i], geometry)
        axes[i, 0].set_title(_cluster_title(members, truth), fontsize=7.5, loc="left")
        for ax in axes[i, 1:]:
            ax.axis("off")
        for ax, j in zip(axes[i, 1:], _spread(len(members), across - 1), strict=False):
            ax.axis("on")
            plot_image(ax, images[members[j]], geometry.shape)


def _spread(count: int, most: int) -> list[int]:
    """At most so many of 0 … count-1, evenly spaced."""
    return [round(i) for i in np.linspace(0, count - 1, min(most, count)).tolist()]


def _cluster_title(members: NDArray[np.intp], truth: Sequence[str] | None) -> str:
    if truth is None or not len(members):
        return f"{len(members)} images"
    names = [truth[member] for member in members]
    most = max(sorted(set(names)), key=names.count)
    purity = conditional_purity(names, [0] * len(names))
    return f"{len(members)} images, {purity:.0%} {most}"


def _bare(ax: "Axes") -> "Axes":
    ax.set(xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set(color="0.8", linewidth=0.5)
    return ax
