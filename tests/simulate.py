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
    """Which events of the proof happen in one run; later ones count only if earlier did not."""
    k, n = truth.shape
    l, constants = certificate.n_seeds, certificate.constants
    labels = rng.choice(k, size=m, p=weights)
    X = (truth[labels] ^ (rng.random((m, n)) < q)).astype(float)
    words = pack(X.astype(np.uint8))
    distance = backend().hamming(words, words)
    sizes = np.bincount(labels, minlength=k)
    seeds = rng.permutation(m)[:l]
    own = labels[:, None] == labels[seeds][None, :]
    happened = dict.fromkeys(certificate.failure_terms, False)
    names = list(happened)

    happened[names[0]] = len(set(labels[seeds])) < k
    closest = (distance[np.ix_(seeds, seeds)] + n * np.eye(l)).min()
    happened[names[1]] = closest > constants["U0"]
    happened[names[3]] = distance.max() > constants["Dmax"]
    flips = np.array([(X[labels == i] != truth[i]).sum(axis=0) for i in range(k)])
    happened[names[7]] = bool((flips >= (sizes - constants["h"] - 0.5)[:, None] / 2).any())
    if happened[names[0]] or happened[names[1]]:
        return happened
    closest = max(closest, 0.5)
    q0 = closest / n / (1 + np.sqrt(1 - 2 * closest / n))
    p, _ = e_step(X, X[seeds], np.full(l, 1 / l), q0)
    happened[names[2]] = p[~own].sum() > constants["r"]
    if happened[names[2]] or happened[names[3]]:
        return happened
    w, T = m_step(X, p)
    alive = np.flatnonzero(w >= 1 / (4 * l))
    happened[names[4]] = len(set(labels[seeds[alive]])) < k or bool((sizes <= constants["t"]).any())
    if happened[names[4]]:
        return happened
    chosen = alive[farthest_first(T[alive], k, rng, certificate.pruning)]
    happened[names[6]] = len(set(labels[seeds[chosen]])) < k
    if happened[names[6]]:
        return happened
    p, _ = e_step(X, T[chosen], np.full(k, 1 / k), q0)
    right = p[labels[:, None] == labels[seeds[chosen]][None, :]]
    happened[names[5]] = int((right < 1 - 1 / (2 * m)).sum()) > constants["h"]
    return happened
