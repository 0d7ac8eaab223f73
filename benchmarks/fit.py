"""Time and memory of a fit beside scikit-learn's k-means, in one run. Prints a table."""

import argparse
import os
import platform
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from bitmix import TwoRoundEM
from bitmix.datasets import make_templates, sample_mixture
from bitmix.metrics import templates_recovered


def best_of(runs: int, function: Callable[[], object]) -> float:
    """Least wall time of several calls."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def peak_memory(function: Callable[[], object]) -> int:
    """Most bytes held at once by what a call allocates."""
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":")[1].strip() for line in file if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--columns", type=int, default=2048)
    parser.add_argument("--components", type=int, default=10)
    parser.add_argument("--noise", type=float, default=0.1)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    k = args.components

    truth = make_templates(k, args.columns, separation=0.4, random_state=args.seed)
    X, _ = sample_mixture(truth, np.full(k, 1 / k), args.noise, args.rows, args.seed)
    fits = []

    def fit() -> None:
        fits.append(TwoRoundEM(k, random_state=args.seed + len(fits)).fit(X))

    fit()  # warm
    seconds = best_of(args.runs, fit)
    peak = peak_memory(fit)
    exact = sum(templates_recovered(model.templates_, truth) for model in fits)

    from sklearn.cluster import KMeans

    dense = X.to_dense(np.float32)
    kmeans = best_of(1, lambda: KMeans(k, n_init=1, random_state=args.seed).fit(dense))

    print(
        f"{args.rows:,} rows × {args.columns:,} columns, k = {k}, noise {args.noise}, "
        f"l = {fits[0].n_seeds_}, seed {args.seed}; {os.cpu_count()} cores, {processor()}"
    )
    print(
        f"TwoRoundEM, warm, best of {args.runs}   {seconds:8.3f} s   "
        f"all templates exact in {exact} of {len(fits)} fits"
    )
    print(f"KMeans(n_init=1), float32       {kmeans:8.3f} s")
    print(f"ratio                           {kmeans / seconds:8.1f}")
    print(f"packed data {X.nbytes / 1e6:.1f} MB, peak of a fit beside it {peak / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
