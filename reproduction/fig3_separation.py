"""Figure 3: the least separation c that suffices, over the least weight w_min."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reproduction import oracle
from reproduction.boundary import boundary, geometric
from reproduction.methods import (
    CERTIFICATES,
    KNOWN,
    ORACLE,
    TEMPLATE_MIXTURE,
    Method,
    classic,
    two_round,
)
from reproduction.runs import Run, Sweep, ask
from reproduction.session import Session
from reproduction.style import legend_beside, style, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = ({"q": 0.01, "n": 2000}, {"q": 0.1, "n": 10_000})
M, K, DELTA, EPSILON = 300, 2, 0.1, 0.1
WEIGHTS = (0.03, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
QUICK_WEIGHTS = (0.1, 0.3, 0.5)
THEOREM_WEIGHTS = (0.4137, 0.42, 0.43, 0.44, 0.46, 0.48, 0.5)
"""Below .4137 the theorem has no domain, as 8l exceeds the 300 rows."""

METHODS = (
    two_round(2, min_weight=KNOWN),
    two_round(10, min_weight=KNOWN),
    *(classic(iterations, starts, noise=KNOWN) for iterations in (2, 10) for starts in (1, 5, 10)),
    TEMPLATE_MIXTURE,
)
GUARANTEES = (
    Method("Theorem 1, as printed", {"method": "theorem", "reading": "printed"}),
    Method("Theorem 1, corrected", {"method": "theorem", "reading": "corrected"}, ours=True),
    *CERTIFICATES,
)
ORACLE_SEPARATION = 0.02  # the oracle hardly depends on it


def reproduce(session: Session) -> list[Path]:
    weights = QUICK_WEIGHTS if session.quick else WEIGHTS
    points = [
        (panel, method, w, _measured(session, panel, method, w))
        for panel in PANELS
        for method in METHODS
        for w in weights
    ]
    points += [
        (panel, method, w, _guaranteed(panel, method, w))
        for panel in PANELS
        for method in GUARANTEES
        for w in (_theorem_weights(session) if method.params["method"] == "theorem" else weights)
    ]
    separations = session.run("fig3", [sweep for *_, sweep in points])
    rows = [
        {"q": panel["q"], "n": panel["n"], "m": M, "method": method.label, "ours": method.ours,
         "w_min": w, **separation}
        for (panel, method, w, _), separation in zip(points, separations, strict=True)
    ]  # fmt: skip
    rows += [
        {"q": panel["q"], "n": panel["n"], "m": M, "method": ORACLE.label, "ours": True,
         "w_min": _oracle(panel)}
        for panel in PANELS
    ]  # fmt: skip
    return session.write("fig3", rows, lambda figure: draw(figure, rows), (11.5, 4.8))


def _theorem_weights(session: Session) -> Sequence[float]:
    return THEOREM_WEIGHTS[::3] if session.quick else THEOREM_WEIGHTS


def _oracle(panel: Any) -> float:
    """The least weight at which the oracle recovers both templates in 90 % of runs."""
    n, q = panel["n"], panel["q"]
    weights: list[float] = np.arange(0.002, 0.5, 0.001).round(3).tolist()
    d = round(ORACLE_SEPARATION * n)
    return next(w for w in weights if oracle.recovery(n, d, M, q, w) >= 1 - DELTA)


def _measured(session: Session, panel: Any, method: Method, w: float) -> Sweep[dict[str, Any]]:
    def run_at(c: float, seed: int) -> Run:
        setting = {
            "templates": "pair", **panel, "d": round(c * panel["n"]), "m": M, "w_min": w,
        }  # fmt: skip
        return Run("planted", setting, method.params, seed)

    distances = geometric(1, panel["n"], 0.2 if session.quick else 0.05)
    separations = [d / panel["n"] for d in distances]
    least = yield from boundary(separations, run_at, session.runs, session.first_seed)
    return least.row("c")


def _guaranteed(panel: Any, method: Method, w: float) -> Sweep[dict[str, Any]]:
    setting = {
        "solve_for": "c", **panel, "m": M, "k": K, "w_min": w, "delta": DELTA, "epsilon": EPSILON,
    }  # fmt: skip
    (result,) = yield from ask([Run("least", setting, method.params, 0)])
    return {"c": result["value"]}


def draw(figure: "Figure", rows: Sequence[dict[str, Any]]) -> None:
    axes = figure.subplots(1, 2)
    for ax, panel in zip(axes, PANELS, strict=True):
        here = [row for row in rows if row["q"] == panel["q"]]
        nowhere = []
        for method in (*METHODS, *GUARANTEES):
            curve = [row for row in here if row["method"] == method.label]
            x = np.array([row["w_min"] for row in curve])
            y = np.array([row["c"] for row in curve], dtype=np.float64)  # None is a gap
            ax.plot(x, y, label=method.legend, **style(method.label))
            if np.isnan(y).all():
                nowhere.append(method.legend)
            elif method.label == "Theorem 1, as printed":
                ax.fill_between(x, y, 1, color=style(method.label)["color"], alpha=0.15, lw=0)
        for row in here:
            if row["method"] == ORACLE.label:
                label = f"{ORACLE.legend}: to the right"
                ax.axvline(row["w_min"], label=label, **style(ORACLE.label))
        if nowhere:
            text = "nowhere: " + ", ".join(nowhere)
            ax.text(0.98, 0.015, text, transform=ax.transAxes, ha="right", fontsize=7.5)
        ax.set(yscale="log", xlim=(0, 0.515), ylim=(0.5 / panel["n"], 1.05))
        ax.set(xlabel="least weight $w_{min}$", ylabel="separation $c$")
        ax.set_title(f"q = {panel['q']:g}, n = {panel['n']:,}, m = {M}", fontsize=10)
        tidy(ax)
    legend_beside(
        figure,
        axes,
        title="90 % of runs succeed (guarantees: must\nsucceed) above and right of a curve",
    )
