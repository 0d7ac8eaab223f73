"""The original EM the paper compares with: EM steps from k templates, the noise level fixed."""

from collections.abc import Iterable
from dataclasses import dataclass

from bitmix.em.step import Round, em_step, expect
from bitmix.models.mixture import Mixture
from bitmix.rows import Rows


@dataclass(frozen=True, eq=False)
class FitResult:
    """The end of one start."""

    mixture: Mixture
    history: tuple[Round, ...]
    converged: bool
    """Whether the last step changed nothing, to the last bit."""


def iterate(rows: Rows, mixture: Mixture, max_iter: int) -> FitResult:
    """At most `max_iter` EM steps, fewer once a step changes nothing."""
    history, previous = [], None
    for _ in range(max_iter):
        mixture, statistics = em_step(rows, mixture)
        history.append(Round.of(statistics))
        if statistics.same_as(previous):
            return FitResult(mixture, tuple(history), converged=True)
        previous = statistics
    return FitResult(mixture, tuple(history), converged=False)


def likeliest(rows: Rows, fits: Iterable[FitResult]) -> FitResult:
    """The fit with the largest log-likelihood at its own parameters, the earliest among equals.

    A single fit is returned without computing its likelihood.
    """
    best, most = None, None
    for fit in fits:
        if best is None:
            best = fit
            continue
        if most is None:
            most = expect(rows, best.mixture).likelihood_units
        units = expect(rows, fit.mixture).likelihood_units
        if units > most:
            best, most = fit, units
    assert best is not None
    return best
