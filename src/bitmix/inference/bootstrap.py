"""The bootstrap of a fit: standard errors and intervals from resampled rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bitmix.em.search import converge, evaluate
from bitmix.errors import InputError
from bitmix.inference.estimates import Estimates, intervals, of_mixture
from bitmix.inference.fitted import in_memory, patterns_of, refittable
from bitmix.inference.matching import match
from bitmix.inference.replicates import for_each, resampled
from bitmix.models.mixture import Floats
from bitmix.support import checks
from bitmix.support.randomness import seed_of, stream

MAX_UNMATCHED = 0.2
"""If a larger share of replicates is unmatched, there are no standard errors: in the matched ones,
classes look more certain than they are."""
MAX_VALUES = 1 << 27
"""The largest number of values in all replicates together: 1 GB."""


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """The parameters of a fit in replicates of its table."""

    estimates: Estimates
    """The estimates of the fit itself."""
    replicates: Estimates
    """One estimate per replicate along the first axis, with classes in the order of the fit."""
    n_unmatched: int
    """Replicates that are left out, as their classes could not be matched with those of the fit."""
    n_people: float
    """The number of rows, or the sum of their weights."""
    level: float
    template_support: Floats
    """The share of replicates in which a template bit equals that of the fit, shape (k, n)."""

    @property
    def n(self) -> int:
        """The number of replicates, including those that could not be matched."""
        return len(self.replicates.weights) + self.n_unmatched

    @property
    def unmatched(self) -> float:
        """The share of replicates that could not be matched."""
        return self.n_unmatched / self.n

    @property
    def standard_errors(self) -> Estimates:
        """The standard deviation of each parameter over the replicates."""
        return self.replicates.map(lambda values: values.std(axis=0, ddof=1))

    @property
    def intervals(self) -> Estimates:
        """Confidence intervals; the last axis holds both ends. See `bitmix.bootstrap`."""
        return intervals(self.estimates, self.standard_errors, self.level, self.n_people)


def bootstrap(
    model: Any,
    X: Any,
    n: int = 200,
    random_state: Any = 0,
    *,
    sample_weight: Any = None,
    level: float = 0.95,
) -> Bootstrap:
    """Standard errors and intervals of a fit, from replicates of its table.

    A replicate has as many people as the table, drawn with replacement. EM continues from the fit
    until it converges on the replicate. Classes are matched with those of the fit by the distance
    of their probabilities; a replicate is left out if a class is closer to another class than to
    its own. An interval is the estimate ± z standard errors on the logit scale, so that it stays
    between 0 and 1; for estimates of 0 and 1 it is the exact binomial interval.

    Parameters
    ----------
    model : TemplateMixture
        Fitted.
    X : as in ``model.predict``
        The rows of the fit.
    n : int, default=200
        The number of replicates.
    random_state : int, RandomState, Generator or None
    sample_weight : array-like, shape (m,), optional
        The weights of the fit. Whole weights are numbers of people. With other weights, rows are
        drawn and keep their weights.
    level : float, default=0.95
        The confidence level of the intervals.

    Returns
    -------
    Bootstrap
        With `standard_errors` and `intervals`, each with ``weights``, ``probabilities`` and
        ``noise``, `template_support`, and `unmatched`.

    Examples
    --------
    >>> import bitmix
    >>> from bitmix.datasets import make_templates, sample_mixture
    >>> truth = make_templates(2, 20, separation=0.5, random_state=0)
    >>> X, _ = sample_mixture(truth, [0.6, 0.4], noise=0.1, m=400, random_state=0)
    >>> model = bitmix.TemplateMixture(2, random_state=0).fit(X)
    >>> result = bitmix.bootstrap(model, X, n=50)
    >>> result.standard_errors.weights.round(2), result.unmatched
    (array([0.03, 0.03]), 0.0)
    """
    model = refittable(model, "bootstrap")
    n = checks.whole(n, "n", least=2, remedy="200 are usual")
    level = checks.between(level, "level", 0, 1)
    rows = in_memory(model.rows_like_fit(X, sample_weight), "bootstrap")
    if rows.layout.weight_one <= 1:
        rows = patterns_of(rows) or rows
    mixture, settings, seed = model.mixture_, model.settings_like_fit(), seed_of(random_state)
    if n * mixture.means.size > MAX_VALUES:
        raise InputError(
            f"{n} replicates of {mixture.means.size:,} probabilities do not fit into 1 GB: use "
            "fewer replicates"
        )

    def replicate(number: int) -> tuple[Estimates, Floats] | None:
        table = resampled(rows, stream(seed, "bootstrap", number))
        fit = converge(table, evaluate(table, mixture, settings.noise), settings)
        order = match(mixture, fit.mixture)
        if order is None:
            return None
        matched = fit.mixture.reordered(order)
        return of_mixture(matched), matched.templates == mixture.templates

    results = [
        result for result in for_each(range(n), replicate, "bootstrap") if result is not None
    ]
    if n - len(results) > MAX_UNMATCHED * n:
        raise InputError(
            f"the classes could not be matched with those of the fit in {n - len(results)} of {n} "
            "replicates, so standard errors would be meaningless: use fewer classes"
        )
    return Bootstrap(
        estimates=of_mixture(mixture),
        replicates=Estimates.stacked([estimates for estimates, _ in results]),
        n_unmatched=n - len(results),
        n_people=rows.total_weight,
        level=level,
        template_support=np.mean([same for _, same in results], axis=0),
    )
