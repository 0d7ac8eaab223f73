"""One measurement in a fresh process: ``python -m bitmix.bench.one METHOD FOLDER K RUNS``.

Prints one line of JSON: seconds of each warm run, peak memory beyond the data, templates found.
"""

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from bitmix.bench.methods import METHODS, Method
from bitmix.kernels.fixed import SHARE_BITS
from bitmix.rows.packed import BitMatrix


def measured(method: Method, folder: Path, k: int, runs: int) -> dict[str, Any]:
    X = BitMatrix.open(folder / "rows.bits", in_memory=True)
    truth = np.load(folder / "truth.npy")
    data = method.prepare(X)
    method.run(data[:2000], 2, 0)  # load what is loaded once
    before, seconds, result = _forget_peak(), [], None
    for seed in range(runs):
        start = time.perf_counter()
        result = method.run(data, k, seed)
        seconds.append(time.perf_counter() - start)
    beyond = None if before is None else max(0, _kilobytes("VmHWM") * 1024 - before)
    return {"seconds": seconds, "peak": beyond, "found": _found(method, result, X, truth)}


def _found(method: Method, result: Any, X: BitMatrix, truth: Any) -> int | None:
    """How many of the true templates came out to the last bit."""
    if method.ours:
        found = result.templates_
    elif method.labels is not None:
        found = _majorities(X, method.labels(result))
    else:
        return None
    return len({row.tobytes() for row in found} & {row.tobytes() for row in truth})


def _majorities(X: BitMatrix, labels: Any) -> Any:
    from bitmix.kernels import backend

    k = int(labels.max()) + 1
    totals = np.zeros((k, X.shape[1]), dtype=np.int64)
    for start in range(0, len(X), 1 << 14):
        part = labels[start : start + (1 << 14)]
        owner = np.ascontiguousarray(part, dtype=np.int64)
        words = X.words[start : start + (1 << 14)]
        totals += backend().owned_sums(words, owner, k, X.shape[1])
    counts = np.bincount(labels, minlength=k)
    return (2 * (totals >> SHARE_BITS) > counts[:, None]).astype(np.uint8)


def _forget_peak() -> int | None:
    """Start the peak of resident memory anew; what is resident now, or nothing but on Linux."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        return _kilobytes("VmRSS") * 1024
    except OSError:
        return None


def _kilobytes(name: str) -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    name, folder, k, runs = sys.argv[1:]
    chosen = next(method for method in METHODS if method.name == name)
    print(json.dumps(measured(chosen, Path(folder), int(k), int(runs))))
