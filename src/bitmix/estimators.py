"""The scikit-learn estimators: check the input, one call, store the result."""

from dataclasses import dataclass
from typing import Any, Self

from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from bitmix import checks
from bitmix.by_pieces import ByPieces, OpenRound
from bitmix.em import seeds
from bitmix.em.classic import iterate
from bitmix.em.prune import Pruning, as_pruning
from bitmix.em.result import FitResult, Round, likeliest
from bitmix.em.step import Statistics, maximise
from bitmix.em.two_round import pruned, two_round
from bitmix.fitted import FittedTemplates
from bitmix.mixture import Mixture
from bitmix.randomness import seed_of, stream
from bitmix.rows import Rows, as_rows


class PaperMixture(ByPieces[Mixture]):
    """A fitted `Mixture`: real-valued means and one noise level, as the paper's EM leaves them."""

    noise: float | None
    noise_: float

    def _store(self, X: Any, rows: Rows, fit: FitResult, seed: int) -> Self:
        """Keep a finished fit; until here nothing of an earlier one was touched."""
        self._check_columns(X, rows, reset=True)
        self.seed_, self.history_ = seed, fit.history
        self._open = None
        self._set(fit.mixture.ordered())
        return self

    def _pieces_rows(self, X: Any) -> Rows:
        return as_rows(X, self.binarize)

    def _go_on(self) -> OpenRound[Mixture]:
        return OpenRound(self._mixture, self.history_)

    def _moved(self, done: OpenRound[Mixture], statistics: Statistics) -> OpenRound[Mixture]:
        mixture = maximise(done.mixture, statistics)
        self.history_ = (*done.history, Round.of(mixture, statistics))
        self._set(mixture.ordered())
        return OpenRound(mixture, self.history_)

    def _set(self, mixture: Mixture) -> None:
        self.means_ = mixture.means
        self.weights_ = mixture.weights
        self.noise_ = mixture.noise
        self.templates_ = mixture.templates

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"means": self.means_, "weights": self.weights_}

    def _set_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        self._set(Mixture(arrays["means"], arrays["weights"], self.noise_).checked())

    @property
    def _mixture(self) -> Mixture:
        check_is_fitted(self)
        return Mixture(self.means_, self.weights_, self.noise_)

    def _density(self) -> Mixture:
        return self._mixture.rounded()

    @property
    def _n_parameters(self) -> int:
        return self._mixture.n_parameters(noise_known=self.noise is not None)


class TwoRoundEM(PaperMixture):
    """Mixture of Bernoulli templates by the two-round EM of Barbu, Wu & Wu (2014), Algorithm 1.

    Over-seed with l random rows, one EM step, prune to k far-apart templates, one more EM step.

    Parameters
    ----------
    n_components : int, default=2
        k in the paper: how many templates.
    rounds : int, default=2
        EM steps in all, at least 2; fewer if a step changes nothing. 10 is the paper's ten-round
        version, and the better choice on real data, where templates overlap.
    n_seeds : int, optional
        l in the paper. By default ⌈(4/w_min)·ln(2/(δ·w_min))⌉, but under a quarter of the rows.
    min_weight : float, optional
        w_min in the paper: the least weight a template may have. By default 1/k.
    delta : float, default=0.1
        δ in the paper: the probability of failure that l is chosen for.
    round_one_rows : int, optional
        Give round 1 a random sample of so many rows; round 2 always sees all. By default round 1
        sees all too, as in the paper. Its guarantee asks for 8l rows; more are only slower.
    n_init : int, default=1
        Fits from other seeds; the one with the largest log-likelihood is kept.
    noise : float, optional
        q in the paper, if known. By default estimated from the closest pair of seeds.
    pruning : {"l1", "hamming"}, default="l1"
        Distance between templates in step 6: ℓ1 as in the paper, or the expected Hamming distance
        between a row of one and a row of the other.
    binarize : float, optional
        Read values above this as 1. By default X must hold 0 and 1.
    random_state : int, RandomState, Generator or None
        Fixes the seeds. The same number gives the same bits on any machine.

    Attributes
    ----------
    templates_ : array of uint8, shape (k, n)
        The templates: `means_` rounded, ½ to 0. Heaviest first.
    means_ : array of float64, shape (k, n)
        T_i of the last M step.
    weights_ : array of float64, shape (k,)
        w_i.
    noise_ : float
        The noise level the EM steps used: the one given, or q0 of step 2. The latter is read off
        the *closest* pair of seeds and so lies below the true noise level, which harms neither
        templates nor labels; the share of bits in which rows differ from their template
        estimates the true one.
    n_seeds_ : int
        l as used.
    history_ : tuple of Round
        Per round: `log_likelihood` of the parameters it started from, `n_templates`, and the
        `weights` it ended with.
    seed_ : int
        The number all random choices came from; equal to `random_state` where that is an int.

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

    _fitted_numbers = (*FittedTemplates._fitted_numbers, "n_seeds_")

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
        self.binarize = binarize
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, seeds: Any = None, checkpoint: Any = None) -> Self:
        """Find the templates of X.

        Parameters
        ----------
        X : array-like, sparse matrix, table, BitMatrix or Dask array, shape (m, n)
            Rows of 0 and 1: a bool, int or float array, a scipy sparse matrix, a pandas, polars or
            pyarrow table, a BitMatrix in memory or in a file, a Dask array or table. Other values
            are an error unless `binarize` is set.
        y : ignored
        seeds : rows of 0 and 1, shape (l, n), optional
            The seeds of round 1 in place of random rows; `n_init` has no effect then.
        checkpoint : path, optional
            Keep every pass over the rows in this file. A fit that was killed and is called again
            goes on from there, and ends with the same bits.
        """
        plan = self._plan()
        rows = as_rows(X, self.binarize)
        k = checks.components(self.n_components, rows.shape[0])
        start = None if seeds is None else plan.start(seeds, (k, rows.shape[1]))
        seen = rows.shape[0]
        if self.round_one_rows is not None:
            seen = min(seen, checks.whole(self.round_one_rows, "round_one_rows", least=k))
        l = self._number_of_seeds(seen, k) if start is None else start.n_components
        seed = self._seed(checkpoint)

        def run(number: int) -> FitResult:
            rng = stream(seed, "seeds", number)
            return two_round(
                kept, k, n_seeds=l, round_one_rows=seen, rounds=plan.rounds, noise=plan.noise,
                pruning=plan.pruning, rng=rng, start=start,
            )  # fmt: skip

        with self._keeping(rows, seed, checkpoint, seeds) as kept:
            fit = likeliest(kept, map(run, range(plan.n_init if start is None else 1)))
        self.n_seeds_ = l
        return self._store(X, rows, fit, seed)

    def _plan(self) -> "_Plan":
        rounds = checks.whole(self.rounds, "rounds", least=2, remedy="round 2 is after the pruning")
        checks.between(self.delta, "delta", 0, 1)
        return _Plan(
            rounds,
            checks.optional(checks.noise, self.noise),
            as_pruning(self.pruning),
            checks.whole(self.n_init, "n_init", least=1),
        )

    def _number_of_seeds(self, m: int, k: int) -> int:
        return seeds.number_of_seeds(
            m,
            k,
            n_seeds=checks.optional(checks.seeds, self.n_seeds, k),
            min_weight=checks.optional(checks.weight, self.min_weight, k),
            delta=checks.between(self.delta, "delta", 0, 1),
        )

    def _begin(self, rows: Rows, given: Any) -> OpenRound[Mixture]:
        plan, (m, n) = self._plan(), rows.shape
        self.seed_ = seed_of(self.random_state)
        rng = stream(self.seed_, "seeds")
        if given is None:
            k = checks.components(self.n_components, m)
            mixture = seeds.pick(rows, self._number_of_seeds(m, k), rng, plan.noise)
        else:
            k = checks.whole(self.n_components, "n_components", least=1)
            mixture = plan.start(given, (k, n))
        self.n_seeds_ = mixture.n_components
        return OpenRound(mixture, (), rng)

    def _moved(self, done: OpenRound[Mixture], statistics: Statistics) -> OpenRound[Mixture]:
        if done.rng is None:
            return super()._moved(done, statistics)
        mixture = maximise(done.mixture, statistics)
        first = Round.of(mixture, statistics)
        k = checks.whole(self.n_components, "n_components", least=1)
        return OpenRound(pruned(mixture, k, as_pruning(self.pruning), done.rng), (first,))


@dataclass(frozen=True)
class _Plan:
    """The parameters of a fit, checked."""

    rounds: int
    noise: float | None
    pruning: Pruning
    n_init: int

    def start(self, rows: Any, shape: tuple[int, int]) -> Mixture:
        """Steps 1-2 with the seeds of the user."""
        return seeds.given(rows, shape, self.noise, name="seeds")


class ClassicEM(PaperMixture):
    """The original EM that the paper compares with: k random rows as templates, then EM steps.

    Parameters
    ----------
    n_components : int, default=2
        k in the paper: how many templates.
    max_iter : int, default=100
        EM steps at most; a step that changes nothing ends the fit earlier.
    n_init : int, default=1
        Starts from other rows; the one with the largest log-likelihood is kept.
    noise : float, optional
        q in the paper. By default estimated from the closest pair of starting templates.
    init : array-like of 0 and 1, shape (k, n), optional
        Starting templates in place of random rows; `n_init` has no effect then.
    binarize : float, optional
        Read values above this as 1. By default X must hold 0 and 1.
    random_state : int, RandomState, Generator or None
        Fixes the starting rows. The same number gives the same bits on any machine.

    Attributes
    ----------
    templates_, means_, weights_, noise_, history_, seed_
        As in `TwoRoundEM`.
    n_iter_ : int
        EM steps made by the start that was kept.
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

    _fitted_numbers = (*FittedTemplates._fitted_numbers, "n_iter_", "converged_")

    def __init__(
        self,
        n_components: int = 2,
        *,
        max_iter: int = 100,
        n_init: int = 1,
        noise: float | None = None,
        init: Any = None,
        binarize: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.max_iter = max_iter
        self.n_init = n_init
        self.noise = noise
        self.init = init
        self.binarize = binarize
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, checkpoint: Any = None) -> Self:
        """Find the templates of X.

        Parameters
        ----------
        X : array-like, sparse matrix, table, BitMatrix or Dask array, shape (m, n)
            Rows of 0 and 1, as `TwoRoundEM.fit` takes them.
        y : ignored
        checkpoint : path, optional
            Keep every pass over the rows in this file, and go on from there if it is there.
        """
        max_iter = checks.whole(self.max_iter, "max_iter", least=1)
        noise = checks.optional(checks.noise, self.noise)
        n_init = checks.whole(self.n_init, "n_init", least=1)
        rows = as_rows(X, self.binarize)
        k = checks.components(self.n_components, rows.shape[0])
        seed = self._seed(checkpoint)

        def run(start: int) -> FitResult:
            rng = stream(seed, "seeds", start)
            return iterate(kept, seeds.pick(kept, k, rng, noise), max_iter)

        with self._keeping(rows, seed, checkpoint) as kept:
            if self.init is None:
                fit = likeliest(kept, map(run, range(n_init)))
            else:
                start = seeds.given(self.init, (k, rows.shape[1]), noise)
                fit = iterate(kept, start, max_iter)
        self.n_iter_, self.converged_ = len(fit.history), fit.converged
        return self._store(X, rows, fit, seed)

    def _begin(self, rows: Rows, given: Any) -> OpenRound[Mixture]:
        (m, n), given = rows.shape, self.init if given is None else given
        noise = checks.optional(checks.noise, self.noise)
        self.seed_, self.n_iter_, self.converged_ = seed_of(self.random_state), 0, False
        if given is None:
            k = checks.components(self.n_components, m)
            return OpenRound(seeds.pick(rows, k, stream(self.seed_, "seeds"), noise), ())
        k = checks.whole(self.n_components, "n_components", least=1)
        return OpenRound(seeds.given(given, (k, n), noise), ())

    def _moved(self, done: OpenRound[Mixture], statistics: Statistics) -> OpenRound[Mixture]:
        moved = super()._moved(done, statistics)
        self.n_iter_, self.converged_ = len(moved.history), False
        return moved
