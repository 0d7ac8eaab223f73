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
from bitmix.rows.packed import BitMatrix


def measured(method: Method, folder: Path, k: int, runs: int) -> dict[str, Any]:
    X = BitMatrix.open(folder / "rows.bits", mmap=False)
    truth = np.load(folder / "truth.npy")
    data = method.prepare(X)
    if method.ours:
        method.run(X[:2000], min(k, 2), 0)  # load what is loaded once
        _touch(X)
    before, seconds, result = _resident(), [], None
    for seed in range(runs):
        start = time.perf_counter()
        result = method.run(data, k, seed)
        seconds.append(time.perf_counter() - start)
    beyond = max(0, _peak() - before)
    return {"seconds": seconds, "peak": beyond, "found": _found(method, result, X, truth)}


def _touch(X: BitMatrix) -> None:
    int(X.words[::512].sum())


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
    return (2 * (totals >> 30) > counts[:, None]).astype(np.uint8)


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def _peak() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    name, folder, k, runs = sys.argv[1:]
    chosen = next(method for method in METHODS if method.name == name)
    print(json.dumps(measured(chosen, Path(folder), int(k), int(runs))))
