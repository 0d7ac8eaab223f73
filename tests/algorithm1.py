"""Algorithm 1 of the paper, line by line in float64. Slow, plain, and only for tests."""

import numpy as np


def distance(x, T):
    """D(x, T) = Σ_s |x_s - T_s|."""
    return float(np.abs(np.asarray(x, dtype=float) - T).sum())


def e_step(X, T, w, q):
    """p_i(x_j), shape (m, templates); logarithms only so that n = 2,000 does not underflow."""
    n = X.shape[1]
    log_wf = np.array(
        [
            [
                np.log(w[i])
                + distance(x, T[i]) * np.log(q)
                + (n - distance(x, T[i])) * np.log(1 - q)
                for i in range(len(T))
            ]
            for x in X
        ]
    )
    log_total = np.logaddexp.reduce(log_wf, axis=1)
    return np.exp(log_wf - log_total[:, None]), float(log_total.sum())


def m_step(X, p):
    """w_i = Σ_j p_i(x_j)/m and T_i = Σ_j p_i(x_j) x_j / (m w_i)."""
    m = len(X)
    w = p.sum(axis=0) / m
    return w, (p.T @ X) / (m * w)[:, None]


def algorithm1(X, seeds, k, pick_first):
    """Templates, weights and noise after round 2, from the rows numbered `seeds`."""
    X = np.asarray(X, dtype=float)
    n, l = X.shape[1], len(seeds)
    # [1] l random examples
    T = X[seeds]
    # [2] equal weights; q0(1-q0) = min D / 2n
    w = np.full(l, 1 / l)
    closest = min(distance(T[i], T[j]) for i in range(l) for j in range(i))
    q0 = (1 - np.sqrt(1 - 4 * closest / (2 * n))) / 2
    # [3] E step, [4] M step
    p, _ = e_step(X, T, w, q0)
    w, T = m_step(X, p)
    # [5] starvation
    alive = [i for i in range(l) if w[i] >= 1 / (4 * l)]
    # [6] k templates far apart
    chosen = [alive[pick_first(len(alive))]]
    while len(chosen) < k:
        rest = [i for i in alive if i not in chosen]
        chosen.append(max(rest, key=lambda i: min(distance(T[i], T[j]) for j in chosen)))
    T = T[chosen]
    # [7] equal weights, q1 = q0
    w = np.full(k, 1 / k)
    # [8] E step, [9] M step
    p, _ = e_step(X, T, w, q0)
    w, T = m_step(X, p)
    return T, w, q0
