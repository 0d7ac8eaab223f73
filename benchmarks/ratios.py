"""How many times as long as ours each peer takes; both are timed by turns in one process.

    python -m benchmarks.ratios

Rows of 2,048 bits, ten templates with weights ∝ 1 … 10, noise .1. Peers take part where they are
installed (pip install 'bitmix[peers]'), with their data in memory in the layout they need.
"""

import argparse
import csv
import time
import warnings
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.peers.methods import METHODS, Method
from bitmix.datasets import make_templates, sample_mixture
from bitmix.metrics import templates_recovered
from bitmix.rows.packed import BitMatrix

K, N, NOISE, SEPARATION = 10, 2048, 0.1, 0.3
OURS = {method.name: method for method in METHODS if method.ours}
PEERS = [method for method in METHODS if not method.ours and method.labels is not None]
PEERS += [method for method in METHODS if method.name == "bblean"]
WARM_ROWS = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000, 200_000, 1_000_000])
    parser.add_argument(
        "--most", type=int, default=200_000, help="the largest number of rows for peers"
    )
    parser.add_argument("--leave-out", nargs="*", default=["KModes(n_init=1)"])
    parser.add_argument("--results", type=Path, help="write the seconds to this CSV file, too")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    truth = make_templates(K, N, separation=SEPARATION, random_state=0)
    weights = np.arange(1, K + 1) / (K * (K + 1) / 2)
    X, _ = sample_mixture(truth, weights, NOISE, max(args.rows), random_state=0)
    results: list[tuple[int, str, float]] = []
    for m in sorted(args.rows):
        rows = X[:m]
        print(f"\n{m:,} × {N:,}: reading the rows once {1e3 * read(rows):.1f} ms")
        for name, method in OURS.items():
            seconds, model = timed(method, rows, 5)
            exact = "exact" if templates_recovered(model.templates_, truth) else "NOT EXACT"
            print(f"  {name:<20}{seconds:8.3f} s, templates {exact}", flush=True)
            results.append((m, name, seconds))
        for peer in PEERS:
            if m > args.most or not peer.installed or peer.name in args.leave_out:
                continue
            theirs, _ = timed(peer, peer.prepare(rows), 1, warm=peer.prepare(rows[:WARM_ROWS]))
            ours, _ = timed(OURS["TemplateMixture"], rows, 5)
            print(f"  {peer.name:<20}{theirs:8.2f} s, ours {ours:.3f}: {theirs / ours:.0f}×")
            results.append((m, peer.name, theirs))
    if args.results is not None:
        with args.results.open("w", newline="") as file:
            csv.writer(file).writerows([("rows", "method", "seconds"), *results])


def timed(method: Method, data: Any, runs: int, warm: Any = None) -> tuple[float, Any]:
    """The median time of some runs after a warm-up, and the last result."""
    result = method.run(data if warm is None else warm, K, 0)
    times = []
    for seed in range(runs):
        start = time.perf_counter()
        result = method.run(data, K, seed)
        times.append(time.perf_counter() - start)
    return median(times), result


def read(rows: BitMatrix) -> float:
    """The least time of five reads of the packed words."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        rows.words.sum()
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    main()
