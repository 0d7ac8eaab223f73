"""Bootstrap likelihood-ratio test for the number of classes."""

from typing import Any

from sklearn.base import clone

from bitmix.estimators.template import TemplateMixture
from bitmix.inference.fitted import in_memory
from bitmix.inference.ratio_test import RatioTest, ratio_test
from bitmix.rows import Rows, as_rows
from bitmix.rows.learn import NO_WISHES
from bitmix.support import checks
from bitmix.support.randomness import seed_of


def blrt(
    X: Any,
    k: int,
    estimator: TemplateMixture | None = None,
    *,
    n: int = 99,
    sample_weight: Any = None,
    items: Any = None,
    random_state: Any = 0,
) -> RatioTest:
    """Test k classes against k - 1 by the bootstrap likelihood-ratio test (McLachlan 1987).

    Tables are drawn from the fit with k - 1 classes, and models with k - 1 and with k classes are
    fitted to each, as to X. The test ends early once ten tables have a statistic as large as X.

    Parameters
    ----------
    X : as in `TemplateMixture.fit`
    k : int
        The number of classes, at least 2.
    estimator : TemplateMixture, optional
        Its parameters are used for every fit. By default ``noise_model="cell"``: latent classes.
    n : int, default=99
        The largest number of replicates.
    sample_weight : array-like, shape (m,), optional
        How many times each row counts. The sum is the number of people in a replicate.
    items : list of lists of int, optional
        Items with several values, as in `TemplateMixture.fit`.
    random_state : int, RandomState, Generator or None

    Examples
    --------
    >>> import bitmix
    >>> from bitmix.datasets import make_templates, sample_mixture
    >>> truth = make_templates(2, 8, separation=0.5, random_state=0)
    >>> X, _ = sample_mixture(truth, [0.6, 0.4], noise=0.1, m=200, random_state=0)
    >>> bitmix.blrt(X, 2, n=19).p_value
    0.05
    """
    k = checks.whole(k, "k", least=2, remedy="the test compares k classes with k - 1")
    estimator = TemplateMixture(noise_model="cell") if estimator is None else estimator
    rows = as_rows(
        X, estimator.binarize, missing=True, sample_weight=sample_weight, codes=NO_WISHES
    )
    seed = seed_of(random_state)
    model: TemplateMixture = clone(estimator).set_params(n_components=k - 1, random_state=seed)
    return one_class_more(rows, model.fit(rows, items=items), n=n, seed=seed)


def one_class_more(rows: Rows, model: TemplateMixture, *, n: int, seed: int) -> RatioTest:
    """Test one class more than `model` has; `model` was fitted to the rows."""
    n = checks.whole(n, "n", least=1, remedy="99 are usual")
    table = in_memory(rows, "blrt")
    return ratio_test(table, model.mixture_, model.settings_like_fit(), n=n, seed=seed)
