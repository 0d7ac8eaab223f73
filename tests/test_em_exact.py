"""The steps of a fit, each against its definition written out."""

import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from bitmix import BitMatrix
from bitmix.em import noise, predict, prune, seeds, step
from bitmix.em import search as template
from bitmix.em.step import Round
from bitmix.errors import FewSurvivorsWarning, NoStructureWarning
from bitmix.kernels import fixed
from bitmix.kernels.bits import pack
from bitmix.models.mixture import Mixture, NoisyTemplates
from bitmix.support.randomness import draw_without_replacement

ONE = 1 << fixed.SHARE_BITS


def statistics(mass, sums, n_rows=None, **more):
    mass, sums = np.array(mass) * ONE, np.array(sums) * ONE
    total = int(mass.sum()) // ONE if n_rows is None else n_rows
    return step.Statistics(total, mass, sums, 0, **more)


# --- seeds ----------------------------------------------------------------------------------


@pytest.mark.parametrize("closest", [(0, 1), (0, 2), (1, 2), (2, 3)])
def test_the_noise_comes_from_the_closest_pair_whichever_it_is(closest):
    rows = np.zeros((4, 40), dtype=np.uint8)
    for i in range(4):
        rows[i, 10 * i : 10 * i + 8] = 1
    a, b = closest
    rows[b] = rows[a]
    rows[b, :3] ^= 1
    q0 = seeds.noise_of(pack(rows), 40)
    assert q0 * (1 - q0) == pytest.approx(3 / 80, rel=1e-14)


def test_the_noise_of_seeds_that_are_equal_or_alone_or_coins():
    same = pack(np.zeros((3, 40), dtype=np.uint8))
    for words in (same, same[:1]):
        q0 = seeds.noise_of(words, 40)
        assert q0 * (1 - q0) == pytest.approx(0.5 / 80, rel=1e-14)  # half a bit apart
    rows = np.zeros((2, 40), dtype=np.uint8)
    for apart in (40, 20):
        rows[1] = np.arange(40) < apart
        with pytest.warns(NoStructureWarning, match=f"{apart} of 40 columns"):
            q0 = seeds.noise_of(pack(rows), 40)
        assert q0 * (1 - q0) == pytest.approx(19.75 / 80, rel=1e-14)  # 1/4 bit below n/2
        assert 0 < q0 < 0.5
    rows[1, 0] = 0
    q0 = seeds.noise_of(pack(rows), 40)
    assert q0 * (1 - q0) == pytest.approx(19 / 80, rel=1e-14)


def test_fewer_seeds_are_a_prefix_of_more_and_all_are_a_permutation():
    for m in (1, 2, 9):
        every = draw_without_replacement(m, m, np.random.default_rng(m)).tolist()
        assert sorted(every) == list(range(m))
        assert (
            draw_without_replacement(m, -(-m // 2), np.random.default_rng(m)).tolist()
            == every[: -(-m // 2)]
        )


# --- pruning --------------------------------------------------------------------------------


def test_survivors_have_a_quarter_of_a_seeds_weight():
    means = np.zeros((4, 5))
    weights = np.array([1 / 16, 1 / 16 - 1e-9, 0.5, 3 / 8 + 1e-9])
    assert prune.survivors(Mixture(means, weights, 0.1), 2).tolist() == [0, 2, 3]
    assert prune.survivors(Mixture(means, weights, 0.1), 3).tolist() == [0, 2, 3]
    with pytest.warns(FewSurvivorsWarning, match="only 3 of 4 .* 1/16 or more"):
        assert prune.survivors(Mixture(means, weights, 0.1), 4).tolist() == [0, 1, 2, 3]
    light = np.array([0.97, 0.0, 0.015, 0.015])
    with pytest.warns(FewSurvivorsWarning, match="only 1 of 4"):
        assert prune.survivors(Mixture(means, light, 0.1), 2).tolist() == [0, 2]


@pytest.mark.parametrize("pruning", ["l1", "hamming"])
def test_farthest_first_by_its_definition(pruning):
    means = np.random.default_rng(0).integers(9, size=(9, 7)) / 8

    def apart(i, j):
        S, T = means[i], means[j]
        return (abs(S - T) if pruning == "l1" else S * (1 - T) + T * (1 - S)).sum()

    for seed in range(9):
        chosen = [int(np.random.default_rng(seed).integers(9))]
        while len(chosen) < 5:
            rest = [i for i in range(9) if i not in chosen]
            chosen.append(max(rest, key=lambda i: min(apart(i, j) for j in chosen)))
        found = prune.farthest_first(means, 5, np.random.default_rng(seed), pruning)
        assert found.tolist() == chosen


@pytest.mark.parametrize("pruning", ["l1", "hamming"])
def test_equal_templates_are_kept_once_each(pruning):
    means = np.zeros((4, 6))
    chosen = prune.farthest_first(means, 4, np.random.default_rng(0), pruning)
    assert sorted(chosen.tolist()) == [0, 1, 2, 3]


def test_distances_between_starts_are_exact():
    means = np.random.default_rng(1).integers(17, size=(4, 6)) / 16
    mass = np.array([5, 1, 2, 9]) * ONE
    distances = prune.ExpectedHamming(means, mass, ONE)
    debiased, plain = (
        np.array([distances.to(i, debiased=way) for i in range(4)]) for way in (True, False)
    )
    T = [[Fraction(x) for x in row] for row in means.tolist()]
    scatter = [sum(x * (1 - x) for x in row) for row in T]
    for i in range(4):
        for j in range(4):
            expected = sum(s * (1 - t) + t * (1 - s) for s, t in zip(T[i], T[j], strict=True))
            assert plain[i, j] == (expected * 2**40 if i != j else 0)
            bias = 0
            for c in (i, j):
                rows = max(Fraction(int(mass[c]), ONE), 2)
                bias += rows / (rows - 1) * scatter[c]
            less = max(expected - bias, 0) if i != j else 0
            assert abs(debiased[i, j] - less * 2**40) <= 2


def test_starts_are_drawn_by_mass_and_distance_squared():
    """Of 3,000 draws; each share is within five deviations."""
    apart = np.array([[0, 2, 1], [2, 0, 3], [1, 3, 0]]) << 30
    mass = np.array([5, 3, 2]) * ONE
    draws = [
        tuple(prune.spread(apart.__getitem__, mass, 2, np.random.default_rng(s)).tolist())
        for s in range(3000)
    ]
    for first, share in enumerate((0.5, 0.3, 0.2)):
        odds = mass * (apart[first] / 2.0**30) ** 2
        for second in {0, 1, 2} - {first}:
            p = share * odds[second] / odds.sum()
            assert abs(draws.count((first, second)) - 3000 * p) < 5 * math.sqrt(3000 * p * (1 - p))


def test_starts_that_are_all_equal_are_still_different_rows():
    apart, mass = np.zeros((4, 4), dtype=np.int64), np.array([7, 1, 1, 1]) * ONE
    for seed in range(20):
        chosen = prune.spread(apart.__getitem__, mass, 4, np.random.default_rng(seed))
        assert sorted(chosen.tolist()) == [0, 1, 2, 3]


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


@pytest.fixture
def some():
    """Rows, a mixture, and ln(w_i f_i(x)) as floats."""
    rng = np.random.default_rng(3)
    bits = rng.integers(2, size=(60, 20), dtype=np.uint8)
    P, w, q = rng.integers(2, size=(3, 20)), np.array([0.5, 0.3, 0.2]), 0.2
    D = (bits[:, None] != P).sum(axis=2)
    logs = np.log(w) + D * math.log(q) + (20 - D) * math.log(1 - q)
    return BitMatrix.from_dense(bits), Mixture(P.astype(float), w, q), logs


def test_leads_and_mean_scores(some):
    rows, mixture, logs = some
    scores, ranked = mixture.scores(), np.sort(logs, axis=1)
    found = step.mean_scores(rows, scores) / 2.0**scores.bits
    differences = logs.mean(axis=0) - logs.mean()
    assert found - found.mean() == pytest.approx(differences, abs=1e-4)
    ahead = np.floor(ranked[:, -1] - ranked[:, -2] + 1e-6)
    expected = [ahead[logs.argmax(axis=1) == i].sum() for i in range(3)]
    assert step.leads(rows, scores).tolist() == expected


def test_margins_and_tallies(some):
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
        (predict.labels(rows, mixture), predict.margins(rows, mixture), each, rows.shape[1]),
        strict=True,
    ):
        assert values == pytest.approx(wanted)


@pytest.mark.parametrize("binary", [True, False])
def test_screening_leaves_the_statistics_as_they_are(binary, monkeypatch):
    """Rows that a popcount decides, and rows that none does."""
    rng = np.random.default_rng(5)
    P = rng.integers(2, size=(3, 200))
    bits = np.concatenate([P[rng.integers(3, size=80)] ^ (rng.random((80, 200)) < 0.05),
                           rng.integers(2, size=(20, 200))]).astype(np.uint8)  # fmt: skip
    means = P if binary else 0.9 * P + 0.05
    rows = BitMatrix.from_dense(bits)
    scores = Mixture(means.astype(float), np.array([0.5, 0.3, 0.2]), 0.1).scores()
    plain = step.accumulate(rows, scores)
    monkeypatch.setattr(step, "_SCREENED_ROWS", 1)
    screened = step.accumulate(rows, scores)
    assert screened.same_as(plain)
    assert (screened.n_rows, screened.likelihood_units) == (100, plain.likelihood_units)
    owner = scores.bounds()
    part = step._screen(rows.words, scores=scores, bounds=owner, n_columns=200)
    assert 0 < part.counted.sum() < 100
    assert (part + part).statistics(scores).same_as(plain + plain)


def test_screened_rows_are_as_likely_where_scores_are_coarse(monkeypatch):
    """Scores of many nats have fewer bits than a likelihood."""
    bits = np.random.default_rng(6).integers(2, size=(30, 6000), dtype=np.uint8)
    rows = BitMatrix.from_dense(bits)
    scores = Mixture(bits[:2].astype(float), np.array([0.6, 0.4]), 1e-300).scores()
    assert scores.bits < fixed.LIKELIHOOD_BITS
    plain = step.accumulate(rows, scores)
    monkeypatch.setattr(step, "_SCREENED_ROWS", 1)
    assert step.accumulate(rows, scores).likelihood_units == plain.likelihood_units


# --- noise ----------------------------------------------------------------------------------

SUMS = np.array([[4, 3, 1, 2], [0, 1, 6, 3]])
OLD = np.array([[0, 0, 0, 1], [1, 1, 1, 1]], dtype=np.uint8)


@pytest.mark.parametrize(
    ("model", "axes"), [("shared", (0, 1)), ("component", (1,)), ("feature", (0,))]
)
def test_noise_is_what_the_majority_leaves_over(model, axes):
    found = noise.maximise(statistics([4, 6], SUMS), model, OLD)
    assert found.templates.tolist() == [[1, 1, 0, 0], [0, 0, 1, 0]]
    wrong = np.array([[0, 1, 1, 2], [0, 1, 0, 3]])
    cells = np.array([[4] * 4, [6] * 4])
    expected = (wrong.sum(axis=axes, keepdims=True) + 0.5) / (
        cells.sum(axis=axes, keepdims=True) + 1
    )
    assert found.noise == pytest.approx(expected)
    assert found.weights.tolist() == [0.4, 0.6]


def test_ties_go_to_the_column_and_cells_without_rows_keep_their_bit():
    found = noise.maximise(statistics([4, 6, 0], [[2, 2, 4], [5, 1, 6], [0, 0, 0]]), "shared",
                           np.array([[0, 0, 0], [0, 0, 0], [1, 0, 1]], dtype=np.uint8))  # fmt: skip
    assert found.templates.tolist() == [[1, 0, 1], [1, 0, 1], [1, 0, 1]]
    even = noise.maximise(statistics([4], [[2]]), "shared", np.ones((1, 1), dtype=np.uint8))
    assert even.templates.tolist() == [[0]]


def test_cells_are_drawn_towards_their_column():
    found = noise.maximise(statistics([4, 6], SUMS), "cell", OLD)
    rates = (SUMS.sum(axis=0) + 0.5) / 11
    assert noise.column_rates(statistics([4, 6], SUMS)).ravel() == pytest.approx(rates)
    p = (SUMS + 0.1 * rates) / (np.array([[4], [6]]) + 0.1)
    assert found.templates.tolist() == (p > 0.5).astype(int).tolist()
    assert found.noise == pytest.approx(np.minimum(p, 1 - p))
    logs = 0.1 * (rates * np.log(p) + (1 - rates) * np.log(1 - p)).sum()
    assert noise.log_prior(found, "cell", rates) == pytest.approx(logs)
    shared = NoisyTemplates(found.templates, found.weights, np.array([[0.2]]))
    expected = 0.5 * (math.log(0.2) + math.log(0.8))
    assert noise.log_prior(shared, "shared", rates) == pytest.approx(expected)


def test_sums_over_columns_do_not_overflow():
    values = np.full((2, 5), 2**61 - 1)
    assert noise._pooled(values, (1, 1)).tolist() == [[float(10 * (2**61 - 1))]]
    assert noise._pooled(values, (2, 1)).tolist() == [[float(5 * (2**61 - 1))]] * 2
    small = np.array([[1, 2], [3, 2**31 + 5]])
    assert noise._pooled(small, (1, 2)).tolist() == [[4, 2**31 + 7]]
    assert noise._pooled(small, (2, 1)).tolist() == [[3], [2**31 + 8]]


# --- many starts ----------------------------------------------------------------------------


def test_the_noise_of_means():
    means, w = np.array([[0.1, 0.8, 0.5], [0.0, 1.0, 0.25]]), np.array([0.25, 0.75])
    found = template._noise_of(Mixture(means, w, 0.1))
    assert found == pytest.approx((0.25 * 0.8 + 0.75 * 0.25) / 3, abs=1e-8)
    assert template._noise_of(Mixture(np.ones((1, 9)), np.ones(1), 0.1)) == 1e-6
    assert template._noise_of(Mixture(np.full((1, 9), 0.5), np.ones(1), 0.1)) == 0.49


def fit(mass, likelihood, templates, n_agreeing=1, n_starts=1):
    mixture = NoisyTemplates(
        np.array(templates, dtype=np.uint8), np.full(len(mass), 1 / len(mass)), np.array([[0.1]])
    )
    found = step.Statistics(sum(mass), np.array(mass) * ONE, np.zeros((2, 3)), likelihood)
    return template.TemplateFit(mixture, found, (), True, n_agreeing, n_starts)


def test_a_template_of_two_rows_is_worth_less_than_any_likelihood():
    whole = fit([3, 9], -100, [[0, 0, 1], [1, 1, 0]])
    lone = fit([2, 10], -50, [[0, 1, 1], [1, 1, 0]])
    better = fit([4, 8], -90, [[0, 1, 1], [1, 1, 0]], 2, 5)
    settings = template.Settings("shared", 10, 200, 1e-5)
    assert template._worth(whole, settings) == (2, -100)
    assert template._worth(lone, settings) == (1, -50)
    assert template.better(lone, whole, settings) is whole
    best = template.merged(whole, better, settings)
    assert best.statistics is better.statistics
    assert (best.n_agreeing, best.n_starts) == (2, 6)
    turned = fit([8, 4], -90, [[1, 1, 0], [0, 1, 1]], 3, 4)  # the same templates, another order
    again = template.merged(better, turned, settings)
    assert again.statistics is better.statistics
    assert (again.n_agreeing, again.n_starts) == (5, 9)
    least = replace(settings, worth=lambda fit: -fit.statistics.likelihood_units)
    assert template.better(better, whole, least) is whole


def test_starts_are_counted():
    rng = np.random.default_rng(0)
    P = rng.integers(2, size=(3, 60))
    bits = P[rng.integers(3, size=300)] ^ (rng.random((300, 60)) < 0.05)
    rows = BitMatrix.from_dense(bits.astype(np.uint8))
    settings = template.Settings("shared", n_init=1, max_iter=20, tol=1e-6)
    seeded = template.SeededRound.of(rows, 20, rng)
    found = template.fit_templates(rows, 4, seeded, settings, rng)
    assert (found.n_agreeing, found.n_starts) == (1, 1)
    assert found.n_iter == len(found.history) - 1 >= 2
    less = template.fewer(rows, found, 3, settings)
    assert less.history[0] is found.history[0]
    assert [entry.n_templates for entry in less.history[1:]] == [3] * less.n_iter
    assert less.mixture.n_components == 3
    assert {t.tobytes() for t in less.mixture.templates} == {
        t.tobytes() for t in P.astype(np.uint8)
    }


# --- what is kept ---------------------------------------------------------------------------


def test_a_round_comes_back_from_plain_values():
    kept = Round(-12.5, 3, np.array([0.5, 0.25, 0.25])).to_dict()
    back = Round.from_dict(json.loads(json.dumps(kept)))
    assert (back.log_likelihood, back.n_templates) == (-12.5, 3)
    np.testing.assert_array_equal(back.weights, [0.5, 0.25, 0.25])
