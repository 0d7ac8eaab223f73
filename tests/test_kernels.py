"""Both back ends give the same bits, within the bounds that `fixed` proves."""

import os
import subprocess
import sys
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitmix import TemplateMixture, kernels
from bitmix.errors import InputError
from bitmix.kernels import fixed, reference
from bitmix.kernels.bits import pack, padding_is_zero, unpack
from bitmix.kernels.exact import product as exact_product
from bitmix.models.mixture import Mixture

compiled = pytest.importorskip("bitmix.kernels.compiled", reason="numba is missing")

WIDTHS = [1, 63, 64, 65, 127, 1458]


def case(m, n, k, seed):
    rng = np.random.default_rng(seed)
    words = pack(rng.integers(2, size=(m, n), dtype=np.uint8))
    templates = pack(rng.integers(2, size=(k, n), dtype=np.uint8))
    coef = rng.integers(-(2**40), 2**40, size=(k, n))
    const = rng.integers(-(2**50), 2**50, size=k)
    return words, templates, const, coef


def assert_twins_agree(m, n, k, seed):
    words, templates, const, coef = case(m, n, k, seed)
    distances = reference.hamming(words, templates)
    np.testing.assert_array_equal(compiled.hamming(words, templates), distances)
    scores = reference.affine(words, const, coef)
    np.testing.assert_array_equal(compiled.affine(words, const, coef), scores)
    for bits, some in ((42, -distances << 40), (30, scores >> 20), (20, scores >> 30)):
        expected = reference.posteriors(some, bits, fixed.tables())
        for one, other in zip(
            compiled.posteriors(some, bits, fixed.tables()), expected, strict=True
        ):
            np.testing.assert_array_equal(one, other)
        sums = reference.column_sums(words, expected[0], n)
        np.testing.assert_array_equal(compiled.column_sums(words, expected[0], n), sums)


@pytest.mark.parametrize("n", WIDTHS)
@pytest.mark.parametrize("k", [1, 2, 11])
def test_twins_agree(n, k):
    assert_twins_agree(40, n, k, seed=n + k)


def test_logarithms_agree_next_to_every_edge_of_the_table():
    """A quotient that floats round up to a whole number would show there."""
    edges = 1 + np.arange(1024) / 1024
    around = np.stack([np.nextafter(edges, 0), edges, np.nextafter(edges, 2), edges + 2.0**-31])
    sizes = np.ldexp(around, np.random.default_rng(0).integers(-1022, 1023, around.shape))
    random = np.random.default_rng(1).random((2, 50_000)) + 2.0**-60
    for values in (around, sizes, random, random.T, np.array([5e-324, 1.7e308])):
        expected = reference.logs(values, fixed.tables())
        np.testing.assert_array_equal(compiled.logs(values, fixed.tables()), expected)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan])
@pytest.mark.parametrize("kernels", [reference, compiled])
def test_only_positive_numbers_have_logarithms(kernels, value):
    with pytest.raises(ValueError, match="positive"):
        kernels.logs(np.array([0.5, value]), fixed.tables())


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 90), st.integers(1, 300), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_twins_agree_at_any_shape(m, n, k, seed):
    assert_twins_agree(m, n, k, seed)


@pytest.mark.parametrize("n", WIDTHS)
def test_pack_and_unpack_are_inverse(n):
    bits = np.random.default_rng(n).integers(2, size=(7, n), dtype=np.uint8)
    words = pack(bits)
    assert padding_is_zero(words, n)
    np.testing.assert_array_equal(unpack(words, n), bits)
    assert int(words[0, 0]) & 1 == bits[0, 0]


def test_kernels_say_what_they_should(kernels):
    from bitmix.kernels import backend

    words, templates, const, coef = case(30, 100, 4, seed=0)
    X, T = unpack(words, 100).astype(int), unpack(templates, 100).astype(int)
    np.testing.assert_array_equal(
        backend().hamming(words, templates), np.abs(X[:, None] - T[None]).sum(axis=2)
    )
    np.testing.assert_array_equal(backend().affine(words, const, coef), const + X @ coef.T)
    shares = np.arange(30 * 4).reshape(30, 4)
    np.testing.assert_array_equal(backend().column_sums(words, shares, 100), shares.T @ X)


def test_tables_are_correctly_rounded():
    tables = fixed.tables()
    with localcontext() as context:
        context.prec = 50
        one = Decimal(2) ** fixed.EXP_BITS
        for table, steps in ((tables.coarse, 64), (tables.fine, 65536)):
            exact = [(Decimal(-i) / steps).exp() * one for i in range(len(table))]
            assert [int(e.to_integral_value()) for e in exact] == table.tolist()
        logs = [(1 + Decimal(t) / 1024).ln() * 2**fixed.LOG_BITS for t in range(1024)]
        assert [int(e.to_integral_value()) for e in logs] == tables.logs.tolist()


@pytest.mark.parametrize("bits", [20, 32, 42])
@pytest.mark.parametrize("k", [1, 2, 7, 200])
def test_posteriors_stay_within_the_proved_bounds(kernels, bits, k):
    from bitmix.kernels import backend

    rng = np.random.default_rng(k)
    nats = rng.exponential(10.0 ** rng.integers(-6, 3, size=(2000, 1)), size=(2000, k))
    scores = -np.rint(nats * 2.0**bits).astype(np.int64)
    shares, tops, logs = backend().posteriors(scores, bits, fixed.tables())
    exact = (scores / 2.0**bits).astype(np.longdouble)
    total = np.log(np.exp(exact - exact.max(axis=1, keepdims=True)).sum(axis=1)) + exact.max(axis=1)
    p = np.exp(exact - total[:, None])
    assert (shares >= 0).all()
    assert (shares.sum(axis=1) == 1 << fixed.SHARE_BITS).all()
    assert np.abs(shares / 2.0**fixed.SHARE_BITS - p).max() <= fixed.share_error(k)
    likelihood = tops.astype(np.longdouble) / 2.0**bits + logs / 2.0**fixed.LOG_BITS
    assert np.abs(likelihood - total).max() <= fixed.likelihood_error(k)


def test_ties_go_to_the_lowest_index(kernels):
    from bitmix.kernels import backend

    shares, _, _ = backend().posteriors(np.zeros((1, 3), dtype=np.int64), 40, fixed.tables())
    third = (1 << 30) // 3
    assert shares.tolist() == [[(1 << 30) - 2 * third, third, third]]


@pytest.mark.parametrize("n", [1, 64, 1458, 10**6])
@pytest.mark.parametrize("q", [5e-324, 1e-9, 0.1, 0.4999999])
def test_scores_cannot_overflow(n, q):
    """The extreme sums, in Python's own integers, stay below 2^61: so gaps stay below 2^62."""
    means = np.zeros((3, n))
    means[1] = 1
    means[2] = 0.3
    scores = Mixture(means, np.array([2.0**-61, 1 - 2.0**-61, 0.0]), q).scores()
    const = [int(c) for c in scores.const]
    positive = [int(np.where(c > 0, c, 0).sum()) for c in scores.coef]
    negative = [int(np.where(c < 0, c, 0).sum()) for c in scores.coef]
    extremes = const + [c + p for c, p in zip(const, positive, strict=True)]
    extremes += [c + p for c, p in zip(const, negative, strict=True)]
    assert max(map(abs, extremes)) < 2**61
    assert int(np.abs(scores.coef).max()) < 2**53
    # the component of weight 0 is below every other by more than the cut, whatever the row
    best_dead = const[2] + positive[2]
    worst_alive = min(c + p for c, p in zip(const[:2], negative[:2], strict=True))
    assert worst_alive - best_dead >= fixed.CUT_NATS << scores.bits


def test_sums_cannot_overflow():
    assert fixed.MAX_ROWS << fixed.SHARE_BITS < 2**63
    assert fixed.MAX_COMPONENTS << fixed.EXP_BITS < 2**63


def test_scores_stay_within_the_proved_bound(kernels):
    rng = np.random.default_rng(5)
    n = 700
    mixture = Mixture(rng.random((4, n)), np.array([0.1, 0.2, 0.3, 0.4]), 0.07)
    X = rng.integers(2, size=(50, n), dtype=np.uint8)
    scores = mixture.scores()
    q = np.longdouble(mixture.noise)
    D = np.abs(X[:, None].astype(np.longdouble) - mixture.means[None]).sum(axis=2)
    exact = np.log(mixture.weights.astype(np.longdouble)) + D * np.log(q) + (n - D) * np.log1p(-q)
    error = np.abs(scores(pack(X)) / np.longdouble(2.0) ** scores.bits - exact).max()
    assert error <= fixed.score_error(n, scores.bits)


def test_popcount_and_affine_scores_agree_to_the_bit():
    rng = np.random.default_rng(6)
    binary = Mixture(rng.integers(2, size=(5, 130)).astype(float), np.full(5, 0.2), 0.2)
    words = pack(rng.integers(2, size=(40, 130), dtype=np.uint8))
    popcount = binary.scores()
    step = popcount.step
    distance = np.rint(binary.means * step).astype(np.int64)
    affine = reference.affine(words, popcount.const - distance.sum(axis=1), 2 * distance - step)
    # x·(step - 2A) is added to the distance, so subtracted from the score
    np.testing.assert_array_equal(popcount(words), affine)


def test_wrong_settings_are_named(monkeypatch):
    monkeypatch.setenv("BITMIX_KERNELS", "cuda")
    with pytest.raises(InputError, match="BITMIX_KERNELS.*cuda"):
        kernels.backend()
    monkeypatch.setenv("BITMIX_NUM_THREADS", "many")
    with pytest.raises(InputError, match="BITMIX_NUM_THREADS.*many"):
        kernels.num_threads()
    monkeypatch.setenv("BITMIX_NUM_THREADS", "3")
    assert kernels.num_threads() == 3


@pytest.mark.parametrize("x", [1.0, 0.5, 0.75, 1 - 2**-53, 5e-324, 1e-300, 0.1, 1 / 3, 0.49999])
def test_wide_logarithm_is_within_its_bound(x):
    with localcontext(prec=60):
        exact = Decimal(x).ln() * 2**128
        assert abs(fixed.wide_log(*x.as_integer_ratio()) - exact) < 2**38


@pytest.mark.parametrize("k", [1, 3, 4, 9])
@pytest.mark.parametrize("m", [1, 7, 300, 1200])
def test_column_sums_of_whole_and_shared_rows(m, k):
    """Rows that one component has whole, rows shared by few or by all, and weighted rows whose
    largest share happens to be as large as a whole row."""
    rng = np.random.default_rng(m + k)
    words = pack(rng.integers(2, size=(m, 130), dtype=np.uint8))
    shares = np.zeros((m, k), dtype=np.int64)
    shares[np.arange(m), rng.integers(k, size=m)] = 1 << 30
    shared = rng.random(m) < 0.6
    shares[shared] = rng.integers(0, 1 << 40, size=(shared.sum(), k))
    shares[shared, 0] = 1 << 30
    shares[::3, -1] = 5
    exact = unpack(words, 130).astype(object).T @ shares.astype(object)
    for kernels_in_use in (compiled, reference):
        found = kernels_in_use.column_sums(words, shares, 130)
        assert (found == exact.T).all()


def test_matrix_products_are_exact():
    """Whole numbers of up to 53 digits, both signs, against Python's own."""
    rng = np.random.default_rng(0)
    bits = rng.integers(2, size=(500, 70)).astype(np.float64)
    whole = rng.integers(-(2**52), 2**52, size=(3, 500))
    expected = whole.astype(object) @ bits.astype(np.int64).astype(object)
    assert (exact_product(whole, bits) == expected).all()


def in_fresh_process(code):
    """What a fresh interpreter prints, with no back end chosen."""
    environment = {k: v for k, v in os.environ.items() if k != "BITMIX_KERNELS"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    return done.stdout.split()


def test_small_problems_do_not_load_numba():
    """1,000 × 500 bits, fit and predict; what is larger, or goes on, does load it."""
    code = """
import sys, numpy as np
from bitmix import TemplateMixture
bits = np.random.default_rng(0).integers(2, size=(1000, 500), dtype=np.uint8)
model = TemplateMixture(3, random_state=0, n_init=2).fit(bits)
model.predict(bits)
print("numba" in sys.modules, model.weights_.tobytes().hex())
for _ in range(100):
    labels = model.predict(bits)
print("numba" in sys.modules, labels.sum())
"""
    small, weights, often, labels = in_fresh_process(code)
    assert (small, often) == ("False", "True")
    bits = np.random.default_rng(0).integers(2, size=(1000, 500), dtype=np.uint8)
    model = TemplateMixture(3, random_state=0, n_init=2).fit(bits)
    assert model.weights_.tobytes().hex() == weights
    assert model.predict(bits).sum() == int(labels)
