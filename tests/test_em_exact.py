"""The steps of a fit, each against its definition written out."""

import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import random_bits
from scipy.special import logsumexp

from bitmix import BitMatrix
from bitmix.em import fit, merge, predict, prune, search, seeds
from bitmix.em.noise import Noise, count_flips, evidence
from bitmix.em.step import Round, Statistics, accumulate, expect
from bitmix.errors import FewSurvivorsWarning, InputError, NoStructureWarning
from bitmix.kernels import fixed
from bitmix.kernels.bits import pack
from bitmix.models.mixture import MIN_PROBABILITY, NOISE_MODELS, Mixture
from bitmix.rows import as_rows
from bitmix.support.randomness import draw_by_weight, draw_without_replacement

ONE = 1 << fixed.SHARE_BITS


def statistics(mass, sums, n_rows=None, **more):
    """Statistics of whole rows."""
    mass, sums = np.array(mass) * ONE, np.array(sums) * ONE
    total = int(mass.sum()) // ONE if n_rows is None else n_rows
    return Statistics(total, mass, sums, 0, **more)


def flip_rates(mixture):
    """P(1 | template bit 0) and P(0 | template bit 1)."""
    return mixture.noise if np.shape(mixture.noise) == (2,) else (mixture.noise, mixture.noise)


def random_mixture(model, k, n, seed, *, binary=True):
    """A mixture with templates of bits, or of numbers between 0 and 1."""
    rng = np.random.default_rng(seed)
    means = rng.integers(2, size=(k, n)).astype(float) if binary else rng.random((k, n))
    shape = {"shared": (), "updown": 2, "component": (k, 1), "feature": (1, n), "cell": (0,)}[model]
    noise = rng.uniform(0.02, 0.45, shape)
    if model == "cell":
        means, noise = rng.uniform(0.02, 0.98, (k, n)), None
    return Mixture(means, rng.dirichlet(np.ones(k)), float(noise) if model == "shared" else noise)


def log_joint(mixture, X, known):
    """ln(w_i f_i(x)) in floats, shape (m, k)."""
    p = mixture.probabilities
    logs = (X * known) @ np.log(p).T + ((1 - X) * known) @ np.log1p(-p).T
    return logs + np.log(mixture.weights)


# --- seeds ----------------------------------------------------------------------------------


@pytest.mark.parametrize("closest", [(0, 1), (0, 2), (1, 2), (2, 3)])
def test_the_noise_comes_from_the_closest_pair_whichever_it_is(closest):
    rows = np.zeros((4, 40), dtype=np.uint8)
    for i in range(4):
        rows[i, 10 * i : 10 * i + 8] = 1
    a, b = closest
    rows[b] = rows[a]
    rows[b, :3] ^= 1
    q0, _ = seeds.initial_noise(pack(rows), 40)
    assert q0 * (1 - q0) == pytest.approx(3 / 80, rel=1e-14)


@pytest.mark.parametrize("l", [2, 255, 256, 257, 600])
def test_the_closest_pair_of_many_seeds(l, kernels):
    """Pairs within the tiles that are compared at a time, and across them."""
    rng = np.random.default_rng(l)
    bits = rng.integers(2, size=(l, 90), dtype=np.uint8)
    for a, b in ((0, l - 1), ((l - 1) // 2, l - 1), (0, 1)):
        bits[b] = bits[a]
        bits[b, :3] ^= 1
        words = pack(bits)
        apart = np.bitwise_count(words[:, None] ^ words).sum(axis=2) + 90 * np.eye(l)
        assert seeds.initial_noise(words, 90)[1] == apart.min() <= 3
        bits[b] = rng.integers(2, size=90)


def test_the_noise_of_seeds_that_are_equal_or_alone_or_coins():
    same = pack(np.zeros((3, 40), dtype=np.uint8))
    for words in (same, same[:1]):
        q0, _ = seeds.initial_noise(words, 40)
        assert q0 * (1 - q0) == pytest.approx(0.5 / 80, rel=1e-14)  # half a bit apart
    rows = np.zeros((2, 40), dtype=np.uint8)
    for apart in (40, 20):
        rows[1] = np.arange(40) < apart
        with pytest.warns(NoStructureWarning, match=f"{apart} of 40 columns"):
            q0 = seeds.given(rows, (2, 40), None).noise
        assert q0 * (1 - q0) == pytest.approx(19.75 / 80, rel=1e-14)  # 1/4 bit below n/2
        assert 0 < q0 < 0.5
    rows[1, 0] = 0
    q0 = seeds.given(rows, (2, 40), None).noise
    assert q0 * (1 - q0) == pytest.approx(19 / 80, rel=1e-14)


def test_fewer_seeds_are_a_prefix_of_more_and_all_are_a_permutation():
    for m in (1, 2, 9, 1000):
        every = draw_without_replacement(m, m, np.random.default_rng(m)).tolist()
        assert sorted(every) == list(range(m))
        for l in (1, -(-m // 2)):
            some = draw_without_replacement(m, l, np.random.default_rng(m)).tolist()
            assert some == every[:l]


def test_rows_are_drawn_as_if_they_stood_there_as_often_as_they_weigh():
    weights = np.array([3, 1, 4, 1, 5])
    for l in (1, 7, 14, 99):
        drawn = draw_by_weight(weights, l, np.random.default_rng(l))
        places = draw_without_replacement(14, min(l, 14), np.random.default_rng(l))
        assert drawn.tolist() == np.repeat(np.arange(5), weights)[places].tolist()


def test_responsibilities_and_labels_as_a_start():
    """Means with half a row more that is half 1, and the shares of rows as weights."""
    bits = random_bits(30, 20, 0)
    X, rng = bits.to_dense(float), np.random.default_rng(0)
    labels = rng.integers(3, size=30)
    for init, p in (
        (labels, np.eye(3)[labels]),
        (shares := rng.random((30, 3)), shares / shares.sum(axis=1, keepdims=True)),
    ):
        found = seeds.initial_mixture(init, bits, 3)
        assert found.noise is None
        assert found.weights == pytest.approx(p.sum(axis=0) / 30, abs=2.0**-29)
        expected = (p.T @ X + 0.5) / (p.sum(axis=0) + 1)[:, None]
        assert found.means == pytest.approx(expected, abs=30 * 2.0**-30)
    with pytest.raises(InputError, match="row 3 to some component"):
        seeds.initial_mixture(np.where(np.arange(30)[:, None] == 3, 0, p), bits, 3)


# --- pruning --------------------------------------------------------------------------------


def test_survivors_have_a_quarter_of_a_seeds_weight():
    weights = np.array([1 / 16, 1 / 16 - 1e-9, 0.5, 3 / 8 + 1e-9])
    for k in (2, 3):
        assert prune.survivors(weights, k).tolist() == [0, 2, 3]
    with pytest.warns(FewSurvivorsWarning, match="only 3 of 4 .* 1/16 or more"):
        assert prune.survivors(weights, 4).tolist() == [0, 1, 2, 3]


def test_too_few_survivors_are_filled_up_by_weight_and_the_lowest_index():
    light = np.array([0.9, 0.02, 0.03, 0.02, 0.03])
    with pytest.warns(FewSurvivorsWarning, match="only 1 of 5"):
        assert prune.survivors(light, 4).tolist() == [0, 1, 2, 4]
    with pytest.warns(FewSurvivorsWarning, match="only 1 of 4"):
        assert prune.survivors(np.array([0.97, 0.0, 0.015, 0.015]), 2).tolist() == [0, 2]


class Pick:
    """Stands in for a generator: picks what it is told."""

    def __init__(self, i):
        self.i = i

    def integers(self, _):
        return self.i


@pytest.mark.parametrize("pruning", ["l1", "hamming"])
def test_farthest_first_by_its_definition(pruning):
    """Means are multiples of ⅛, so that many distances are equal."""
    means = np.random.default_rng(0).integers(9, size=(9, 7)) / 8

    def apart(i, j):
        S, T = means[i], means[j]
        return (abs(S - T) if pruning == "l1" else S * (1 - T) + T * (1 - S)).sum()

    for first in range(9):
        chosen = [first]
        while len(chosen) < 5:
            rest = [i for i in range(9) if i not in chosen]
            chosen.append(max(rest, key=lambda i: min(apart(i, j) for j in chosen)))
        assert prune.farthest_first(means, 5, Pick(first), pruning).tolist() == chosen


@pytest.mark.parametrize("pruning", ["l1", "hamming"])
def test_equal_templates_are_kept_once_each(pruning):
    means = np.zeros((4, 6))
    chosen = prune.farthest_first(means, 4, np.random.default_rng(0), pruning)
    assert sorted(chosen.tolist()) == [0, 1, 2, 3]


def test_expected_hamming_and_l1_choose_differently():
    """From a blurred template the sharp one is far in ℓ1, the equally blurred one in bits."""
    means = np.array([[0.5, 0.5, 0.5, 0.2], [0.5, 0.5, 0.5, 0.8], [0.9, 0.9, 0.9, 0.2]])
    assert prune.farthest_first(means, 2, Pick(0), "l1").tolist() == [0, 2]
    assert prune.farthest_first(means, 2, Pick(0), "hamming").tolist() == [0, 1]


def test_distances_between_templates_are_exact():
    """Means that are multiples of 2^-16 are not rounded, whatever the number of columns."""
    for n in (6, 700):
        means = np.random.default_rng(n).integers(2**16 + 1, size=(4, n)) / 2**16
        bits = min(20, (52 - math.ceil(math.log2(n + 1))) // 2)
        T = [[Fraction(x) for x in row] for row in means.tolist()]
        l1, hamming = prune._L1(means), prune._ExpectedHamming(means)
        for i, j in itertools.product(range(4), range(4)):
            pairs = list(zip(T[i], T[j], strict=True))
            assert l1.to(i)[j] == sum(abs(s - t) for s, t in pairs) * 2**30
            expected = sum(s * (1 - t) + t * (1 - s) for s, t in pairs) if i != j else 0
            assert hamming.to(i)[j] == expected * 2 ** (2 * bits)


# --- statistics -----------------------------------------------------------------------------


def test_means_of_nobody_stay_what_they_were():
    found = statistics([4, 0], [[1, 4], [0, 0]]).means(np.full((2, 2), 0.3))
    assert found.tolist() == [[0.25, 1.0], [0.3, 0.3]]
    known = np.array([[2, 0], [1, 1]]) * ONE
    gaps = statistics([2, 1], [[1, 0], [1, 0]], known=known).means(np.full((2, 2), 0.3))
    assert gaps.tolist() == [[0.5, 0.3], [1.0, 0.0]]


def test_the_same_statistics():
    one = statistics([3, 2], [[3, 0], [2, 1]])
    assert one.same_as(statistics([3, 2], [[3, 0], [2, 1]]))
    assert not one.same_as(None)
    assert not one.same_as(statistics([2, 3], [[3, 0], [2, 1]]))
    assert not one.same_as(statistics([3, 2], [[3, 0], [2, 0]]))
    assert not one.same_as(statistics([3, 2], [[3, 0], [2, 1]], known=np.full((2, 2), 2 * ONE)))


def test_a_subset_of_statistics_is_that_of_some_components():
    known = np.array([[3, 3], [2, 1], [1, 1]]) * ONE
    some = statistics([3, 2, 1], [[3, 0], [2, 1], [1, 0]], known=known).subset(np.array([2, 0]))
    assert (some.mass // ONE).tolist() == [1, 3]
    assert (some.sums // ONE).tolist() == [[1, 0], [3, 0]]
    assert (some.known // ONE).tolist() == [[1, 1], [3, 3]]


def test_column_shares_have_one_more_cell_that_is_half_1():
    known = np.array([[2, 4], [1, 6]]) * ONE
    for weight_one in (1, 8):  # ten rows of weight 1, or of weight 1/8
        for some, cells in ((None, [10, 10]), (known, [3, 10])):
            found = statistics([4, 6], [[1, 4], [0, 2]], known=some, weight_one=weight_one)
            ones = np.array([1, 6]) / weight_one
            expected = (ones + 0.5) / (np.array(cells) / weight_one + 1)
            assert found.column_shares == pytest.approx(expected, rel=1e-14)
            if_zero, if_one = found.log_column_shares
            assert if_zero / 2.0**32 == pytest.approx(np.log1p(-expected), abs=2.0**-29)
            assert if_one / 2.0**32 == pytest.approx(np.log(expected), abs=2.0**-29)


def assert_same_statistics(one, other):
    assert one.same_as(other)
    assert (one.n_rows, one.likelihood_units) == (other.n_rows, other.likelihood_units)
    assert (one.weight_one, one.mean_row_units) == (other.weight_one, other.mean_row_units)


def rows_of(form, m=300, n=70, seed=0):
    """Rows with or without missing cells and weights, and their parts as arrays."""
    rng = np.random.default_rng(seed)
    X = (rng.random((m, n)) < rng.choice([0.1, 0.5, 0.9], size=n)).astype(np.uint8)
    known, weights = np.ones((m, n), dtype=int), np.ones(m, dtype=int)
    mask = sample_weight = None
    if "missing" in form:
        mask = rng.random((m, n)) < 0.2
        known = (~mask).astype(int)
    if "weights" in form:
        sample_weight = weights = rng.integers(1, 5, size=m)
    rows = as_rows(X, missing=True, mask=mask, sample_weight=sample_weight)
    return rows, X, known, weights


FORMS = ["plain", "missing", "weights", "missing and weights"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("model", NOISE_MODELS)
@pytest.mark.parametrize("k", [3, 40])
def test_an_e_step_is_its_definition(model, form, k, kernels):
    """Scores are within (2n+1)·2^-28 nats, or better, so shares within k·2^-28 and twice that."""
    rows, X, known, weights = rows_of(form)
    m, n = X.shape
    mixture = random_mixture(model, k, n, seed=k)
    logs = log_joint(mixture, X, known)
    p = np.exp(logs - logsumexp(logs, axis=1, keepdims=True)) * weights[:, None]
    found = expect(rows, mixture)
    score = (2 * n + 1) * 2.0**-28
    share = (fixed.share_error(k) + 2 * score) * weights.sum()
    assert found.n_rows == weights.sum()
    assert int(found.mass.sum()) == found.n_rows << fixed.SHARE_BITS
    assert np.abs(found.mass / ONE - p.sum(axis=0)).max() <= share
    assert np.abs(found.sums / ONE - p.T @ (X * known)).max() <= share
    assert np.abs(found.counts / ONE - p.T @ known).max() <= share
    assert (found.known is None) == ("missing" not in form)
    likelihood = weights @ logsumexp(logs, axis=1)
    error = weights.sum() * (score + fixed.likelihood_error(k)) + 1e-9 * abs(likelihood)
    assert abs(found.log_likelihood - likelihood) <= error


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("model", NOISE_MODELS)
@pytest.mark.parametrize("k", [3, 40])
def test_weights_are_repeated_rows(model, missing, k, kernels):
    rows, X, known, weights = rows_of("missing and weights" if missing else "weights")
    often = as_rows(
        np.repeat(X, weights, axis=0), missing=True,
        mask=np.repeat(known == 0, weights, axis=0) if missing else None,
    )  # fmt: skip
    mixture = random_mixture(model, k, X.shape[1], seed=k)
    assert_same_statistics(expect(rows, mixture), expect(often, mixture))
    assert_same_statistics(expect(rows.repeated(), mixture), expect(often, mixture))
    scores = mixture.scores()
    assert_same_statistics(
        accumulate(rows, scores, halvings=3), accumulate(often, scores, halvings=3)
    )


def test_fractional_weights_are_exact_multiples():
    """Weights of ¼, ½ and so on count as whole ones do, in units of their own."""
    rows, X, _, weights = rows_of("weights")
    quarters = as_rows(X, missing=True, sample_weight=weights / 4)
    mixture = random_mixture("cell", 3, 70, seed=0)
    whole, some = expect(rows, mixture), expect(quarters, mixture)
    factor = some.weight_one // 4
    assert some.n_rows == factor * whole.n_rows
    np.testing.assert_array_equal(some.mass, factor * whole.mass)
    np.testing.assert_array_equal(some.sums, factor * whole.sums)
    assert some.likelihood_units == factor * whole.likelihood_units
    assert some.log_likelihood == whole.log_likelihood / 4
    np.testing.assert_array_equal(some.weights, whole.weights)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("model", ["shared", "feature", "cell"])
@pytest.mark.parametrize("k", [3, 40])
def test_blocks_and_threads_add_up(model, form, k, kernels, monkeypatch):
    monkeypatch.setattr("bitmix.rows.packed._BLOCK_WORK", 1)
    rows, *_ = rows_of(form)
    mixture = random_mixture(model, k, 70, seed=k)
    whole = expect(rows, mixture)
    for threads, block_rows in (("1", 7), ("3", 1), ("4", 100)):
        monkeypatch.setenv("BITMIX_NUM_THREADS", threads)
        monkeypatch.setattr(BitMatrix, "_block_rows", lambda self, *_, size=block_rows, **__: size)
        assert_same_statistics(expect(rows, mixture), whole)
    halves = expect(rows[:100], mixture) + expect(rows[100:], mixture)
    assert halves.same_as(whole)
    assert halves.likelihood_units == whole.likelihood_units
    assert halves.n_undecided == whole.n_undecided


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("model", NOISE_MODELS)
def test_the_order_of_rows_and_with_it_the_base_changes_nothing(model, missing, kernels):
    """The first 256 rows tell which columns are mostly 1."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.integers(2, size=(600, 30)), axis=0)  # zeros first
    mask = rng.random(X.shape) < 0.2 if missing else None
    turned = None if mask is None else mask[::-1]
    one, other = as_rows(X, missing=True, mask=mask), as_rows(X[::-1], missing=True, mask=turned)
    assert one.base.tolist() != other.base.tolist()
    mixture = random_mixture(model, 5, 30, seed=0)
    scores = mixture.scores()
    for halvings in (0, 4):
        assert_same_statistics(
            accumulate(one, scores, halvings=halvings),
            accumulate(other, scores, halvings=halvings),
        )


@pytest.mark.parametrize("model", NOISE_MODELS)
def test_sparse_rows_are_the_same_rows(model, kernels):
    """Rows as lists of ones, and packed rows that are very sparse, whose scores are sums over
    events, against dense ones."""
    scipy_sparse = pytest.importorskip("scipy.sparse")
    X = (np.random.default_rng(0).random((400, 640)) < 0.004).astype(np.uint8)
    X[:, 0] = 1
    packed, listed = BitMatrix.from_dense(X), BitMatrix.from_dense(scipy_sparse.csr_array(X))
    assert packed.very_sparse
    assert listed.very_sparse
    mixture = random_mixture(model, 3, 640, seed=0)
    for halvings in (0, 4):
        found = [accumulate(rows, mixture.scores(), halvings=halvings) for rows in (packed, listed)]
        assert_same_statistics(*found)
    unlisted = BitMatrix.from_dense(X)
    unlisted.__dict__["listed"] = None  # as if there were no lists
    assert not unlisted.very_sparse
    assert_same_statistics(expect(unlisted, mixture), expect(listed, mixture))


def test_scores_that_are_halved_give_responsibilities_of_halved_scores(kernels):
    """Rounding takes less than a unit of 2^-bits per column."""
    rows, X, known, _ = rows_of("missing")
    mixture = random_mixture("cell", 5, 70, seed=0)
    scores = mixture.scores()
    for halvings in (1, 3):
        logs = log_joint(mixture, X, known) / 2**halvings
        p = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        found = accumulate(rows, scores, halvings=halvings)
        score = (2 * 70 + 1) * 2.0**-28 + 71 * 2.0**-scores.bits
        share = (fixed.share_error(5) + 2 * score) * len(X)
        assert np.abs(found.mass / ONE - p.sum(axis=0)).max() <= share
        assert np.abs(found.sums / ONE - p.T @ (X * known)).max() <= share


@pytest.mark.parametrize("model", ["shared", "updown", "component", "feature"])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_that_are_decided_can_be_rescored_without_a_pass(model, weighted, kernels):
    """The same statistics, to the last bit, as those of a pass with other weights and rates."""
    rng = np.random.default_rng(0)
    templates = rng.integers(2, size=(4, 300))
    X = templates[rng.integers(4, size=200)] ^ (rng.random((200, 300)) < 0.05)
    rows = as_rows(X, sample_weight=rng.integers(1, 9, size=200) / 4 if weighted else None)
    mixtures = [
        replace(random_mixture(model, 4, 300, seed), means=templates.astype(float))
        for seed in range(3)
    ]
    before = expect(rows, mixtures[0])
    assert before.n_undecided == 0
    for mixture in mixtures[1:]:
        assert_same_statistics(before.rescored(mixture.scores()), expect(rows, mixture))


def test_undecided_rows_are_counted(kernels):
    X = np.zeros((10, 100), dtype=np.uint8)
    X[:4] = 1
    X[4:7, :50] = 1
    mixture = Mixture(np.array([[0.0] * 100, [1.0] * 100]), np.array([0.5, 0.5]), 0.1)
    assert expect(as_rows(X), mixture).n_undecided == 3
    assert expect(as_rows(X, sample_weight=np.full(10, 5)), mixture).n_undecided == 3


# --- row by row -----------------------------------------------------------------------------


@pytest.fixture
def some():
    """Rows, a mixture, and ln(w_i f_i(x)) as floats."""
    rng = np.random.default_rng(3)
    bits = rng.integers(2, size=(60, 20), dtype=np.uint8)
    P, w, q = rng.integers(2, size=(3, 20)), np.array([0.5, 0.3, 0.2]), 0.2
    D = (bits[:, None] != P).sum(axis=2)
    logs = np.log(w) + D * math.log(q) + (20 - D) * math.log(1 - q)
    return BitMatrix.from_dense(bits), Mixture(P.astype(float), w, q), logs


def test_margins_and_tallies(some, kernels):
    rows, mixture, logs = some
    ranked = np.sort(logs, axis=1)
    assert predict.margins(rows, mixture) == pytest.approx(ranked[:, -1] - ranked[:, -2], abs=1e-6)
    alone = Mixture(mixture.means[:1], np.ones(1), 0.2)
    assert (predict.margins(rows, alone) == np.inf).all()
    twice = predict.tally(rows, mixture) + predict.tally(rows, mixture)
    each = np.logaddexp.reduce(logs, axis=1)
    best, bits = logs.argmax(axis=1), rows.to_dense()
    assert twice.sizes.tolist() == (2 * np.bincount(best, minlength=3)).tolist()
    assert twice.ones.tolist() == [(2 * bits[best == i].sum(axis=0)).tolist() for i in range(3)]
    assert twice.density == pytest.approx(bits.mean())
    assert twice.log_likelihood == pytest.approx(2 * each.sum())
    assert predict.log_likelihoods(rows, mixture) == pytest.approx(each)
    in_one_pass = predict.row_values(rows, mixture).T
    for values, wanted in zip(
        in_one_pass,
        (
            predict.labels(rows, mixture),
            predict.margins(rows, mixture),
            each,
            rows.shape[1],
            np.argsort(logs, axis=1)[:, -2],
        ),
        strict=True,
    ):
        assert values == pytest.approx(wanted)


def test_entropies_are_those_of_the_probabilities(some, kernels):
    """Shares and their logarithms are within 2^-28, and p·ln p grows by at most 22 per share."""
    rows, mixture, logs = some
    p = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
    exact = -(p * np.log(p)).sum(axis=1)
    assert predict.probabilities(rows, mixture) == pytest.approx(p, abs=3 * 2.0**-28 + 1e-10)
    assert np.abs(predict.entropies(rows, mixture) - exact).max() <= 3 * 25 * 3 * 2.0**-28


def test_tallies_of_rows_with_missing_cells(kernels):
    rows, X, known, _ = rows_of("missing")
    mixture = random_mixture("cell", 3, 70, seed=1)
    logs = log_joint(mixture, X, known)
    best, found = logs.argmax(axis=1), predict.tally(rows, mixture)
    for i in range(3):
        assert found.ones[i].tolist() == (X * known)[best == i].sum(axis=0).tolist()
        assert found.cells[i].tolist() == known[best == i].sum(axis=0).tolist()
    assert found.density == pytest.approx((X * known).sum() / known.sum())
    assert predict.row_values(rows, mixture)[:, 3].tolist() == known.sum(axis=1).tolist()


# --- noise ----------------------------------------------------------------------------------

PRIORS = [0.0, 0.1, 1.0]
RATES = ["shared", "updown", "component", "feature"]


def log_prior(found, mixture, prior):
    """ln of the prior of a mixture in floats, μ_s as the statistics have it."""
    if prior == 0:
        return 0.0
    mu, T = found.column_shares, mixture.means
    if mixture.noise is None:
        p = T.clip(MIN_PROBABILITY, 1 - MIN_PROBABILITY)
        return prior * (mu * np.log(p) + (1 - mu) * np.log1p(-p)).sum()
    rates = np.asarray(mixture.noise)
    of_bits = (T * np.log(mu) + (1 - T) * np.log1p(-mu)).sum()
    return of_bits + prior / 2 * (np.log(rates) + np.log1p(-rates)).sum()


def expected_objective(found, mixture, prior):
    """The objective of an M step, without the weights: ln P of all cells by their
    responsibilities, and ln of the prior."""
    row = found.weight_one * ONE
    ones, cells = found.sums / row, found.counts / row
    p = mixture.probabilities.clip(MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    of_cells = (ones * np.log(p) + (cells - ones) * np.log1p(-p)).sum()
    return of_cells + log_prior(found, mixture, prior)


def integer_error(total_weight, mixture, prior):
    """By how much the objective in integers may be off, in nats.

    A row is within the errors of its scores and of its likelihood. In the prior, each logarithm is
    within 2^-29, and a probability per cell adds 28·2^-31 + 33·2^-32 + 3·(2^-29 + 2^-32) < 2^-25.
    """
    k, n = mixture.means.shape
    row = (2 * n + 1) * 2.0**-28 + fixed.likelihood_error(k)
    return total_weight * row + k * n * (1 + prior) * 2.0**-25


def small_tables(model, count):
    """Statistics of few rows of three columns and two components, and the mixture before."""
    for seed in range(count):
        rng = np.random.default_rng(seed)
        m = int(rng.integers(3, 20))
        rows = as_rows(rng.random((m, 3)) < rng.random(3))
        before = random_mixture(model, 2, 3, seed)
        yield expect(rows, before), before


ALL_BITS = [np.reshape(bits, (2, 3)) for bits in itertools.product((0.0, 1.0), repeat=6)]


@pytest.mark.parametrize("model", ["shared", "component", "feature"])
def test_the_m_step_of_maximum_likelihood_is_the_best_of_all(model):
    """All 64 templates with the best rates of each: there is no prior, so a bit is that of most of
    its cells for any rate below ½."""
    noise = Noise(model, 0.0)
    for found, before in small_tables(model, 40):
        best = noise.maximise(found, before)
        candidates = [
            replace(best, means=bits, noise=noise.rates(found, bits == 1)) for bits in ALL_BITS
        ]
        most = max(expected_objective(found, each, 0.0) for each in candidates)
        assert expected_objective(found, best, 0.0) == pytest.approx(most, abs=1e-9)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("model", RATES)
@pytest.mark.parametrize("rounds", [1, 3, 20])
def test_the_rates_of_an_m_step_are_the_best_for_its_bits(model, prior, rounds, monkeypatch):
    """Against other rates, and, where bits and rates are improved until bits stay the same, against
    all 64 templates. The objective never falls. A logarithm of a rate is within 2^-29 nats, which
    may cost a bit that is nearly a tie 4·2^-29 nats per row and column."""
    monkeypatch.setattr("bitmix.em.noise._ROUNDS", rounds)
    noise = Noise(model, prior)
    for found, before in small_tables(model, 40):
        best = noise.maximise(found, before)
        most = expected_objective(found, best, prior)
        error = found.n_rows * 3 * 4 * 2.0**-29
        for bits in ALL_BITS if rounds == 20 else ():
            assert expected_objective(found, replace(best, means=bits), prior) <= most + error
        rates = np.asarray(best.noise)
        for place in np.ndindex(rates.shape):
            for other in (*np.linspace(0.01, 0.99, 50), 0.999 * rates[place], 1.001 * rates[place]):
                moved = rates.copy()
                moved[place] = min(other, 1 - MIN_PROBABILITY)
                moved = float(moved) if model == "shared" else moved
                assert expected_objective(found, replace(best, noise=moved), prior) <= most + 1e-9
        start = expected_objective(found, before, prior)
        assert most >= start - error
        assert best.weights == pytest.approx(found.mass / found.mass.sum(), rel=1e-14)


@pytest.mark.parametrize("prior", PRIORS)
def test_the_m_step_of_probabilities_is_the_best_of_all(prior):
    """The objective is concave in each probability, so that being best nearby is enough."""
    noise = Noise("cell", prior)
    for found, before in small_tables("cell", 40):
        best = noise.maximise(found, before)
        assert best.noise is None
        most = expected_objective(found, best, prior)
        for place in np.ndindex(best.means.shape):
            for other in (
                *np.linspace(0.01, 0.99, 9),
                0.999 * best.means[place],
                1.001 * best.means[place],
            ):
                moved = best.means.copy()
                moved[place] = min(other, 1.0)
                assert expected_objective(found, replace(best, means=moved), prior) <= most + 1e-9


@pytest.mark.parametrize("has_prior", [False, True])
@pytest.mark.parametrize("model", RATES)
def test_evidence_is_what_a_bit_of_1_is_worth(model, has_prior):
    """ln P of the cells of a column with a 1 in the template less that with a 0."""
    rows, *_ = rows_of("missing and weights")
    mixture = random_mixture(model, 3, 70, seed=1)
    found = expect(rows, mixture)
    up, down = flip_rates(mixture)
    ones, cells = found.sums / ONE, found.counts / ONE
    exact = ones * np.log((1 - down) / up) + (cells - ones) * np.log(down / (1 - up))
    if has_prior:
        exact += np.log(found.column_shares / (1 - found.column_shares))
    bound = (cells.max() + 1) * 4 * 2.0**-29
    assert np.abs(evidence(found, mixture.noise, has_prior) - exact).max() <= bound


def em_step_of(rows, before, noise):
    """The fit after one more EM step."""
    mixture, found = search.m_step(before, noise)
    return search.evaluate(rows, mixture, noise, found, before.objectives, before.history)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("model", NOISE_MODELS)
def test_every_step_raises_the_objective(model, prior, form):
    """On data that no model fits, and the objective is its definition in floats.

    The objective of exact shares would not fall. Those of the E step are within
    ε = k·2^-28 + 2·(score error), so that a step loses at most ε·|Δ ln w_i f_i(x)| per row and
    component, 2ε per row if a component loses its last share, and what `integer_error` says twice.
    Bits that are nearly ties add 4·2^-29 per cell.
    """
    rows, X, known, weights = rows_of(form, m=80, n=40)
    noise, k, total = Noise(model, prior), 5, weights.sum()
    share = fixed.share_error(k) + 2 * (2 * 40 + 1) * 2.0**-28
    now = search.evaluate(rows, random_mixture(model, k, 40, seed=3), noise)
    for _ in range(20):
        before, now = now, em_step_of(rows, now, noise)
        exact = weights @ logsumexp(log_joint_clipped(now.mixture, X, known), axis=1)
        exact += log_prior(now.statistics, now.mixture, prior)
        error = integer_error(total, now.mixture, prior)
        assert abs(now.nats - exact) <= error + 1e-12 * abs(exact)
        alive = now.mixture.weights > 0
        change = np.abs(
            log_joint_clipped(now.mixture, X, known) - log_joint_clipped(before.mixture, X, known)
        )[:, alive]
        loss = (
            share * (weights @ change.sum(axis=1) + 2 * total) + 2 * error + total * 40 * 2.0**-27
        )
        assert now.nats >= before.nats - loss
    assert now.nats > now.objectives[0] / (now.statistics.weight_one << 42) + 1


def log_joint_clipped(mixture, X, known):
    """`log_joint` of a mixture that may have probabilities and weights of 0."""
    if mixture.noise is None:
        mixture = replace(mixture, means=mixture.means.clip(MIN_PROBABILITY, 1 - MIN_PROBABILITY))
    return log_joint(replace(mixture, weights=np.maximum(mixture.weights, 1e-300)), X, known)


SUMS = np.array([[4, 3, 1, 2], [0, 1, 6, 3]])
OLD = Mixture(np.array([[0.0, 0, 0, 1], [1, 1, 1, 1]]), np.array([0.5, 0.5]), 0.1)


@pytest.mark.parametrize("prior", [0.0, 1.0])
@pytest.mark.parametrize(
    ("model", "axes"), [("shared", (0, 1)), ("component", (1,)), ("feature", (0,))]
)
def test_rates_are_what_the_majority_leaves_over(model, axes, prior):
    """(flipped + b/2) / (cells + b)."""
    found = statistics([4, 6], SUMS)
    bits = np.array([[1, 1, 0, 0], [0, 0, 1, 0]]) == 1
    wrong = np.array([[0, 1, 1, 2], [0, 1, 0, 3]]).sum(axis=axes, keepdims=True)
    cells = np.array([[4] * 4, [6] * 4]).sum(axis=axes, keepdims=True)
    expected = ((wrong + prior / 2) / (cells + prior)).clip(MIN_PROBABILITY)
    rates = Noise(model, prior).rates(found, bits)
    assert rates == pytest.approx(expected.item() if model == "shared" else expected, rel=1e-14)
    assert isinstance(rates, float) == (model == "shared")
    best = Noise(model, 0.0).maximise(found, OLD)
    assert best.means.tolist() == bits.tolist()
    assert best.weights.tolist() == [0.4, 0.6]


def test_rates_of_zeros_and_ones_apart():
    found = statistics([4, 6], SUMS)
    bits = np.array([[1, 1, 0, 0], [0, 0, 1, 0]]) == 1
    alpha, beta = (1 + 2 + 0 + 1 + 3 + 0.5) / (4 + 4 + 6 + 6 + 6 + 1), (0 + 1 + 0 + 0.5) / 15
    noise = Noise("updown", 1.0)
    assert noise.rates(found, bits) == pytest.approx([alpha, beta], rel=1e-14)
    for given in ((None, 0.2), (0.3, None), (0.3, 0.2)):
        expected = [value or rate for value, rate in zip(given, (alpha, beta), strict=True)]
        rates = replace(noise, given=given).rates(found, bits)
        assert rates == pytest.approx(expected, rel=1e-14)
    nobody = Noise("updown", 0.0).rates(found, np.zeros((2, 4), dtype=np.bool_))
    assert nobody == pytest.approx([20 / 40, 0.5], rel=1e-14)
    assert Noise("shared", 1.0, given=(0.07,)).rates(found, bits) == 0.07


@pytest.mark.parametrize("weight_one", [1, 2**16])
def test_the_prior_counts_in_rows_of_weight_1(weight_one):
    found = statistics([4, 6], SUMS)
    scaled = Statistics(
        10 * weight_one, found.mass * weight_one, found.sums * weight_one, 0, weight_one
    )
    for model in NOISE_MODELS:
        noise = Noise(model, 0.7)
        one, other = noise.maximise(found, OLD), noise.maximise(scaled, OLD)
        np.testing.assert_array_equal(one.means, other.means)
        assert one.noise is other.noise is None or one.noise == pytest.approx(
            other.noise, rel=1e-14
        )


@pytest.mark.parametrize("model", RATES)
def test_an_m_step_may_start_from_probabilities(model):
    """The rates are those of the rounded shares of ones first; the result is as good as any."""
    noise = Noise(model, 0.0)
    for found, before in small_tables(model, 10):
        shares = found.means(before.means)
        cells = noise.maximise(found, replace(before, means=shares, noise=None))
        rates = noise.rates(found, shares > 0.5)
        again = noise.maximise(found, replace(before, means=1.0 * (shares > 0.5), noise=rates))
        np.testing.assert_array_equal(cells.means, again.means)
        np.testing.assert_array_equal(cells.noise, again.noise)


def test_ties_go_to_the_column_and_cells_without_rows_keep_their_bit():
    before = Mixture(np.array([[0.0, 0, 0], [0, 0, 0], [1, 0, 1]]), np.full(3, 1 / 3), 0.1)
    found = statistics([4, 6, 0], [[2, 2, 4], [5, 1, 6], [0, 0, 0]])
    best = Noise("shared", 0.0).maximise(found, before)
    assert best.means.tolist() == [[1, 0, 1], [1, 0, 1], [1, 0, 1]]
    even = Mixture(np.ones((1, 1)), np.ones(1), 0.1)
    assert Noise("shared", 0.0).maximise(statistics([4], [[2]]), even).means.tolist() == [[0]]
    known = np.array([[4, 0, 4], [6, 6, 0], [0, 0, 0]]) * ONE
    gaps = statistics([4, 6, 0], [[2, 0, 4], [5, 1, 0], [0, 0, 0]], known=known)
    for prior in (0.0, 1.0):
        best = Noise("shared", prior).maximise(gaps, replace(before, means=1 - before.means))
        assert best.means[gaps.known == 0].tolist() == [1, 1, 0, 1, 0]


def test_a_prior_keeps_a_component_from_ending_as_a_copy_of_one_row():
    """One row has 0 in all ten columns that are 1 in 998 of 1,000 others. At q = 0.2, a cell of one
    row speaks for a bit by ln 4 nats, and its column against it by ln(998.5/2.5): it stays 1. Ten
    rows speak by more."""
    for rows, prior, bit in ((1, 1.0, 1.0), (1, 0.0, 0.0), (10, 1.0, 0.0)):
        found = statistics([1000, rows], [[998] * 10, [0] * 10])
        before = Mixture(np.ones((2, 10)), np.array([0.9, 0.1]), 0.2)
        best = Noise("shared", prior, given=(0.2,)).maximise(found, before)
        assert best.means.tolist() == [[1.0] * 10, [bit] * 10]


def test_probabilities_are_drawn_towards_their_column():
    found = statistics([4, 6], SUMS)
    mu = (SUMS.sum(axis=0) + 0.5) / 11
    for prior in (0.1, 2.0):
        best = Noise("cell", prior).maximise(found, OLD)
        expected = (SUMS + prior * mu) / (np.array([[4], [6]]) + prior)
        assert best.means == pytest.approx(expected, rel=1e-14)
    empty = statistics([4, 0], [SUMS[0], [0] * 4])
    assert Noise("cell", 0.0).maximise(empty, OLD).means[1].tolist() == OLD.means[1].tolist()


@pytest.mark.parametrize("axis", [0, 1])
def test_flips_are_counted_exactly(axis):
    """Two columns of 2^61 shares, the most there may be, are 2^62, which has halves of its own."""
    rng = np.random.default_rng(0)
    bits = rng.random((3, 70)) < 0.5
    for largest, most in ((9 * 70, 9), (2**61, 2**61 // 70), (70 * 2**61, 2**61 // 3)):
        each = rng.integers(1, most, (3, 70))
        for cells in (each, np.broadcast_to(each[:, :1], each.shape)):
            ones = rng.integers(0, cells + 1)
            flipped = np.where(bits, cells - ones, ones).astype(object)
            found = count_flips(ones, cells, bits, axis, largest if axis else 0)
            for bit, of in enumerate((~bits, bits)):
                for values, sums in zip((flipped, cells.astype(object)), found[bit], strict=True):
                    assert sums.tolist() == (values * of).sum(axis=axis).tolist()


def test_rates_of_sums_that_64_bits_do_not_hold():
    """Ten columns of 2^61 shares; a rate is a quarter, whatever it is shared by."""
    cells = np.full((2, 10), 2**60)
    found = Statistics(2**31, cells[:, 0], cells // 4, 0)
    bits = np.zeros(cells.shape, dtype=np.bool_)
    for model, shape in (("shared", ()), ("component", (2, 1)), ("feature", (1, 10))):
        assert np.all(Noise(model, 0.0).rates(found, bits) == np.full(shape, 0.25))
    assert Noise("updown", 0.0).rates(found, bits).tolist() == [0.25, 0.5]  # nothing is known of β
    nothing = Noise("shared", 0.0).rates(replace(found, sums=0 * cells), bits)
    assert nothing == MIN_PROBABILITY


# --- merging --------------------------------------------------------------------------------


def greedy(losses, joined, k):
    """The group of each component, by comparing all pairs before every merge."""
    losses, groups = losses.copy(), [[i] for i in range(len(losses))]
    alive = list(range(len(losses)))
    while len(alive) > k:
        i, j = min(itertools.combinations(alive, 2), key=lambda pair: (losses[pair], pair))
        row = joined(i, j)
        alive.remove(j)
        losses[i], losses[:, i] = row, row
        groups[i] += groups[j]
    out = np.empty(len(losses), dtype=int)
    for number, i in enumerate(alive):
        out[groups[i]] = number
    return out


def losses_with_ties(l, seed):
    """Whole numbers from 0 to 3, for components and for whatever they become; some are infinite, as
    those of components that are not near each other are."""
    rng = np.random.default_rng(seed)
    losses = rng.choice([0.0, 1.0, 2.0, 3.0, np.inf], size=(l, l))
    losses = np.minimum(losses, losses.T)
    losses[0, 1] = losses[1, 0] = 3.0
    np.fill_diagonal(losses, np.inf)
    return losses, lambda i, j: rng.integers(0, 4, size=l).astype(float)


def test_the_cheapest_pair_is_merged_and_the_lowest_index_wins_ties():
    for seed in range(500):
        l, k = 3 + seed % 10, 1 + seed % 3
        expected = greedy(*losses_with_ties(l, seed), k)
        found = merge.agglomerate(*losses_with_ties(l, seed), k)
        assert found.tolist() == expected.tolist()


def test_a_merged_component_wins_a_tie_by_its_index():
    """1 and 2 are merged first. Then 0 loses as much with them as with 3."""
    losses = np.full((5, 5), 9.0)
    losses[1, 2] = losses[2, 1] = 0
    losses[0, 3] = losses[3, 0] = 1
    np.fill_diagonal(losses, np.inf)
    found = merge.agglomerate(losses, lambda i, j: np.array([1.0, 9, 9, 9, 9]), 3)
    assert found.tolist() == [0, 0, 0, 1, 2]


def some_statistics(model, l, n, seed, m=60):
    """Statistics of l components, and their M step at a given prior."""
    rows = random_bits(m, n, seed, density=0.4)
    mixture = random_mixture(model, l, n, seed)
    return expect(rows, mixture), mixture


def best_bits(found, mixture, prior):
    """The most that ln P of the cells and the prior of the bits can be, with the rates as they
    are: each bit is the better of both."""
    up, down = flip_rates(mixture)
    ones, cells = found.sums / ONE, np.broadcast_to(found.counts, found.sums.shape) / ONE
    mu = found.column_shares
    if_one = ones * np.log(1 - down) + (cells - ones) * np.log(down)
    if_zero = ones * np.log(up) + (cells - ones) * np.log(1 - up)
    if prior > 0:
        if_one, if_zero = if_one + np.log(mu), if_zero + np.log(1 - mu)
    return np.maximum(if_one, if_zero).sum()


def merged_pair(found, i, j):
    """The statistics with component j merged into i, and j left out."""
    sums, mass = found.sums.copy(), found.mass.copy()
    sums[i] += sums[j]
    mass[i] += mass[j]
    rest = np.delete(np.arange(len(mass)), j)
    return replace(found, mass=mass[rest], sums=sums[rest])


@pytest.mark.parametrize("prior", [0.0, 1.0])
@pytest.mark.parametrize("model", ["shared", "updown", "feature"])
def test_merging_templates_loses_what_the_formula_says(model, prior):
    """Twice the loss, but for Σ_s ln μ + ln(1-μ), which all pairs have, as a template is fewer.

    Evidence of at most 60 rows and the prior has logarithms that are within 2^-29 nats, four for
    each, and a loss has three of them per column. Whole numbers are far finer than this.
    """
    found, mixture = some_statistics(model, 6, 30, seed=1)
    losses, joined = merge.losses_among(found, mixture, prior)
    values, _ = merge._evidence_units(found, mixture, prior)
    scale = 2.0 ** round(np.log2(values[0, 0] / evidence(found, mixture.noise, prior > 0)[0, 0]))
    bound = 30 * 3 * 4 * (60 + 1) * 2.0**-29
    mu = found.column_shares
    same = (np.log(mu) + np.log(1 - mu)).sum() if prior else 0.0
    whole = best_bits(found, mixture, prior)

    def loss_of(found, whole, i, j):
        return 2 * (whole - best_bits(merged_pair(found, i, j), mixture, prior)) - same

    for i, j in itertools.combinations(range(6), 2):
        assert losses[i, j] == losses[j, i]
        assert losses[i, j] / scale == pytest.approx(loss_of(found, whole, i, j), abs=bound)
    assert np.isinf(np.diag(losses)).all()
    row = joined(1, 4)  # the losses of merging a third one with both
    after = merged_pair(found, 1, 4)
    for place, i in ((0, 0), (2, 2), (3, 3), (4, 5)):
        expected = loss_of(after, best_bits(after, mixture, prior), *sorted((1, place)))
        assert row[i] / scale == pytest.approx(expected, abs=bound)


@pytest.mark.parametrize("missing", [False, True])
def test_merging_probabilities_loses_what_the_formula_says(missing, kernels):
    """ln L of all cells at the shares of ones of each component, less that of the merged ones.

    A column of a component rounds three terms to units of 2^-16 nats, with logarithms that are
    within 2^-29 of up to 60 rows. So a loss, of three components, is within 30·3·3·(½ + 60/2^13)
    units.
    """
    rows, X, known, _ = rows_of("missing" if missing else "plain", m=60, n=30)
    mixture = random_mixture("cell", 6, 30, seed=1)
    found = expect(rows, mixture)
    mixture = replace(mixture, means=found.means(np.full((6, 30), 0.5)))
    losses, joined = merge.losses_among(found, mixture, 0.0)
    ones, cells = found.sums / ONE, np.broadcast_to(found.counts, found.sums.shape) / ONE

    def likelihood(o, c):
        some = (o > 0) & (o < c)
        o, c = o[some], c[some]
        return (o * np.log(o) + (c - o) * np.log(c - o) - c * np.log(c)).sum()

    def loss_of(group, other):
        both = [*group, *other]
        values = [
            likelihood(ones[list(some)].sum(axis=0), cells[list(some)].sum(axis=0))
            for some in (group, other, both)
        ]
        return values[0] + values[1] - values[2]

    bound = 30 * 3 * 3 * (0.5 + 60 / 2**13) * 2.0**-16
    for i, j in itertools.combinations(range(6), 2):
        assert losses[i, j] == losses[j, i]
        assert abs(losses[i, j] / 2**16 - loss_of([i], [j])) <= bound
        assert losses[i, j] / 2**16 >= -bound
    row = joined(1, 4)
    for i in (0, 2, 3, 5):
        assert abs(row[i] / 2**16 - loss_of([1, 4], [i])) <= bound
    assert np.isinf(row[[1, 4]]).all()


@pytest.mark.parametrize("prior", [0.0, 1.0])
@pytest.mark.parametrize("model", NOISE_MODELS)
def test_merging_adds_up_the_statistics_of_the_cheapest_pairs(model, prior, kernels):
    """Against merges that compare all pairs, worked out anew after each."""
    rows, *_ = rows_of("missing", m=80, n=25)
    mixture = random_mixture(model, 9, 25, seed=2)
    found = expect(rows, mixture)
    mixture = Noise(model, prior).maximise(found, mixture)
    if model == "component":  # rates of their own are not merged
        mixture = replace(mixture, noise=0.2)
    for k in (9, 8, 4, 1):
        groups = np.arange(9)
        current = found
        while len(current.mass) > k:
            l = len(current.mass)
            now = replace(mixture, means=np.ones((l, 25)))
            if model == "cell":
                now = replace(now, means=current.means(np.full((l, 25), 0.5)))
            losses, _ = merge.losses_among(current, now, prior)
            i, j = min(itertools.combinations(range(l), 2), key=lambda pair: (losses[pair], pair))
            sums = {name: getattr(current, name).copy() for name in ("mass", "sums", "known")}
            rest = np.delete(np.arange(l), j)
            for values in sums.values():
                values[i] += values[j]
            current = replace(current, **{name: values[rest] for name, values in sums.items()})
            groups = np.where(groups == j, i, groups)
            groups = np.where(groups > j, groups - 1, groups)
        assert_same_statistics(merge.merge(found, mixture, k, prior), current)


@pytest.mark.parametrize("copies", [15, 16, 17, 40])
@pytest.mark.parametrize("model", ["shared", "cell"])
def test_copies_of_components_are_merged_first(model, copies):
    """Up to forty components that are ten, each up to four times, with a quarter of its rows: these
    ten are left, as merging copies loses nothing, and others lose much."""
    rng = np.random.default_rng(0)
    few, mixture = some_statistics(model, 10, 200, seed=3, m=400)
    few = replace(few, mass=few.mass >> 3 << 3, sums=few.sums >> 3 << 3)
    order = rng.permutation(np.resize(np.arange(10), copies))
    many = replace(few, mass=few.mass[order] >> 2, sums=few.sums[order] >> 2)
    found = merge.merge(many, mixture.reordered(order), 10, 1.0)
    firsts, times = list(dict.fromkeys(order.tolist())), np.bincount(order)
    np.testing.assert_array_equal(found.mass, (few.mass >> 2)[firsts] * times[firsts])
    np.testing.assert_array_equal(found.sums, (few.sums >> 2)[firsts] * times[firsts, None])


def test_wards_criterion_of_merged_components():
    """a·b/(a+b) times the squared distance of the centres.

    Coordinates are rounded to 2^-23, so that each of 60 squares is within 2·2^-23. Masses are below
    9, so a·b/(a+b) is below 4.5; three such numbers are added, with factors below 1, in an update.
    """
    rng = np.random.default_rng(0)
    mass, p = rng.uniform(1, 9, size=7), rng.random((7, 30))
    points, bound = np.concatenate([np.sqrt(p), np.sqrt(1 - p)], axis=1), 60 * 2 * 2.0**-23 * 4.5

    def ward(i, j):
        apart = ((points[i] - points[j]) ** 2).sum()
        return mass[i] * mass[j] / (mass[i] + mass[j]) * apart

    near, joined = merge._by_ward(mass.copy(), p)
    for i, j in itertools.combinations(range(7), 2):
        assert near[i, j] == near[j, i] == pytest.approx(ward(i, j), abs=bound)
    row = joined(2, 5)
    points[2] = (mass[2] * points[2] + mass[5] * points[5]) / (mass[2] + mass[5])
    mass[2] += mass[5]
    for i in (0, 1, 3, 4, 6):
        assert row[i] == pytest.approx(ward(2, i), abs=3 * bound)


@pytest.mark.parametrize("n", [1, 31, 1000])
def test_products_of_coordinates_are_exact_in_any_order(n, monkeypatch):
    p = np.random.default_rng(n).random((5, n))
    scale = 2.0 ** ((51 - math.ceil(math.log2(n + 1))) // 2)
    whole = [
        [[int(v) for v in np.rint(np.sqrt(part) * scale)] for part in (row, 1 - row)] for row in p
    ]
    products = merge._exact_products(p)
    for i, j in itertools.product(range(5), range(5)):
        exact = sum(
            a * b for one, other in zip(whole[i], whole[j], strict=True)
            for a, b in zip(one, other, strict=True)
        )  # fmt: skip
        assert exact < 2**53
        assert products[i, j] == exact / scale**2
    monkeypatch.setattr(merge, "_TILE_CELLS", 35)
    np.testing.assert_array_equal(merge._exact_products(p), products)


# --- search ---------------------------------------------------------------------------------


def settings_for(model, prior=1.0, **more):
    values = {"n_init": 1, "max_iter": 50, "tol": 1e-6, "n_seeds": 20, **more}
    return search.Settings(Noise(model, prior), **values)


@pytest.mark.parametrize("model", RATES)
def test_steps_without_a_pass_are_steps_with_one(model, monkeypatch):
    """Templates so far apart that every row is decided by hundreds of nats."""
    rng = np.random.default_rng(0)
    templates = rng.integers(2, size=(3, 400))
    rows = as_rows(templates[rng.integers(3, size=100)] ^ (rng.random((100, 400)) < 0.05))
    start = replace(random_mixture(model, 3, 400, 0), means=templates.astype(float))
    passes = []
    expect_rows = search.expect
    monkeypatch.setattr(search, "expect", lambda *args: passes.append(1) or expect_rows(*args))

    def steps():
        passes.clear()
        now = search.evaluate(rows, start, Noise(model, 1.0))
        for _ in range(5):
            now = em_step_of(rows, now, Noise(model, 1.0))
        return now, len(passes)

    quick, few = steps()
    monkeypatch.setattr(Statistics, "rescored", lambda statistics, scores: None)
    slow, many = steps()
    assert few < many == 6
    assert quick.objectives == slow.objectives
    assert_same_statistics(quick.statistics, slow.statistics)


def fit_with(objectives, n_rows=1, mixture=OLD):
    found = statistics([n_rows, 0], np.zeros((2, 4), dtype=int))
    values = tuple(int(value * 2.0**42) for value in objectives)
    return search.Fit(mixture, found, values, ())


@pytest.mark.parametrize("ratio", [0.25, 0.5, 0.75])
def test_a_fit_is_close_if_gains_that_shrink_on_leave_little(ratio):
    """After gains g/r and g, all gains to come add up to g·r/(1-r), or to 3g if slowly."""
    for gain in (2.0**-20, 2.0**-12, 2.0**-4):
        ended = fit_with([0.0, gain / ratio, gain / ratio + gain], n_rows=8)
        left = gain * ratio / (1 - ratio)
        most = max(left, 3 * gain) / 8  # per row
        assert search._is_close(ended, 1.01 * most)
        assert not search._is_close(ended, 0.99 * most)


def test_a_fit_that_gains_nothing_is_close_and_one_that_gains_more_is_not():
    assert not search._is_close(fit_with([0.0, 1.0]), 1.0)
    assert search._is_close(fit_with([0.0, 1.0, 1.0]), 0.0)
    assert not search._is_close(fit_with([0.0, 1.0, 2.0]), 10.0)
    assert not search._is_close(fit_with([0.0, 1.0, 3.0]), 10.0)


def test_fits_agree_whatever_the_order_of_their_components():
    rng = np.random.default_rng(0)
    binary = Mixture(np.eye(4)[:3], np.full(3, 1 / 3), 0.1)
    cells = Mixture(rng.random((3, 4)), np.full(3, 1 / 3), None)
    for mixture in (binary, cells):
        best = fit_with([10.0], mixture=mixture)
        turned = fit_with([9.9], mixture=mixture.reordered([2, 0, 1]))
        assert search._agree(best, best, 0.0)
        assert search._agree(turned, best, 0.1)
        assert not search._agree(turned, best, 0.01)  # an objective that is not the same
        doubled = fit_with([10.0], mixture=mixture.reordered([0, 0, 1]))
        assert not search._agree(doubled, best, 1.0)
        moved = replace(mixture, means=np.roll(mixture.means, 1, axis=1))
        assert not search._agree(fit_with([10.0], mixture=moved), best, 1.0)


@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_halved_until_a_row_is_shared_by_the_root_of_the_seeds(weighted, kernels):
    """Σ_i p_i(x)² is at most 1/√l on average. Shares are cut to 2^-15, which takes less than 2^-14
    off the sum, as they add up to 1; other errors are below a millionth."""
    rows, X, known, _ = rows_of("weights" if weighted else "missing", m=150, n=60)
    rng = np.random.default_rng(0)
    if weighted:  # rows are drawn as often as they weigh: all of them, if they are few
        rows = rows.subset(np.arange(80))
        X, known = (np.repeat(a[:80], rows.weights.astype(int), axis=0) for a in (X, known))
        assert len(X) <= search._COOLING_ROWS
    mixture = Mixture(rng.uniform(0.02, 0.98, (30, 60)), np.full(30, 1 / 30), None)
    halvings = search._halvings(rows, mixture, rng)
    logs = log_joint(mixture, X, known)

    def evenness(h):
        p = np.exp(logs / 2**h - logsumexp(logs / 2**h, axis=1, keepdims=True))
        return (p**2).sum(axis=1).mean() * math.sqrt(30)

    assert 0 < halvings < search._MAX_HALVINGS
    assert evenness(halvings) <= 1 + math.sqrt(30) * 2.0**-14 + 1e-6
    assert evenness(halvings - 1) > 1 - 1e-6


def test_the_number_of_seeds_of_a_search():
    """Two per component and at least 64, or 1.5 and at least 32, below a quarter of the rows; k and
    m are its ends."""
    for model, k, m, l in (
        ("shared", 3, 10_000, 64), ("shared", 50, 10_000, 100), ("cell", 3, 10_000, 32),
        ("shared", 3, 100, 24), ("shared", 3, 101, 25), ("shared", 20, 100, 40), ("cell", 3, 20, 5),
        ("cell", 101, 10_000, 152),
        ("shared", 20, 30, 30), ("shared", 30, 30, 30),
    ):  # fmt: skip
        assert search.number_of_seeds(settings_for(model, n_seeds=None), k, m) == l
    for asked, l in ((1, 5), (7, 7), (99, 50)):
        assert search.number_of_seeds(settings_for("shared", n_seeds=asked), 5, 50) == l


def test_seeds_are_rows_or_half_way_between_a_row_and_its_column():
    rows, X, _, _ = rows_of("plain", m=100, n=60)
    drawn = draw_without_replacement(100, 20, np.random.default_rng(0))
    q0, _ = seeds.initial_noise(pack(X[drawn]), 60)
    for model, given in (("shared", ()), ("shared", (0.2,)), ("updown", (None, 0.3)), ("cell", ())):
        found = search._seeds(rows, 20, Noise(model, 1.0, given), np.random.default_rng(0))
        assert (found.weights == 1 / 20).all()
        if model == "cell":
            assert found.noise is None
            mu = (X.sum(axis=0) + 0.5) / 101
            assert found.means == pytest.approx((X[drawn] + mu) / 2, rel=1e-14)
            continue
        assert found.means.tolist() == X[drawn].tolist()
        expected = {(): q0, (0.2,): 0.2, (None, 0.3): [q0, 0.3]}[given]
        assert found.noise == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("model", NOISE_MODELS)
def test_a_start_has_k_components_and_is_the_same_on_every_back_end(model, form, monkeypatch):
    pytest.importorskip("numba")
    rows, *_ = rows_of(form, m=200, n=50)
    found = []
    for backend in ("reference", "compiled"):
        monkeypatch.setenv("BITMIX_KERNELS", backend)
        rng = np.random.default_rng(0)
        found.append(search.begin(rows, 4, settings_for(model, n_seeds=40), rng))
    one, other = found
    assert one.means.shape == (4, 50)
    assert one.noise_model == model
    assert one.weights.sum() == pytest.approx(1, abs=1e-12)
    for name in ("means", "weights", "noise"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


class Starts:
    """Starts whose objectives are given, in place of EM; the last step needs a small `tol`."""

    def __init__(self, monkeypatch, steps, mixtures):
        self.steps, self.mixtures, self.begun, self.first = steps, mixtures, -1, []
        monkeypatch.setattr(search, "begin", self.begin)
        monkeypatch.setattr(search, "evaluate", self.evaluate)
        monkeypatch.setattr(search, "converge", self.converge)

    def begin(self, rows, *_, few_seeds):
        self.begun += 1
        survey = self.model == "cell" and rows.shape[1] <= 64
        assert few_seeds == (self.begun % 2 == 1 if survey else self.begun > 4)
        return self.mixtures[self.begun]

    def evaluate(self, rows, mixture, noise):
        self.first = [*self.first[: self.begun], replace(mixture)]  # tells starts apart
        return fit_with(self.steps[self.begun][:1], mixture=self.first[-1])

    def converge(self, rows, ended, settings):
        number = next(i for i, mixture in enumerate(self.first) if mixture is ended.mixture)
        steps = self.steps[number]
        made = min(settings.max_iter + 1, len(steps) - (settings.tol > 1e-5))
        again = fit_with(steps[: max(made, len(ended.objectives))], mixture=ended.mixture)
        return replace(again, converged=made < settings.max_iter + 1)

    def search(self, model="shared", n_columns=65):
        self.model = model
        settings = settings_for(model, n_init=len(self.steps))
        rows = SimpleNamespace(shape=(100, n_columns))
        return search.search(rows, 2, settings, np.random.default_rng(0))


def test_more_than_half_of_the_starts_are_enough_if_all_agree(monkeypatch):
    """In any order of their templates, unless two of these are equal; never fewer than three."""
    steps = [[0.0, 5.0, 9.0, 9.0]] * 6
    turned = OLD.reordered([1, 0])
    for n_init, n_starts in ((1, 1), (2, 2), (3, 3), (5, 3), (6, 4)):
        found = Starts(monkeypatch, steps[:n_init], [OLD, turned] * 3).search()
        assert (len(found.starts), found.n_agreeing) == (n_starts, n_starts)
        assert all(each.finished for each in found.starts)
    other = replace(OLD, means=1 - OLD.means)
    found = Starts(monkeypatch, steps, [OLD, other, OLD, OLD, OLD, OLD]).search()
    assert (len(found.starts), found.n_agreeing) == (6, 5)
    equal = OLD.reordered([0, 0])
    found = Starts(monkeypatch, steps, [equal] * 6).search()
    assert (len(found.starts), found.n_agreeing) == (6, 6)


def test_the_better_half_of_the_starts_goes_on(monkeypatch):
    """Of five starts, three go on after six steps and two after twelve, even if one of the others
    would have ended best. One that is done makes no more steps."""
    steps = [
        [*np.arange(40) / 5, 30.0, 31.0],  # ends best, but is the last of three at step 12
        [*range(9), 8.0],  # done after eight steps
        [*(1 - 0.5 ** np.arange(12)), 99.0, 99.0],
        [*range(1, 30), 30.0],
        [-1.0] * 20,
    ]
    others = [replace(OLD, means=np.roll(OLD.means, i, axis=1)) for i in range(5)]
    found = Starts(monkeypatch, steps, others).search()
    ends = [(each.n_steps, each.finished) for each in found.starts]
    assert ends == [(13, False), (9, True), (7, False), (29, True), (7, False)]
    assert found.fit.nats == 29.0
    assert found.n_agreeing == 1


def test_no_start_of_a_survey_is_given_up(monkeypatch):
    """Surveys have flat likelihoods: the second start is behind where starts are compared, and ends
    best."""
    other = replace(OLD, means=1 - OLD.means)
    steps = [[*range(12), 12.0, 12.0], [*(1 - 0.5 ** np.arange(12)), 8.0, 99.0]]
    for n_columns, ends, finished in ((64, 99.0, True), (65, 12.0, False)):
        found = Starts(monkeypatch, steps, [OLD, other]).search("cell", n_columns)
        assert found.fit.nats == ends
        assert found.starts[1].finished == finished


@pytest.mark.parametrize(
    ("model", "n_init", "k", "n_columns", "plan"),
    [
        ("cell", None, 2, 64, (20, 11, True)),
        ("cell", None, 2, 65, (5, 3, False)),
        ("cell", None, 8, 64, (20, 11, True)),
        ("cell", None, 9, 64, (5, 3, False)),
        ("cell", None, 1, 64, (5, 3, False)),
        ("cell", None, 40, 10, (20, 11, True)),
        ("cell", None, 32, 65, (5, 3, False)),
        ("cell", None, 33, 65, (3, 3, False)),
        ("cell", 7, 2, 64, (7, 4, True)),
        ("shared", None, 2, 64, (5, 3, False)),
        ("shared", None, 33, 64, (5, 3, False)),
    ],
)
def test_surveys_have_more_starts_by_default(model, n_init, k, n_columns, plan):
    assert search.plan_starts(settings_for(model, n_init=n_init), k, n_columns) == plan


# --- choosing a noise model -----------------------------------------------------------------


def test_models_are_compared_row_by_row():
    """Means by weight, and the standard error of the mean difference of weighted rows."""
    rng = np.random.default_rng(0)
    values = {model: rng.normal(size=50) for model in NOISE_MODELS}
    for weights in (np.ones(50), rng.integers(1, 5, size=50).astype(float)):
        each = {name: np.repeat(v, weights.astype(int)) for name, v in values.items()}
        best = max(NOISE_MODELS, key=lambda name: each[name].mean())
        for name, score in fit._paired(values, weights).items():
            apart = each[best] - each[name]
            assert score.log_likelihood == pytest.approx(each[name].mean(), rel=1e-12)
            assert score.behind == pytest.approx(apart.mean(), abs=1e-12)
            error = apart.std(ddof=1) / math.sqrt(len(apart))
            assert score.standard_error == pytest.approx(error, rel=1e-12)


def test_the_simplest_model_that_is_as_good_is_chosen():
    def chosen(behind, error, n_rows=1000):
        scores = [fit.HeldOut(-b, b, e) for b, e in zip(behind, error, strict=True)]
        return fit.choose(dict(zip(NOISE_MODELS, scores, strict=True)), n_rows)

    assert chosen([0.2, 0.1, 0.3, 0.3, 0.0], [0.1, 0.1, 0.1, 0.1, 0]) == "shared"
    assert chosen([0.3, 0.1, 0.3, 0.3, 0.0], [0.1, 0.1, 0.1, 0.1, 0]) == "updown"
    assert chosen([0.3, 0.3, 0.3, 0.3, 0.0], [0.1, 0.1, 0.1, 0.1, 0]) == "cell"
    even = math.log(20) / 1000  # all rows speak for a model by the same amount
    assert chosen([0.99 * even, 1, 1, 1, 0.0], [0.0] * 5) == "shared"
    assert chosen([1.01 * even, 1, 1, 1, 0.0], [0.0] * 5) == "cell"


# --- what is kept ---------------------------------------------------------------------------


def test_a_round_comes_back_from_plain_values():
    kept = Round(-12.5, 3, np.array([0.5, 0.25, 0.25])).to_dict()
    back = Round.from_dict(json.loads(json.dumps(kept)))
    assert (back.log_likelihood, back.n_templates) == (-12.5, 3)
    np.testing.assert_array_equal(back.weights, [0.5, 0.25, 0.25])


def test_the_nearest_components_do_not_depend_on_the_processor():
    """Of equal ones, the lowest; `np.argpartition` would take others with other instructions."""
    near = np.ones(100)
    near[[7, 50]], near[3] = 0.5, np.inf
    expected = [7, 50, 0, 1, 2, *range(4, 7), *range(8, 16)]
    assert merge._nearest(near, 16).tolist() == expected
