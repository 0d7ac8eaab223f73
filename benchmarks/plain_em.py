"""The simplest EM for a probability per cell, in SciPy: what an estimator must never lose to.

Rows get random memberships, EM goes on for a while, and the best of five starts is finished.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

Floats = NDArray[np.float64]
EDGE = 1e-9


@dataclass(frozen=True, eq=False)
class State:
    probabilities: Floats
    """Of a 1, per component and column."""
    weights: Floats
    log_likelihood: float = -np.inf
    """Mean per row, of the parameters before these."""
    responsibilities: Floats | None = None


def em_step(X: Any, state: State, background: Floats, prior: float) -> State:
    """One E step and one M step; `background` is the share of ones of each column."""
    p = state.probabilities
    scores = X @ (np.log(p) - np.log1p(-p)).T + np.log1p(-p).sum(axis=1)
    scores += np.log(np.maximum(state.weights, 1e-300))
    top = scores.max(axis=1, keepdims=True)
    log_likelihood = float((top[:, 0] + np.log(np.exp(scores - top).sum(axis=1))).mean())
    return maximise(X, softmax(scores, axis=1), background, prior, log_likelihood)


def maximise(
    X: Any, responsibilities: Floats, background: Floats, prior: float, log_likelihood: float
) -> State:
    mass = responsibilities.sum(axis=0)
    ones = np.asarray(X.T @ responsibilities).T
    p = (ones + prior * background) / (mass[:, None] + prior)
    weights = mass / X.shape[0]
    return State(p.clip(EDGE, 1 - EDGE), weights, log_likelihood, responsibilities)


def run(X: Any, state: State, background: Floats, prior: float, steps: int, tol: float) -> State:
    for _ in range(steps):
        before, state = state, em_step(X, state, background, prior)
        if state.log_likelihood - before.log_likelihood < tol:
            break
    return state


def fit(X: Any, k: int, *, seed: int = 0, starts: int = 5, prior: float = 0.1) -> State:
    """X is a SciPy sparse matrix of 0 and 1."""
    m = X.shape[0]
    background = np.asarray(X.mean(axis=0)).ravel().clip(0.5 / m, 1 - 0.5 / m)

    def start(number: int) -> State:
        rng = np.random.default_rng([seed, number])
        begun = maximise(X, rng.dirichlet(np.ones(k), m), background, prior, -np.inf)
        even = State(begun.probabilities, np.full(k, 1 / k))
        return run(X, even, background, prior, 25, 1e-4)

    best = max(map(start, range(starts)), key=lambda state: state.log_likelihood)
    return run(X, best, background, prior, 200, 1e-5)
