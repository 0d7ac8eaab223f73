"""Pictures, on axes you give or on new ones. matplotlib is loaded when one is drawn."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bitmix.atomic import atomic_write
from bitmix.theory import limit, plan
from bitmix.theory.limit import vote_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, with line styles that still differ in grey
_STYLES: dict[str, dict[str, Any]] = {
    "paper": {"color": "#0072B2", "linestyle": "-", "marker": "o"},
    "certificate": {"color": "#D55E00", "linestyle": "--", "marker": "s"},
    "limit": {"color": "#000000", "linestyle": ":"},
}


def plot_domain(
    ax: "Axes",
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
        weights = [w] + [(1 - w) / (k - 1)] * (k - 1)
        if limit(n, m, k, q, 1, weights).recovery_uniform >= 1 - delta:
            return float(w)
    return 1 / k


def save_domain(path: Path, **settings: Any) -> None:
    """`plot_domain` into a PNG or SVG file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    plot_domain(figure.subplots(), **settings)
    with atomic_write(path) as file:
        figure.savefig(file, format=path.suffix.lower()[1:], dpi=150)


def _curve(
    ax: "Axes",
    across: Any,
    least: Callable[[Any], float | None],
    label: str,
    style: str,
    top: float | None = None,
) -> None:
    """One boundary; with `top`, the domain above it is shaded."""
    points = [(x, y) for x in _progress(across, label) if (y := least(x)) is not None]
    if points:
        x, y = np.array(points, dtype=np.float64).T
        ax.plot(x, y, label=label, markersize=3.5, **_STYLES[style])
        if top is not None:
            ax.fill_between(x, y, top, color=_STYLES[style]["color"], alpha=0.1, linewidth=0)
    else:
        ax.plot([], [], label=f"{label}: nowhere", **_STYLES[style])


def _progress(values: Iterable[Any], label: str) -> Iterator[Any]:
    """A bar on a terminal, nothing elsewhere."""
    try:
        from rich.console import Console
        from rich.progress import track
    except ModuleNotFoundError:
        yield from values
        return
    console = Console(stderr=True)
    yield from track(
        list(values), label, console=console, transient=True, disable=not console.is_terminal
    )
