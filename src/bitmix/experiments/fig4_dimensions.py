"""Figure 4: rows m and columns n that are enough.

The measured boundary is the least m for each n. Over n success does not grow: with one column any
two distinct templates are right, and with few rows more columns are more to get wrong. Over m it
does, but for a handful of columns at high noise: where the most rows fail again, the point is
marked and not drawn.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bitmix.experiments import oracle
from bitmix.experiments.bench import Bench
from bitmix.experiments.boundary import boundary, geometric, verdict
from bitmix.experiments.cells import Cell, Sweep, ask
from bitmix.experiments.methods import BETTER, CERTIFICATES, KNOWN, Method, two_round
from bitmix.experiments.style import (
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
from bitmix.theory import guarantee

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOISES = (0.0001, 0.01, 0.1, 0.2)
C, K, W_MIN, DELTA, EPSILON = 1.0, 2, 0.5, 0.1, 0.1
COLUMNS = (2, 3, 4, 6, 10, 20, 50, 150, 500, 1500, 5000)
QUICK_COLUMNS = (3, 20, 500)
ROWS = (40, 60, 80, 120, 180, 300, 500, 1000)
QUICK_ROWS = (60, 300)
TOP = 10_000_000
LEAST_ROWS, MOST_ROWS = 4, 2000

METHODS = (two_round(2, min_weight=KNOWN), BETTER)
CONDITIONS = {
    "2": line(ORANGE, "-", width=4) | {"alpha": 0.45},  # wide: 2 and C2, 3 and C3 often coincide
    "3": line(SKY, "-", width=4) | {"alpha": 0.45},
    "4": line(BLACK, "-"), "C1": line(RED, ":"), "C2": line(ORANGE, ":"), "C3": line(BLUE, ":"),
}  # fmt: skip


def reproduce(bench: Bench) -> None:
    points = [
        (q, method, _measured(bench, q, method, n))
        for q in NOISES for method in METHODS
        for n in (QUICK_COLUMNS if bench.quick else COLUMNS)
    ]  # fmt: skip
    points += [
        (q, method, _certified(q, method, m))
        for q in NOISES for method in CERTIFICATES
        for m in (QUICK_ROWS if bench.quick else ROWS)
    ]  # fmt: skip
    findings = bench.run("fig4", [sweep for *_, sweep in points])
    rows: list[dict[str, Any]] = [
        {"q": q, "curve": method.label, "ours": method.ours, **found}
        for (q, method, _), found in zip(points, findings, strict=True)
    ]
    for q in NOISES:
        rows += _conditions(q)
        rows += _theorem(q, "printed") + _theorem(q, "corrected")
        rows += _oracle(q)
    bench.write("fig4", rows, lambda figure: draw(figure, rows), (11.5, 8.2))


def _measured(bench: Bench, q: float, method: Method, n: int) -> Sweep[dict[str, Any]]:
    def cell_at(m: float, seed: int) -> Cell:
        setting = {"templates": "pair", "q": q, "n": n, "d": n, "m": m, "w_min": W_MIN}
        return Cell("planted", setting, method.params, seed)

    rows = geometric(LEAST_ROWS, MOST_ROWS, 0.2 if bench.quick else 0.05)
    found = yield from boundary(rows, cell_at, bench.runs, bench.first_seed)
    at_most, _ = yield from verdict(rows[-1], cell_at, bench.runs, bench.first_seed)
    return {"n": n, **found.row("m"), "grows": at_most}


def _certified(q: float, method: Method, m: int) -> Sweep[dict[str, Any]]:
    setting = {
        "solve_for": "n", "q": q, "m": m, "k": K, "c": C, "w_min": W_MIN, "delta": DELTA,
        "epsilon": EPSILON,
    }  # fmt: skip
    (result,) = yield from ask([Cell("least", setting, method.params, 0)])
    return {"m": m, "n": result["value"]}


def _conditions(q: float) -> Iterator[dict[str, Any]]:
    """Each condition alone, as printed: a least n for every m, or (2 and C2) a least m a n."""
    for name in CONDITIONS:
        curve = f"condition {name}" if name.isdigit() else name
        if name in ("2", "C2"):
            for n in np.geomspace(1, TOP, 60).round().astype(int).tolist():
                needs = _at(q, n, 300).conditions[name].needs
                yield {"q": q, "curve": curve, "ours": False, "m": needs, "n": n}
        else:
            for m in np.geomspace(LEAST_ROWS, MOST_ROWS, 30).round().astype(int).tolist():
                least = _least(lambda n, m=m, name=name: _holds(q, n, m, name))  # type: ignore[misc]
                yield {"q": q, "curve": curve, "ours": False, "m": m, "n": least}


def _theorem(q: float, reading: str) -> list[dict[str, Any]]:
    """From which n to which n all conditions hold, over m."""
    curve = "Theorem 1, as printed" if reading == "printed" else "Theorem 1, corrected"
    rows = []
    columns = sorted({round(n) for n in np.geomspace(1, TOP, 200)})
    for m in np.unique(np.geomspace(200, MOST_ROWS, 60).round().astype(int)).tolist():

        def holds(n: int, m: int = m) -> bool:
            return bool(_at(q, n, m, reading).holds)

        enough = [place for place, n in enumerate(columns) if holds(n)]
        least = most = None
        if enough:
            least = _first(holds, columns[enough[0] - 1], columns[enough[0]])
        if enough and enough[-1] + 1 < len(columns):  # otherwise it holds beyond the figure
            last = columns[enough[-1]]
            most = _first(lambda n: not holds(n), last, columns[enough[-1] + 1]) - 1
        rows.append({
            "q": q, "curve": curve, "ours": reading != "printed", "m": m, "n": least,
            "n_most": most,
        })  # fmt: skip
    return rows


def _oracle(q: float) -> Iterator[dict[str, Any]]:
    """Memberships known, more columns are more to get wrong: the most n at 90 %."""

    def right(n: int, m: int) -> bool:
        return oracle.recovery(n, n, m, q, W_MIN) >= 1 - DELTA

    for m in np.unique(np.geomspace(LEAST_ROWS, 200, 40).round().astype(int)).tolist():
        least_wrong = _least(lambda n, m=m: not right(n, m))  # type: ignore[misc]
        most = None if least_wrong is None else least_wrong - 1
        yield {"q": q, "curve": "membership oracle", "ours": True, "m": m, "n_most": most}


def _holds(q: float, n: int, m: int, name: str) -> bool:
    """One condition; condition 4 squares ε0 and so holds again where that is below 0."""
    at = _at(q, n, m)
    return bool(at.conditions[name].holds and (name != "4" or at.epsilon0 > 0))


def _at(q: float, n: int, m: int, reading: Any = "printed") -> Any:
    return guarantee(n, m, K, q, C, W_MIN, DELTA, EPSILON, reading=reading)


def _least(holds: Callable[[int], bool]) -> int | None:
    """The first n that holds, taking it to hold from there on."""
    return _first(holds, 0, TOP) if holds(TOP) else None


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
            if method is METHODS[0]:  # often hidden under ours
                look |= {"markersize": 8, "markerfacecolor": "none"}
            ax.plot(*curve(method.label), label=_legend(method), **look)
        for name, look in CONDITIONS.items():
            full = f"condition {name}" if name.isdigit() else name
            ax.plot(*curve(full), label=full, **look)
        for label, hatch in (("Theorem 1, as printed", None), ("Theorem 1, corrected", "///")):
            x, low = curve(label)
            high = [TOP if np.isnan(most) else most for most in curve(label, "n_most")[1]]
            name = "all conditions" + (", corrected (ours)" if hatch else ", as printed")
            ax.fill_between(
                x, low, high, alpha=0.9 if hatch else 0.25, hatch=hatch, label=name,
                facecolor="none" if hatch else YELLOW, edgecolor=PURPLE, linewidth=0.6,
            )  # fmt: skip
        ax.plot(
            *curve("membership oracle", "n_most"), label="membership oracle: below (ours)",
            **style("membership oracle"),
        )  # fmt: skip
        ax.set(xscale="log", yscale="log", xlim=(LEAST_ROWS, MOST_ROWS), ylim=(1, TOP))
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
