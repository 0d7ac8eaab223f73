"""The scikit-learn estimators: check the input, one call, store the result."""

import math
import os
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from bitmix import checks, modelfile
from bitmix.certify import FitCertificate, certify_fit
from bitmix.datasets import sample_mixture
from bitmix.em import predict, seeds
from bitmix.em.classic import iterate
from bitmix.em.prune import as_pruning
from bitmix.em.result import FitResult, Round, likeliest
from bitmix.em.two_round import two_round
from bitmix.errors import FileFormatError, InputError
from bitmix.mixture import Floats, Mixture
from bitmix.randomness import seed_of, stream
from bitmix.rows import Rows, as_rows
from bitmix.rows.packed import BitMatrix


class _TemplateEstimator(DensityMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """What every fitted mixture of templates can do."""

    binarize: float | None
    noise: float | None
    random_state: Any

    means_: Floats
    weights_: Floats
    noise_: float
    templates_: NDArray[np.uint8]
    history_: tuple[Round, ...]
    seed_: int
    feature_names_in_: NDArray[np.object_]

    _fitted_numbers: tuple[str, ...] = ("noise_", "seed_", "n_features_in_")

    def fit_predict(self, X: Any, y: Any = None) -> NDArray[np.int64]:
        """Fit, then the labels of the same rows: equals ``fit(X).predict(X)``."""
        return self.fit(X).predict(X)

    @abstractmethod
    def fit(self, X: Any, y: Any = None) -> Self: ...

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The likeliest template of each row; the lowest index among equals."""
        return predict.labels(self._rows(X), self._mixture)

    def predict_proba(self, X: Any) -> Floats:
        """p_i(x) of the paper's E step, shape (m, k); every row sums to exactly 1."""
        return predict.probabilities(self._rows(X), self._mixture)

    def score_samples(self, X: Any) -> Floats:
        """ln Σ_i w_i f_i(x) of each row, natural log, with the fitted `means_`.

        This is the log-likelihood of the paper's tables. f is a density over rows only for binary
        templates, so use `bic` and `aic`, which round, to compare models.
        """
        return predict.log_likelihoods(self._rows(X), self._mixture)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean of `score_samples`."""
        return float(self.score_samples(X).mean())

    def bic(self, X: Any) -> float:
        """-2·ln L + p·ln m with binary templates; lower is better.

        p counts every template bit (k·n), k-1 free weights, and the noise level unless given.
        """
        rows = self._rows(X)
        return -2 * self._rounded_likelihood(rows) + self._n_parameters * math.log(rows.shape[0])

    def aic(self, X: Any) -> float:
        """-2·ln L + 2·p with binary templates, p as in `bic`; lower is better."""
        return -2 * self._rounded_likelihood(self._rows(X)) + 2 * self._n_parameters

    def sample(
        self, n_samples: int = 1, *, random_state: Any = None
    ) -> tuple[BitMatrix, NDArray[np.int64]]:
        """New rows from `templates_`, `weights_` and `noise_`, and the template of each.

        ``random_state=None`` uses the seed of the fit, so that a call can be repeated.
        """
        check_is_fitted(self)
        seed = self.seed_ if random_state is None else seed_of(random_state)
        rng = stream(seed, "sample")  # not the stream the rows of the fit may have come from
        return sample_mixture(self.templates_, self.weights_, self.noise_, n_samples, rng)

    def certify(self, X: Any, alpha: float = 0.05, random_state: int = 0) -> FitCertificate:
        """Certify that `templates_` are exactly the templates behind the rows of X.

        See `bitmix.certify_fit`: for every parameter value with at most k templates,
        P(certificate issued and templates wrong) ≤ α.
        """
        return certify_fit(self._rows(X), self.templates_, alpha, random_state)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, whole or not at all."""
        check_is_fitted(self)
        params = self.get_params()
        arrays = {"means": self.means_, "weights": self.weights_}
        if params.get("init") is not None:
            arrays["init"] = BitMatrix.from_dense(params.pop("init")).to_dense()
        if isinstance(params["random_state"], np.random.Generator | np.random.RandomState):
            params["random_state"] = self.seed_
        header = {
            "class": type(self).__name__,
            "params": params,
            "fitted": {name: getattr(self, name) for name in self._fitted_numbers},
            "feature_names": [str(name) for name in getattr(self, "feature_names_in_", ())],
            "history": [entry.to_dict() for entry in self.history_],
        }
        modelfile.write(path, header, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model written by `save`. Nothing in the file is run."""
        header, arrays = modelfile.read(path)
        if header.get("class") != cls.__name__:
            raise FileFormatError(
                f"{path} holds a {header.get('class')}, not a {cls.__name__}: "
                f"use {header.get('class')}.load"
            )
        try:
            return cls._restored(header, arrays)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise FileFormatError(f"{path} is damaged: {error}") from None

    @classmethod
    def _restored(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        params, fitted, names = header["params"], header["fitted"], header["feature_names"]
        model = cls(**params, **({"init": arrays["init"]} if "init" in arrays else {}))
        mixture = Mixture(arrays["means"], arrays["weights"], fitted["noise_"]).checked()
        for name in cls._fitted_numbers:
            if not isinstance(fitted[name], int | float):
                raise InputError(f"{name} must be a number, got {fitted[name]!r}")
            setattr(model, name, fitted[name])
        if model.get_params()["n_components"] != mixture.n_components:
            raise InputError(f"{mixture.n_components} templates for {params['n_components']=}")
        if fitted["n_features_in_"] != mixture.n_features:
            raise InputError(f"{mixture.n_features} columns, {fitted['n_features_in_']} claimed")
        if names:
            if not isinstance(names, list) or len(names) != mixture.n_features:
                raise InputError(f"feature_names must be {mixture.n_features} names")
            model.feature_names_in_ = np.array([str(name) for name in names], dtype=object)
        model._set(mixture, tuple(Round.from_dict(entry) for entry in header["history"]))
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _rows(self, X: Any) -> Rows:
        """X as packed rows, its columns checked against those of the fit."""
        check_is_fitted(self)
        rows = as_rows(X, self.binarize)
        validate_data(self, X, reset=False, skip_check_array=True)
        return rows

    def _store(self, X: Any, fit: FitResult, seed: int) -> Self:
        """Keep a finished fit; until here nothing of an earlier one was touched."""
        validate_data(self, X, reset=True, skip_check_array=True)
        self.seed_ = seed
        self._set(fit.mixture.ordered(), fit.history)
        return self

    def _set(self, mixture: Mixture, history: tuple[Round, ...]) -> None:
        self.means_ = mixture.means
        self.weights_ = mixture.weights
        self.noise_ = mixture.noise
        self.templates_ = mixture.templates
        self.history_ = history

    @property
    def _mixture(self) -> Mixture:
        check_is_fitted(self)
        return Mixture(self.means_, self.weights_, self.noise_)

    @property
    def _n_parameters(self) -> int:
        return self._mixture.n_parameters(noise_known=self.noise is not None)

    def _rounded_likelihood(self, rows: Rows) -> float:
        return float(predict.log_likelihoods(rows, self._mixture.rounded()).sum())


def load_model(path: str | os.PathLike[str]) -> "TwoRoundEM | ClassicEM":
    """A model of any kind, by what its file says it is."""
    header, _ = modelfile.read(path)
    kinds: dict[Any, type[TwoRoundEM | ClassicEM]] = {
        "TwoRoundEM": TwoRoundEM,
        "ClassicEM": ClassicEM,
    }
    if header.get("class") not in kinds:
        raise FileFormatError(f"{path} holds a {header.get('class')!r}, which this bitmix lacks")
    return kinds[header["class"]].load(path)


class TwoRoundEM(_TemplateEstimator):
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

    _fitted_numbers = (*_TemplateEstimator._fitted_numbers, "n_seeds_")

    def __init__(
        self,
        n_components: int = 2,
        *,
        rounds: int = 2,
        n_seeds: int | None = None,
        min_weight: float | None = None,
        delta: float = 0.1,
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
        self.n_init = n_init
        self.noise = noise
        self.pruning = pruning
        self.binarize = binarize
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the templates of X.

        Parameters
        ----------
        X : array-like, sparse matrix, table or BitMatrix, shape (m, n)
            Rows of 0 and 1: a bool, int or float array, a scipy sparse matrix, a pandas, polars or
            pyarrow table, or a BitMatrix. Other values are an error unless `binarize` is set.
        y : ignored
        """
        rounds = checks.whole(self.rounds, "rounds", least=2, remedy="round 2 is after the pruning")
        noise = checks.optional(checks.noise, self.noise)
        pruning = as_pruning(self.pruning)
        n_init = checks.whole(self.n_init, "n_init", least=1)
        delta = checks.between(self.delta, "delta", 0, 1)
        rows = as_rows(X, self.binarize)
        k = checks.components(self.n_components, rows.shape[0])
        l = seeds.number_of_seeds(
            rows.shape[0],
            k,
            n_seeds=checks.optional(checks.seeds, self.n_seeds, k),
            min_weight=checks.optional(checks.weight, self.min_weight, k),
            delta=delta,
        )
        seed = seed_of(self.random_state)

        def run(start: int) -> FitResult:
            rng = stream(seed, "seeds", start)
            return two_round(
                rows, k, n_seeds=l, rounds=rounds, noise=noise, pruning=pruning, rng=rng
            )

        fit = likeliest(rows, map(run, range(n_init)))
        self.n_seeds_ = l
        return self._store(X, fit, seed)


class ClassicEM(_TemplateEstimator):
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

    _fitted_numbers = (*_TemplateEstimator._fitted_numbers, "n_iter_", "converged_")

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

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the templates of X.

        Parameters
        ----------
        X : array-like, sparse matrix, table or BitMatrix, shape (m, n)
            Rows of 0 and 1: a bool, int or float array, a scipy sparse matrix, a pandas, polars or
            pyarrow table, or a BitMatrix. Other values are an error unless `binarize` is set.
        y : ignored
        """
        max_iter = checks.whole(self.max_iter, "max_iter", least=1)
        noise = checks.optional(checks.noise, self.noise)
        n_init = checks.whole(self.n_init, "n_init", least=1)
        rows = as_rows(X, self.binarize)
        k = checks.components(self.n_components, rows.shape[0])
        seed = seed_of(self.random_state)

        def run(start: int) -> FitResult:
            rng = stream(seed, "seeds", start)
            return iterate(rows, seeds.pick(rows, k, rng, noise), max_iter)

        if self.init is None:
            fit = likeliest(rows, map(run, range(n_init)))
        else:
            fit = iterate(rows, seeds.given(self.init, (k, rows.shape[1]), noise), max_iter)
        self.n_iter_, self.converged_ = len(fit.history), fit.converged
        return self._store(X, fit, seed)
