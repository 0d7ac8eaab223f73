"""Base class of the estimators: predict, score, sample, certify, save and load."""

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from bitmix.certify.bits import CertifiedBits, certify_bits
from bitmix.certify.fit import FitCertificate, Method, certify_fit
from bitmix.certify.verdict import Votes
from bitmix.em import predict
from bitmix.em.sampling import sample_mixture, sample_probabilities
from bitmix.em.seeds import as_dense
from bitmix.em.step import Round, expect
from bitmix.errors import FileFormatError, InputError
from bitmix.groups.medoids import Medoids, Members, medoids
from bitmix.groups.unlike import MAX_ROWS as MAX_CALIBRATION_ROWS
from bitmix.groups.unlike import MIN_ROWS, Calibration, fit_of_rows, held_out
from bitmix.kernels.fixed import MAX_COMPONENTS, MAX_ROWS
from bitmix.models import file as modelfile
from bitmix.models.mixture import Floats, Mixture, check_means
from bitmix.models.tree import Tree
from bitmix.rows import Rows, as_rows, check_items, table_hash
from bitmix.rows.codes import Codes
from bitmix.rows.packed import BitMatrix
from bitmix.support import checks
from bitmix.support.pages import Documented
from bitmix.support.randomness import seed_of, stream

_BYTES_PER_CELL = 32  # per component and column: a mean, a coefficient, and the sums of two threads


class FittedTemplates(Documented, DensityMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Methods that all fitted mixtures of templates share."""

    binarize: float | None
    random_state: Any

    means_: Floats
    weights_: Floats
    templates_: NDArray[np.uint8]
    history_: tuple[Round, ...]
    seed_: int
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    id_column_: str | None = None
    """The column of a file that names its rows, if there was one."""
    label_column_: str | None = None
    fingerprint_type_: str | None = None
    """How the fingerprints of the fit were made, if their file says so."""
    tree_: Tree | None = None
    """The tree of the components, if the model was fitted by levels."""
    codes_: Codes | None = None
    """How the cells of a table were read as bits; None if they were 0 and 1."""
    k_chosen_: bool = False
    """Whether the number of components was chosen on the rows of the fit."""
    table_hash_: str | None = None
    """Hash of the table of the fit, so that it cannot be passed as held-out rows."""

    calibration_: Calibration | None = None
    """How well held-out rows fit, if `calibrate` was called."""
    representatives_: tuple[str, ...] | None = None
    """The id or number of the row that represents each group, if known."""

    mixture_: Mixture
    """The fitted mixture as a frozen value."""

    _takes_missing = False
    _fitted_values: ClassVar[Mapping[str, Any]] = {"seed_": 0, "n_features_in_": 0}
    """What a model file holds besides the mixture; each value is an example of the type."""

    @abstractmethod
    def fit(self, X: Any, y: Any = None) -> Self: ...

    @property
    def noise_(self) -> Any:
        """The noise level; an array of levels if the noise model has several."""
        check_is_fitted(self)
        return self.mixture_.noise

    @property
    def n_parameters_(self) -> int:
        """Number of free parameters: bits or probabilities, weights, and rates unless given."""
        check_is_fitted(self)
        return self.mixture_.n_parameters() - (getattr(self, "noise", None) is not None)

    def fit_predict(self, X: Any, y: Any = None) -> NDArray[np.int64]:
        """Fit and return the labels of the same rows: equals ``fit(X).predict(X)``."""
        return self.fit(X).predict(X)

    def predict(self, X: Any, reject: float | None = None) -> NDArray[np.int64]:
        """The most likely template of each row; ties go to the lowest index.

        With `reject`, the label is -1 where `unlikeness` is at most this level.
        """
        rows = self.rows_like_fit(X)
        labels = self.without_background(self._labels(rows))
        if reject is None:
            return labels
        level = checks.between(reject, "reject", 0, 1)
        return np.where(self.unlikeness(rows) <= level, -1, labels)

    def _labels(self, rows: Rows) -> NDArray[np.int64]:
        return predict.labels(rows, self.mixture_)

    def without_background(self, labels: Any) -> Any:
        """Labels in which the background component, if there is one, is -1."""
        if not getattr(self, "background", False):
            return labels
        return np.where(labels == len(self.weights_) - 1, -1, labels)

    def predict_proba(self, X: Any) -> Floats:
        """p_i(x) of the paper's E step, shape (m, k); every row sums to exactly 1."""
        return predict.probabilities(self.rows_like_fit(X), self.mixture_)

    def margins(self, X: Any) -> Floats:
        """How certain each label is: log odds of the best against the second-best template.

        A margin of 3 nats means odds of 20 to 1. With only one template, margins are infinite.
        """
        return predict.margins(self.rows_like_fit(X), self.mixture_)

    def differing_features(self, i: int, j: int) -> NDArray[Any]:
        """The columns in which templates i and j differ, by name if the columns have names."""
        check_is_fitted(self)
        k = len(self.templates_)
        for which in (i, j):
            if not -k <= checks.whole(which, "template", least=-k) < k:
                raise InputError(f"there are templates 0 … {k - 1}, got {which}")
        columns = np.flatnonzero(self.templates_[i] != self.templates_[j])
        names = getattr(self, "feature_names_in_", None)
        return columns if names is None else np.asarray(names)[columns]

    def medoids(self, X: Any, metric: str = "auto", ids: Any = None) -> Medoids:
        """The row of each group that is closest to all rows of the group on average.

        Parameters
        ----------
        X : as in `predict`
            Rows in memory or in a file. Each belongs to the group that `predict` returns.
        metric : {"auto", "hamming", "tanimoto"}, default="auto"
            The distance between two rows: the number of cells in which they differ, or 1 minus
            the Tanimoto similarity ``|x ∧ y| / |x ∨ y|``. ``"auto"`` is ``"tanimoto"`` if at most a
            tenth of the cells are 1. A missing cell differs from all known cells (Hamming) or
            counts as 0 (Tanimoto).
        ids : sequence, optional
            A name for each row.

        Returns
        -------
        Medoids
            `rows`, `distances`, `ids`. Ties go to the lowest row. Hamming medoids are exact.
            Tanimoto medoids are exact in groups that are small enough to compare all pairs of rows
            (see `exact`); in others they are the best of 64 candidates.
        """
        names = None if ids is None else [str(name) for name in ids]
        members = self._members(X)
        if names is not None and len(names) != len(members.labels):
            raise InputError(
                f"ids must be {len(members.labels)} names, one per row, got {len(names)}"
            )
        found = medoids(members, metric)
        if names is None:
            return found
        return replace(found, ids=tuple(names[row] if row >= 0 else "" for row in found.rows))

    def typical(self, X: Any, i: int, n: int = 5, metric: str = "auto") -> NDArray[np.int64]:
        """The numbers of the n rows of group i with the least mean distance from the group.

        The first is its medoid; see `medoids` for the metric.
        """
        return self._ranked(X, i, n, metric, farthest=False)

    def odd(self, X: Any, i: int, n: int = 5, metric: str = "auto") -> NDArray[np.int64]:
        """The numbers of the n rows of group i with the largest mean distance from the group."""
        return self._ranked(X, i, n, metric, farthest=True)

    def calibrate(self, X: Any, *, held_out_rows: bool = False) -> Self:
        """Prepare `unlikeness` with real rows, and return the model.

        Parameters
        ----------
        X : as in `predict`
            The rows of the fit, or others.
        held_out_rows : bool, default=False
            Whether the rows were not in the fit. If they were, an eighth of them at a time is left
            out, EM continues on the others, and the rows left out are compared with that model; at
            most 10,000 rows are used.
        """
        rows = self.rows_like_fit(X)
        if rows.remote:
            rows = rows.subset(np.arange(min(rows.shape[0], 4 * MAX_CALIBRATION_ROWS)))
        if rows.shape[0] < MIN_ROWS:
            raise InputError(f"a calibration needs {MIN_ROWS} rows or more, got {rows.shape[0]}")
        if held_out_rows:
            drawn = stream(self.seed_, "calibration").permutation(rows.shape[0])
            values = fit_of_rows(rows.subset(drawn[:MAX_CALIBRATION_ROWS]), self.mixture_)
        else:
            if not hasattr(self, "settings_like_fit"):
                raise InputError(
                    f"{type(self).__name__} is calibrated with rows that were not in the fit: give "
                    "such rows, with held_out_rows=True"
                )
            values = held_out(rows, self.mixture_, self.settings_like_fit().noise, self.seed_)
        self.calibration_ = Calibration.of(values)
        return self

    def unlikeness(self, X: Any) -> Floats:
        """A p-value for each row: small if the row fits no group.

        It is the share of reference rows that are at most as likely in their group. The reference
        rows are those of `calibrate`, or 10,000 rows drawn from the model. The p-value is as small
        as possible if no reference row has as few or as many ones. Of new rows from the same
        population, about a share α has a p-value of at most α.
        """
        rows = self.rows_like_fit(X)
        values = np.asarray(fit_of_rows(rows, self.mixture_))
        return (self.calibration_ or self.calibration_of_model()).p_values(values)

    def calibration_of_model(self) -> Calibration:
        """How well rows drawn from the model fit."""
        rng = stream(self.seed_, "calibration")
        drawn, _ = self.sample(MAX_CALIBRATION_ROWS, random_state=rng)
        return Calibration.of(fit_of_rows(drawn, self.mixture_))

    def _ranked(self, X: Any, i: int, n: int, metric: str, *, farthest: bool) -> Any:
        members = self._members(X)
        i, n = checks.whole(i, "i", least=0), checks.whole(n, "n", least=1)
        if i >= members.k:
            raise InputError(f"there are groups 0 … {members.k - 1}, got {i}")
        return members.nearest(i, n, members.metric(metric), farthest=farthest)

    def _members(self, X: Any) -> Members:
        rows = self.rows_like_fit(X)
        return Members.of(rows, self.predict(rows), len(self.weights_))

    def score_samples(self, X: Any) -> Floats:
        """ln Σ_i w_i f_i(x) of each row, in nats.

        `TwoRoundEM` and `ClassicEM` use T_i = `means_` here, as the paper's tables do. f is a
        density over rows only if T_i is binary, so compare their fits by `bic` or `aic`, which use
        rounded templates.
        """
        return predict.log_likelihoods(self.rows_like_fit(X), self.mixture_)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean of `score_samples`, weighted by `sample_weight`."""
        rows = self.rows_like_fit(X, sample_weight)
        return expect(rows, self.mixture_).log_likelihood / rows.total_weight

    def bic(self, X: Any, sample_weight: Any = None) -> float:
        """-2·ln L + p·ln m with binary templates; lower is better.

        p counts every template bit or probability (k·n), k-1 free weights, and the flip rates
        unless they are given. m is the sum of the row weights.
        """
        rows = self.rows_like_fit(X, sample_weight)
        return -2 * self._log_likelihood(rows) + self.n_parameters_ * math.log(rows.total_weight)

    def aic(self, X: Any, sample_weight: Any = None) -> float:
        """-2·ln L + 2·p with binary templates, p as in `bic`; lower is better."""
        rows = self.rows_like_fit(X, sample_weight)
        return -2 * self._log_likelihood(rows) + 2 * self.n_parameters_

    def sample(
        self, n_samples: int = 1, *, random_state: Any = None
    ) -> tuple[BitMatrix, NDArray[np.int64]]:
        """Draw new rows from `templates_`, `weights_` and `noise_`; return them and their labels.

        ``random_state=None`` uses the seed of the fit, so that calls are reproducible.
        """
        check_is_fitted(self)
        seed = self.seed_ if random_state is None else seed_of(random_state)
        rng = stream(seed, "sample")  # not the stream that may have drawn the rows of the fit
        mixture = self.mixture_
        if isinstance(mixture.noise, float) and mixture.items is None:
            return sample_mixture(self.templates_, self.weights_, mixture.noise, n_samples, rng)
        p = mixture.probabilities
        return sample_probabilities(p, self.weights_, mixture.items, n_samples, rng)

    def certify(
        self,
        X: Any,
        alpha: float = 0.05,
        random_state: int = 0,
        *,
        method: Method = "all-pairs",
        votes: Votes = "fair",
    ) -> FitCertificate:
        """Certify that `templates_` are exactly the templates behind the rows of X.

        See `bitmix.certify_fit`: for every parameter value with at most k templates,
        P(certificate issued and templates wrong) ≤ α. This assumes one flip rate for all bits, so
        fits with another noise model are refused; for these, use `certified_bits`. If
        `select_components` chose k, the held-out method divides α by k(k + 1).
        """
        if (noise_model := self.mixture_.noise_model) != "shared":
            raise InputError(
                "a certificate assumes one flip rate for all bits, but this fit has "
                f"noise_model={noise_model!r}: fit with noise_model='shared', or use "
                "certified_bits on rows that were not fitted, which needs no noise model"
            )
        rows = self.rows_like_fit(X, missing=True)
        return certify_fit(
            rows, self.templates_, alpha, random_state, method=method, votes=votes,
            k_fixed=not self.k_chosen_,
        )  # fmt: skip

    def certified_bits(self, X_test: Any, alpha: float = 0.05, share: float = 0.5) -> CertifiedBits:
        """The bits that most rows of a group have, certified by rows that were not fitted.

        With probability at least 1 - α over the test rows, the following holds for all bits of the
        `mask` at once: more than `share` of the population that this model assigns to the group has
        the bit shown. That is true for any data and any noise model, whether or not there are
        templates at all. The test rows must be independent draws from one population and must not
        have been used in the fit. The table of the fit is refused, but parts of it are not
        detected. Missing cells are not counted.

        Parameters
        ----------
        X_test : as in `predict`
            Rows that the fit has not seen.
        alpha : float, default=0.05
            The probability that any certified bit is wrong.
        share : float in [0.5, 1), default=0.5
            The share of a group that must have the bit.

        Examples
        --------
        >>> from bitmix import TemplateMixture
        >>> from bitmix.datasets import make_templates, sample_mixture
        >>> truth = make_templates(3, 200, separation=0.4, random_state=0)
        >>> X, labels = sample_mixture(truth, [0.5, 0.3, 0.2], noise=0.1, m=600, random_state=0)
        >>> model = TemplateMixture(3, random_state=0).fit(X[:400])
        >>> model.certified_bits(X[400:]).certified > 0.9
        True
        """
        alpha = checks.between(alpha, "alpha", 0, 1)
        if share != 0.5:
            share = checks.between(share, "share", 0.5, 1, remedy="0.5 is the smallest")
        rows = self.rows_like_fit(X_test)
        if rows.layout.weight_one:
            raise InputError(
                "X has weights, but test rows count as independent draws: give rows without weights"
            )
        if self.table_hash_ is not None and table_hash(rows) == self.table_hash_:
            raise InputError(
                "X_test must be rows that the fit has not seen, but it is the table of the fit: "
                "keep some rows back, as bitmix fit --hold-out 0.3 does"
            )
        return certify_bits(predict.tally(rows, self.mixture_), alpha, float(share))

    def rows_like_fit(self, X: Any, sample_weight: Any = None, *, missing: bool = False) -> Rows:
        """X as packed rows, with its columns checked against those of the fit."""
        check_is_fitted(self)
        rows = as_rows(
            X, self.binarize, missing=missing or self._takes_missing, sample_weight=sample_weight,
            codes=self.codes_,
        )  # fmt: skip
        self._check_columns(X, rows)
        if self.mixture_.items is not None:
            check_items(rows, self.mixture_.items)
        return rows

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, completely or not at all."""
        check_is_fitted(self)
        params, arrays = self.get_params(), {"means": self.means_, **self.mixture_.arrays()}
        if (tree := getattr(self, "tree_", None)) is not None:
            arrays |= tree.arrays()
        if params.get("init") is not None:
            arrays["init"] = as_dense(params.pop("init"))
        if self.calibration_ is not None:
            arrays |= self.calibration_.arrays()
        if isinstance(params["random_state"], np.random.Generator | np.random.RandomState):
            params["random_state"] = self.seed_
        header = {
            "class": type(self).__name__,
            "params": params,
            "fitted": {name: getattr(self, name) for name in self._fitted_values},
            "feature_names": [str(name) for name in getattr(self, "feature_names_in_", ())],
            "history": [entry.to_dict() for entry in self.history_],
            "id_column": self.id_column_,
            "label_column": self.label_column_,
            "fingerprint_type": self.fingerprint_type_,
            "representatives": self.representatives_,
            "codes": None if self.codes_ is None else self.codes_.to_dict(),
            "k_chosen": self.k_chosen_,
            "table_hash": self.table_hash_,
        }
        modelfile.write(path, header, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model written by `save`. Nothing in the file is executed."""
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
        for name, example in cls._fitted_values.items():
            setattr(model, name, _checked(fitted[name], example, name))
        check_means(arrays["means"])
        mixture = Mixture.from_arrays(arrays)
        cls._check_noise(mixture)
        model._set_mixture(mixture, arrays["means"])
        if model.means_.shape != model.templates_.shape:
            raise InputError(f"means must have shape {model.templates_.shape}")
        n = model.templates_.shape[1]
        if fitted["n_features_in_"] != n:
            raise InputError(f"{n} columns, {fitted['n_features_in_']} claimed")
        if names:
            if not isinstance(names, list) or len(names) != n:
                raise InputError(f"feature_names must be {n} names")
            model.feature_names_in_ = np.array([str(name) for name in names], dtype=object)
        if "tree_merges" in arrays:
            model.tree_ = Tree.from_arrays(arrays)
            if model.tree_.n_components != len(model.weights_):
                raise InputError(f"the tree must have {len(model.weights_)} components")
        model.history_ = tuple(Round.from_dict(entry) for entry in header["history"])
        if header.get("codes") is not None:
            model.codes_ = Codes.from_dict(header["codes"])
            if model.codes_.columns and model.codes_.n_planes != n:
                raise InputError(f"codes must be for {n} columns, got {model.codes_.n_planes}")
        model.k_chosen_ = bool(header.get("k_chosen", False))
        model.calibration_ = Calibration.from_arrays(arrays)
        if (named := header.get("representatives")) is not None:
            if not isinstance(named, list) or len(named) != len(model.weights_):
                raise InputError(f"representatives must be {len(model.weights_)} names")
            model.representatives_ = tuple(map(str, named))
        for name in ("id_column", "label_column", "fingerprint_type", "table_hash"):
            value = header.get(name)
            if value is None:
                continue
            if not isinstance(value, str):
                raise InputError(f"{name} must be a name, got {value!r}")
            setattr(model, f"{name}_", value)
        return model

    @classmethod
    def _check_noise(cls, mixture: Mixture) -> None:
        """Refuse a mixture from a file if this estimator cannot have its noise."""
        checks.noise(mixture.noise)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "templates_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self._takes_missing
        return tags

    def _set_columns(self, X: Any, rows: Rows) -> None:
        """Store the number and names of the columns, their codes, and the hash of the table.

        Rows that are packed or on a cluster bring their own names; recoded tables have one name per
        column of bits. scikit-learn reads the names of other tables.
        """
        self.k_chosen_, self.table_hash_ = False, table_hash(rows)
        self.n_features_in_ = rows.shape[1]
        for name in ("codes_", "feature_names_in_"):
            self.__dict__.pop(name, None)  # of an earlier fit
        if (codes := getattr(rows, "codes", None)) is not None:
            self.codes_ = codes
        if codes is not None or rows.remote or hasattr(X, "feature_names"):
            if rows.feature_names is not None:
                self.feature_names_in_ = np.array(rows.feature_names, dtype=object)
        elif hasattr(X, "columns") or hasattr(X, "__dataframe__"):
            validate_data(self, X, reset=True, skip_check_array=True)

    def _check_columns(self, X: Any, rows: Rows) -> None:
        """Check the number and names of the columns against those of the fit.

        scikit-learn checks tables and arrays of 0 and 1, all others are checked here.
        """
        codes = getattr(rows, "codes", None)
        if codes is None and not rows.remote and not hasattr(X, "feature_names"):
            validate_data(self, X, reset=False, skip_check_array=True)
            return
        n, names = rows.shape[1], rows.feature_names
        if n != self.n_features_in_:
            raise InputError(
                f"X has {n} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        expected = getattr(self, "feature_names_in_", None)
        if names is None or expected is None:
            return  # packed bits usually have no names
        differing = np.flatnonzero(np.asarray(names, dtype=object) != expected)
        if differing.size:
            s = differing[0]
            raise InputError(
                f"the columns of X must be those of the fit, in that order: column {s} was "
                f"{expected[s]!r}, now {names[s]!r}"
            )

    def _set_mixture(self, mixture: Mixture, means: Floats) -> None:
        self.calibration_ = self.representatives_ = None  # these belonged to an earlier fit
        self.mixture_, self.means_ = mixture, means
        self.templates_, self.weights_ = mixture.templates, mixture.weights

    def _set_ordered(self, mixture: Mixture, means: Floats, background: bool = False) -> list[int]:
        """Store a fitted mixture, heaviest component first, and return the order.

        Components of equal weight are ordered by template bits. A background component stays last.
        """
        templates, k = map(bytes, mixture.templates), len(mixture.weights)
        keys = list(zip(-mixture.weights, templates, map(bytes, means), strict=True))
        order = sorted(range(k - background), key=keys.__getitem__)
        order += range(k - background, k)
        del keys  # they are as large as the means
        self._set_mixture(mixture.reordered(order), means[order])
        return order

    def _log_likelihood(self, rows: Rows) -> float:
        """ln L of a mixture that is a density over rows."""
        return expect(rows, self.mixture_.density()).log_likelihood


def _checked(value: Any, example: Any, name: str) -> Any:
    """Check that a value from a file has the type of the example, and return it."""
    if isinstance(example, tuple):
        if not isinstance(value, list):
            raise InputError(f"{name} must be a list, got {value!r}")
        return tuple(_checked(each, example[0], name) for each in value)
    if isinstance(example, dict):
        if not isinstance(value, dict) or (value and value.keys() != example.keys()):
            raise InputError(f"{name} must have {', '.join(example)}, got {value!r}")
        return {key: _checked(each, example[key], name) for key, each in value.items()}
    if isinstance(example, float):
        return checks.between(value, name, -math.inf, math.inf)
    if isinstance(example, bool):
        if not isinstance(value, bool):
            raise InputError(f"{name} must be true or false, got {value!r}")
        return value
    return checks.whole(value, name, least=0)


def check_components(value: Any, m: int, n: int) -> int:
    """Check k: at most one component per row, and no more than sums and memory can hold."""
    k = checks.whole(value, "n_components", least=1)
    if m > MAX_ROWS or k > MAX_COMPONENTS:
        raise InputError(
            f"at most {MAX_ROWS:,} rows and {MAX_COMPONENTS:,} components fit the integer sums, "
            f"got {m:,} and {k:,}"
        )
    if k > m:
        raise InputError(
            f"n_components must be at most the number of rows, n_samples={m}, got {k}: "
            "use fewer components or more rows"
        )
    needed = _BYTES_PER_CELL * k * n
    try:
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not every system tells
        there = needed
    if needed > there:
        raise InputError(
            f"{k:,} components of {n:,} columns need {needed >> 30:,} GB or more, but there are "
            f"{there >> 30:,} GB of memory: use fewer components, or leave out columns that are "
            "nearly constant"
        )
    return k
