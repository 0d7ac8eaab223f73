"""One measurement in a process of its own: ``python -m benchmarks.peers.measure``.

The arguments are METHOD FOLDER K RUNS. Prints one line of JSON: the seconds of each warm run, the
peak memory beyond the data, and the number of templates that were recovered.
"""

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.methods import METHODS, Method
from bitmix import BitMatrix
from bitmix.metrics import cluster_means

WARM_UP_ROWS = 2000


def measure(method: Method, folder: Path, k: int, runs: int) -> dict[str, Any]:
    X = BitMatrix.open(folder / "rows.bits", in_memory=True)
    truth = np.load(folder / "truth.npy")
    data = method.prepare(X)
    method.run(data[:WARM_UP_ROWS], 2, 0)  # load and compile whatever is needed
    before, seconds, result = _reset_peak(), [], None
    for seed in range(runs):
        start = time.perf_counter()
        result = method.run(data, k, seed)
        seconds.append(time.perf_counter() - start)
    beyond = None if before is None else max(0, _kilobytes("VmHWM") * 1024 - before)
    return {"seconds": seconds, "peak": beyond, "recovered": _recovered(method, result, X, truth)}


def _recovered(method: Method, result: Any, X: BitMatrix, truth: Any) -> int | None:
    """The number of true templates that came out to the last bit; None without clusters."""
    if method.ours:
        templates = result.templates_
    elif method.labels is not None:
        labels = method.labels(result)
        means = cluster_means(X, labels, int(labels.max()) + 1)
        templates = (means > 0.5).astype(np.uint8)
    else:
        return None
    return len({row.tobytes() for row in templates} & {row.tobytes() for row in truth})


def _reset_peak() -> int | None:
    """Reset the peak of resident memory to what is resident now, in bytes; None but on Linux."""
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
    print(json.dumps(measure(chosen, Path(folder), int(k), int(runs))))
