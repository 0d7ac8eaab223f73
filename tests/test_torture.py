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
from bitmix.models.mixture import MIN_PROBABILITY, NOISE_MODELS, Mixture
from bitmix.rows.convert import fixed_weights

pytestmark = pytest.mark.filterwarnings(f"ignore::{BitmixWarning.__module__}.BitmixWarning")


@pytest.fixture(autouse=True)
def numpy_errors():
    with np.errstate(all="raise"):
        yield


def estimators(k, prior=0.1):
    yield TwoRoundEM(k, random_state=0)
    yield ClassicEM(k, max_iter=5, random_state=0)
    for model in NOISE_MODELS:
        yield TemplateMixture(
            k, noise_model=model, prior=prior, n_init=2, max_iter=5, random_state=0
        )


def check(model, X):
    """Probabilities are probabilities, and what a model says in different ways is the same."""
    k, m = len(model.weights_), X.shape[0]
    assert ((model.means_ >= 0) & (model.means_ <= 1)).all()
    assert (model.weights_ >= 0).all()
    assert abs(model.weights_.sum() - 1) < 1e-9
    noise = np.asarray(model.noise_)
    if isinstance(model, TemplateMixture):
        assert ((noise >= 0) & (noise <= 1)).all()
        assert ((model.probabilities_ >= 0) & (model.probabilities_ <= 1)).all()
        assert np.isfinite(model.objective_)
        assert 1 <= model.n_agreeing_ <= model.n_starts_ <= len(model.starts_)
    else:
        assert 0 < noise < 0.5
    p = model.predict_proba(X)
    assert p.shape == (m, k)
    assert (p >= 0).all()
    assert (p.sum(axis=1) == 1).all()
    assert np.array_equal(p.argmax(axis=1), model.predict(X))
    assert (p[:, model.weights_ == 0] == 0).all()
    values = model.score_samples(X)
    assert np.isfinite(values).all()
    assert model.score(X) == pytest.approx(values.mean(), rel=1e-12, abs=1e-12)


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
        for name in ("updown", "cell")[: 1 if n > 10**5 else 2]  # a million rates take their time
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


@pytest.mark.parametrize("prior", [0, 0.1])
@pytest.mark.parametrize("name", EXTREMES)
def test_extreme_tables(name, prior, kernels):
    X = EXTREMES[name]
    for k in {1, min(2, len(X)), len(X)}:
        for model in estimators(k, prior):
            if prior or isinstance(model, TemplateMixture):
                check(model.fit(X), X)


def test_the_default_takes_extreme_tables():
    """`auto`, with rows of which nothing is known and cells that nobody knows."""
    for X in EXTREMES.values():
        for k in {1, min(2, len(X))}:
            model = TemplateMixture(k, random_state=0)
            check(model.fit(X), X)
            gaps = np.zeros(X.shape, dtype=bool)
            gaps[0], gaps[:, 0] = True, True
            check(model.fit(X, mask=gaps), X)
            assert model.score_samples(np.full((1, X.shape[1]), np.nan)) == pytest.approx(
                0, abs=1e-6
            )


def test_a_table_of_which_nothing_is_known():
    X = np.full((12, 5), np.nan)
    for model in ("auto", *NOISE_MODELS):
        for prior in (0, 0.1):
            fit = TemplateMixture(2, noise_model=model, prior=prior, random_state=0).fit(X)
            assert np.isfinite(fit.probabilities_).all()
            assert fit.score(X) == pytest.approx(0, abs=1e-6)


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
    for noise in (q, (q, 0.3), (0.3, q), (q, 1 - 2 * q) if q < 0.1 and 1 - 2 * q < 1 else (q, q)):
        fit = TemplateMixture(2, noise=noise, n_init=2, max_iter=5, random_state=0).fit(X)
        check(fit, X)
        assert np.array_equal(fit.noise_, noise)


@pytest.mark.parametrize("q", [5e-324, 0.5 - 2**-54, 0.5])
@pytest.mark.parametrize("weight", [5e-324, 1e-300, 1e-9, 0.0])
def test_models_at_their_ends_score_every_row(q, weight, kernels):
    X = wide(40, 130)
    weights = np.array([1 - weight, weight])
    templates = np.vstack([np.zeros(130), np.ones(130)])
    noises = {
        "shared": q, "updown": np.array([q, q]), "component": np.full((2, 1), q),
        "feature": np.full((1, 130), q),
    }  # fmt: skip
    mixtures = [Mixture(templates, weights, noise) for noise in noises.values()]
    mixtures.append(Mixture(np.where(templates == 1, 1 - q, q), weights, None))
    for mixture in mixtures:
        found = expect(X, mixture)
        assert found.mass.sum() == 40 << fixed.SHARE_BITS
        assert ((found.sums >= 0) & (found.sums <= found.mass[:, None])).all()
        ones = np.unpackbits(X.words.view(np.uint8)).sum()
        assert found.sums.sum() == int(ones) << fixed.SHARE_BITS
        assert found.log_likelihood < 0
        assert found.mass[1] == 0 or weight > 0


@pytest.mark.parametrize("prior", [1e-300, 1e-12, 1e6, 2.0**31])
def test_priors_of_any_strength(prior):
    """A very strong one has every rate at ½, or every probability at the share of its column."""
    X = wide(40, 130).to_dense()
    for model in NOISE_MODELS:
        make = TemplateMixture(2, noise_model=model, prior=prior, n_init=2, random_state=0)
        check(make.fit(X), X)
        if prior >= 1e6:
            shares = (X.sum(axis=0) + 0.5) / 41
            expected = shares if model == "cell" else 0.5
            assert np.allclose(make.probabilities_, expected, atol=1e-2)


def test_weights_of_a_billionth():
    """Beside a row of weight 1, one of 10⁻⁹ is as good as none; among its like it counts."""
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
    rows = X.weighted(np.full(100, float(times)))
    assert rows.layout.weight_one == 1
    for model in (mixture, Mixture(mixture.means, mixture.weights, None)):
        many, once = expect(rows, model), expect(X, model)
        assert many.n_rows == 10**9
        assert many.mass.tolist() == [times * mass for mass in once.mass.tolist()]
        assert many.sums.tolist() == [[times * v for v in row] for row in once.sums.tolist()]
        assert many.likelihood_units == times * once.likelihood_units
    for model in NOISE_MODELS:
        make = TemplateMixture(2, noise_model=model, n_init=2, max_iter=5, random_state=0)
        check(make.fit(X, sample_weight=np.full(100, 1e7)), X)
        assert make.bic(X, sample_weight=np.full(100, 1e7)) > 10**9


def test_the_largest_sums_fit_and_more_is_refused():
    """All the weight there may be, on rows that all go to one template and have every bit."""
    most = 2**30 - 1
    X = BitMatrix.from_dense(np.ones((1, 70)))
    assert fixed_weights([float(most)], 1)[1] == 1
    mixture = Mixture(np.ones((1, 70)), np.ones(1), 1e-9)
    found = expect(X.weighted([float(most)]), mixture)
    assert found.sums.tolist() == [[most << fixed.SHARE_BITS] * 70]
    assert found.sums.max() < 2**62
    with pytest.raises(InputError, match="must sum to at most 2\\^30"):
        TemplateMixture(1).fit(X, sample_weight=[2.0**30])
    with pytest.raises(InputError, match="must sum to at most 2\\^30"):
        TemplateMixture(1).fit(np.ones((4, 3)), sample_weight=np.full(4, 1e300))


# --- likelihoods to 50 digits ---------------------------------------------------------------


def exact_likelihood(row, weights, factors):
    """ln Σ_i w_i Π_s P(x_s | i), given the logarithms of the factors; None leaves out a cell."""
    total = Decimal(0)
    for weight, (on, off) in zip(weights, factors, strict=True):
        if weight:
            cells = (None if x is None else on[s] if x else off[s] for s, x in enumerate(row))
            logs = sum((cell for cell in cells if cell is not None), Decimal(0))
            total += (Decimal(weight).ln() + logs).exp()
    return total.ln()


def exact_factors(model):
    """For each component ln of the factor of a 1 and of a 0 in each column, in exact arithmetic."""
    if isinstance(model, TemplateMixture):
        for row in model.probabilities_.clip(MIN_PROBABILITY, 1 - MIN_PROBABILITY).tolist():
            yield [Decimal(p).ln() for p in row], [(1 - Decimal(p)).ln() for p in row]
        return
    right, wrong = (1 - Decimal(model.noise_)).ln(), Decimal(model.noise_).ln()
    for mean in model.means_.tolist():  # D(x, T) = |x - T|, which may be between 0 and 1
        apart = [Decimal(t) for t in mean]
        yield (
            [wrong * (1 - d) + right * d for d in apart],
            [wrong * d + right * (1 - d) for d in apart],
        )


def score_error(n):
    """What `Mixture.scores` promises for any noise model."""
    return (2 * n + 1) * 2.0**-28


@pytest.mark.parametrize(
    ("number", "missing"),
    [*((number, False) for number in range(7)), *((number, True) for number in range(2, 7))],
)
@pytest.mark.parametrize("n", [1, 9, 65])
def test_likelihoods_to_fifty_digits(number, n, missing, kernels):
    rng = np.random.default_rng(n)
    X = (rng.random((24, n)) < rng.choice([0.1, 0.9], size=(24, 1))).astype(np.float64)
    model = list(estimators(3))[number]
    if missing:  # which only TemplateMixture takes
        X[rng.random(X.shape) < 0.2] = np.nan
    found = model.fit(X).score_samples(X)
    bound = fixed.likelihood_error(3) + 1e-12
    if isinstance(model, TemplateMixture):
        bound += score_error(n)
    else:
        bound += fixed.score_error(n, model.mixture_.scores().bits)
    rows = [[None if np.isnan(x) else int(x) for x in row] for row in X]
    with decimal.localcontext(prec=50):
        each = list(exact_factors(model))
        for row, value in zip(rows, found.tolist(), strict=True):
            exact = exact_likelihood(row, model.weights_.tolist(), each)
            assert abs(Decimal(value) - exact) <= Decimal(bound)


@pytest.mark.parametrize(("alpha", "beta"), [(1e-300, 0.3), (0.3, 1e-300), (0.6, 0.3), (0.1, 0.85)])
def test_likelihoods_with_two_rates_to_fifty_digits(alpha, beta, kernels):
    """Also where a rate is above ½ or out of the range of the tables."""
    rng = np.random.default_rng(0)
    templates, bits = rng.integers(2, size=(2, 40)), rng.integers(2, size=(10, 40))
    mixture = Mixture(templates.astype(float), np.array([0.25, 0.75]), np.array([alpha, beta]))
    found = [expect(BitMatrix.from_dense(row[None]), mixture).log_likelihood for row in bits]
    with decimal.localcontext(prec=50):
        up, down = Decimal(alpha), Decimal(beta)
        factors = [
            (
                [(1 - down).ln() if t else up.ln() for t in template],
                [down.ln() if t else (1 - up).ln() for t in template],
            )
            for template in templates.tolist()
        ]
        bound = Decimal(score_error(40) + fixed.likelihood_error(2) + 1e-12)
        for row, value in zip(bits.tolist(), found, strict=True):
            exact = exact_likelihood(row, [0.25, 0.75], factors)
            assert abs(Decimal(value) - exact) <= bound + abs(exact) * Decimal(2) ** -52


def test_likelihoods_far_below_what_floats_hold(kernels):
    """e to the minus two million is no float; its logarithm is."""
    n, q = 3000, 1e-300
    for noise in (q, np.array([q, 0.1])):
        mixture = Mixture(np.zeros((1, n)), np.ones(1), noise)
        found = expect(BitMatrix.from_dense(np.ones((1, n))), mixture).log_likelihood
        with decimal.localcontext(prec=50):
            assert abs(Decimal(found) - n * Decimal(q).ln()) <= Decimal(score_error(n))
