"""Plots on given or new axes. matplotlib is imported when the first plot is drawn."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitmix.errors import InputError
from bitmix.features.alphabet import Alphabet
from bitmix.features.gabor import GaborGeometry
from bitmix.features.images import read_grey, without_size_warnings
from bitmix.metrics import conditional_purity
from bitmix.support.atomic import atomic_write
from bitmix.support.extras import need
from bitmix.support.progress import progress
from bitmix.theory import limit, plan
from bitmix.theory.checks import weights_with_least
from bitmix.theory.limit import vote_error
from bitmix.theory.plan import Method

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

# Okabe and Ito's colours, with line styles that can be told apart in grey
_STYLES: dict[str, dict[str, Any]] = {
    "paper": {"color": "#0072B2", "linestyle": "-", "marker": "o"},
    "certificate": {"color": "#D55E00", "linestyle": "--", "marker": "s"},
    "limit": {"color": "#000000", "linestyle": ":"},
}


Geometry = GaborGeometry | Alphabet
"""Where the stroke of each bit is."""
UNSURE, UNSURE_STROKE = "Oranges", "#f2b36b"
"""The colours of bits that are not certified."""


def plot_templates(
    model: Any,
    *,
    axes: Any = None,
    geometry: Geometry | None = None,
    shape: tuple[int, int] | None = None,
    mask: ArrayLike | None = None,
) -> NDArray[Any]:
    """Draw each template of a fitted model; darker cells have a 1 in more of its rows.

    Parameters
    ----------
    model : a fitted estimator
    axes : array of matplotlib axes, optional
        At least one per template; by default new ones.
    geometry : GaborGeometry or Alphabet, optional
        For models of sketches, where the stroke of each bit is: `GaborSketch.geometry_`.
    shape : (int, int), optional
        Rows and columns of the pictures; by default nearly square.
    mask : array of bool, shape (k, n), optional
        The certified bits: `FitCertificate.mask` or `CertifiedBits.mask`. The others are drawn in
        amber, whatever their share of ones.

    Returns
    -------
    array of axes
    """
    k, n = model.means_.shape
    sure = np.ones((k, n), dtype=bool) if mask is None else np.asarray(mask, dtype=bool)
    if sure.shape != (k, n):
        raise InputError(f"mask must have shape {(k, n)}, got {sure.shape}")
    if axes is None:
        need("matplotlib")
        import matplotlib.pyplot as plt

        across = min(k, 5)
        down = -(-k // across)
        size = (2 * across, 2.2 * down)
        axes = plt.subplots(down, across, figsize=size, squeeze=False, layout="constrained")[1]
    places = np.ravel(axes)
    if len(places) < k:
        raise InputError(f"{k} templates need as many axes, got {len(places)}")
    if shape is not None and shape[0] * shape[1] != n:
        raise InputError(f"shape must hold {n} columns, got {shape[0]} × {shape[1]}")
    for i, ax in enumerate(places):
        if i >= k:
            ax.set_axis_off()
            continue
        if geometry is None:
            _plot_bits(ax, model.means_[i], shape or near_square(n))
            if not sure[i].all():
                _plot_bits(ax, np.where(sure[i], np.nan, 0.3), shape or near_square(n), UNSURE)
        else:
            plot_template(ax, model.means_[i] * sure[i], geometry)
            if not sure[i].all():
                plot_template(ax, model.means_[i] * ~sure[i], geometry, color=UNSURE_STROKE)
        ax.set_title(f"{i}: {model.weights_[i]:.0%}", fontsize="medium")
    return places[:k]


def near_square(n: int) -> tuple[int, int]:
    """Rows and columns of a nearly square table that holds n cells.

    The table has exactly n cells if neither side needs to be more than twice the other.
    """
    rows = next(rows for rows in range(math.isqrt(n), 0, -1) if n % rows == 0)
    if n <= 2 * rows * rows:
        return rows, n // rows
    columns = math.isqrt(n - 1) + 1
    return -(-n // columns), columns


def _plot_bits(
    ax: "Axes", values: NDArray[np.float64], shape: tuple[int, int], cmap: str = "Greys"
) -> None:
    cells = np.full(shape[0] * shape[1], np.nan)  # cells after the last column stay empty
    cells[: len(values)] = values
    ax.imshow(cells.reshape(shape), cmap=cmap, vmin=0, vmax=1, interpolation="nearest")
    ax.set(xticks=[], yticks=[])


def plot_margins(model: Any, X: Any, *, ax: "Axes | None" = None) -> "Axes":
    """Draw a histogram of the certainty of labels: the odds of the best to the second template.

    Parameters
    ----------
    model : a fitted estimator with two templates or more
    X : rows, as in `fit`
    ax : matplotlib axes, optional
    """
    if len(model.weights_) < 2:
        raise InputError("a model with one template has no margins: fit two or more")
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
    """Draw where recovery is guaranteed: the least n against m, or the least c against w_min.

    The parameters are those of `bitmix.theory.plan`.
    """
    if over == "w_min" and n is None:
        raise InputError("to draw c against w_min, give n")
    ax = _axes(ax)
    common: dict[str, Any] = {
        "k": k, "q": q, "delta": delta, "epsilon": epsilon, "reading": reading, "pruning": pruning,
    }  # fmt: skip

    def least(x: float, method: Method) -> float | None:
        if over == "m":
            return plan("n", m=int(x), c=c, w_min=w_min, method=method, **common).value
        return plan("c", n=n, m=m, w_min=float(x), method=method, **common).value

    if over == "m":
        across, top = np.unique(np.geomspace(20, max(1000, 2 * m), 16).astype(int)), 1e6
    else:
        across, top = np.linspace(0.04, 1 / k, 16), 1.0
    _curve(ax, across, lambda x: least(x, "theorem"), f"Theorem 1 ({reading})", "paper", top)
    _curve(
        ax, across, lambda x: least(x, "certificate"), "certificate, first on a grid", "certificate"
    )
    if over == "m":
        rows = np.arange(2, 400)
        most = np.log1p(-delta) / np.log1p(-vote_error(rows, q))  # recovery_masks = 1 - δ
        drawn = (most <= top) & (most >= 1)
        ax.plot(rows[drawn], most[drawn], label="limit: no method above", **_STYLES["limit"])
        ax.set(xscale="log", yscale="log", xlabel="rows m", ylabel="columns n", ylim=(1, top))
        ax.set_title(f"least n: c = {c:g}, k = {k}, q = {q:g}, w_min = {w_min:g}, δ = {delta:g}")
    else:
        assert n is not None
        ax.axvline(
            _least_weight(n, m, k, q, delta),
            label="limit: no method left of it\n(labels known, uniform templates)",
            **_STYLES["limit"],
        )
        ax.set(yscale="log", xlabel="least weight w_min", ylabel="separation c", ylim=(1 / n, top))
        ax.set_title(f"least c: n = {n:,}, m = {m}, k = {k}, q = {q:g}, δ = {delta:g}")
    ax.grid(True, which="major", alpha=0.3)
    ax.legend(loc="upper left", bbox_to_anchor=(1.02, 1), frameon=False)
    return ax


def _least_weight(n: int, m: int, k: int, q: float, delta: float) -> float:
    """The least weight at which a cluster's majority can be right with probability 1 - δ."""
    for w in np.linspace(0.002, 1 / k, 200):
        if limit(n, m, k, q, 1, weights_with_least(float(w), k)).recovery_uniform >= 1 - delta:
            return float(w)
    return 1 / k


def save_domain(path: str | PathLike[str], **settings: Any) -> None:
    """Draw `plot_domain` into a PNG or SVG file."""
    with saved_figure(path, (8, 4.5)) as figure:
        plot_domain(figure.subplots(), **settings)


@contextmanager
def saved_figure(path: str | PathLike[str], size: tuple[float, float]) -> "Iterator[Figure]":
    """Give a new figure of this size in inches; write it to a PNG or SVG file at the end."""
    need("matplotlib")
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    yield figure
    form = Path(path).suffix.lower()[1:] or "png"
    undated = {"Date": None} if form == "svg" else {}  # so that equal pictures give equal files
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
    """Draw one boundary; with `top`, shade the domain above it."""
    points = [(x, y) for x in progress(across, label) if (y := least(x)) is not None]
    if points:
        x, y = np.array(points, dtype=np.float64).T
        ax.plot(x, y, label=label, markersize=3.5, **_STYLES[style])
        if top is not None:
            ax.fill_between(x, y, top, color=_STYLES[style]["color"], alpha=0.1, linewidth=0)
    else:
        ax.plot([], [], label=f"{label}: nowhere", **_STYLES[style])


def plot_template(
    ax: "Axes", values: ArrayLike, geometry: Geometry, *, color: str | None = None
) -> "Axes":
    """Draw a row or template as strokes; for means, grey levels show probabilities."""
    from matplotlib.collections import LineCollection

    intensity = geometry.intensities(values).clip(0, 1)
    visible = np.flatnonzero(intensity > 0.02)
    order = visible[np.argsort(intensity[visible], kind="stable")]  # dark strokes on top
    segments = geometry.segments(np.ones(geometry.n_features))
    ax.add_collection(
        LineCollection(
            list(segments[order].reshape(-1, 2, 2)),
            colors=color or [str(round(1 - value, 3)) for value in intensity[order]],
            linewidths=0.9,
            capstyle="round",
        )
    )
    x, y = segments[:, 0::2], segments[:, 1::2]
    pad = 0.02 * (x.max() - x.min())
    ax.set(xlim=(x.min() - pad, x.max() + pad), ylim=(y.max() + pad, y.min() - pad))
    ax.set_aspect("equal")
    return _bare(ax)


def plot_image(ax: "Axes", source: Any, shape: tuple[int, int]) -> "Axes":
    """Draw an image file or array in grey, scaled as for its sketch."""
    with without_size_warnings():
        ax.imshow(read_grey(source, shape), cmap="gray", vmin=0, vmax=1)
    return _bare(ax)


def save_sketches(
    path: str | PathLike[str], images: Sequence[Any], rows: Any, geometry: GaborGeometry
) -> None:
    """Draw at most twelve images beside their sketches (Figure 2) into a PNG or SVG file."""
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
    path: str | PathLike[str], images: Sequence[Any], labels: ArrayLike, means: NDArray[np.float64],
    geometry: GaborGeometry, truth: Sequence[str] | None = None,
) -> None:  # fmt: skip
    """Draw the sheet of Figures 7 and 8 into a file: each template and images of its cluster."""
    with saved_figure(path, (10.35, 1.45 * len(means))) as figure:
        draw_sheet(figure, images, labels, means, geometry, truth)


def draw_sheet(
    figure: "Figure | SubFigure", images: Sequence[Any], labels: ArrayLike,
    means: NDArray[np.float64], geometry: GaborGeometry, truth: Sequence[str] | None = None,
) -> None:  # fmt: skip
    """Draw the sheet of `save_sheet` on a given figure."""
    k, across = len(means), 9
    axes = figure.subplots(k, across, squeeze=False)
    for i in range(k):
        members = np.flatnonzero(np.asarray(labels) == i)
        plot_template(axes[i, 0], means[i], geometry)
        axes[i, 0].set_title(_cluster_title(members, truth), fontsize=7.5, loc="left")
        for ax in axes[i, 1:]:
            ax.axis("off")
        for ax, j in zip(axes[i, 1:], _spread(len(members), across - 1), strict=False):
            ax.axis("on")
            plot_image(ax, images[members[j]], geometry.shape)


def _spread(count: int, most: int) -> list[int]:
    """At most `most` of the numbers 0 … count-1, evenly spaced."""
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
