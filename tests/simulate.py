"""Algorithm 1 run with the truth at hand, so that every event of the certificate can be counted."""

import numpy as np
from algorithm1 import e_step, m_step

from bitmix.em.prune import farthest_first
from bitmix.kernels import backend
from bitmix.kernels.bits import pack


def templates_at(d: int, n: int) -> np.ndarray:
    truth = np.zeros((2, n), dtype=np.uint8)
    truth[1, :d] = 1
    return truth


def events(truth, weights, q, m, certificate, rng) -> dict[str, bool]:
    """Which events of the proof happen in one run, by the names of the certificate's terms.

    Later events count only if earlier ones did not happen.
    """
    short = {name.split()[0]: name for name in certificate.failure_terms}  # E0 … E6, "two" rows
    happened = dict.fromkeys(certificate.failure_terms, False)
    for key in _happening(truth, weights, q, m, certificate, rng):
        happened[short[key]] = True
    return happened


def _happening(truth, weights, q, m, certificate, rng) -> set[str]:
    k, n = truth.shape
    l, constants = certificate.n_seeds, certificate.constants
    labels = rng.choice(k, size=m, p=weights)
    X = (truth[labels] ^ (rng.random((m, n)) < q)).astype(float)
    words = pack(X.astype(np.uint8))
    distance = backend().hamming(words, words)
    sizes = np.bincount(labels, minlength=k)
    seeds = rng.permutation(m)[:l]
    flips = np.array([(X[labels == i] != truth[i]).sum(axis=0) for i in range(k)])
    closest = (distance[np.ix_(seeds, seeds)] + n * np.eye(l)).min()

    found = set()
    if distance.max() > constants["Dmax"]:
        found.add("two")
    if (flips >= (sizes - constants["h"] - 0.5)[:, None] / 2).any():
        found.add("E6")
    if len(set(labels[seeds])) < k:
        found.add("E0")
    if closest > constants["U0"]:
        found.add("E1")
    if found & {"E0", "E1"}:
        return found

    closest = max(closest, 0.5)
    q0 = closest / n / (1 + np.sqrt(1 - 2 * closest / n))
    p, _ = e_step(X, X[seeds], np.full(l, 1 / l), q0)
    own = labels[:, None] == labels[seeds][None, :]
    if p[~own].sum() > constants["r"]:
        found.add("E2")
    if found & {"E2", "two"}:
        return found

    w, T = m_step(X, p)
    alive = np.flatnonzero(w >= 1 / (4 * l))
    if len(set(labels[seeds[alive]])) < k or (sizes <= constants["t"]).any():
        return found | {"E3"}
    chosen = alive[farthest_first(T[alive], k, rng, certificate.pruning)]
    if len(set(labels[seeds[chosen]])) < k:
        return found | {"E5"}
    p, _ = e_step(X, T[chosen], np.full(k, 1 / k), q0)
    right = p[labels[:, None] == labels[seeds[chosen]][None, :]]
    if (right < 1 - 1 / (2 * m)).sum() > constants["h"]:
        found.add("E4")
    return found
