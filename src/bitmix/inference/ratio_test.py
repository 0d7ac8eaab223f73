"""The bootstrap likelihood-ratio test (BLRT): k classes against k - 1."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bitmix.em.fit import fit_mixture
from bitmix.em.sampling import sample_probabilities
from bitmix.em.search import Settings, converge, evaluate
from bitmix.inference.fitted import patterns_of
from bitmix.inference.replicates import for_each, known_words
from bitmix.kernels.threads import available
from bitmix.models.mixture import Floats, Mixture
from bitmix.rows.packed import BitMatrix
from bitmix.rows.protocol import Layout
from bitmix.support.progress import meter
from bitmix.support.randomness import stream

ENOUGH = 10
"""The test ends after this many replicates as extreme as the data: p is then far from any usual
level, and its relative error is about a third (Besag & Clifford 1991)."""
STARTS = 3
"""The number of starts of a search in a replicate. Five raise the mean statistic of 1,000 × 20
tables by less than its standard error over 24 tables, and leave its largest values as they are."""
TOLERANCE = 1e-5
"""The tolerance of a fit in a replicate, in nats per row, unless that of the fit is larger. The
largest values of 24 tables of 300 × 6 stay the same to .01 from 1e-7 on, and fits take a third of
the time."""


@dataclass(frozen=True, eq=False)
class RatioTest:
    """The outcome of a bootstrap likelihood-ratio test."""

    n_components: int
    """k, the number of classes tested against k - 1."""
    statistic: float
    """2·(ln L with k classes - ln L with k - 1 classes), by the search of the replicates."""
    p_value: float
    """The probability of a statistic at least this large if there are k - 1 classes."""
    replicates: Floats
    """The statistic in each simulated table."""
    asked: int
    """The requested number of replicates; the test ends early if p is clearly large."""


def ratio_test(
    rows: BitMatrix, small: Mixture, settings: Settings, *, n: int, seed: int, enough: int = ENOUGH
) -> RatioTest:
    """Test one component more than `small`, the mixture fitted to the rows, against `small`.

    A replicate is a table drawn from `small`, with as many rows and missing cells as the data. For
    each table and for the data alike, EM continues from `small`, and the larger mixture is found by
    a search: a better search for the data alone would reject too often.
    """
    small, k = small.density(), small.n_components + 1
    settings = replace(
        settings, n_init=min(settings.n_init or STARTS, STARTS), tol=max(settings.tol, TOLERANCE)
    )

    def ratio(table: BitMatrix, number: int) -> float:
        smaller = converge(table, evaluate(table, small, settings.noise), settings)
        larger = fit_mixture(table, k, settings, compare_models=False, seed=seed + number).fit
        gain = larger.statistics.log_likelihood - smaller.statistics.log_likelihood
        return max(0.0, 2 * gain)

    def replicate(number: int) -> float:
        return ratio(simulated(rows, small, stream(seed, "simulation", number)), number)

    statistic = ratio(patterns_of(rows) or rows, n)
    values: list[float] = []
    at_once = available()  # results beyond the last one needed are discarded
    with meter(f"{k} classes against {k - 1}", n) as update:
        for first in range(0, n, at_once):
            for value in for_each(range(first, min(first + at_once, n)), replicate):
                values.append(value)
                if sum(each >= statistic for each in values) == enough:
                    return RatioTest(k, statistic, enough / len(values), np.array(values), n)
            update(len(values), "")
    extreme = sum(each >= statistic for each in values)
    return RatioTest(k, statistic, (extreme + 1) / (n + 1), np.array(values), n)


def simulated(rows: BitMatrix, mixture: Mixture, rng: np.random.Generator) -> BitMatrix:
    """Draw a table from the mixture with as many rows and missing cells as `rows`."""
    n = round(rows.total_weight)
    p = mixture.probabilities
    table, _ = sample_probabilities(p, mixture.weights, mixture.items, n, rng)
    known: Any = known_words(rows, rng, n)
    if known is not None:
        words = np.concatenate([table.words & known, known], axis=1)
        table = BitMatrix.trusted(words, rows.shape[1], None, Layout(missing=True))
    return table.distinct()
