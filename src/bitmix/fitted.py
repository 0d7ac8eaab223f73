"""What every fitted mixture of templates can do: predict, score, sample, certify, save and load."""

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from bitmix import checks, modelfile
from bitmix.certify import FitCertificate, certify_fit
from bitmix.datasets import sample_mixture
from bitmix.em import predict
from bitmix.em.checkpoint import Checkpoint, CheckpointedRows, seed_in
from bitmix.em.result import Round
from bitmix.em.step import Model
from bitmix.errors import FileFormatError, InputError
from bitmix.mixture import Floats
from bitmix.randomness import seed_of, stream
from bitmix.rows import Rows, as_rows
from bitmix.rows.packed import BitMatrix
from bitmix.rows.protocol import is_lazy


class FittedTemplates(DensityMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """What every fitted mixture of templates can do."""

    binarize: float | None
    random_state: Any

    means_: Floats
    weights_: Floats
    noise_: Any
    templates_: NDArray[np.uint8]
    history_: tuple[Round, ...]
    seed_: int
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    id_column_: str | None = None
    """The column of a file that names its rows, where the fit was told."""
    label_column_: str | None = None

    _fitted_numbers: tuple[str, ...] = ("noise_", "seed_", "n_features_in_")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "templates_")

    def fit_predict(self, X: Any, y: Any = None) -> NDArray[np.int64]:
        """Fit, then the labels of the same rows: equals ``fit(X).predict(X)``."""
        return self.fit(X).predict(X)

    @abstractmethod
    def fit(self, X: Any, y: Any = None, *, checkpoint: Any = None) -> Self: ...

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The likeliest template of each row; the lowest index among equals."""
        return predict.labels(self._rows(X), self._mixture)

    def predict_proba(self, X: Any) -> Floats:
        """p_i(x) of the paper's E step, shape (m, k); every row sums to exactly 1."""
        return predict.probabilities(self._rows(X), self._mixture)

    def margins(self, X: Any) -> Floats:
        """How sure each label is: ln of the odds of the best template against the second, in nats.

        A margin of 3 is odds of 20 to 1. Infinite where there is one template only.
        """
        return predict.margins(self._rows(X), self._mixture)

    def differing_features(self, i: int, j: int) -> NDArray[Any]:
        """The columns in which templates i and j differ: by name where the fit had names."""
        check_is_fitted(self)
        k = len(self.templates_)
        for which in (i, j):
            if not -k <= checks.whole(which, "template", least=-k) < k:
                raise InputError(f"there are templates 0 … {k - 1}, got {which}")
        columns = np.flatnonzero(self.templates_[i] != self.templates_[j])
        names = getattr(self, "feature_names_in_", None)
        return columns if names is None else np.asarray(names)[columns]

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
        return -2 * self._log_likelihood(rows) + self._n_parameters * math.log(rows.shape[0])

    def aic(self, X: Any) -> float:
        """-2·ln L + 2·p with binary templates, p as in `bic`; lower is better."""
        return -2 * self._log_likelihood(self._rows(X)) + 2 * self._n_parameters

    def sample(
        self, n_samples: int = 1, *, random_state: Any = None
    ) -> tuple[BitMatrix, NDArray[np.int64]]:
        """New rows from `templates_`, `weights_` and `noise_`, and the template of each.

        ``random_state=None`` uses the seed of the fit, so that a call can be repeated.
        """
        check_is_fitted(self)
        seed = self.seed_ if random_state is None else seed_of(random_state)
        rng = stream(seed, "sample")  # not the stream the rows of the fit may have come from
        return sample_mixture(self.templates_, self.weights_, self._bit_noise, n_samples, rng)

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
        arrays = self._arrays()
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
            "id_column": self.id_column_,
            "label_column": self.label_column_,
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
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise FileFormatError(f"{path} is damaged: {error}") from None

    @classmethod
    def _restored(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        params, fitted, names = header["params"], header["fitted"], header["feature_names"]
        model = cls(**params, **({"init": arrays["init"]} if "init" in arrays else {}))
        for name in cls._fitted_numbers:
            if name != "noise_":  # which `_set_arrays` checks
                checks.whole(fitted[name], name, least=0)
            setattr(model, name, fitted[name])
        model._set_arrays(arrays)
        n = model.templates_.shape[1]
        if fitted["n_features_in_"] != n:
            raise InputError(f"{n} columns, {fitted['n_features_in_']} claimed")
        if names:
            if not isinstance(names, list) or len(names) != n:
                raise InputError(f"feature_names must be {n} names")
            model.feature_names_in_ = np.array([str(name) for name in names], dtype=object)
        model.history_ = tuple(Round.from_dict(entry) for entry in header["history"])
        for name in ("id_column", "label_column"):
            value = header.get(name)
            if value is None:
                continue
            if not isinstance(value, str):
                raise InputError(f"{name} must be a name, got {value!r}")
            setattr(model, f"{name}_", value)
        return model

    @abstractmethod
    def _arrays(self) -> dict[str, NDArray[Any]]:
        """What `save` keeps beside the numbers."""

    @abstractmethod
    def _set_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take the arrays of `_arrays` back, checked; the fitted numbers are set already."""

    @property
    @abstractmethod
    def _mixture(self) -> Model:
        """The fitted mixture as a value."""

    @property
    def _bit_noise(self) -> Any:
        """The probability of a flip: a number, or an array that stretches to (k, n)."""
        return self.noise_

    @property
    @abstractmethod
    def _n_parameters(self) -> int: ...

    @abstractmethod
    def _density(self) -> Model:
        """A mixture that is a density over rows."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _rows(self, X: Any) -> Rows:
        """X as packed rows, its columns checked against those of the fit."""
        check_is_fitted(self)
        rows = as_rows(X, self.binarize)
        self._check_columns(X, rows, reset=False)
        return rows

    def _check_columns(self, X: Any, rows: Rows, *, reset: bool) -> None:
        """Keep the number and the names of the columns, or check them against those of the fit.

        scikit-learn knows tables and arrays; what is packed or on a cluster tells its own names.
        """
        if not hasattr(X, "feature_names") and not is_lazy(X):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return
        n, names = int(X.shape[1]), getattr(rows, "feature_names", None)
        if reset:
            self.n_features_in_ = n
            if names is not None:
                self.feature_names_in_ = np.array(names, dtype=object)
            elif hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            return
        if n != self.n_features_in_:
            raise InputError(
                f"X has {n} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        expected = getattr(self, "feature_names_in_", None)
        if names is None or expected is None:
            return  # packed bits seldom have names
        differing = np.flatnonzero(np.asarray(names, dtype=object) != expected)
        if differing.size:
            s = differing[0]
            raise InputError(
                f"the columns of X must be those of the fit, in that order: column {s} was "
                f"{expected[s]!r}, now {names[s]!r}"
            )

    def _seed(self, checkpoint: Any) -> int:
        """Of `random_state`; where that is None, a fit that goes on has the seed it began with."""
        if self.random_state is None and checkpoint is not None:
            begun = seed_in(checkpoint)
            if begun is not None:
                return begun
        return seed_of(self.random_state)

    @contextmanager
    def _keeping(self, rows: Rows, seed: int, checkpoint: Any, seeds: Any = None) -> Iterator[Rows]:
        """The rows, their passes kept in a file if one is given."""
        if checkpoint is None:
            yield rows
            return
        owner = {"estimator": type(self).__name__, "data": rows.fingerprint(), "seed": seed}
        for name, value in {**self.get_params(), "seeds": seeds}.items():
            if name in ("init", "seeds") and value is not None:
                owner[name] = as_rows(value).fingerprint()
            elif name != "random_state":
                owner[name] = repr(value.item() if isinstance(value, np.generic) else value)
        with Checkpoint(checkpoint, owner) as file:
            yield CheckpointedRows(rows, file)

    def _log_likelihood(self, rows: Rows) -> float:
        return float(predict.log_likelihoods(rows, self._density()).sum())
