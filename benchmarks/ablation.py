"""What each ingredient of the search is worth: every one left out in turn.

    BITMIX_TABLES=folder python -m benchmarks.ablation [--seeds 5] [--results FILE]

Real tables: the objective per row that `noise_model="cell"` reaches, less that of the whole search.
Planted templates: the fraction of runs that recover every template, `noise_model="shared"`, on
settings of `benchmarks.quality` that are neither always nor never solved. Every number is one line
of the results file; the same command goes on where it was stopped.
"""

import argparse
import contextlib
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import RealTable, real_tables
from benchmarks.results_file import ResultsFile
from bitmix import BitMatrix, TemplateMixture
from bitmix.em import noise, search
from reproduction.runs import Run
from reproduction.tasks import execute

HEADER = ("ingredient", "problem", "seed", "value", "seconds")
NEVER = 10**9
MORE_COMPONENTS = {"cnae9": 30, "semeion": 50, "webkb": 50, "molecules10": 50}
PLANTED = (
    "A q=0.1 w=0.2 m=50", "A q=0.2 w=0.4 m=50", "A q=0.2 w=0.2 m=100", "A q=0.2 w=0.2 m=200",
    "B w=0.05 c=0.0025", "C k=3 c=0.1 q=0.2", "C k=10 c=0.05 q=0.05", "C k=10 c=0.2 q=0.05",
)  # fmt: skip
PLANTED_RUNS = 12  # per seed


def _no_prior_of_bits(statistics: Any, rates: Any, has_prior: bool) -> Any:
    return _EVIDENCE(statistics, rates, False)


def _no_jump(*path: Any) -> None:
    return None


_EVIDENCE = noise.evidence

Change = tuple[Any, str, Any]
"""A module, a name in it, and the value that takes the place of its own."""
WITHOUT: dict[str, list[Change]] = {
    "the whole search": [],
    "over-seeding (l = k)": [
        (search, "SEEDS_PER_COMPONENT", 1), (search, "MIN_SEEDS", 1),
        (search, "CELL_SEEDS_PER_COMPONENT", 1), (search, "MIN_CELL_SEEDS", 1),
    ],
    "the least number of seeds": [(search, "MIN_SEEDS", 1), (search, "MIN_CELL_SEEDS", 1)],
    "starts with few seeds": [(search, "SURVEY_CELLS", 0)],
    "cooling": [(search, "_MAX_HALVINGS", 0)],
    "steps before merging": [(search, "PLAIN_STEPS", 0)],
    "extrapolation": [(search, "extrapolate", _no_jump)],
    "giving up starts": [(search, "FIRST_HEAT", NEVER)],
    "stopping when three agree": [(search, "ENOUGH", NEVER)],
    "few rows per seed": [(search, "ROWS_PER_SEED", NEVER)],
    "the prior of template bits": [(noise, "evidence", _no_prior_of_bits)],
    "more than one start": [(TemplateMixture, "n_init", 1)],
    "fewer starts of many components": [(search, "FEW_COMPONENTS", NEVER)],
    "fewer seeds per cell": [(search, "CELL_SEEDS_PER_COMPONENT", 2)],
}  # fmt: skip


@contextlib.contextmanager
def changed(changes: list[Change]) -> Iterator[dict[str, Any]]:
    """Parameters of the estimator, while the constants have other values."""
    before = [
        (owner, name, getattr(owner, name))
        for owner, name, _ in changes
        if owner is not TemplateMixture
    ]
    parameters = {name: value for owner, name, value in changes if owner is TemplateMixture}
    for owner, name, value in changes:
        if owner is not TemplateMixture:
            setattr(owner, name, value)
    try:
        yield parameters
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def problems() -> Iterator[tuple[str, Callable[[int, dict[str, Any]], float]]]:
    """A name, and a function of the seed and of parameters whose value should be large."""
    for table in real_tables():
        for k in sorted({table.k, MORE_COMPONENTS.get(table.name, table.k)}):
            yield f"{table.name} k={k}", _objective(table, k)
    from benchmarks.quality import grids

    for name, at in grids():
        if name in PLANTED:
            yield name, _recovery(at)


def _objective(table: RealTable, k: int) -> Callable[[int, dict[str, Any]], float]:
    X = BitMatrix.from_dense(table.X)

    def fit(seed: int, parameters: dict[str, Any]) -> float:
        model = TemplateMixture(k, noise_model="cell", random_state=seed, **parameters).fit(X)
        return model.objective_ / len(X)

    return fit


def _recovery(at: dict[str, Any]) -> Callable[[int, dict[str, Any]], float]:
    def fit(seed: int, parameters: dict[str, Any]) -> float:
        method = {"estimator": "TemplateMixture", "noise_model": "shared", **parameters}
        seeds = range(seed * PLANTED_RUNS, (seed + 1) * PLANTED_RUNS)
        return float(np.mean([execute(Run("planted", at, method, s))["recovered"] for s in seeds]))

    return fit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/ablation.csv"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    results = ResultsFile(args.results, HEADER)
    stored = {(row["ingredient"], row["problem"], row["seed"]) for row in results.rows()}
    everything = list(problems())
    everything[0][1](0, {})  # loads the kernels
    for seed in range(args.seeds):
        for ingredient, changes in WITHOUT.items():
            for problem, value_of in everything:
                if (ingredient, problem, str(seed)) in stored:
                    continue
                start = time.perf_counter()
                with changed(changes) as parameters:
                    value = value_of(seed, parameters)
                seconds = time.perf_counter() - start
                results.append(ingredient, problem, seed, f"{value:.5f}", f"{seconds:.3f}")
    report(results.rows())


def report(rows: list[dict[str, str]]) -> None:
    """Print a Markdown table: differences to the whole search, and the time."""
    values: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        value = float(row["value"]), float(row["seconds"])
        values[row["ingredient"], row["problem"]].append(value)
    names = list(dict.fromkeys(problem for _, problem in values))
    print("| without | " + " | ".join(names) + " | time |")
    print("|---" * (len(names) + 2) + "|")
    whole = {name: np.mean(values["the whole search", name], axis=0) for name in names}
    for ingredient in WITHOUT:
        means = {name: np.mean(values[ingredient, name], axis=0) for name in names}
        cells = []
        for name in names:
            apart = means[name][0] - whole[name][0]
            cells.append(
                f"{whole[name][0]:.3f}" if ingredient == "the whole search" else f"{apart:+.3f}"
            )
        ratio = sum(m[1] for m in means.values()) / sum(m[1] for m in whole.values())
        print(f"| {ingredient} | " + " | ".join(cells) + f" | {ratio:.2f} |")


if __name__ == "__main__":
    main()
