"""Real tables: TemplateMixture beside the plainest EM and k-means, by likelihood and by classes.

    BITMIX_TABLES=folder python -m benchmarks.tables [--seeds 5] [--results FILE]

Every fit is one line of the results file; the same command goes on where it was stopped. NMI is
the normalised mutual information of groups and classes. ln L is the mean log-likelihood per row.
"""

import argparse
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score

from benchmarks import plain_em
from benchmarks.data import RealTable, real_tables
from benchmarks.results_file import ResultsFile
from bitmix import BitMatrix, TemplateMixture

HEADER = (
    "table",
    "method",
    "k",
    "seed",
    "nmi",
    "log_likelihood",
    "seconds",
    "largest_weight",
    "model",
)
NOISE_MODELS = ("auto", "shared", "updown", "component", "feature", "cell")
Outcome = tuple[NDArray[Any], float, float, str]
"""Labels, ln L (NaN if the method has none), the largest weight, the noise model."""


def k_means(table: RealTable, seed: int) -> Outcome:
    labels = KMeans(table.k, n_init=3, random_state=seed).fit_predict(table.X.astype(np.float32))
    return labels, np.nan, np.bincount(labels).max() / len(labels), ""


def plain(table: RealTable, seed: int) -> Outcome:
    end = plain_em.fit(scipy.sparse.csr_matrix(table.X.astype(np.float64)), table.k, seed=seed)
    assert end.responsibilities is not None
    labels = end.responsibilities.argmax(axis=1)
    return labels, end.log_likelihood, float(end.weights.max()), ""


def ours(noise_model: str) -> Callable[[RealTable, int], Outcome]:
    def fit(table: RealTable, seed: int) -> Outcome:
        X = BitMatrix.from_dense(table.X)
        model = TemplateMixture(table.k, noise_model=noise_model, random_state=seed).fit(X)
        return model.predict(X), model.score(X), float(model.weights_.max()), model.noise_model_

    return fit


METHODS: dict[str, Callable[[RealTable, int], Outcome]] = {
    "KMeans(n_init=3)": k_means,
    "plain EM": plain,
    **{f"noise_model={model!r}": ours(model) for model in NOISE_MODELS},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/tables.csv"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    tables = list(real_tables())
    TemplateMixture(2, random_state=0).fit(tables[0].X)  # loads the kernels
    results = ResultsFile(args.results, HEADER)
    finished = {(row["table"], row["method"], row["seed"]) for row in results.rows()}
    for seed in range(args.seeds):
        for table in tables:
            for name, method in METHODS.items():
                if (table.name, name, str(seed)) in finished:
                    continue
                start = time.perf_counter()
                labels, likelihood, weight, model = method(table, seed)
                seconds = time.perf_counter() - start
                nmi = normalized_mutual_info_score(table.y, labels)
                values = (table.name, name, table.k, seed, f"{nmi:.4f}", f"{likelihood:.4f}",
                          f"{seconds:.3f}", f"{weight:.3f}", model)  # fmt: skip
                results.append(*values)
    report(results.rows())


def report(rows: list[dict[str, str]]) -> None:
    """Print the means over the seeds."""
    means: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for row in rows:
        numbers = [float(row[name]) for name in ("nmi", "log_likelihood", "seconds")]
        means[row["table"], row["method"]].append([*numbers, float(row["largest_weight"])])
    names = list(dict.fromkeys(table for table, _ in means))
    print("NMI, ln L per row, seconds; means over the seeds")
    print(f"{'':<24}" + "".join(f"{name:>26}" for name in names))
    for method in METHODS:
        cells = []
        for name in names:
            nmi, likelihood, seconds, _ = np.mean(means[name, method], axis=0)
            of_likelihood = "        " if np.isnan(likelihood) else f"{likelihood:8.2f}"
            cells.append(f"{nmi:.3f} {of_likelihood} {seconds:6.2f}".rjust(26))
        print(f"{method:<24}" + "".join(cells))
    chosen = {row["table"]: row["model"] for row in rows if row["method"] == "noise_model='auto'"}
    print("auto chose:", ", ".join(f"{table}: {model}" for table, model in chosen.items()))
    for method in METHODS:
        mean = np.mean([np.mean(means[name, method], axis=0)[0] for name in names])
        print(f"mean NMI {method:<24} {mean:.3f}")


if __name__ == "__main__":
    main()
