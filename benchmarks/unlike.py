"""Rows that are unlike all groups: false alarms on held-out rows, and foreign rows found.

Of each real table, the rows of one class are foreign, or of all classes but one (molecules, where
that is how the range of a model is judged). The model is fitted to 80 % of the others, with a
probability per cell. Of the rest, the share with `unlikeness` of at most a level should be that
level. The area under the curve of own against foreign rows stands beside that of the largest
Tanimoto similarity with any row of the fit, which needs all of them.
"""

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from benchmarks.data import RealTable, real_tables
from benchmarks.results_file import ResultsFile
from bitmix import TemplateMixture

LEVELS = (0.01, 0.05, 0.1)
HEADER = ("table", "foreign", "seed", "fitted", "held_out", *(f"at_{x:g}" for x in LEVELS), "auc",
          "auc_tanimoto", "p_zeros", "p_ones")  # fmt: skip
MIN_ROWS, MAX_COMPONENTS = 300, 30


def splits(table: RealTable) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Rows that are foreign, by class."""
    alone = table.name.startswith("molecules")
    for name in np.unique(table.y):
        foreign = (table.y != name) if alone else (table.y == name)
        if (~foreign).sum() >= MIN_ROWS:
            yield f"{'all but ' if alone else ''}{name}", foreign


def largest_similarity(X: NDArray[np.uint8], others: NDArray[np.uint8]) -> NDArray[np.float64]:
    """The largest Tanimoto similarity of each row with any other."""
    x, y = X.astype(np.float32), others.astype(np.float32)
    both = x @ y.T
    either = x.sum(axis=1)[:, None] + y.sum(axis=1) - both
    return np.asarray((both / np.maximum(either, 1)).max(axis=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/unlike.csv"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    results = ResultsFile(args.results, HEADER)
    finished = {(row["table"], row["foreign"], row["seed"]) for row in results.rows()}
    for table in real_tables():
        for name, foreign in splits(table):
            for seed in range(args.seeds):
                if (table.name, name, str(seed)) in finished:
                    continue
                rng = np.random.default_rng(seed)
                own = rng.permutation(np.flatnonzero(~foreign))
                fitted, held_out = np.split(own, [int(0.8 * len(own))])
                others = rng.permutation(np.flatnonzero(foreign))[: len(held_out)]
                k = min(MAX_COMPONENTS, len(fitted) // 20)
                model = TemplateMixture(k, noise_model="cell", n_init=1, random_state=seed)
                model.fit(table.X[fitted]).calibrate(table.X[fitted])
                p_own, p_other = (model.unlikeness(table.X[rows]) for rows in (held_out, others))
                ends = np.array([np.zeros_like(table.X[0]), np.ones_like(table.X[0])])
                truth = np.repeat([1, 0], [len(held_out), len(others)])
                similar = largest_similarity(table.X[[*held_out, *others]], table.X[fitted])
                numbers = [
                    *((p_own <= level).mean() for level in LEVELS),
                    roc_auc_score(truth, [*p_own, *p_other]), roc_auc_score(truth, similar),
                    *model.unlikeness(ends),
                ]  # fmt: skip
                texts = [f"{number:.4f}" for number in numbers]
                results.append(table.name, name, seed, len(fitted), len(held_out), *texts)
    report(results.rows())


def report(rows: list[dict[str, str]]) -> None:
    """Print the means over classes and seeds; alarms are weighted by rows."""
    print(f"{'':<14}{'rows':>8}" + "".join(f"{f'at {level:g}':>9}" for level in LEVELS)
          + f"{'AUC':>8}{'by T':>8}{'least ratio':>13}{'zeros':>9}{'ones':>9}")  # fmt: skip
    for table in dict.fromkeys(row["table"] for row in rows):
        mine = [row for row in rows if row["table"] == table]
        n = np.array([int(row["held_out"]) for row in mine])
        value = {name: np.array([float(row[name]) for row in mine]) for name in HEADER[5:]}
        alarms = "".join(f"{np.average(value[f'at_{x:g}'], weights=n):9.4f}" for x in LEVELS)
        least = (value["auc"] / value["auc_tanimoto"]).min()
        print(f"{table:<14}{n.sum():>8}{alarms}{value['auc'].mean():8.3f}"
              f"{value['auc_tanimoto'].mean():8.3f}{least:13.3f}{value['p_zeros'].max():9.4f}"
              f"{value['p_ones'].max():9.4f}")  # fmt: skip


if __name__ == "__main__":
    main()
