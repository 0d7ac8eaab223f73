"""TemplateMixture against the original EM 10 × 10, which is given the true noise.

    python -m benchmarks.quality

Exact recovery on three grids of planted mixtures in paired runs, beside an oracle that knows every
membership. Every run is stored; the same command continues after an interruption.
"""

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bitmix.plots import saved_figure
from reproduction.methods import KNOWN, ORACLE, TEMPLATE_MIXTURE, classic
from reproduction.runner import run_sweeps
from reproduction.runs import Run, ask
from reproduction.store import Store
from reproduction.tasks import execute

OURS = TEMPLATE_MIXTURE.params
THEIRS = classic(10, 10, noise=KNOWN).params
LEVEL = 0.05


def grids() -> Iterator[tuple[str, dict[str, Any]]]:
    """Grid A: the dogs. B: the paper's pair. C: k random templates, weights ∝ 1 … k."""
    for q in (0.1, 0.2):
        for w in (0.4, 0.2):
            for m in (50, 100, 200, 400, 800):
                yield f"A q={q} w={w} m={m}", {"templates": "dogs", "q": q, "m": m, "w_min": w}
    for w in (0.05, 0.1, 0.2, 0.5):
        for d in (5, 10, 20, 40):
            at = {"templates": "pair", "q": 0.01, "n": 2000, "d": d, "m": 300, "w_min": w}
            yield f"B w={w} c={d / 2000}", at
    for k in (3, 5, 10):
        for c in (0.05, 0.1, 0.2):
            for q in (0.05, 0.2):
                at = {
                    "templates": "random", "n": 1000, "c": c, "q": q, "m": 50 * k,
                    "weights": [i / (k * (k + 1) / 2) for i in range(1, k + 1)],
                    "templates_seed": 0,
                }  # fmt: skip
                yield f"C k={k} c={c} q={q}", at


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--only", default="", help="settings whose name starts like this")
    parser.add_argument(
        "--cost", type=int, default=9, help="fits to time at each setting; 0 for none"
    )
    parser.add_argument("--plot", type=Path, help="draw the rates into this file")
    parser.add_argument("--store", type=Path, default=Path("quality.sqlite"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # few rows and few survivors are meant
    settings = [(name, at) for name, at in grids() if name.startswith(args.only)]
    seeds = range(args.first_seed, args.first_seed + args.runs)
    sweeps = [
        ask([Run("planted", at, method, seed) for seed in seeds])
        for _, at in settings
        for method in (OURS, THEIRS, ORACLE.params)
    ]
    with Store(args.store) as store:
        answers = run_sweeps(sweeps, store, args.jobs, "quality")
    rates = np.array([[result["recovered"] for result in results] for results in answers])
    print(f"{'':<24}{'ours':>7}{'EM':>7}{'oracle':>8}   paired p (ours worse)")
    worse = far = 0
    for (name, _), (ours, theirs, oracle) in zip(
        settings, rates.reshape(-1, 3, args.runs), strict=True
    ):
        lost, won = int((theirs & ~ours).sum()), int((ours & ~theirs).sum())
        p = float(stats.binom.sf(lost - 1, lost + won, 0.5)) if lost + won else 1.0
        notes = []
        if p < LEVEL / len(settings):
            worse += 1
            notes.append("WORSE")
        if oracle.mean() > 0.9 and ours.mean() < oracle.mean() - 0.03:
            far += 1
            notes.append("3 POINTS BELOW THE ORACLE")
        print(
            f"{name:<24}{ours.mean():>7.3f}{theirs.mean():>7.3f}{oracle.mean():>8.3f}   "
            f"{p:.2g} {' '.join(notes)}"
        )
    ours, theirs, _ = rates.reshape(-1, 3, args.runs).mean(axis=(0, 2))
    print(
        f"{len(settings)} settings: {worse} worse, {far} below the oracle; "
        f"mean {ours:.4f} / {theirs:.4f}"
    )
    models = Counter(
        result["noise_model"]
        for results in answers
        for result in results
        if "noise_model" in result
    )
    print("noise models that were chosen:", ", ".join(f"{m} {c}" for m, c in models.most_common()))
    if args.plot:
        draw(
            args.plot, [name for name, _ in settings], rates.reshape(-1, 3, args.runs).mean(axis=2)
        )
    if args.cost:
        ratios = [(cost(at, args.cost), name) for name, at in settings]
        least, most = min(ratios), max(ratios)
        print(
            f"time of a warm fit relative to the original EM's, medians of {args.cost} fits: "
            f"median {np.median([ratio for ratio, _ in ratios]):.2f}, "
            f"least {least[0]:.2f} ({least[1]}), most {most[0]:.2f} ({most[1]})"
        )


def draw(path: Path, names: list[str], rates: NDArray[np.float64]) -> None:
    """One line of dots per setting in which a method fails in more than one run of a hundred."""
    shown = [(name, *row) for name, row in zip(names, rates, strict=True) if 0 < row.min() < 0.99]
    with saved_figure(path, (7, 0.8 + 0.27 * len(shown))) as figure:
        ax = figure.subplots()
        for y, (_, ours, theirs, oracle) in enumerate(shown):
            ax.plot([min(ours, theirs, oracle), max(ours, theirs, oracle)], [y, y], color="0.8")
            ax.plot(oracle, y, "o", mfc="none", mec="black", ms=9, label="oracle")
            ax.plot(theirs, y, "s", color="#999999", ms=6, label="original EM, noise known")
            ax.plot(ours, y, "o", color="#0072B2", ms=6, label="TemplateMixture")
        ax.set_yticks(range(len(shown)), [name for name, *_ in shown])
        ax.invert_yaxis()
        ax.set(
            xlim=(-0.02, 1.02),
            xlabel="fraction of runs that recover every template to the last bit",
        )
        ax.grid(True, axis="x", alpha=0.3)
        handles, labels = ax.get_legend_handles_labels()
        figure.legend(handles[:3], labels[:3], loc="outside upper center", ncols=3, frameon=False)


def cost(at: dict[str, Any], fits: int) -> float:
    """The time of our fit relative to theirs: medians of fits by turns in this process."""
    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for seed in range(fits + 1):
        for name, method in (("ours", OURS), ("theirs", THEIRS)):
            start = time.perf_counter()
            execute(Run("planted", at, method, seed))
            seconds[name].append(time.perf_counter() - start)
    start = time.perf_counter()
    for seed in range(fits):
        execute(Run("planted", at, ORACLE.params, seed))
    sampling = (time.perf_counter() - start) / fits  # a part of both, slightly overestimated
    ours, theirs = (float(np.median(times[1:])) - sampling for times in seconds.values())
    return ours / theirs


if __name__ == "__main__":
    main()
