"""TemplateMixture: the estimator to start with."""

import itertools
import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from bitmix import checks
from bitmix.by_pieces import ByPieces, OpenRound
from bitmix.em import noise, seeds
from bitmix.em.result import Round
from bitmix.em.step import Statistics
from bitmix.em.template import SeededRound, Settings, TemplateFit, fit_templates, on_all_rows
from bitmix.errors import DuplicateTemplatesWarning, InputError
from bitmix.mixture import Floats
from bitmix.noisy import NoisyTemplates, as_noise_model
from bitmix.randomness import stream
from bitmix.rows import Rows
from bitmix.rows.protocol import as_incomplete_rows, brought

_SEEDS = 256
_ROWS_A_SEED = 8  # condition 2 of Theorem 1: m ≥ 8l
_SAMPLE = 4096


def number_of_seeds(m: int, k: int, min_weight: float | None = None, delta: float = 0.1) -> int:
    """⌈m/4⌉-1, at most what `min_weight` asks for; where unknown, what 1/k asks for, or 256."""
    if min_weight is None:
        wanted = max(seeds.formula(1 / k, delta), _SEEDS)
    else:
        wanted = seeds.formula(min_weight, delta)
    return max(k, min(wanted, -(-m // 4) - 1))


class TemplateMixture(ByPieces[NoisyTemplates]):
    """Mixture of binary templates, everything unknown: templates, weights and noise.

    Over-seeds once as the two-round EM does, prunes the survivors in several ways, runs EM from
    each with the noise re-estimated in every step, and keeps the likeliest end.

    Parameters
    ----------
    n_components : int, default=2
        k: how many templates.
    noise_model : {"shared", "component", "feature", "cell"}, default="shared"
        How likely a bit differs from its template's: one number for all (the paper's model), one a
        template, one a column, or one for each template and column (the latent class model; the
        choice for tables that do not come from one noise level).
    n_init : int, default=10
        How many prunings to start from, at most: fewer if enough of them agree on the likeliest
        end, three where none was in doubt.
        With ``noise_model="cell"`` twice as many, of which the likeliest four are run to the end.
    max_iter : int, default=200
        EM steps at most, for each start.
    tol : float, default=1e-5
        A start ends when a step raises the log-likelihood by less than this a row, in nats.
    min_weight : float, optional
        The least weight a template may have, if known: sets how many seeds are drawn. By default a
        quarter of the rows, at most 256 or what weights of 1/k ask for.
    delta : float, default=0.1
        The probability of failure the seeds are chosen for, with `min_weight`.
    round_one_rows : int, optional
        With more rows than this, starts and convergence happen on a random sample of so many; one
        step on all rows follows, and a second one if the first changed a template. By default 8
        rows for each seed, what Theorem 1 asks of its first round, and at least 4,096; see
        `round_one_rows_`.
    binarize : float, optional
        Read values above this as 1. By default X must hold 0 and 1.
    random_state : int, RandomState, Generator or None
        Fixes every random choice. The same number gives the same bits on any machine.

    Attributes
    ----------
    templates_ : array of uint8, shape (k, n)
        The templates, heaviest first.
    weights_ : array of float64, shape (k,)
    noise_ : float, or array of shape (k,), (n,) or (k, n)
        The probability that a bit differs from its template's, by `noise_model`; at most ½.
    means_ : array of float64, shape (k, n)
        Share of ones in each cluster.
    n_seeds_ : int
        How many seeds were drawn.
    round_one_rows_ : int
        How many rows the starts saw.
    n_iter_ : int
        EM steps of the start that was kept, round 1 and softened steps not counted.
    converged_ : bool
        Whether it ended by `tol`.
    n_starts_, n_agreeing_ : int
        Starts that were run, and how many of them ended with the templates that were kept.
    duplicates_ : list of pairs
        Templates that are equal: a sign of too many components.
    history_, seed_
        As in `TwoRoundEM`.

    Notes
    -----
    It maximises the log-likelihood of the mixture, rows weighted by `sample_weight`, plus
    ½·ln ν(1-ν) for each noise level ν, a prior worth one cell which keeps every ν off 0. With
    ``noise_model="cell"`` the prior is a tenth of a row with the column's share μ of ones: plus
    (μ·ln p + (1-μ)·ln(1-p))/10 for the probability p of each cell.

    Examples
    --------
    >>> from bitmix import TemplateMixture
    >>> from bitmix.datasets import make_templates, sample_mixture
    >>> truth = make_templates(3, 200, separation=0.4, random_state=0)
    >>> X, labels = sample_mixture(truth, [0.5, 0.3, 0.2], noise=0.1, m=300, random_state=0)
    >>> model = TemplateMixture(3, random_state=0).fit(X)
    >>> round(model.noise_, 2), model.weights_.round(1)
    (0.1, array([0.5, 0.3, 0.2]))
    """

    _fitted_numbers = (
        "seed_", "n_features_in_", "n_seeds_", "round_one_rows_", "n_iter_", "converged_",
        "n_starts_", "n_agreeing_",
    )  # fmt: skip

    def __init__(
        self,
        n_components: int = 2,
        *,
        noise_model: str = "shared",
        n_init: int = 10,
        max_iter: int = 200,
        tol: float = 1e-5,
        min_weight: float | None = None,
        delta: float = 0.1,
        round_one_rows: int | None = None,
        binarize: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.noise_model = noise_model
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.min_weight = min_weight
        self.delta = delta
        self.round_one_rows = round_one_rows
        self.binarize = binarize
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, mask: Any = None, *,
        checkpoint: Any = None,
    ) -> Self:  # fmt: skip
        """Find the templates of X.

        Parameters
        ----------
        X : array-like, sparse matrix, table or BitMatrix, shape (m, n)
            Rows of 0 and 1. A missing cell is NaN, a masked cell of a masked array, or an empty
            cell of a nullable column; it adds nothing.
        y : ignored
        sample_weight : array-like, shape (m,), optional
            How often each row counts. Whole numbers are exact: as if the row were repeated.
        mask : array-like of bool, shape (m, n), optional
            True where a cell is missing.
        checkpoint : path, optional
            Keep every pass over the rows in this file. A fit that was killed and is called again
            goes on from there, and ends with the same bits.
        """
        rows = as_incomplete_rows(X, self.binarize, mask=mask, sample_weight=sample_weight)
        found = self._found(rows, checkpoint)
        self._check_columns(X, rows, reset=True)
        self._open = None
        self._keep(*found)
        return self

    def _found(self, rows: Rows, checkpoint: Any = None) -> tuple[TemplateFit, int, int, int]:
        """The fit, its seed, how many seed rows there were, and how many rows the starts saw."""
        settings = Settings.checked(self.noise_model, self.n_init, self.max_iter, self.tol)
        k = checks.components(self.n_components, rows.shape[0])
        seed = self._seed(checkpoint)
        rng = stream(seed, "seeds")
        w_min = checks.optional(checks.weight, self.min_weight, k)
        delta = checks.between(self.delta, "delta", 0, 1)
        with self._keeping(rows, seed, checkpoint) as kept:
            sample = self._sample(kept, k, number_of_seeds(rows.shape[0], k, w_min, delta), rng)
            n_seeds = number_of_seeds(sample.shape[0], k, w_min, delta)
            fit = fit_templates(sample, k, SeededRound.of(sample, n_seeds, rng), settings, rng)
            if sample.shape[0] < rows.shape[0]:
                fit = on_all_rows(kept, fit, settings.noise_model)
        return fit, seed, n_seeds, sample.shape[0]

    def _sample(self, rows: Rows, k: int, n_seeds: int, rng: np.random.Generator) -> Rows:
        """A random sample of the rows, or all of them if they are few."""
        if self.round_one_rows is None:
            most = max(_ROWS_A_SEED * n_seeds, _SAMPLE)
        else:
            most = checks.whole(self.round_one_rows, "round_one_rows", least=k)
        if rows.shape[0] <= most:
            return brought(rows, most)
        return rows.chosen(seeds.indices(rows.shape[0], most, rng))

    def _keep(self, fit: TemplateFit, seed: int, n_seeds: int, sample: int) -> None:
        self.seed_, self.n_seeds_, self.round_one_rows_ = seed, n_seeds, sample
        order = fit.mixture.order()
        self._set(fit.mixture.kept(order), fit.statistics.means(fit.mixture.probabilities)[order])
        self.history_ = fit.history
        self.n_iter_, self.converged_ = fit.n_iter, fit.converged
        self.n_starts_, self.n_agreeing_ = fit.n_starts, fit.n_agreeing
        if self.duplicates_:
            i, j = self.duplicates_[0]
            warnings.warn(
                f"{len(self.duplicates_)} pairs of templates are equal, the first {i} and {j}: "
                "ask for fewer components",
                DuplicateTemplatesWarning,
                stacklevel=3,
            )

    def _pieces_rows(self, X: Any) -> Rows:
        return as_incomplete_rows(X, self.binarize)

    def _begin(self, rows: Rows, seeds: Any) -> OpenRound[NoisyTemplates]:
        """The first piece is the sample that templates are found in."""
        if seeds is not None:
            raise InputError(
                "TemplateMixture finds templates in the first piece: seeds are for TwoRoundEM"
            )
        self._keep(*self._found(rows))
        return self._go_on()

    def _go_on(self) -> OpenRound[NoisyTemplates]:
        return OpenRound(self._mixture, self.history_)

    def _moved(
        self, done: OpenRound[NoisyTemplates], statistics: Statistics
    ) -> OpenRound[NoisyTemplates]:
        model = as_noise_model(self.noise_model)
        mixture = noise.maximise(statistics, model, done.mixture.templates)
        step = Round(statistics.log_likelihood, mixture.n_components, mixture.weights)
        self.history_ = (*done.history, step)
        order = mixture.order()
        self._set(mixture.kept(order), statistics.means(mixture.probabilities)[order])
        return OpenRound(mixture, self.history_)

    def _set(self, mixture: NoisyTemplates, means: Floats) -> None:
        self.templates_, self.weights_ = mixture.templates, mixture.weights
        self.means_, self._noise = means, mixture.noise
        equal: dict[bytes, list[int]] = {}
        for i, template in enumerate(mixture.templates):
            equal.setdefault(template.tobytes(), []).append(i)
        self.duplicates_ = sorted(
            pair for group in equal.values() for pair in itertools.combinations(group, 2)
        )

    @property
    def noise_(self) -> Any:
        """As the noise model has it: one number, one a template, one a column, or all."""
        check_is_fitted(self)
        if self._noise.size == 1 and self.noise_model == "shared":
            return float(self._noise[0, 0])
        if self.noise_model == "component":
            return self._noise[:, 0]
        return self._noise[0] if self.noise_model == "feature" else self._noise

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "means": self.means_,
            "weights": self.weights_,
            "templates": self.templates_,
            "noise": self._noise,
        }

    def _set_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        mixture = NoisyTemplates(arrays["templates"], arrays["weights"], arrays["noise"]).checked()
        means = arrays["means"]
        if means.shape != mixture.templates.shape or not np.all((means >= 0) & (means <= 1)):
            raise InputError(
                f"means must be numbers from 0 to 1 of shape {mixture.templates.shape}"
            )
        self._set(mixture, means)

    def _rows(self, X: Any) -> Rows:
        check_is_fitted(self)
        rows = as_incomplete_rows(X, self.binarize)
        self._check_columns(X, rows, reset=False)
        return rows

    @property
    def _mixture(self) -> NoisyTemplates:
        check_is_fitted(self)
        return NoisyTemplates(self.templates_, self.weights_, self._noise)

    @property
    def _bit_noise(self) -> Any:
        return self._noise if self._noise.size > 1 else float(self._noise[0, 0])

    def _density(self) -> NoisyTemplates:
        return self._mixture

    @property
    def _n_parameters(self) -> int:
        """k·n template bits, k-1 weights, and the noise levels (a cell's holds its bit as well)."""
        k, n = int(self.templates_.shape[0]), int(self.templates_.shape[1])
        levels = 0 if self.noise_model == "cell" else int(self._noise.size)
        return k * n + k - 1 + levels
