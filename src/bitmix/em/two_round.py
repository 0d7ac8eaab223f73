"""Algorithm 1: two-round EM, numbered as in the paper."""

import numpy as np

from bitmix.em import prune, seeds
from bitmix.em.classic import FitResult, iterate
from bitmix.em.prune import Pruning
from bitmix.em.step import Round, em_step
from bitmix.models.mixture import Mixture
from bitmix.rows import Rows
from bitmix.support.randomness import draw_without_replacement


def two_round(
    rows: Rows,
    k: int,
    *,
    n_seeds: int,
    round_one_rows: int,
    rounds: int,
    noise: float | None,
    pruning: Pruning,
    rng: np.random.Generator,
    start: Mixture | None = None,
) -> FitResult:
    """Fit k templates from `n_seeds` (l) random rows; more than two rounds repeat steps 8-9.

    Round 1 may be given a random sample of the rows, from which the seeds are drawn. A `start`
    replaces steps 1-2.
    """
    m = rows.shape[0]
    sample = rows
    if round_one_rows < m:
        sample = rows.subset(draw_without_replacement(m, round_one_rows, rng))
    # 1-2  l random rows as templates, equal weights, q0 from the closest pair
    mixture = seeds.pick(sample, n_seeds, rng, noise) if start is None else start
    # 3-4  first EM step
    mixture, statistics = em_step(sample, mixture)
    # 5    drop the starved: w_i < 1/4l
    survivors = prune.survivors(mixture.weights, k)
    # 6    choose k that are far apart
    chosen = survivors[prune.farthest_first(mixture.means[survivors], k, rng, pruning)]
    # 7    equal weights, q1 = q0
    mixture = mixture.with_equal_weights(chosen)
    # 8-9  second EM step
    rest = iterate(rows, mixture, rounds - 1)
    return FitResult(rest.mixture, (Round.of(statistics), *rest.history), rest.converged)
