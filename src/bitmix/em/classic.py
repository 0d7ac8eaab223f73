"""The original EM the paper compares with: EM steps from k templates, the noise level fixed."""

from bitmix.em.result import FitResult, Round
from bitmix.em.step import em_step
from bitmix.mixture import Mixture
from bitmix.rows import Rows


def iterate(rows: Rows, mixture: Mixture, max_iter: int) -> FitResult:
    """At most `max_iter` EM steps, fewer once a step changes nothing."""
    history, previous = [], None
    for _ in range(max_iter):
        mixture, statistics = em_step(rows, mixture)
        history.append(Round.of(mixture, statistics))
        if statistics.same_as(previous):
            return FitResult(mixture, tuple(history), converged=True)
        previous = statistics
    return FitResult(mixture, tuple(history), converged=False)
