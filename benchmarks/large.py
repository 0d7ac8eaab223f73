"""Past memory and past one machine: a file of 8 GB, and Dask beside one process.

Every fit runs in a process of its own whose peak memory is read from the system. Prints a table.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bitmix import BitMatrix, TemplateMixture, TwoRoundEM
from bitmix.datasets import make_templates, sample_mixture
from bitmix.metrics import templates_recovered
from bitmix.rows import bitfile

K, N, NOISE = 10, 2048, 0.1
PIECE = 500_000


def truth() -> np.ndarray:
    return make_templates(K, N, separation=0.3, random_state=0)


def make(path: Path, m: int) -> None:
    """A planted mixture, written a piece at a time."""
    if path.exists() and len(BitMatrix.open(path)) == m:
        return
    with bitfile.writing(path, N) as writer:
        for number, start in enumerate(range(0, m, PIECE)):
            rows = min(PIECE, m - start)
            X, _ = sample_mixture(truth(), [1 / K] * K, NOISE, rows, random_state=number)
            writer.append(X.words)


def read_once(path: Path) -> float:
    """Seconds to read the file through one buffer."""
    room, start = bytearray(1 << 22), time.perf_counter()
    with path.open("rb", buffering=0) as file:
        while file.readinto(room):
            pass
    return time.perf_counter() - start


def timed(estimator: Any, rows: Callable[[], Any], times: int) -> tuple[Any, float]:
    """A fitted model, and the median of the seconds its fits took."""
    took = []
    for _ in range(times):
        X, start = rows(), time.perf_counter()
        model = estimator(K, random_state=0).fit(X)
        took.append(time.perf_counter() - start)
    return model, float(np.median(took))


def one(task: str, path: Path) -> dict[str, float | bool]:
    """In a process of its own: what a task takes."""
    estimators = {"template": TemplateMixture, "two-round": TwoRoundEM}
    method, where = task.split(":")
    estimator = estimators[method]
    small = sample_mixture(truth(), [1 / K] * K, NOISE, 20_000, random_state=99)[0]
    estimator(K, random_state=0).fit(small)  # kernels are loaded
    if where == "dask":
        from distributed import Client, LocalCluster

        from bitmix.rows.cluster import ClusterRows

        with (
            LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster),
        ):
            small.save(path.parent / "small.bits")  # so that either worker loads its kernels
            warm = ClusterRows.of_file(path.parent / "small.bits", block_bytes=1 << 20)
            TwoRoundEM(K, random_state=0).fit(warm)
            model, seconds = timed(estimator, lambda: ClusterRows.of_file(path), 3)
            rows = ClusterRows.of_file(path)
            rows.map_reduce(_nothing)
            start = time.perf_counter()
            for _ in range(5):
                rows.map_reduce(_nothing)
            overhead = (time.perf_counter() - start) / 5
    else:
        X = BitMatrix.open(path, in_memory=where == "memory")
        model, seconds = timed(estimator, lambda: X, 3 if len(X) <= 1_000_000 else 1)
        overhead = 0.0
    status = Path("/proc/self/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return {
        "seconds": seconds,
        "peak_mb": int(peak.split()[1]) / 1024,
        "exact": templates_recovered(model.templates_, truth()),
        "pass_overhead": overhead,
        "passes": len(model.history_),
    }


def _nothing(words: np.ndarray) -> int:
    return 0


def measured(task: str, path: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", task, "--folder", str(path.parent)]
    done = subprocess.run([*command, "--file", path.name], stdout=subprocess.PIPE, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=32_000_000)
    parser.add_argument("--folder", type=Path, default=Path("."))
    parser.add_argument("--file", default="", help=argparse.SUPPRESS)
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(one(args.one, args.folder / args.file)))
        return
    large, million = args.folder / "large.bits", args.folder / "million.bits"
    make(large, args.rows)
    make(million, 1_000_000)
    read = min(read_once(large) for _ in range(2))
    print(f"{large.stat().st_size / 1e9:.2f} GB, {args.rows:,} rows, {os.cpu_count()} cores")
    print(f"one read: {read:.1f} s, {large.stat().st_size / read / 1e9:.1f} GB/s")
    print(f"{'':26}{'seconds':>9}{'peak MB':>9}  exact")
    for method in ("template", "two-round"):
        warm = measured(f"{method}:memory", million)
        show(f"{method}, 10^6, memory", warm)
        from_disk = measured(f"{method}:disk", million)
        show(f"{method}, 10^6, disk", from_disk)
        clustered = measured(f"{method}:dask", million)
        show(f"{method}, 10^6, Dask × 2", clustered)
        print(
            f"{'':26}{clustered['seconds'] / from_disk['seconds']:.2f} times one process on "
            f"that file; an empty pass takes {1e3 * clustered['pass_overhead']:.0f} ms"
        )
        disk = measured(f"{method}:disk", large)
        show(f"{method}, from disk", disk)
        arithmetic = warm["seconds"] * args.rows / 1e6
        print(f"{'':26}{disk['seconds'] / (2 * read + arithmetic):.2f} of two reads + arithmetic")


def show(name: str, found: dict[str, float]) -> None:
    exact = "yes" if found["exact"] else "no"
    print(f"{name:26}{found['seconds']:9.2f}{found['peak_mb']:9.0f}  {exact}")


if __name__ == "__main__":
    main()
