"""Figure 6: how often both dogs are recovered, over the number of examples."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bitmix.datasets import sketch_dogs
from reproduction.boundary import binomial_interval
from reproduction.methods import KNOWN, ORACLE, TEMPLATE_MIXTURE, Method, two_round
from reproduction.runs import Run, Sweep, ask
from reproduction.session import Session
from reproduction.style import legend_beside, style, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WEIGHTS, NOISES, DELTA, K = (0.4, 0.2), (0.1, 0.2), 0.1, 2
EXAMPLES = (25, 50, 75, 100, 150, 200, 300, 400, 600, 800, 1000, 1500)
QUICK_EXAMPLES = (50, 100, 200, 400)
METHODS = (
    two_round(2, min_weight=KNOWN),
    two_round(10, min_weight=KNOWN),
    TEMPLATE_MIXTURE,
    ORACLE,
)
_BOUND = "bound of condition 2"
_CERTIFICATE = Method("certificate, Hamming pruning", {"pruning": "hamming"}, ours=True)


def reproduce(session: Session) -> list[Path]:
    counts = QUICK_EXAMPLES if session.quick else EXAMPLES
    points = [
        (w, q, m, method, _rate(session, w, q, m, method))
        for w in WEIGHTS for q in NOISES for m in counts for method in METHODS
    ]  # fmt: skip
    points += [
        (w, q, m, _CERTIFICATE, _certified(w, q, m))
        for w in WEIGHTS for q in NOISES for m in counts
    ]  # fmt: skip
    rates = session.run("fig6", [sweep for *_, sweep in points])
    rows: list[dict[str, Any]] = [
        {"w_min": w, "q": q, "m": m, "method": method.label, "ours": method.ours, **rate}
        for (w, q, m, method, _), rate in zip(points, rates, strict=True)
    ]
    rows += [
        {"w_min": w, "m": m, "method": _BOUND, "ours": False, "rate": bound(m, w)}
        for w in WEIGHTS for m in np.linspace(25, 1500, 60).round().astype(int).tolist()
    ]  # fmt: skip
    return session.write("fig6", rows, lambda figure: draw(figure, rows), (11.5, 4.4))


def bound(m: int, w_min: float) -> float:
    """1 - 12k·exp(-m·w_min/8), the bound of condition 2, or 0 where it is negative."""
    return max(0.0, 1 - 12 * K * math.exp(-m * w_min / 8))


def _rate(session: Session, w: float, q: float, m: int, method: Method) -> Sweep[dict[str, Any]]:
    setting = {"templates": "dogs", "q": q, "m": m, "w_min": w}
    results = yield from ask([Run("planted", setting, method.params, s) for s in session.seeds])
    successes = sum(result["recovered"] for result in results)
    low, high = binomial_interval(successes, session.runs)
    return {
        "rate": successes / session.runs, "rate_low": low, "rate_high": high,
        "successes": successes, "runs": session.runs,
    }  # fmt: skip


def _certified(w: float, q: float, m: int) -> Sweep[dict[str, Any]]:
    """The certificate's lower bound on the rate of recovery."""
    dogs = sketch_dogs()
    setting = {
        "n": dogs.shape[1], "d": int((dogs[0] != dogs[1]).sum()), "q": q, "m": m, "w_min": w,
        "delta": DELTA,
    }  # fmt: skip
    (result,) = yield from ask([Run("failure", setting, _CERTIFICATE.params, 0)])
    return {"rate": 1 - min(1.0, result["failure"])}


def draw(figure: "Figure", rows: Sequence[dict[str, Any]]) -> None:
    axes = figure.subplots(1, 2, sharey=True)
    for ax, w in zip(axes, WEIGHTS, strict=True):
        for method in (*METHODS, _CERTIFICATE):
            for q in NOISES:
                curve = [
                    row for row in rows
                    if (row["w_min"], row.get("q"), row["method"]) == (w, q, method.label)
                ]  # fmt: skip
                look = style(method.label) | {"linestyle": "-" if q == NOISES[0] else "--"}
                if q != NOISES[0]:
                    look["markerfacecolor"] = "white"
                x = [row["m"] for row in curve]
                rate = np.array([row["rate"] for row in curve])
                reach = None
                if method is not _CERTIFICATE:
                    low, high = (
                        np.array([row[f"rate_{end}"] for row in curve]) for end in ("low", "high")
                    )
                    reach = np.array([rate - low, high - rate])
                ax.errorbar(
                    x, rate, reach, label=f"{method.legend}, q = {q:g}", elinewidth=0.7, **look
                )
        m = [row["m"] for row in rows if (row["w_min"], row["method"]) == (w, _BOUND)]
        least = [row["rate"] for row in rows if (row["w_min"], row["method"]) == (w, _BOUND)]
        ax.plot(m, least, label=r"$1-12k\,e^{-m w_{min}/8}$", color="0.45", lw=2.2, ls=":")
        ax.set(xlabel="examples $m$", ylim=(-0.02, 1.03), xlim=(0, 1.03 * max(x)))
        ax.set_title(f"$w_{{min}}$ = {w:g}", fontsize=10)
        tidy(ax)
    axes[0].set_ylabel("fraction of runs that recover both templates")
    legend_beside(figure, axes, title="bars: 95 % intervals")
