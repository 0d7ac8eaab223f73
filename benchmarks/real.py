"""Speed where rows are real: seconds per EM step and per fit over k, beside what people use.

    BITMIX_TABLES=folder python -m benchmarks.real [--k 10 50 200 1000] [--limit 120] [--plot FILE]

Tables: molecules10 (2.8 % ones), webkb (1.9 %), mnist4k (19 %) and 100,000 planted rows of k
templates (50 %). Every fit runs in a process of its own, after a warm-up; methods take turns within
a table and k. Each result is one line of the results file, and the same command goes on where it
was stopped. A method that took longer than the limit at one k is not tried at larger ones.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import numba
import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from benchmarks import plain_em
from benchmarks.data import RealTable, real_tables
from benchmarks.peers.measure import _kilobytes, _reset_peak
from benchmarks.results_file import ResultsFile
from bitmix import BitMatrix, TemplateMixture
from bitmix.datasets import sample_mixture
from bitmix.kernels.threads import num_threads, run_in_threads

HEADER = ("table", "k", "method", "seconds", "nmi", "log_likelihood", "megabytes")
TABLES = ("molecules10", "webkb", "mnist4k", "planted")
Fitted = tuple[NDArray[Any], float]
"""Labels, and the mean log-likelihood per row (NaN if the method has none)."""


def planted(k: int, rows: int = 100_000, columns: int = 1024) -> RealTable:
    """Rows of k random templates with noise .1."""
    templates = np.random.default_rng(0).integers(0, 2, (k, columns)).astype(np.uint8)
    X, labels = sample_mixture(templates, np.full(k, 1 / k), 0.1, rows, random_state=1)
    return RealTable("planted", X.to_dense(), labels)


def load(name: str, k: int) -> RealTable:
    if name == "planted":
        return planted(k)
    return next(table for table in real_tables() if table.name == name)


def _ours(noise_model: str) -> Callable[[Any, int], Fitted]:
    def fit(X: Any, k: int) -> Fitted:
        model = TemplateMixture(k, noise_model=noise_model, random_state=0).fit(X)
        return model.predict(X), model.score(X)

    return fit


def _plain(X: Any, k: int) -> Fitted:
    end = plain_em.fit(X, k)
    assert end.responsibilities is not None
    return end.responsibilities.argmax(axis=1), end.log_likelihood


def _k_means(X: Any, k: int) -> Fitted:
    from sklearn.cluster import KMeans

    return KMeans(k, n_init=1, random_state=0).fit_predict(X), np.nan


def _mini_batch(X: Any, k: int) -> Fitted:
    from sklearn.cluster import MiniBatchKMeans

    return MiniBatchKMeans(k, n_init=1, random_state=0).fit_predict(X), np.nan


def _step_mix(X: Any, k: int) -> Fitted:
    from stepmix.stepmix import StepMix

    model = StepMix(k, measurement="binary", n_init=1, random_state=0, verbose=0, progress_bar=0)
    model.fit(X)
    return np.asarray(model.predict(X)), float(model.score(X))


def _bblean(X: Any, k: int) -> Fitted:
    """The number of groups follows from its threshold, whatever k is."""
    from bblean import BitBirch

    labels = BitBirch(threshold=0.2).fit(X).get_assignments()
    return np.asarray(labels), np.nan


def _sparse(X: NDArray[np.uint8]) -> Any:
    return scipy.sparse.csr_matrix(X.astype(np.float64))


METHODS: dict[str, tuple[str, Callable[[NDArray[np.uint8]], Any], Callable[[Any, int], Fitted]]] = {
    "TemplateMixture": ("bitmix", BitMatrix.from_dense, _ours("auto")),
    "TemplateMixture, cell": ("bitmix", BitMatrix.from_dense, _ours("cell")),
    "TemplateMixture, shared": ("bitmix", BitMatrix.from_dense, _ours("shared")),
    "plain EM, 5 starts": ("scipy", _sparse, _plain),
    "KMeans(n_init=1)": ("sklearn", lambda X: X.astype(np.float32), _k_means),
    "MiniBatchKMeans(n_init=1)": ("sklearn", lambda X: X.astype(np.float32), _mini_batch),
    "StepMix(n_init=1)": ("stepmix", np.asarray, _step_mix),
    "bblean": ("bblean", lambda X: np.packbits(X, axis=1), _bblean),
}


def measure(name: str, k: int, method: str) -> dict[str, float]:
    """One fit in this process."""
    from sklearn.metrics import normalized_mutual_info_score

    warnings.simplefilter("ignore")
    table = load(name, k)
    _, prepare, fit = METHODS[method]
    X = prepare(table.X)
    fit(X, 2)  # loads kernels and starts threads
    before = _reset_peak()
    start = time.perf_counter()
    labels, likelihood = fit(X, k)
    seconds = time.perf_counter() - start
    peak = np.nan if before is None else max(0, 1024 * _kilobytes("VmHWM") - before) / 1e6
    nmi = normalized_mutual_info_score(table.y, labels)
    return {"seconds": seconds, "nmi": nmi, "log_likelihood": likelihood, "megabytes": peak}


def steps(name: str, k: int) -> tuple[float, float, float]:
    """The least seconds of one EM step with a probability per cell, of the plain EM and of ours,
    from the same parameters; and the share of the machine's limit that our pass reaches."""
    from bitmix.em.noise import Noise
    from bitmix.em.search import Fit, evaluate, m_step
    from bitmix.em.step import accumulate
    from bitmix.models.mixture import Mixture

    table = load(name, k)
    X, rows = _sparse(table.X), BitMatrix.from_dense(table.X)
    background = table.X.mean(axis=0).clip(0.5 / len(table.X), 1 - 0.5 / len(table.X))
    shares = np.random.default_rng(0).dirichlet(np.full(k, 0.1), len(table.X))
    state = plain_em.maximise(X, shares, background, 0.1, 0.0)
    for _ in range(3):
        state = plain_em.em_step(X, state, background, 0.1)
    noise = Noise("cell", 0.1)

    def em_step(fit: Fit) -> Fit:
        mixture, _ = m_step(fit, noise)
        return evaluate(rows, mixture, noise)

    fit = evaluate(rows, Mixture(state.probabilities, state.weights, None), noise)
    fit = em_step(fit)  # statistics in the layout of all later steps
    scores, events = fit.mixture.scores(), rows.listed
    assert events is not None
    lines = scores.table(rows.base, missing=False).lines
    plain = _least(lambda: plain_em.em_step(X, state, background, 0.1), 5)
    ours = _least(lambda: em_step(fit), 15)
    adds = 2 * len(events.cells) * k / _least(lambda: accumulate(rows, scores), 15)
    limit = lines.shape[1] * len(events.cells) / _least(lambda: add_lines(lines, events.cells), 15)
    return plain, ours, adds / limit


def add_lines(lines: NDArray[np.int64], cells: NDArray[np.uint32]) -> None:
    """Add up the lines of all events, with all threads: what scores alone would cost at the least,
    with no rows, no responsibilities and no sums."""
    parts = iter(np.array_split(cells, num_threads()))
    run_in_threads(lambda: _add_lines(lines, next(parts)), num_threads(), Event())


@numba.njit(nogil=True)
def _add_lines(lines, cells):  # type: ignore[no-untyped-def]
    total = np.zeros(lines.shape[1], dtype=np.int64)
    for cell in cells:
        for i in range(len(total)):
            total[i] += lines[cell, i]
    return total


def _least(function: Callable[[], Any], times: int) -> float:
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--k", type=int, nargs="+", default=[10, 50, 200, 1000])
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--limit", type=float, default=120, help="seconds")
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/real.csv"))
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--one", nargs=3, metavar=("TABLE", "K", "METHOD"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one[0], int(args.one[1]), args.one[2])))
        return
    here = {"planted", *(table.name for table in real_tables())}
    tables = [name for name in args.tables if name in here]
    results = ResultsFile(args.results, HEADER)
    for name in tables:
        for k in args.k:
            _run_turn(name, k, args.methods, args.limit, results)
    report(results.rows())
    print(
        "\nseconds of one EM step with a probability per cell: plain EM, ours, ratio; two adds per "
        "event and component, of those that a loop over the same lines does in that time"
    )
    os.environ["BITMIX_KERNELS"] = "compiled"
    for name in (name for name in tables if name != "planted"):
        for k in args.k[:3]:
            plain, ours, share = steps(name, k)
            line = f"{name:<12} k={k:<5} {plain:8.4f} {ours:8.4f} {plain / ours:6.1f} {share:6.0%}"
            print(line, flush=True)
    if args.plot:
        draw(args.plot, results.rows())


def _run_turn(
    name: str, k: int, methods: Sequence[str], limit: float, results: ResultsFile
) -> None:
    rows = results.rows()
    finished = {(row["table"], row["k"], row["method"]) for row in rows}
    too_slow = {
        row["method"] for row in rows
        if row["table"] == name and int(row["k"]) < k and float(row["seconds"]) > limit / 2
    }  # fmt: skip
    for method in methods:
        module = METHODS[method][0]
        if (name, str(k), method) in finished or method in too_slow:
            continue
        if importlib.util.find_spec(module) is None:
            continue
        command = [sys.executable, "-m", "benchmarks.real", "--one", name, str(k), method]
        try:
            output = subprocess.run(
                command, capture_output=True, text=True, timeout=3 * limit, check=True,
                env=dict(os.environ),
            ).stdout  # fmt: skip
            result = json.loads(output.splitlines()[-1])
        except subprocess.TimeoutExpired:
            result = {"seconds": 3 * limit, "nmi": np.nan, "log_likelihood": np.nan,
                      "megabytes": np.nan}  # fmt: skip
        values = [f"{result[key]:.4g}" for key in HEADER[3:]]
        print(name, k, method, *values, flush=True)
        results.append(name, k, method, *values)


def report(rows: list[dict[str, str]]) -> None:
    """Print seconds, NMI and ln L of every method."""
    methods = [name for name in METHODS if any(row["method"] == name for row in rows)]
    print(f"{'seconds, NMI, ln L per row':<28}" + "".join(f"{name:>27}" for name in methods))
    cells = {(row["table"], row["k"], row["method"]): row for row in rows}
    for name, k in dict.fromkeys((row["table"], row["k"]) for row in rows):
        line = f"{name} k={k}".ljust(28)
        for method in methods:
            row = cells.get((name, k, method))
            text = ""
            if row is not None:
                likelihood = "" if row["log_likelihood"] == "nan" else row["log_likelihood"]
                text = f"{row['seconds']} {row['nmi']} {likelihood}"
            line += text.rjust(27)
        print(line)


def draw(path: Path, rows: list[dict[str, str]]) -> None:
    """Seconds over k, one line per method, one panel per table."""
    from bitmix.plots import saved_figure

    tables = list(dict.fromkeys(row["table"] for row in rows))
    colours = dict(zip(METHODS, ("#0072B2", "#56B4E9", "#009E73", "#D55E00", "#CC79A7", "#E69F00",
                                 "#999999", "#000000"), strict=True))  # fmt: skip
    with saved_figure(path, (3.1 * len(tables), 3.4)) as figure:
        axes = figure.subplots(1, len(tables), sharey=True, squeeze=False)[0]
        for ax, table in zip(axes, tables, strict=True):
            for method, colour in colours.items():
                points = sorted(
                    (int(row["k"]), float(row["seconds"])) for row in rows
                    if row["table"] == table and row["method"] == method
                )  # fmt: skip
                if points:
                    ax.plot(*zip(*points, strict=True), "o-", color=colour, label=method, ms=4)
            ax.set(xscale="log", yscale="log", xlabel="groups k", title=table)
            ax.grid(True, alpha=0.3)
        axes[0].set_ylabel("seconds of a fit")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)


if __name__ == "__main__":
    main()
