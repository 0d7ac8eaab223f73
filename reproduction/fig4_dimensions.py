"""Figure 4: the numbers of rows m and columns n that suffice.

The measured boundary is the least m for each n, because success does not grow with n: with one
column any two distinct templates are right, and with few rows each further column is one more to
get wrong. Success does grow with m, except for a few columns at high noise. Points at which the
largest m fails again have ``grows`` = False in the CSV file and are not drawn.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bitmix.theory import guarantee
from reproduction import oracle
from reproduction.boundary import boundary, geometric, verdict
from reproduction.methods import CERTIFICATES, KNOWN, TEMPLATE_MIXTURE, Method, two_round
from reproduction.runs import Run, Sweep, ask
from reproduction.session import Session
from reproduction.style import (
    BLACK,
    BLUE,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    YELLOW,
    legend_beside,
    line,
    style,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOISES = (0.0001, 0.01, 0.1, 0.2)
C, K, W_MIN, DELTA, EPSILON = 1.0, 2, 0.5, 0.1, 0.1
COLUMNS = (2, 3, 4, 6, 10, 20, 50, 150, 500, 1500, 5000)
QUICK_COLUMNS = (3, 20, 500)
ROWS = (40, 60, 80, 120, 180, 300, 500, 1000)
QUICK_ROWS = (60, 300)
MAX_COLUMNS = 10_000_000
MIN_ROWS, MAX_ROWS = 4, 2000

METHODS = (two_round(2, min_weight=KNOWN), TEMPLATE_MIXTURE)
CONDITIONS = {  # 2 and 3 have wide lines, as C2 and C3 often lie on top of them
    "2": line(ORANGE, "-", width=4) | {"alpha": 0.45},
    "3": line(SKY, "-", width=4) | {"alpha": 0.45},
    "4": line(BLACK, "-"), "C1": line(RED, ":"), "C2": line(ORANGE, ":"), "C3": line(BLUE, ":"),
}  # fmt: skip


def reproduce(session: Session) -> list[Path]:
    points = [
        (q, method, _measured(session, q, method, n))
        for q in NOISES for method in METHODS
        for n in (QUICK_COLUMNS if session.quick else COLUMNS)
    ]  # fmt: skip
    points += [
        (q, method, _certified(q, method, m))
        for q in NOISES for method in CERTIFICATES
        for m in (QUICK_ROWS if session.quick else ROWS)
    ]  # fmt: skip
    boundaries = session.run("fig4", [sweep for *_, sweep in points])
    rows: list[dict[str, Any]] = [
        {"q": q, "curve": method.label, "ours": method.ours, **values}
        for (q, method, _), values in zip(points, boundaries, strict=True)
    ]
    for q in NOISES:
        rows += _conditions(q)
        rows += _theorem(q, "printed") + _theorem(q, "corrected")
        rows += _oracle(q)
    return session.write("fig4", rows, lambda figure: draw(figure, rows), (11.5, 8.2))


def _measured(session: Session, q: float, method: Method, n: int) -> Sweep[dict[str, Any]]:
    def run_at(m: float, seed: int) -> Run:
        setting = {"templates": "pair", "q": q, "n": n, "d": n, "m": m, "w_min": W_MIN}
        return Run("planted", setting, method.params, seed)

    rows = geometric(MIN_ROWS, MAX_ROWS, 0.2 if session.quick else 0.05)
    least = yield from boundary(rows, run_at, session.runs, session.first_seed)
    grows, _ = yield from verdict(rows[-1], run_at, session.runs, session.first_seed)
    return {"n": n, **least.row("m"), "grows": grows}


def _certified(q: float, method: Method, m: int) -> Sweep[dict[str, Any]]:
    setting = {
        "solve_for": "n", "q": q, "m": m, "k": K, "c": C, "w_min": W_MIN, "delta": DELTA,
        "epsilon": EPSILON,
    }  # fmt: skip
    (result,) = yield from ask([Run("least", setting, method.params, 0)])
    return {"m": m, "n": result["value"]}


def _conditions(q: float) -> Iterator[dict[str, Any]]:
    """Each condition alone, as printed: the least n for each m; for 2 and C2 the least m per n."""
    for name in CONDITIONS:
        curve = f"condition {name}" if name.isdigit() else name
        if name in ("2", "C2"):
            for n in np.geomspace(1, MAX_COLUMNS, 60).round().astype(int).tolist():
                needs = _at(q, n, 300).conditions[name].needs
                yield {"q": q, "curve": curve, "ours": False, "m": needs, "n": n}
        else:
            for m in np.geomspace(MIN_ROWS, MAX_ROWS, 30).round().astype(int).tolist():
                least = _least(lambda n, m=m, name=name: _holds(q, n, m, name))  # type: ignore[misc]
                yield {"q": q, "curve": curve, "ours": False, "m": m, "n": least}


def _theorem(q: float, reading: str) -> list[dict[str, Any]]:
    """The least and the largest n for which all conditions hold, over m."""
    curve = "Theorem 1, as printed" if reading == "printed" else "Theorem 1, corrected"
    rows = []
    columns = sorted({round(n) for n in np.geomspace(1, MAX_COLUMNS, 200)})
    for m in np.unique(np.geomspace(200, MAX_ROWS, 60).round().astype(int)).tolist():

        def holds(n: int, m: int = m) -> bool:
            return bool(_at(q, n, m, reading).holds)

        enough = [place for place, n in enumerate(columns) if holds(n)]
        least = most = None
        if enough:
            least = _first(holds, columns[enough[0] - 1], columns[enough[0]])
        if enough and enough[-1] + 1 < len(columns):  # otherwise they hold beyond the figure
            last = columns[enough[-1]]
            most = _first(lambda n: not holds(n), last, columns[enough[-1] + 1]) - 1
        rows.append({
            "q": q, "curve": curve, "ours": reading != "printed", "m": m, "n": least,
            "n_most": most,
        })  # fmt: skip
    return rows


def _oracle(q: float) -> Iterator[dict[str, Any]]:
    """The largest n at which the oracle recovers both templates in 90 % of runs, over m."""

    def right(n: int, m: int) -> bool:
        return oracle.recovery(n, n, m, q, W_MIN) >= 1 - DELTA

    for m in np.unique(np.geomspace(MIN_ROWS, 200, 40).round().astype(int)).tolist():
        least_wrong = _least(lambda n, m=m: not right(n, m))  # type: ignore[misc]
        most = None if least_wrong is None else least_wrong - 1
        yield {"q": q, "curve": "membership oracle", "ours": True, "m": m, "n_most": most}


def _holds(q: float, n: int, m: int, name: str) -> bool:
    """Whether a condition holds; condition 4 squares ε0, so it needs ε0 > 0 in addition."""
    at = _at(q, n, m)
    return bool(at.conditions[name].holds and (name != "4" or at.epsilon0 > 0))


def _at(q: float, n: int, m: int, reading: Any = "printed") -> Any:
    return guarantee(n, m, K, q, C, W_MIN, DELTA, EPSILON, reading=reading)


def _least(holds: Callable[[int], bool]) -> int | None:
    """The least n for which `holds` is true, assuming that it stays true from there on."""
    return _first(holds, 0, MAX_COLUMNS) if holds(MAX_COLUMNS) else None


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def draw(figure: "Figure", rows: Sequence[dict[str, Any]]) -> None:
    axes = figure.subplots(2, 2, sharex=True, sharey=True)
    for ax, q in zip(axes.flat, NOISES, strict=True):
        here = [row for row in rows if row["q"] == q]

        def curve(name: str, y: str = "n", here: Any = here) -> tuple[list[Any], list[Any]]:
            points = [
                (row["m"], np.nan if row.get(y) is None else row[y]) for row in here
                if row["curve"] == name and row["m"] is not None and row.get("grows", True)
            ]  # fmt: skip
            return [m for m, _ in points], [n for _, n in points]

        for method in (*METHODS, *CERTIFICATES):
            look = style(method.label)
            if method is METHODS[0]:  # the curve of TemplateMixture often covers it
                look |= {"markersize": 8, "markerfacecolor": "none"}
            ax.plot(*curve(method.label), label=_legend(method), **look)
        for name, look in CONDITIONS.items():
            full = f"condition {name}" if name.isdigit() else name
            ax.plot(*curve(full), label=full, **look)
        for label, hatch in (("Theorem 1, as printed", None), ("Theorem 1, corrected", "///")):
            x, low = curve(label)
            high = [MAX_COLUMNS if np.isnan(most) else most for most in curve(label, "n_most")[1]]
            name = "all conditions" + (", corrected (ours)" if hatch else ", as printed")
            ax.fill_between(
                x, low, high, alpha=0.9 if hatch else 0.25, hatch=hatch, label=name,
                facecolor="none" if hatch else YELLOW, edgecolor=PURPLE, linewidth=0.6,
            )  # fmt: skip
        ax.plot(
            *curve("membership oracle", "n_most"), label="membership oracle (ours): below",
            **style("membership oracle"),
        )  # fmt: skip
        ax.set(xscale="log", yscale="log", xlim=(MIN_ROWS, MAX_ROWS), ylim=(1, MAX_COLUMNS))
        ax.set_title(f"q = {q:g}", fontsize=10)
        tidy(ax)
    for ax in axes[-1]:
        ax.set_xlabel("rows $m$")
    for ax in axes[:, 0]:
        ax.set_ylabel("columns $n$")
    legend_beside(
        figure, axes.flat, title=f"c = {C:g}, k = {K}, $w_{{min}}$ = {W_MIN:g}, δ = ε = {DELTA:g}"
    )


def _legend(method: Method) -> str:
    measured = method.params.get("estimator") is not None
    return f"{method.legend}, measured" if measured else method.legend
