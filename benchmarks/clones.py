"""Planted clones with two error rates: `noise_model="updown"` beside a classifier that knows all.

    python -m benchmarks.clones [--seeds 50]

A tree of clones: each clone's parent is uniform among the clones before it and the healthy root,
each site mutates on one clone, drawn uniformly, and in all its descendants; shares of the clones
are Dirichlet(2). A cell of the table is 1 in error with probability α, 0 in error with probability
β, and missing at random. The last lines compare `updown` with `shared` where α = β.
"""

import argparse
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.metrics import adjusted_rand_score

from bitmix import TemplateMixture

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    rows: int
    sites: int
    clones: int
    alpha: float
    beta: float
    missing: float


SETTINGS = (
    Setting(500, 200, 8, 0.01, 0.2, 0.2),
    Setting(500, 200, 8, 0.01, 0.4, 0.2),
    Setting(300, 50, 6, 0.01, 0.3, 0.3),
)
SYMMETRIC = (Setting(500, 200, 8, 0.1, 0.1, 0.2), Setting(300, 50, 6, 0.05, 0.05, 0.0))


def planted(at: Setting, seed: int) -> tuple[Floats, NDArray[np.int64], NDArray[Any], Floats]:
    """Cells with NaN, the clone of each row, the clones and their shares."""
    rng = np.random.default_rng([seed, at.rows, at.sites, round(1000 * at.beta)])
    parents = [int(rng.integers(-1, clone)) for clone in range(at.clones)]
    mutated_on = rng.integers(at.clones, size=at.sites)
    clones = np.zeros((at.clones, at.sites), dtype=np.int64)
    for clone, parent in enumerate(parents):
        clones[clone] = mutated_on == clone
        if parent >= 0:
            clones[clone] |= clones[parent]
    shares = rng.dirichlet(np.full(at.clones, 2.0))
    labels = rng.choice(at.clones, size=at.rows, p=shares)
    one = np.where(clones[labels] == 1, 1 - at.beta, at.alpha)
    cells = (rng.random(one.shape) < one).astype(float)
    return np.where(rng.random(one.shape) < at.missing, np.nan, cells), labels, clones, shares


def classify(X: Floats, at: Setting, clones: NDArray[Any], shares: Floats) -> NDArray[Any]:
    """The likeliest clone of each row, given the clones, their shares and the rates."""
    p = np.where(clones == 1, 1 - at.beta, at.alpha)
    known, ones = ~np.isnan(X), np.nan_to_num(X)
    scores = ones @ np.log(p).T + (known - ones) @ np.log1p(-p).T + np.log(shares)
    return scores.argmax(axis=1)


def run(at: Setting, seed: int, noise_model: str) -> tuple[float, float, float, float, float]:
    """ARI of the fit and of the classifier, share of wrong bits, α and β as found."""
    X, labels, clones, shares = planted(at, seed)
    model = TemplateMixture(at.clones, noise_model=noise_model, random_state=seed).fit(X)
    found = model.predict(X)
    known = adjusted_rand_score(labels, classify(X, at, clones, shares))
    wrong = float((model.templates_[found] != clones[labels]).mean())
    alpha, beta = np.broadcast_to(np.asarray(model.noise_), 2)
    return adjusted_rand_score(labels, found), known, wrong, float(alpha), float(beta)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first-seed", type=int, default=0)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    print("rows × sites, clones, α, β, missing    ARI  all known  wrong bits  α found  β found")
    for at in SETTINGS:
        ari, known, wrong, alpha, beta = np.mean([run(at, s, "updown") for s in seeds], axis=0)
        print(
            f"{at.rows} × {at.sites}, {at.clones}, {at.alpha}, {at.beta}, {at.missing}".ljust(38),
            f"{ari:.3f}  {known:8.3f}  {wrong:10.4f}  {alpha:7.4f}  {beta:7.3f}",
            flush=True,
        )
    print("\nsymmetric noise, paired: ARI with updown, with shared, p that updown is worse")
    for at in SYMMETRIC:
        pairs = np.array([[run(at, s, m)[0] for m in ("updown", "shared")] for s in seeds])
        behind = pairs[:, 1] - pairs[:, 0]
        p = 1.0
        if np.any(behind != 0):
            p = float(stats.wilcoxon(behind, alternative="greater").pvalue)
        updown, shared = pairs.mean(axis=0)
        print(f"{at.rows} × {at.sites}, q = {at.alpha}: {updown:.3f}  {shared:.3f}  {p:.2g}")


if __name__ == "__main__":
    main()
