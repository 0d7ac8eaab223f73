"""Extremes: every one has a defined outcome, with NumPy's errors raised, and likelihoods are exact.

Exact values come from `decimal` with 50 digits.
"""

import decimal
from decimal import Decimal

import numpy as np
import pytest

from bitmix import BitMatrix, ClassicEM, TemplateMixture, TwoRoundEM
from bitmix.em.step import expect
from bitmix.errors import BitmixWarning, InputError
from bitmix.kernels import fixed
from bitmix.models.mixture import NOISE_MODELS, Mixture, NoisyTemplates
from bitmix.rows.augmented import AugmentedRows, fixed_weights

pytestmark = pytest.mark.filterwarnings(f"ignore::{BitmixWarning.__module__}.BitmixWarning")


@pytest.fixture(autouse=True)
def numpy_errors():
    with np.errstate(all="raise"):
        yield


def estimators(k, **more):
    yield TwoRoundEM(k, random_state=0, **more)
    yield ClassicEM(k, max_iter=5, random_state=0, **more)
    for model in NOISE_MODELS:
        yield TemplateMixture(k, noise_model=model, n_init=2, max_iter=5, random_state=0)


def check(model, X):
    """Numbers are numbers, weights and shares sum to 1, labels are labels."""
    m = X.shape[0]
    assert np.isfinite(model.means_).all()
    assert ((model.means_ >= 0) & (model.means_ <= 1)).all()
    assert abs(model.weights_.sum() - 1) < 1e-9
    noise = np.asarray(model.noise_)
    assert ((noise > 0) & (noise <= 0.5)).all()
    p = model.predict_proba(X)
    assert p.shape == (m, len(model.weights_))
    assert (p.sum(axis=1) == 1).all()
    assert np.isfinite(model.score_samples(X)).all()


# --- shapes ---------------------------------------------------------------------------------


def wide(m, n, seed=0):
    """Random rows, made as words: a dense table of these sizes would not fit."""
    rng = np.random.default_rng(seed)
    words = rng.integers(2**64, size=(m, -(-n // 64)), dtype=np.uint64)
    if n % 64:
        words[:, -1] &= np.uint64((1 << n % 64) - 1)
    return BitMatrix(words, n)


@pytest.mark.parametrize(
    ("m", "n"), [(1, 1), (1, 10**6), (2, 10**6), (10, 10**5), (10**5, 10), (10**6, 1), (10**6, 65)]
)
def test_long_and_wide(m, n):
    X, k = wide(m, n), min(2, m)
    models = [TwoRoundEM(k, n_seeds=min(4, m), random_state=0), ClassicEM(k, max_iter=2)]
    models += [
        TemplateMixture(k, noise_model=name, n_init=1, max_iter=2, random_state=0)
        for name in ("shared", "cell")[: 1 if n > 10**5 else 2]  # a million levels take their time
    ]
    for model in models:
        check(model.fit(X), X)


EXTREMES = {
    "all zero": np.zeros((20, 70), dtype=np.uint8),
    "all one": np.ones((20, 70), dtype=np.uint8),
    "one row": np.arange(70).reshape(1, -1) % 2,
    "one cell": np.ones((1, 1), dtype=np.uint8),
    "one bit differs": np.eye(1, 20 * 70, 733, dtype=np.uint8).reshape(20, 70),
    "one row, many times": np.tile(np.arange(70) % 3 == 0, (50, 1)),
    "two rows, many times": np.tile(np.array([[0] * 70, [1] * 70]), (25, 1)),
    "all rows differ": np.eye(20, dtype=np.uint8),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_extreme_tables(name, kernels):
    X = EXTREMES[name]
    for k in {1, min(2, len(X)), len(X)}:
        for model in estimators(k):
            check(model.fit(X), X)


def test_templates_of_two_repeated_rows_are_the_rows():
    X = EXTREMES["two rows, many times"]
    for model in estimators(2):
        if isinstance(model, ClassicEM):
            continue  # it may start from one row twice
        found = model.fit(X)
        assert sorted(found.templates_.sum(axis=1).tolist()) == [0, 70]
        assert found.weights_.tolist() == [0.5, 0.5]


# --- parameters -----------------------------------------------------------------------------


@pytest.mark.parametrize("q", [5e-324, 2.0**-1022, 1e-300, 1e-9, 0.5 - 2**-54, 0.4999999])
def test_noise_near_its_ends(q, kernels):
    X = wide(40, 1000)
    for kind in (TwoRoundEM, ClassicEM):
        check(kind(2, noise=q, random_state=0).fit(X), X)


@pytest.mark.parametrize("q", [5e-324, 0.5 - 2**-54, 0.5])
@pytest.mark.parametrize("weight", [5e-324, 1e-300, 1e-9, 0.0])
def test_models_at_their_ends_score_every_row(q, weight, kernels):
    X = wide(40, 130)
    weights = np.array([1 - weight, weight])
    templates = np.vstack([np.zeros(130, np.uint8), np.ones(130, np.uint8)])
    models = [NoisyTemplates(templates, weights, np.full((1, 1), q))]
    if q < 0.5:
        models.append(Mixture(templates.astype(float), weights, q))
    for mixture in models:
        found = expect(X, mixture)
        assert found.mass.sum() == 40 << fixed.SHARE_BITS
        assert found.fits(2, 130)
        assert (found.mass[1] == 0) or weight > 0


def test_weights_of_a_billionth():
    """Beside a row of weight 1 one of 10⁻⁹ is as good as none; among its like it counts."""
    X = np.vstack([np.zeros((4, 40)), np.ones((4, 40))])
    even = TemplateMixture(2, random_state=0).fit(X)
    relative = np.full(8, 1e-9) * 1e9
    for model in NOISE_MODELS:
        make = TemplateMixture(2, noise_model=model, random_state=0)
        check(make.fit(X, sample_weight=[1, 1, 1, 1, 1e-9, 1e-9, 1e-9, 1e-9]), X)
    same = TemplateMixture(2, random_state=0).fit(X, sample_weight=relative)
    assert np.array_equal(same.templates_, even.templates_)
    with pytest.raises(InputError, match="sum must be at least 1"):
        TemplateMixture(2).fit(X, sample_weight=np.full(8, 1e-9))


# --- many rows by repetition ----------------------------------------------------------------


def test_a_billion_rows_by_weight():
    """Statistics of 10⁹ rows are those of the distinct ones, times how often they come."""
    X = wide(100, 200, seed=3)
    mixture = Mixture(np.random.default_rng(0).random((3, 200)), np.array([0.2, 0.3, 0.5]), 0.1)
    times = 10**7
    weights, one = fixed_weights(np.full(100, float(times)), 100)
    assert one == 1
    many, once = expect(AugmentedRows(X, None, weights, one), mixture), expect(X, mixture)
    assert many.n_rows == 10**9
    assert many.mass.tolist() == [times * mass for mass in once.mass.tolist()]
    assert many.sums.tolist() == [[times * v for v in row] for row in once.sums.tolist()]
    assert many.likelihood_units == times * once.likelihood_units
    for model in NOISE_MODELS:
        make = TemplateMixture(2, noise_model=model, n_init=2, max_iter=5, random_state=0)
        check(make.fit(X, sample_weight=np.full(100, 1e7)), X)


def test_the_largest_sums_fit_and_more_is_refused():
    """All the weight there may be, on rows that all go to one template and have every bit."""
    most = 2**30 - 1
    X = BitMatrix.from_dense(np.ones((1, 70)))
    weights, one = fixed_weights([float(most)], 1)
    mixture = NoisyTemplates(np.ones((1, 70), np.uint8), np.ones(1), np.full((1, 1), 1e-9))
    found = expect(AugmentedRows(X, None, weights, one), mixture)
    assert found.sums.tolist() == [[most << fixed.SHARE_BITS] * 70]
    assert found.sums.max() < 2**62
    with pytest.raises(InputError, match="must sum to at most 2\\^30"):
        TemplateMixture(1).fit(X, sample_weight=[2.0**30])
    with pytest.raises(InputError, match="must sum to at most 2\\^30"):
        TemplateMixture(1).fit(np.ones((4, 3)), sample_weight=np.full(4, 1e300))


# --- likelihoods to 50 digits ---------------------------------------------------------------


def exact_likelihood(row, weights, ones):
    """ln Σ_i w_i Π_s p_is^x_s (1-p_is)^(1-x_s), or with logarithms of each factor given."""
    total = Decimal(0)
    for weight, (on, off) in zip(weights, ones, strict=True):
        if weight:
            logs = sum((on[s] if x else off[s] for s, x in enumerate(row)), Decimal(0))
            total += (Decimal(weight).ln() + logs).exp()
    return total.ln()


def factors(model):
    """For each component ln of the factor of a 1 and of a 0 in each column, in exact arithmetic."""
    if isinstance(model, TemplateMixture):
        mixture = model.mixture_
        noise = np.broadcast_to(mixture.noise, mixture.templates.shape)
        for template, levels in zip(mixture.templates.tolist(), noise.tolist(), strict=True):
            hit = [(1 - Decimal(v)).ln() for v in levels]
            miss = [Decimal(v).ln() for v in levels]
            yield (
                [h if t else f for t, h, f in zip(template, hit, miss, strict=True)],
                [f if t else h for t, h, f in zip(template, hit, miss, strict=True)],
            )
        return
    right, wrong = (1 - Decimal(model.noise_)).ln(), Decimal(model.noise_).ln()
    for mean in model.means_.tolist():  # D(x, T) = |x - T|, which may be between 0 and 1
        apart = [Decimal(t) for t in mean]
        yield (
            [wrong * (1 - d) + right * d for d in apart],
            [wrong * d + right * (1 - d) for d in apart],
        )


def noisy_error(n):
    """What `NoisyTemplates.scores` promises."""
    return (2 * n + 1) * 2.0**-28


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("n", [1, 9, 65])
def test_likelihoods_to_fifty_digits(number, n, kernels):
    rng = np.random.default_rng(n)
    X = (rng.random((24, n)) < rng.choice([0.1, 0.9], size=(24, 1))).astype(np.uint8)
    model = list(estimators(3))[number].fit(X)
    found = model.score_samples(X)
    bound = fixed.likelihood_error(3) + 1e-12
    if isinstance(model, TemplateMixture):
        bound += noisy_error(n)
    else:
        bound += fixed.score_error(n, model.mixture_.scores().bits)
    with decimal.localcontext(prec=50):
        each = list(factors(model))
        for row, value in zip(X.tolist(), found.tolist(), strict=True):
            exact = exact_likelihood(row, model.weights_.tolist(), each)
            assert abs(Decimal(value) - exact) <= Decimal(bound)


def test_likelihoods_far_below_what_floats_hold(kernels):
    """e to the minus two million is no float; its logarithm is."""
    n, q = 3000, 1e-300
    mixture = NoisyTemplates(np.zeros((1, n), np.uint8), np.ones(1), np.full((1, 1), q))
    found = expect(BitMatrix.from_dense(np.ones((1, n))), mixture).log_likelihood
    with decimal.localcontext(prec=50):
        assert abs(Decimal(found) - n * Decimal(q).ln()) <= Decimal(noisy_error(n))
