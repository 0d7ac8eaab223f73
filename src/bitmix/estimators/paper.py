"""The estimators of the paper: two-round EM, and the original EM it is compared with."""

from contextlib import nullcontext
from typing import Any, ClassVar, Self

from bitmix.em.classic import FitResult, iterate, likeliest
from bitmix.em.prune import as_pruning
from bitmix.em.seeds import given, number_of_seeds, pick
from bitmix.em.two_round import two_round
from bitmix.errors import InputError
from bitmix.estimators.base import FittedTemplates, check_components
from bitmix.rows import Rows, as_rows
from bitmix.rows.learn import NO_WISHES
from bitmix.support import checks
from bitmix.support.progress import shown
from bitmix.support.randomness import seed_of, stream


class TwoRoundEM(FittedTemplates):
    """Mixture of Bernoulli templates by the two-round EM of Barbu, Wu & Wu (2014), Algorithm 1.

    It starts from l random rows, makes one EM step, prunes to k templates that are far apart, and
    makes one more EM step.

    Parameters
    ----------
    n_components : int, default=2
        k in the paper: the number of templates.
    rounds : int, default=2
        Number of EM steps, at least 2; the fit ends earlier if a step changes nothing. 10 is the
        paper's ten-round version, and the better choice on real data, where templates overlap.
    n_seeds : int, optional
        l in the paper. By default ⌈(4/w_min)·ln(2/(δ·w_min))⌉, but less than a quarter of the rows.
    min_weight : float, optional
        w_min in the paper: the smallest weight that a template may have. By default 1/k.
    delta : float, default=0.1
        δ in the paper: the allowed probability of failure, from which l is computed.
    round_one_rows : int, optional
        Use a random sample of this many rows in round 1; round 2 always uses all rows. By default
        round 1 uses all rows, too, as in the paper. The guarantee requires 8l rows; more rows only
        take longer.
    n_init : int, default=1
        Number of fits from different seeds; the one with the largest log-likelihood is kept.
    noise : float, optional
        q in the paper, if known. By default it is estimated from the closest pair of seeds.
    pruning : {"l1", "hamming"}, default="l1"
        Distance between templates in step 6: ℓ1 as in the paper, or the expected Hamming distance
        between a row of one and a row of the other.
    verbose : bool, default=False
        Show the progress of long passes over the rows, on standard error if it is a terminal.
    binarize : float, optional
        Read values above this as 1. By default X must hold 0 and 1.
    random_state : int, RandomState, Generator or None
        Determines the seeds. The same number gives the same bits on any machine.

    Attributes
    ----------
    templates_ : array of uint8, shape (k, n)
        The templates: `means_` rounded, with ½ rounded to 0; heaviest first.
    means_ : array of float64, shape (k, n)
        T_i of the last M step.
    weights_ : array of float64, shape (k,)
        w_i.
    noise_ : float
        The noise level used in the EM steps: the given one, or q0 of step 2. The latter comes from
        the *closest* pair of seeds and is therefore below the true noise level, which harms neither
        templates nor labels. To estimate the true level, take the share of bits in which rows
        differ from their template.
    n_seeds_ : int
        l: the number of seeds that were used.
    history_ : tuple of Round
        For each round: `log_likelihood` of the parameters at its start, `n_templates`, and the
        `weights` at its end.
    seed_ : int
        The seed of all random choices; `random_state` if that is an int.

    Examples
    --------
    >>> from bitmix import TwoRoundEM
    >>> from bitmix.datasets import make_templates, sample_mixture
    >>> truth = make_templates(3, 200, separation=0.4, random_state=0)
    >>> X, labels = sample_mixture(truth, [0.5, 0.3, 0.2], noise=0.1, m=600, random_state=0)
    >>> model = TwoRoundEM(3, random_state=0).fit(X)
    >>> from bitmix.metrics import templates_recovered
    >>> templates_recovered(model.templates_, truth)
    True
    """

    _fitted_values: ClassVar = {**FittedTemplates._fitted_values, "n_seeds_": 0}

    def __init__(
        self,
        n_components: int = 2,
        *,
        rounds: int = 2,
        n_seeds: int | None = None,
        min_weight: float | None = None,
        delta: float = 0.1,
        round_one_rows: int | None = None,
        n_init: int = 1,
        noise: float | None = None,
        pruning: str = "l1",
        verbose: bool = False,
        binarize: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.rounds = rounds
        self.n_seeds = n_seeds
        self.min_weight = min_weight
        self.delta = delta
        self.round_one_rows = round_one_rows
        self.n_init = n_init
        self.noise = noise
        self.pruning = pruning
        self.verbose = verbose
        self.binarize = binarize
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, seeds: Any = None) -> Self:
        """Find the templates of X.

        Parameters
        ----------
        X : array-like, sparse matrix, table, BitMatrix or Dask array, shape (m, n)
            Rows of 0 and 1: a bool, int or float array, a scipy sparse matrix, a pandas, polars or
            pyarrow table, a BitMatrix in memory or in a file, a Dask array or table. Other values
            are an error unless `binarize` is set.
        y : ignored
        seeds : rows of 0 and 1, shape (l, n), optional
            Seeds of round 1, instead of random rows; `n_init` then has no effect.
        """
        rounds = checks.whole(self.rounds, "rounds", least=2, remedy="round 2 follows the pruning")
        noise = None if self.noise is None else checks.noise(self.noise)
        pruning = as_pruning(self.pruning)
        n_init = checks.whole(self.n_init, "n_init", least=1)
        delta = checks.between(self.delta, "delta", 0, 1)
        rows = binary_rows(X, self.binarize)
        m, n = rows.shape
        k = check_components(self.n_components, m, n)
        if self.round_one_rows is not None:
            m = min(m, checks.whole(self.round_one_rows, "round_one_rows", least=k))
        if seeds is None:
            start, n_seeds, min_weight = None, self.n_seeds, self.min_weight
            if n_seeds is not None:
                n_seeds = checks.seeds(n_seeds, k)
            if min_weight is not None:
                min_weight = checks.weight(min_weight, k)
            n_seeds = number_of_seeds(m, k, n_seeds=n_seeds, min_weight=min_weight, delta=delta)
        else:
            start = given(seeds, (k, n), noise, name="seeds")
            n_seeds, n_init = start.n_components, 1
        seed = seed_of(self.random_state)

        def run(number: int) -> FitResult:
            return two_round(
                rows, k, n_seeds=n_seeds, round_one_rows=m, rounds=rounds, noise=noise,
                pruning=pruning, rng=stream(seed, "seeds", number), start=start,
            )  # fmt: skip

        with shown() if self.verbose else nullcontext():
            fit = likeliest(rows, map(run, range(n_init)))
        self._set_columns(X, rows)
        self.seed_, self.n_seeds_, self.history_ = seed, n_seeds, fit.history
        self._set_ordered(fit.mixture, fit.mixture.means)
        return self


def binary_rows(X: Any, binarize: float | None) -> Rows:
    """The rows of X, without weights and without items of several values."""
    rows = as_rows(X, binarize, codes=NO_WISHES)
    if rows.layout.weight_one:
        raise InputError("X has weights, which only TemplateMixture.fit uses: give it without them")
    codes = getattr(rows, "codes", None)
    if codes is not None and codes.has_items:
        raise InputError("X has columns with more than two values: use TemplateMixture")
    return rows


class ClassicEM(FittedTemplates):
    """The original EM that the paper compares with: k random rows as templates, then EM steps.

    Parameters
    ----------
    n_components : int, default=2
        k in the paper: the number of templates.
    max_iter : int, default=100
        Maximum number of EM steps; the fit ends earlier if a step changes nothing.
    n_init : int, default=1
        Number of starts from different rows; the one with the largest log-likelihood is kept.
    noise : float, optional
        q in the paper. By default it is estimated from the closest pair of starting templates.
    init : array-like of 0 and 1, shape (k, n), optional
        Starting templates, instead of random rows; `n_init` then has no effect.
    verbose : bool, default=False
        Show the progress of long passes over the rows, on standard error if it is a terminal.
    binarize : float, optional
        Read values above this as 1. By default X must hold 0 and 1.
    random_state : int, RandomState, Generator or None
        Determines the starting rows. The same number gives the same bits on any machine.

    Attributes
    ----------
    templates_, means_, weights_, noise_, history_, seed_
        As in `TwoRoundEM`.
    n_iter_ : int
        Number of EM steps of the start that was kept.
    converged_ : bool
        Whether its last step changed nothing, to the last bit.

    Examples
    --------
    >>> from bitmix import ClassicEM
    >>> from bitmix.datasets import paper_pair, sample_mixture
    >>> pair = paper_pair(200, 0.5)
    >>> X, labels = sample_mixture(pair, [0.5, 0.5], noise=0.05, m=100, random_state=0)
    >>> model = ClassicEM(2, noise=0.05, n_init=5, random_state=0).fit(X)
    >>> sorted(model.templates_.sum(axis=1).tolist())
    [0, 100]
    """

    _fitted_values: ClassVar = {
        **FittedTemplates._fitted_values,
        "n_iter_": 0,
        "converged_": True,
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        max_iter: int = 100,
        n_init: int = 1,
        noise: float | None = None,
        init: Any = None,
        verbose: bool = False,
        binarize: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.max_iter = max_iter
        self.n_init = n_init
        self.noise = noise
        self.init = init
        self.verbose = verbose
        self.binarize = binarize
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the templates of X.

        Parameters
        ----------
        X : array-like, sparse matrix, table, BitMatrix or Dask array, shape (m, n)
            Rows of 0 and 1, as in `TwoRoundEM.fit`.
        y : ignored
        """
        max_iter = checks.whole(self.max_iter, "max_iter", least=1)
        noise = None if self.noise is None else checks.noise(self.noise)
        n_init = checks.whole(self.n_init, "n_init", least=1)
        rows = binary_rows(X, self.binarize)
        m, n = rows.shape
        k = check_components(self.n_components, m, n)
        seed = seed_of(self.random_state)

        def run(number: int) -> FitResult:
            start = pick(rows, k, stream(seed, "seeds", number), noise)
            return iterate(rows, start, max_iter)

        with shown() if self.verbose else nullcontext():
            if self.init is None:
                fit = likeliest(rows, map(run, range(n_init)))
            else:
                fit = iterate(rows, given(self.init, (k, n), noise), max_iter)
        self._set_columns(X, rows)
        self.seed_, self.history_ = seed, fit.history
        self.n_iter_, self.converged_ = len(fit.history), fit.converged
        self._set_ordered(fit.mixture, fit.mixture.means)
        return self
