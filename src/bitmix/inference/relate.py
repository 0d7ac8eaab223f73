"""Three-step methods: how an outcome differs between classes.

Assigning each person to the most likely class and comparing outcomes would be biased towards no
difference, because some people are assigned to the wrong class. D_ts, the probability that a person
of class t is assigned to s, is known from the posteriors, and both methods correct for it (Vermunt
2010):

* BCH (Bolck, Croon & Hagenaars): person x counts in class t with the weight [D⁻¹]_st, where s is
  the class that x is assigned to. Weights may be negative.
* ML: the likelihood of the observed data, Σ_t π_t·D_ts·f_t(y), is maximised, with a normal
  distribution of the outcome, or a share for each value, in each class.

Standard errors are sandwich estimates. They allow for D being an estimate (`classification`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from bitmix.em import predict
from bitmix.errors import InputError
from bitmix.inference.classification import classification_matrix, influence
from bitmix.inference.fitted import fitted, in_memory
from bitmix.inference.tables import Column, Table
from bitmix.kernels.fixed import Ints
from bitmix.models.mixture import Floats
from bitmix.support import checks

METHODS = ("bch", "ml")
KINDS = ("auto", "mean", "shares")
MAX_CATEGORIES = 50
_MAX_STEPS, _SMALL = 10_000, 1e-10
_LEAST_SHARE = 1e-6  # people, added to the count of each value, so that no share is 0


@dataclass(frozen=True, eq=False)
class Relation:
    """An outcome by class."""

    method: str
    values: tuple[Any, ...] | None
    """The values of an outcome whose shares were estimated; None for means."""
    estimates: Floats
    """The mean of each class, shape (k,), or the share of each value, shape (k, values)."""
    covariance: Floats
    """Covariance of the flattened estimates."""
    classification: Floats
    """D: the probability that a person of a class (row) is assigned to a class (column)."""
    n: float
    """The number of people with an outcome, by weight."""
    n_missing: int
    """The number of rows without an outcome, which are left out."""
    first_step: bool
    """Whether standard errors allow for the estimation of the classes. This needs a probability per
    cell, identified classes, and at most 1,000 parameters."""

    @property
    def standard_errors(self) -> Floats:
        """Standard errors, in the shape of the estimates."""
        variances = np.diagonal(self.covariance).clip(0, None)
        return np.sqrt(variances).reshape(self.estimates.shape)

    def overall(self) -> dict[str, float]:
        """The Wald test that the outcome is the same in all classes."""
        k = len(self.estimates)
        pairs = [(0, t) for t in range(1, k)]
        return self._wald(pairs) if k > 1 else {"chi_squared": 0.0, "df": 0, "p_value": 1.0}

    def pairwise(self) -> Table:
        """The Wald test of each pair of classes."""
        k = len(self.estimates)
        records = []
        for i in range(k):
            for j in range(i + 1, k):
                record: dict[str, Any] = {"class": i, "other_class": j}
                if self.values is None:
                    record["difference"] = float(self.estimates[i] - self.estimates[j])
                    record["standard_error"] = float(np.sqrt(self._contrast([(i, j)])[1][0, 0]))
                records.append(record | self._wald([(i, j)]))
        shown = [c for c in _PAIR_COLUMNS if not records or c.name in records[0]]
        return Table(tuple(shown), tuple(records))

    def table(self) -> Table:
        """Estimates and standard errors, one line per class and value."""
        lines = self.estimates.reshape(len(self.estimates), -1)
        errors = self.standard_errors.reshape(lines.shape)
        names = ["mean"] if self.values is None else [str(value) for value in self.values]
        records = tuple(
            {
                "class": t,
                "value": name,
                "estimate": float(lines[t, v]),
                "standard_error": float(errors[t, v]),
            }
            for t in range(len(lines))
            for v, name in enumerate(names)
        )
        return Table(_COLUMNS, records)

    def _contrast(self, pairs: list[tuple[int, int]]) -> tuple[Floats, Floats]:
        """Differences between classes, without the last value of shares, and their covariance."""
        k = len(self.estimates)
        width = self.estimates.size // k
        free = max(1, width - 1)
        matrix = np.zeros((len(pairs) * free, k * width))
        for number, (i, j) in enumerate(pairs):
            for v in range(free):
                matrix[number * free + v, i * width + v] = 1
                matrix[number * free + v, j * width + v] = -1
        return matrix @ self.estimates.ravel(), matrix @ self.covariance @ matrix.T

    def _wald(self, pairs: list[tuple[int, int]]) -> dict[str, float]:
        apart, covariance = self._contrast(pairs)
        inverse = np.linalg.pinv(covariance, hermitian=True)
        df = int(np.linalg.matrix_rank(covariance, hermitian=True))
        statistic = float(apart @ inverse @ apart)
        return {"chi_squared": statistic, "df": df, "p_value": float(chi2.sf(statistic, df))}


_COLUMNS = (
    Column("class", "class"),
    Column("value", "outcome"),
    Column("estimate", "estimate", ".3f"),
    Column("standard_error", "standard error", ".3f"),
)
_PAIR_COLUMNS = (
    Column("class", "class"),
    Column("other_class", "other class"),
    Column("difference", "difference", ".3f"),
    Column("standard_error", "standard error", ".3f"),
    Column("chi_squared", "Wald χ²", ".2f"),
    Column("df", "df"),
    Column("p_value", "p", ".4f"),
)


def relate(
    model: Any,
    X: Any,
    outcome: Any,
    *,
    method: str = "bch",
    kind: str = "auto",
    sample_weight: Any = None,
) -> Relation:
    """The mean of an outcome in each class, or the share of each of its values, with tests.

    Parameters
    ----------
    model : TemplateMixture, TwoRoundEM or ClassicEM
        Fitted.
    X : as in ``model.predict``
        The rows of the fit.
    outcome : array-like, shape (m,)
        One value per row, which was not used in the fit. NaN and None are missing.
    method : {"bch", "ml"}, default="bch"
        How classification errors are corrected. BCH makes no assumption about the distribution of
        the outcome. ML assumes a normal distribution for numbers; it is more precise if that is
        true.
    kind : {"auto", "mean", "shares"}, default="auto"
        What is estimated. By default means for numbers, and shares for anything else.
    sample_weight : array-like, shape (m,), optional
        How many times each row counts.

    Examples
    --------
    >>> import numpy as np
    >>> import bitmix
    >>> from bitmix.datasets import make_templates, sample_mixture
    >>> truth = make_templates(2, 8, separation=0.7, random_state=0)
    >>> X, classes = sample_mixture(truth, [0.6, 0.4], noise=0.2, m=1000, random_state=0)
    >>> income = np.random.default_rng(0).normal(20 + 10 * classes)
    >>> model = bitmix.TemplateMixture(2, random_state=0).fit(X)
    >>> relation = bitmix.relate(model, X, income)
    >>> relation.estimates.round(), relation.overall()["p_value"] < 0.001
    (array([20., 30.]), True)
    """
    model = fitted(model)
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    rows = in_memory(model.rows_like_fit(X), "relate")
    y, values, known = _read_outcome(outcome, len(rows), kind)
    if sample_weight is not None:
        rows = rows.weighted(sample_weight)  # without rows of weight 0
        counts = np.asarray(sample_weight, dtype=np.float64) > 0
        y, known = y[counts], known[counts]
    weights = rows.weights
    posterior = predict.probabilities(rows, model.mixture_)
    put_into = posterior.argmax(axis=1)
    matrix = classification_matrix(posterior, put_into, weights)
    if np.linalg.cond(matrix) > 1e8:
        raise InputError(
            "the classes overlap so much that classification errors cannot be corrected: use "
            "fewer classes"
        )
    moves = influence(rows, model.mixture_, posterior, put_into, matrix)
    people = People(y, np.where(known, weights, 0.0), put_into, weights, moves)
    if method == "bch":
        estimates, covariance = bch(people, matrix)
    else:
        shares = (posterior * weights[:, None]).sum(axis=0) / weights.sum()
        estimates, covariance = three_step_ml(people, matrix, shares, values is None)
    if values is None:
        estimates = estimates[:, 0]
    n, n_missing = float(weights[known].sum()), int(np.count_nonzero(~known))
    return Relation(method, values, estimates, covariance, matrix, n, n_missing, moves is not None)


@dataclass(frozen=True, eq=False)
class People:
    """The data of the last step."""

    y: Floats
    """The outcome, in columns; 0 where it is missing."""
    weights: Floats
    """The weight of each person; 0 where the outcome is missing."""
    put_into: Ints
    """The class that each person is assigned to."""
    all_weights: Floats
    """The weight of each person in the first step."""
    moves: Floats | None
    """The influence of each person on D, shape (m, k·k); None if D is taken as known."""

    def covariance(self, influence: Floats, slopes: Floats) -> Floats:
        """Covariance of estimates, from the influence of each person and their slopes in D."""
        moved = influence * (self.weights > 0)[:, None]
        if self.moves is not None:
            moved = moved + self.moves @ slopes.T
        return (moved * self.all_weights[:, None]).T @ moved


def bch(people: People, matrix: Floats) -> tuple[Floats, Floats]:
    """Means of the columns of y by class, and their covariance."""
    y, k, inverse = people.y, len(matrix), np.linalg.inv(matrix)
    counts = inverse[people.put_into]  # the weight of each person in each class, shape (m, k)
    total = people.weights @ counts
    if np.any(total <= 0):
        raise InputError(
            f"class {int(np.argmin(total))} has no people with an outcome after the correction: "
            "use fewer classes"
        )
    means = (counts * people.weights[:, None]).T @ y / total[:, None]
    apart = y[:, None, :] - means  # shape (m, k, columns of y)
    influence = (counts / total)[:, :, None] * apart
    sums = np.zeros((k, *means.shape))  # sums over the people assigned to each class
    np.add.at(sums, people.put_into, people.weights[:, None, None] * apart)
    # d mean_t / d D_ab = -Σ_s D⁻¹_sa·D⁻¹_bt·sums_st / total_t
    slopes = -np.einsum("sa,bt,stv,t->tvab", inverse, inverse, sums, 1 / total)
    flat = influence.reshape(len(y), -1)
    return means, people.covariance(flat, slopes.reshape(means.size, k * k))


def three_step_ml(
    people: People, matrix: Floats, shares: Floats, normal: bool
) -> tuple[Floats, Floats]:
    """Means or shares by class that maximise Σ ω·ln Σ_t π_t·D_ts·f_t(y), and their covariance.

    π starts from `shares`.
    """
    distribution: Normal | Categorical = Normal() if normal else Categorical()
    y, weights, k = people.y, people.weights, len(shares)
    errors = matrix.T[people.put_into]  # D_ts of each person for each t, shape (m, k)
    responsibilities = errors * shares
    responsibilities /= responsibilities.sum(axis=1, keepdims=True)
    before = -np.inf
    for _ in range(_MAX_STEPS):
        c = weights[:, None] * responsibilities
        shares = c.sum(axis=0) / weights.sum()
        parameters = distribution.fit(y, c)
        logs = np.log(shares) + distribution.logs(y, parameters)
        responsibilities, likelihood = _posterior(errors, logs, weights)
        if likelihood - before <= _SMALL * abs(likelihood):
            break
        before = likelihood

    def scores(values: Floats) -> Floats:
        """The derivatives of each person's log-likelihood, shape (m, parameters), at parameters
        and D."""
        theta, of_matrix = values[: -k * k], values[-k * k :].reshape(k, k)
        logits = np.append(theta[: k - 1], 0.0)
        pi = np.exp(logits - logits.max())
        pi /= pi.sum()
        inner = distribution.unpack(theta[k - 1 :], k)
        logs = np.log(pi) + distribution.logs(y, inner)
        h, _ = _posterior(of_matrix.T[people.put_into], logs, weights)
        of_shares = (h - pi)[:, : k - 1]
        return np.concatenate([of_shares, distribution.scores(y, h, inner)], axis=1)

    theta = np.concatenate([np.log(shares[:-1] / shares[-1]), distribution.pack(parameters)])
    at = np.concatenate([theta, matrix.ravel()])
    change = _slopes(lambda values: weights @ scores(values), at)
    information = -change[:, : len(theta)]
    inverse = np.linalg.pinv((information + information.T) / 2, hermitian=True)
    covariance = people.covariance(scores(at) @ inverse, inverse @ change[:, len(theta) :])
    slopes = distribution.slopes(parameters)
    inside = covariance[k - 1 :, k - 1 :]
    return distribution.means(parameters), slopes @ inside @ slopes.T


def _posterior(errors: Floats, logs: Floats, weights: Floats) -> tuple[Floats, float]:
    """Responsibilities, and the log-likelihood."""
    top = logs.max(axis=1, keepdims=True)
    terms = errors * np.exp(logs - top)
    total = terms.sum(axis=1)
    return terms / total[:, None], float(weights @ (np.log(total) + top[:, 0]))


def _slopes(function: Callable[[Floats], Floats], at: Floats) -> Floats:
    """The derivative of a function by central differences, one column per argument."""
    columns = []
    for j in range(len(at)):
        step = np.zeros(len(at))
        step[j] = 1e-5 * max(1.0, abs(at[j]))
        columns.append((function(at + step) - function(at - step)) / (2 * step[j]))
    return np.stack(columns, axis=1)


class Normal:
    """A normal distribution of the outcome in each class; parameters are (mean, ln σ)."""

    def fit(self, y: Floats, counts: Floats) -> Floats:
        total = counts.sum(axis=0)
        mean = (counts.T @ y)[:, 0] / total
        variance = (counts * (y - mean) ** 2).sum(axis=0) / total
        floor = 1e-12 * max(float(y.var()), 1e-300)
        return np.column_stack([mean, np.log(np.maximum(variance, floor)) / 2])

    def logs(self, y: Floats, parameters: Floats) -> Floats:
        mean, log_sd = parameters.T
        return -0.5 * ((y - mean) * np.exp(-log_sd)) ** 2 - log_sd

    def pack(self, parameters: Floats) -> Floats:
        return parameters.ravel()

    def unpack(self, theta: Floats, k: int) -> Floats:
        return theta.reshape(k, 2)

    def scores(self, y: Floats, h: Floats, parameters: Floats) -> Floats:
        mean, log_sd = parameters.T
        apart = (y - mean) * np.exp(-log_sd)
        each = np.stack([apart * np.exp(-log_sd), apart**2 - 1], axis=-1)
        return (h[:, :, None] * each).reshape(len(y), -1)

    def means(self, parameters: Floats) -> Floats:
        return parameters[:, :1]

    def slopes(self, parameters: Floats) -> Floats:
        return np.eye(2 * len(parameters))[::2]


class Categorical:
    """A share of each value in each class; parameters are shares, packed as logits of the last."""

    def fit(self, y: Floats, counts: Floats) -> Floats:
        shares = counts.T @ y + _LEAST_SHARE
        return shares / shares.sum(axis=1, keepdims=True)

    def logs(self, y: Floats, parameters: Floats) -> Floats:
        return y @ np.log(parameters).T

    def pack(self, parameters: Floats) -> Floats:
        return np.log(parameters[:, :-1] / parameters[:, -1:]).ravel()

    def unpack(self, theta: Floats, k: int) -> Floats:
        logits = np.column_stack([theta.reshape(k, -1), np.zeros(k)])
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        return shares / shares.sum(axis=1, keepdims=True)

    def scores(self, y: Floats, h: Floats, parameters: Floats) -> Floats:
        each = (y[:, None, :] - parameters)[:, :, :-1]
        return (h[:, :, None] * each).reshape(len(y), -1)

    def means(self, parameters: Floats) -> Floats:
        return parameters

    def slopes(self, parameters: Floats) -> Floats:
        k, r = parameters.shape
        out = np.zeros((k * r, k * (r - 1)))
        for t, p in enumerate(parameters):
            of_class = (np.diag(p) - np.outer(p, p))[:, :-1]
            out[t * r : (t + 1) * r, t * (r - 1) : (t + 1) * (r - 1)] = of_class
        return out


def _read_outcome(
    outcome: Any, m: int, kind: str
) -> tuple[Floats, tuple[Any, ...] | None, NDArray[np.bool_]]:
    """The outcome as columns, its values if shares are estimated, and which rows have one."""
    if kind not in KINDS:
        raise InputError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    given = np.asarray(outcome)
    if given.shape != (m,):
        raise InputError(f"outcome must be {m} values, one per row of X, got shape {given.shape}")
    numeric = given.dtype.kind in "iuf"
    known = ~np.isnan(given) if given.dtype.kind == "f" else np.ones(m, dtype=np.bool_)
    if given.dtype.kind == "O":
        known = np.array([value is not None and value == value for value in given.tolist()])
    if not known.any():
        raise InputError("outcome must have at least one value, got only missing ones")
    if kind == "mean" and not numeric:
        raise InputError(f"kind='mean' needs numbers, got {given.dtype}: leave kind as it is")
    if numeric and kind != "shares":
        numbers = np.where(known, given, 0).astype(np.float64)
        if not np.isfinite(numbers).all():
            raise InputError("outcome must be finite, got an infinite number")
        return numbers[:, None], None, known
    values = sorted(set(given[known].tolist()), key=str)
    checks.whole(len(values), "the number of values of outcome", least=2, most=MAX_CATEGORIES)
    place = {value: v for v, value in enumerate(values)}
    y = np.zeros((m, len(values)))
    numbers_known = np.flatnonzero(known)
    y[numbers_known, [place[value] for value in given[known].tolist()]] = 1
    return y, tuple(values), known
