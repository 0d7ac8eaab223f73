"""How often `select_components` chooses the planted number of templates.

    python -m benchmarks.how_many

k random templates of 1,000 columns with weights ∝ 1 … k and 50k rows; one template; fair coins.
Every run is stored; the same command continues after an interruption.
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reproduction.runner import run_sweeps
from reproduction.runs import Run, ask
from reproduction.store import Store


def settings() -> Iterator[tuple[str, int, dict[str, Any]]]:
    """The name of each setting, the right number of templates, and the setting."""
    for k in (3, 5, 10):
        for c in (0.1, 0.2):
            for q in (0.05, 0.2):
                weights = [i / (k * (k + 1) / 2) for i in range(1, k + 1)]
                yield f"k={k} c={c} q={q}", k, {
                    "templates": "random", "n": 1000, "c": c, "q": q, "m": 50 * k,
                    "weights": weights, "templates_seed": 0, "most": k + 3,
                }  # fmt: skip
    for q in (0.05, 0.2):
        yield f"one template, q={q}", 1, {
            "templates": "random", "n": 1000, "c": 0.5, "q": q, "m": 150, "weights": [1.0],
            "templates_seed": 0, "most": 5,
        }  # fmt: skip
    for m in (50, 150, 500):
        yield f"fair coins, m={m}", 1, {"templates": "coins", "n": 1000, "m": m, "most": 5}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--criterion", default="mdl")
    parser.add_argument("--store", type=Path, default=Path("quality.sqlite"))
    args = parser.parse_args()
    seeds = range(args.first_seed, args.first_seed + args.runs)
    method = {"criterion": args.criterion}
    cases = list(settings())
    sweeps = [ask([Run("chosen", at, method, seed) for seed in seeds]) for _, _, at in cases]
    with Store(args.store) as store:
        answers = run_sweeps(sweeps, store, args.jobs, "select")
    for (name, k, _), results in zip(cases, answers, strict=True):
        counts = Counter(result["n_components"] for result in results)
        print(f"{name:<24}{counts[k] / args.runs:>7.3f}   chosen: {dict(sorted(counts.items()))}")


if __name__ == "__main__":
    main()
