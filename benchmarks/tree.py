"""Hundreds to thousands of groups by levels, beside MiniBatchKMeans, bblean and a flat fit.

    BITMIX_TABLES=folder python -m benchmarks.tree molecules [--k 100 300 1000]
    BITMIX_TABLES=folder python -m benchmarks.tree cuts
    python -m benchmarks.tree planted [--k 1000] [--rows 100000]
    BITMIX_TABLES=folder python -m benchmarks.tree ablation [--seeds 3]

molecules: adjusted mutual information with Murcko scaffolds of at least five molecules (RDKit, from
``suite/molecules10.smiles.csv``), and the share of molecules whose nearest neighbour by Tanimoto is
in the same group. cuts: the log-likelihood of `TemplateTree.cut` beside that of a flat fit with as
many components. planted: random templates with noise .1, equal weights. ablation: one constant of
`bitmix.em.levels` changed at a time; log-likelihood per row, AMI with scaffolds or classes, and
templates that are exact among planted ones with noise .2 and 40 rows each. Seconds are those of the
processor, as the clock may count the work of others.
"""

import argparse
import csv
import os
import resource
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.ablation import Change, changed
from benchmarks.data import RealTable, real_tables
from bitmix import BitMatrix, TemplateMixture, TemplateTree
from bitmix.datasets import sample_mixture
from bitmix.em import candidates, levels

LEAVES, MIN_MOLECULES = 300, 5
ALL = 10**9
WITHOUT: dict[str, list[Change]] = {
    "as it is": [],
    "4 groups per split": [(levels, "BRANCHES", 4)],
    "64 groups per split": [(levels, "BRANCHES", 64)],
    "no more leaves than k": [(levels, "LEAVES_PER_COMPONENT", 1.0)],
    "splits by 4,096 rows": [(levels, "ROWS_PER_SPLIT", 1 << 12)],
    "splits by all rows": [(levels, "ROWS_PER_SPLIT", ALL)],
    "levels of all rows": [(levels, "ROWS_PER_LEAF", ALL)],
    "no EM step before merging": [(levels, "SETTLING_STEPS", 0)],
    "no second look": [(levels, "LOOKS", 0)],
    "one second look": [(levels, "LOOKS", 1)],
    "converged for any k": [(levels, "_STEPS", ALL)],
    "one last EM step": [(levels, "_STEPS", 1)],
    "no refilling": [(levels, "_REFILLS", 0)],
    "candidates never": [(candidates, "ENOUGH", 2.0), (levels, "ENOUGH", 2.0)],
    "candidates always": [(candidates, "ENOUGH", 0.0), (levels, "ENOUGH", 0.0)],
    "candidates from 4 groups": [(candidates, "N_GROUPS", 4)],
}
"""What is changed in the fit by levels, one thing at a time."""
OF_MANY = ("one second look", "converged for any k", "one last EM step", "candidates never",
           "candidates always", "candidates from 4 groups")  # fmt: skip
"""What changes nothing with few components."""


def scaffolds() -> NDArray[Any]:
    """The Murcko scaffold of each molecule; empty if fewer than five molecules have it."""
    from rdkit import Chem, RDLogger
    from rdkit.Chem.Scaffolds import MurckoScaffold

    RDLogger.DisableLog("rdApp.*")
    path = Path(os.environ["BITMIX_TABLES"]) / "suite" / "molecules10.smiles.csv"
    with path.open() as file:
        smiles = [line["smiles"] for line in csv.DictReader(file)]
    found = [MurckoScaffold.MurckoScaffoldSmiles(mol=Chem.MolFromSmiles(s)) for s in smiles]
    counts = Counter(found)
    return np.array([s if counts[s] >= MIN_MOLECULES else "" for s in found])


def nearest(X: NDArray[np.uint8]) -> NDArray[np.intp]:
    """The nearest neighbour of each row by Tanimoto."""
    sizes, out = X.sum(axis=1).astype(np.float32), np.empty(len(X), dtype=np.intp)
    floats = X.astype(np.float32)
    for start in range(0, len(X), 1024):
        both = floats[start : start + 1024] @ floats.T
        similar = both / np.maximum(sizes[start : start + 1024, None] + sizes - both, 1)
        similar[np.arange(len(similar)), start + np.arange(len(similar))] = -1
        out[start : start + 1024] = similar.argmax(axis=1)
    return out


def table(name: str) -> RealTable:
    return next(each for each in real_tables() if each.name == name)


def molecules(ks: list[int]) -> None:
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.metrics import adjusted_mutual_info_score

    X = table("molecules10").X
    scaffold, neighbour, packed = scaffolds(), nearest(X), BitMatrix.from_dense(X)
    judged, floats = scaffold != "", X.astype(np.float32)

    def report(method: str, k: int, labels: NDArray[Any], seconds: float) -> None:
        ami = adjusted_mutual_info_score(scaffold[judged], labels[judged])
        kept = float((labels == labels[neighbour]).mean())
        print(f"{method:<18} k={k:<5} {len(set(labels)):>5} groups  scaffold AMI {ami:.3f}  "
              f"neighbours kept {kept:.3f}  {seconds:.1f} s", flush=True)  # fmt: skip

    TemplateTree(20, noise_model="cell", random_state=0).fit(packed)  # loads the kernels
    for k in ks:
        start = time.process_time()
        labels = TemplateTree(k, random_state=0).fit(packed).predict(packed)
        report("TemplateTree", k, labels, time.process_time() - start)
        start = time.process_time()
        labels = MiniBatchKMeans(k, n_init=1, random_state=0).fit_predict(floats)
        report("MiniBatchKMeans", k, labels, time.process_time() - start)
    try:
        from bblean import BitBirch
    except ModuleNotFoundError:
        return
    for threshold in (0.15, 0.2, 0.25, 0.3, 0.4):
        start = time.process_time()
        tree = BitBirch(threshold=threshold).fit(np.packbits(X, axis=1))
        labels = np.asarray(tree.get_assignments())
        report(f"bblean, {threshold}", len(set(labels)), labels, time.process_time() - start)


def cuts() -> None:
    for name in ("molecules10", "webkb"):
        rows = BitMatrix.from_dense(table(name).X)
        model = TemplateTree(LEAVES, noise_model="cell", random_state=0).fit(rows)
        for k in (3, 10, 30, 100, 300):
            flat = TemplateMixture(k, noise_model="cell", n_init=1, random_state=0).fit(rows)
            ours, theirs = model.cut(k).score(rows), flat.score(rows)
            print(f"{name} k={k}: ln L per row of the cut {ours:.2f}, of a flat fit {theirs:.2f}, "
                  f"{100 * (ours / theirs - 1):+.2f} %", flush=True)  # fmt: skip


def planted(k: int, m: int, n: int = 1024) -> None:
    truth = np.random.default_rng(0).integers(0, 2, (k, n)).astype(np.uint8)
    X, labels = sample_mixture(truth, np.full(k, 1 / k), 0.1, m, random_state=1)
    start, clock = time.process_time(), time.perf_counter()
    model = TemplateTree(k, random_state=0).fit(X)
    seconds, wall = time.process_time() - start, time.perf_counter() - clock
    exact = _exact(model, truth)
    start, clock = time.process_time(), time.perf_counter()
    model.predict(X)
    predicting = time.process_time() - start
    print(
        f"planted k={k}, {m:,} × {n}: {100 * exact:.2f} % of templates exact in {seconds:.0f} s "
        f"({wall:.0f} s by the clock), predict {predicting:.1f} s "
        f"({time.perf_counter() - clock:.1f} s by the clock), "
        f"candidates hold the best of {100 * model.candidate_recall_:.1f} %, at most "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB"
    )


def ablation(seeds: int) -> None:
    problems = {
        "webkb": (table("webkb").X, table("webkb").y, (100,)),
        "molecules10": (table("molecules10").X, scaffolds(), (100, 600)),
    }
    TemplateTree(20, noise_model="cell", random_state=0).fit(problems["webkb"][0])  # loads kernels
    for k in (100, 600):
        _leave_out("planted", k, "shared", seeds, lambda seed, k=k: _few_rows(k, seed))
    for name, (X, classes, ks) in problems.items():
        for k in ks:
            _leave_out(name, k, "cell", seeds, lambda seed, X=X, y=classes: (X, y, None))


def _few_rows(k: int, seed: int, n: int = 1024) -> tuple[Any, NDArray[Any], NDArray[np.uint8]]:
    truth = np.random.default_rng(seed).integers(0, 2, (k, n)).astype(np.uint8)
    X, labels = sample_mixture(truth, np.full(k, 1 / k), 0.2, 40 * k, random_state=seed + 1)
    return X, labels, truth


def _leave_out(name: str, k: int, noise_model: str, seeds: int, data: Any) -> None:
    """Print a line per change: means over the seeds."""
    from sklearn.metrics import adjusted_mutual_info_score

    for what, changes in WITHOUT.items():
        if k <= levels.FEW and what in OF_MANY:
            continue
        values = []
        for seed in range(seeds):
            X, classes, truth = data(seed)
            rows, judged = X if isinstance(X, BitMatrix) else BitMatrix.from_dense(X), classes != ""
            start = time.process_time()
            with changed(changes):
                model = TemplateTree(k, noise_model=noise_model, random_state=seed).fit(rows)
            seconds = time.process_time() - start
            ami = adjusted_mutual_info_score(classes[judged], model.predict(rows)[judged])
            exact = np.nan if truth is None else _exact(model, truth)
            values.append((model.score(rows), ami, 100 * exact, seconds))
        score, ami, exact, seconds = np.mean(values, axis=0)
        problem = f"{name} k={k}"
        print(f"{problem:<18} {what:<26} ln L {score:9.2f} ± {np.std(values, axis=0)[0]:.2f}  "
              f"AMI {ami:.3f}  exact {exact:5.1f} %  {seconds:6.1f} s", flush=True)  # fmt: skip


def _exact(model: TemplateTree, truth: NDArray[np.uint8]) -> float:
    """The share of templates that are found to the last bit."""
    found = {template.tobytes() for template in model.templates_}
    return sum(template.tobytes() in found for template in truth) / len(truth)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("molecules", "cuts", "planted", "ablation"))
    parser.add_argument("--k", type=int, nargs="+")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.what == "molecules":
        molecules(args.k or [100, 300, 1000])
    elif args.what == "cuts":
        cuts()
    elif args.what == "ablation":
        ablation(args.seeds)
    else:
        for k in args.k or [1000]:
            planted(k, args.rows)


if __name__ == "__main__":
    main()
