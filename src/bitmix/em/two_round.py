"""Algorithm 1: two-round EM, numbered as in the paper."""

import numpy as np

from bitmix.em import prune, seeds
from bitmix.em.classic import iterate
from bitmix.em.prune import Pruning
from bitmix.em.result import FitResult, Round
from bitmix.em.step import em_step
from bitmix.mixture import Mixture
from bitmix.rows import Rows


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

    Round 1 may be given a random sample of the rows, of which the seeds are a part. A `start` takes
    the place of steps 1-2.
    """
    m = rows.shape[0]
    sample = rows
    if round_one_rows < m:
        sample = rows.chosen(seeds.indices(m, round_one_rows, rng))
    # 1-2  l random rows as templates, equal weights, q0 from the closest pair
    mixture = seeds.pick(sample, n_seeds, rng, noise) if start is None else start
    # 3-4  first EM step
    mixture, statistics = em_step(sample, mixture)
    first = Round.of(mixture, statistics)
    # 5-7  k of them
    mixture = pruned(mixture, k, pruning, rng)
    # 8-9  second EM step
    rest = iterate(rows, mixture, rounds - 1)
    return FitResult(rest.mixture, (first, *rest.history), rest.converged)


def pruned(mixture: Mixture, k: int, pruning: Pruning, rng: np.random.Generator) -> Mixture:
    """Steps 5-7, between the rounds."""
    # 5    starvation: w_i < 1/4l goes
    alive = prune.survivors(mixture, k)
    # 6    keep k far apart
    chosen = alive[prune.farthest_first(mixture.means[alive], k, rng, pruning)]
    # 7    equal weights, q1 = q0
    return mixture.kept(chosen)
