"""The theory's numbers against sums written out: a bound that is too large is wrong as well."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from bitmix.certify import bounds
from bitmix.certify.verdict import Evidence, judge, least_alpha, parts_of
from bitmix.theory import certificate, checks, guarantee, limit, plan, tails
from bitmix.theory import events as proof
from bitmix.theory import propositions as prop
from bitmix.theory.guarantee import _above
from bitmix.theory.plan import _least_real, _least_whole, _on_a_grid


def close(value, rel=1e-9, abs=0.0):
    """`pytest.approx`, but tiny numbers are compared as well."""
    return pytest.approx(value, rel=rel, abs=abs)


def pmf(n, p, x):
    return math.comb(n, x) * p**x * (1 - p) ** (n - x)


def at_least(n, p, x):
    return sum(pmf(n, p, i) for i in range(max(0, math.ceil(x)), n + 1))


def at_most(n, p, x):
    return sum(pmf(n, p, i) for i in range(math.floor(x) + 1))


# --- tails ----------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [0, 0.5, 1, 3, 3.2, 9, 10, 11])
def test_tails_are_sums(x):
    assert float(tails.upper_tail(10, 0.3, x)) == close(at_least(10, 0.3, x), abs=1e-299)
    assert float(tails.lower_tail(10, 0.3, x)) == close(at_most(10, 0.3, min(x, 10)))
    log = float(tails.log_upper_tail(10, 0.3, x))
    assert math.exp(log) == close(at_least(10, 0.3, x))
    assert log <= 0


def test_tails_are_never_zero_where_they_underflow():
    assert 0 < float(tails.upper_tail(10_000, 0.01, 9_000)) <= 1e-299
    log = float(tails.log_upper_tail(10_000, 0.01, 9_000))
    kl = 0.9 * math.log(0.9 / 0.01) + 0.1 * math.log(0.1 / 0.99)
    assert log == close(-10_000 * kl)
    assert float(tails.log_upper_tail(10_000, 0.01, 10_001)) == -math.inf


def test_divergences_and_coefficients():
    assert float(tails.kl(0.3, 0.1)) == close(0.3 * math.log(0.3 / 0.1) + 0.7 * math.log(0.7 / 0.9))
    assert tails.kl([0, 1], 0.25).tolist() == close([-math.log(0.75), -math.log(0.25)])
    for u in (-1.0, -0.5, 0.0, 0.3, 2.0):
        expected = ((1 + u) * math.log(1 + u) if u > -1 else 0.0) - u
        assert float(tails.poisson_rate(u)) == close(expected)
    for n, k in ((0, 0), (5, 2), (40, 17), (40, 40)):
        assert float(tails.log_choose(n, k)) == close(math.log(math.comb(n, k)), abs=1e-12)
    for q in (1e-6, 0.1, 0.4):
        assert tails.noise_of_pair(2 * q * (1 - q)) == close(q)
    assert tails.noise_of_pair(0.5) == tails.noise_of_pair(0.7) == 0.5


@pytest.mark.parametrize(("n", "p"), [(10, 0.5), (300, 0.02), (1000, 0.3)])
def test_windows_end_where_chernoff_says(n, p):
    values, chance, missed = tails.window(n, p, 1e-6)
    assert missed == 1e-6
    assert chance == close([pmf(n, p, int(x)) for x in values])
    low, high = int(values[0]), int(values[-1])
    rare = -math.log(1e-6 / 2)
    assert low == max([x for x in range(round(n * p)) if n * tails.kl(x / n, p) >= rare] or [0])
    above = range(round(n * p) + 1, n + 1)
    assert high == min([x for x in above if n * tails.kl(x / n, p) >= rare] or [n])


@pytest.mark.parametrize(("n", "p"), [(300, 0.01), (10**6, 0.3), (10**9, 1e-9)])
def test_windows_leave_out_what_they_say(n, p):
    values, chance, missed = tails.window(n, p)
    assert chance.sum() >= 1 - missed - 1e-9
    assert (np.diff(values) == 1).all()


def test_bins_have_the_value_of_their_upper_end():
    values, chance = np.arange(4500.0), np.full(4500, 1 / 4500)
    ends, mass, missed = tails.coarse(values, chance, 0.25)
    assert ends.tolist() == [*range(2, 4500, 3)]
    assert mass == close(np.full(1500, 3 / 4500))
    assert missed == 0.25
    ends, mass, _ = tails.coarse(np.arange(4000.0), np.full(4000, 0.1), 0)
    assert (len(ends), ends[-1], mass[0]) == (2000, 3999, 0.2)
    ends, mass, _ = tails.coarse(np.arange(4001.0), np.full(4001, 0.1), 0)
    assert (ends[-2:].tolist(), mass[-1]) == ([3998, 4000], close(0.2))


# --- events of the certificate --------------------------------------------------------------


def point(n=60, m=40, q=0.1, d=((0, 30), (30, 0)), w=(0.6, 0.4), l=5):
    return proof.Point(n, m, q, np.array(d), np.array(w), l)


def test_many_clusters_that_may_be_missed_are_added_up():
    w = np.full(13, 1 / 13)
    at = point(d=np.full((13, 13), 30), w=w, l=60)
    assert proof.missed_cluster(at) == close(13 * (12 / 13) ** 60)
    assert proof.missed_cluster(replace(at, l=5)) == 1


def test_noise_candidates_are_the_tails_of_the_closest_pair():
    """⌈(l-k)/2⌉ pairs; each threshold is the least that one pair exceeds rarely enough."""
    for l, pairs in ((4, 1), (5, 2), (6, 2), (9, 4)):
        found = proof.noise_candidates(point(l=l), 0.1)
        wanted = [0.1 * x for x in (1e-1, 1e-2, 1e-3, 1e-5, 1e-8)]
        assert len(found) >= 2
        for U0, chance in found:
            assert chance == close(at_least(60, 0.18, U0 + 1) ** pairs)
            assert any(
                at_least(60, 0.18, U0 + 1) ** pairs <= x < at_least(60, 0.18, U0) ** pairs
                for x in wanted
            )
            assert U0 < 60 / 2 - 0.25
    assert proof.noise_candidates(point(l=2), 0.1) == []
    assert proof.noise_candidates(point(n=4, q=0.45, d=((0, 2), (2, 0))), 0.1) == []
    assert [U0 for U0, _ in proof.noise_candidates(point(q=1e-12), 0.1)] == [1]


def test_log_odds_of_the_closest_pair():
    q = 0.07
    assert proof.log_odds(2 * q * (1 - q) * 50, 50) == close(math.log((1 - q) / q))


def test_wrong_mass_is_summed_over_ordered_pairs():
    d = ((0, 20, 30), (20, 0, 30), (30, 30, 0))
    at = point(d=d, w=(0.5, 0.3, 0.2))
    share = {x: proof.wrong_responsibility(60, x, 0.1, 1.5) for x in (20, 30)}
    expected = 2 * (0.15 * share[20] + 0.1 * share[30] + 0.06 * share[30]) * 5 * 39
    assert proof.expected_wrong_mass(at, 1.5) == close(expected)


@pytest.mark.parametrize("budget", [1e-2, 1e-6])
def test_the_farthest_pair_is_the_least_within_the_budget(budget):
    at, mean = point(n=400, q=0.05, d=((0, 90), (90, 0))), 2 * 0.05 * 0.95 + 90 / 400 * 0.9**2

    def chance(x):
        return 40 * 39 / 2 * math.exp(-400 * tails.kl((x + 1) / 400, mean))

    most, far = proof.farthest_pair(at, budget)
    assert most < 400
    assert far == close(chance(most))
    assert chance(most) <= budget < chance(most - 1)
    assert proof.farthest_pair(point(n=5, d=((0, 3), (3, 0)), q=0.4), budget) == (5, 0.0)


def test_starving_by_its_definition():
    at, r, t = point(m=200, l=6, w=(0.7, 0.3)), 1.7, 5
    total = 0.0
    for w in (0.7, 0.3):
        for seeds in range(1, 7):
            needed = seeds * (200 / 24 - 1) + r
            total += pmf(6, w, seeds) * at_most(194, w, math.ceil(needed) - 1)
        total += at_most(200, w, t)
    assert proof.starved_cluster(at, r, t) == close(total, rel=1e-9)


def test_stray_rows_by_their_definition():
    at, t, need = point(m=30, q=0.05), 3, 4.0
    tilts = np.geomspace(1e-4, 12.0, 120)
    total = 0.0
    for w_i, w_j in ((0.6, 0.4), (0.4, 0.6)):
        pairs = math.comb(29, t) * math.comb(29 - t, t) * (w_i * w_j) ** t
        for flips in range(31):
            up, down = np.log(1 - 0.05 + 0.05 * np.exp([tilts, -tilts]))
            exponent = 30 * (down + up) + (30 - flips) * (2 * up - tilts)
            exponent += flips * (2 * down + tilts) + tilts * need
            chance = min(1.0, pairs * math.exp(t * exponent.min()))
            total += w_i * pmf(30, 0.05, flips) * chance
    assert proof.stray_rows(at, t, need) == close(30 * total, rel=1e-6)
    assert proof.stray_rows(point(m=7), 3, 1.0) < math.inf
    assert proof.stray_rows(point(m=6), 3, 1.0) == math.inf


def test_numbers_of_pairs_of_subsets():
    for m, t in ((6, 1), (7, 3), (9, 2), (5, 4)):
        if 2 * t <= m:
            both = math.comb(m, t) * math.comb(m - t, t)
            assert proof._log_disjoint(m, t) == close(math.log(both))
        subsets = [set(s) for s in itertools.combinations(range(m), t)]
        each = [0.3 ** len(a | b) for a, b in itertools.combinations(subsets, 2)]
        if 2 * t <= m:
            assert proof._log_overlapping(m, t, 0.3) == close(math.log(sum(each)))


def test_the_spread_of_two_binomials():
    law = [pmf(5, 0.2, x) for x in range(6)]
    for x, log in enumerate(proof._log_spread(5, 0.2)):
        both = sum(law[a] * law[b] for a in range(6) for b in range(6) if abs(a - b) == x)
        assert log == close(math.log(both))


@pytest.mark.parametrize("h", [0, 1, 4])
def test_outvoted_bits_by_their_definition(h):
    at = point(m=80, q=0.02)
    total = 0.0
    for w in (0.6, 0.4):
        for size in range(81):
            wrong = at_least(size, 0.02, (size - h - 0.5) / 2)
            total += pmf(80, w, size) * min(1.0, 60 * wrong)
    assert proof.wrong_bit(at, h) == close(total, rel=1e-6, abs=1e-15)


@pytest.mark.parametrize("bound", [proof.wrong_selection, proof.wrong_hamming_selection])
def test_selection_is_harder_with_noise_and_wrong_mass_and_needs_rows(bound):
    at = point(n=400, d=((0, 300), (300, 0)), q=0.05)
    here = bound(at, 4, 1.0)
    assert 0 < here < bound(at, 4, 40.0)
    assert here < bound(replace(at, q=0.08), 4, 1.0)
    assert bound(point(m=8), 4, 0.0) < math.inf
    assert bound(point(m=7), 4, 0.0) == math.inf
    assert bound(point(n=60, d=((0, 1), (1, 0)), q=0.3), 4, 0.0) >= 1


def test_selection_by_hamming_distance_by_its_definition():
    """Two templates, subsets of one row: the distance in a column is 0 or 1."""
    n, m, q, d, weights = 30, 40, 0.05, 20, (0.6, 0.4)
    differ = 2 * q * (1 - q)
    typical, top = n * differ, (n - d) * differ + d * (1 - differ)
    tilts = np.geomspace(1e-4, 12.0, 120)

    def bound(theta, s):
        within = sum(m * (m - 1) / 2 * w**2 + m * w for w in weights)
        rise = min(
            n * math.log(1 - differ + differ * math.exp(tau)) - tau * theta
            for tau in tilts
            if tau <= 2
        )
        pairs = m * (m - 1) * weights[0] * weights[1]
        fall = min(
            (n - d) * math.log(1 - differ + differ * math.exp(-tau))
            + d * math.log(differ + (1 - differ) * math.exp(-tau))
            + tau * (theta + 2 * s)
            for tau in tilts
        )
        return within * math.exp(rise) + pairs * math.exp(min(fall, 0.0))

    at = point(n=n, m=m, q=q, d=((0, d), (d, 0)), w=weights)
    for s in (0.0, 0.5):
        expected = min(bound(theta, s) for theta in np.linspace(typical, top, 60)[1:-1])
        assert proof.wrong_hamming_selection(at, 1, s) == close(min(expected, math.e))


def test_two_templates_by_hamming_distance_need_no_selection():
    """For k = 2 it follows from E4; for three it does not."""
    name = "E5 two templates of one cluster kept"
    two = certificate(200, 300, 2, 0.05, 150, [0.5, 0.5], pruning="hamming")
    assert two.failure_terms[name] == 0
    assert two.constants["h"] == 0
    assert certificate(200, 300, 2, 0.05, 150, [0.5, 0.5]).failure_terms[name] > 0
    three = certificate(300, 600, 3, 0.02, 200, np.full(3, 1 / 3), pruning="hamming")
    assert three.failure_terms[name] > 0


def test_the_failure_is_the_sum_of_its_terms():
    found = certificate(45, 300, 2, 0.1, 45, [0.5, 0.5])
    assert found.failure_probability == close(sum(found.failure_terms.values()), rel=1e-8)
    assert found.failure_probability > sum(found.failure_terms.values())
    assert replace(found, delta=found.failure_probability).holds
    assert not replace(found, delta=found.failure_probability * (1 - 1e-12)).holds


# --- the propositions -----------------------------------------------------------------------


def test_propositions_as_printed():
    n, q, c, l = 5000, 0.01, 0.8, 30
    B = 0.5 * (1 - 2 * q) * math.log(1 / ((1 - q) * (4 * q + math.sqrt(q))))
    assert prop.far_from_template(n, q, 1.5) == close(math.exp(-n * q * 0.25 / 3))
    assert prop.far_from_template(n, q, 1.0) == 1
    h = 4 * math.log(4) - 3
    assert prop.far_from_template(n, q, 4.0) == close(math.exp(-n * q * h))
    assert prop.away_from_template(n, q, 0.05) == close(2 * math.exp(-n * 0.05**2 / 3))
    mean = 2 * n * q * (1 - q) + 900 * (1 - 2 * q) ** 2
    assert prop.away_from_mean(n, q, 900, 0.2) == close(2 * math.exp(-mean * 0.04 / 3))
    terms = prop.all_distances(n, 200, 3, q, c, 0.2, 0.05)
    near = math.exp(-n * 0.5 * 0.05**2 / 3)
    assert list(terms.values()) == close([
        200**2 * math.exp(-2 * n * (1 - q) * 0.05**2 / 3),
        200**2 * near,
        400 * math.exp(-n * 0.05**2 / 3),
        800 * near,
        3 * math.exp(-200 * 0.2 / 8),
    ])  # fmt: skip
    closer = prop.all_distances(n, 200, 3, q, 0.3, 0.2, 0.05)
    assert closer["distances between clusters"] == close(200**2 * math.exp(-n * 0.3 * 0.05**2 / 3))
    seeds = prop.initialisation(l, 3, 0.2)
    assert list(seeds.values()) == close([3 * 31 * math.exp(-6), 3 * math.exp(-6 / 4)])
    assert prop.first_round_ratio(n, q, c) == close(n * c * B * (1 - 2 * q))
    assert prop.first_round_distance(n, q, l) == close(50 + 2 * math.sqrt(6 * 50 * l))
    assert prop.pruning_threshold(n, q, c, l) == n * c / 2
    assert prop.second_round_ratio(n, q, c, l) == close(n * c * B / 2)


def test_averages_by_lemma_1():
    n, m, q = 100, 7, 0.1
    for excess in (1.0, 18.0):
        expected = math.exp(-m * excess**2 / (3 * n * q))
        assert prop.mean_of_averages(n, m, q, excess) == close(expected)
    kl = 0.3 * math.log(0.3 / 0.1) + 0.7 * math.log(0.7 / 0.9)
    assert prop.mean_of_averages(n, m, q, 20.0) == close(math.exp(-m * n * kl))
    assert prop.mean_of_averages(n, m, q, 90.0) == close(0.1 ** (m * n))
    assert prop.mean_of_averages(n, m, q, 90.1) == 0
    union = math.comb(12, 7) * prop.mean_of_averages(n, 7, q, 9.0)
    assert prop.subset_averages(n, 12, q, 7, 9.0) == close(union)
    assert prop.subset_averages(n, 7, q, 7, 9.0) == prop.mean_of_averages(n, 7, q, 9.0)
    assert prop.subset_averages(n, 12, q, 7, 0.1) == 1
    assert prop.subset_averages(n, 12, q, 7, 91.0) == 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: prop.far_from_template(10, 0.1, 0.999), "at least 1"),
        (lambda: prop.away_from_template(10, 0.1, 0.6), "1.817"),
        (lambda: prop.all_distances(10, 10, 2, 0.04, 0.5, 0.5, 0.21), "√q"),
        (lambda: prop.subset_averages(10, 5, 0.1, 6, 1.0), "t must be at most m = 5"),
        (lambda: prop.heaviest_subset([1, 2], [0.5, 0.4]), "at least 1"),
        (lambda: prop.heaviest_subset([1, 2], [0.5, 1.1]), "from 0 to 1"),
        (lambda: prop.heaviest_subset([1, 2], [-0.1, 1]), "from 0 to 1"),
        (lambda: prop.heaviest_subset([1, 2], [1]), "for each distance"),
        (lambda: prop.pruning_threshold(10, 0.1, 0.5, 4), "must exceed"),
        (lambda: prop.second_round_ratio(10, 0.1, 0.5, 4), "E must be positive"),
        (lambda: prop.first_round_ratio(10, 0.21, 0.5), "0.20078"),
        (lambda: prop.distance_to_template(10, 0.6), "q must lie strictly"),
        (lambda: prop.distance_to_point(10, 0.6, 1), "q must lie strictly"),
        (lambda: prop.distance_between(10, 0.6, 1), "q must lie strictly"),
        (lambda: prop.distance_between(10, 0.1, 11), "0 … n = 10"),
        (lambda: prop.distance_between(10, 0.1, -1), "0 … n = 10"),
    ],
)
def test_propositions_out_of_range_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_propositions_at_the_end_of_their_range():
    assert prop.away_from_template(10, 0.1, prop.CHERNOFF_RANGE * math.sqrt(0.1)) > 0
    assert min(prop.all_distances(10, 10, 2, 0.04, 1.0, 0.5, 0.2).values()) > 0
    assert prop.initialisation(30, 1, 1.0)["every cluster seeded twice"] == close(
        31 * math.exp(-30)
    )
    assert prop.second_round_ratio(5000, 0.01, 1.0, 30) == close(2500 * prop.B(0.01))
    assert prop.heaviest_subset([1, 3, 2, 3], [1, 0, 1, 0.5]).tolist() == [1, 3]
    assert prop.heaviest_subset([1, 2], [0.5, 0.5]).tolist() == [1]
    u = prop.CHERNOFF_RANGE
    assert (1 + u) * math.log(1 + u) - u == close(u * u / 3)


# --- theorems 1 and 2 -----------------------------------------------------------------------


def test_theorem_2_as_printed_and_corrected():
    n, m, k, q, c, w = 3000, 400, 3, 0.02, 0.6, 0.25
    g = guarantee(n, m, k, q, c, w, reading="printed")
    l = 4 / w * math.log(2 / (0.1 * w))
    assert g.excess == close(5 / w * math.exp(-n * c * g.B / 4) * n * q)
    rate = n * g.E**2 / 3
    assert g.failure_terms == {
        "distances within a cluster": close(m**2 * math.exp(-2 * (1 - q) * rate)),
        "distances between clusters": close(m**2 * math.exp(-0.5 * rate)),
        "distances to the own template": close(2 * m * math.exp(-rate)),
        "distances to other templates": close(2 * m * math.exp(-0.5 * rate)),
        "cluster sizes": close(k * math.exp(-m * w / 8)),
        "every cluster seeded twice": close(k * (l + 1) * math.exp(-l * w)),
        "no cluster seeded too often": close(k * math.exp(l * w / 12)),
        "averages of subsets": close(k / n),
    }
    corrected = guarantee(n, m, k, q, c, w)
    near = math.exp(-0.5 * n * corrected.epsilon0**2 / 3)
    terms = corrected.failure_terms
    assert terms["distances to other templates"] == close(2 * m * (k - 1) * near)
    assert terms["no cluster seeded too often"] == close(k * math.exp(-l * w / 4))
    assert corrected.failure_probability == close(sum(terms.values()))


SMALL = (*range(2, 60), 80, 120, 200, 3000)


@pytest.mark.parametrize(
    ("q", "n_seeds", "columns", "separations"),
    [
        (1e-4, 2, SMALL, (0.2, 0.6)),
        (0.02, None, SMALL, (0.2, 0.6)),
        (0.195, 1, range(5000, 5700), (1.0,)),  # the sixth turns here, and ε0 decides where
    ],
)
def test_what_the_proofs_use_besides(q, n_seeds, columns, separations):
    m, k, w = 400, 3, 0.25
    for n, c in itertools.product(columns, separations):
        g = guarantee(n, m, k, q, c, w, n_seeds=n_seeds)
        ncB, seeds = n * c * g.B, g.n_seeds
        found = list(g.hypotheses.values())
        lost = k * (seeds + 1) * math.exp(-seeds * w) + k * math.exp(-seeds * w / 4)
        reach = n * (q + c * (1 - 2 * q)) * (1 + g.epsilon0)
        assert found == [
            g.B > 0,
            g.E > 0,
            g.epsilon0 > 0,
            seeds > k,
            lost <= 7 * 0.1 / 12,
            ncB * (1 - 2 * q) / 2 >= math.log(reach),
            math.exp(-ncB / 4) <= q,
            k * math.exp(-ncB / 2) < 1 / 3,
        ]


def test_the_corrected_noise_of_distances():
    g = guarantee(4, 400, 2, 1e-4, 1.0, 0.5, n_seeds=2)
    assert g.epsilon0 == close(0.01 * (1 - 4 * math.exp(-4 * g.B / 2)))
    assert 0 < g.epsilon0 < g.E


def test_a_condition_is_strict_where_the_paper_is():
    assert not _above("3", 0.5, 0.5, "").holds
    assert _above("3", 0.5, 0.6, "").slack == close(1.2)
    assert _above("3", 0.0, 0.6, "").slack == math.inf


# --- the certificate of a fit ---------------------------------------------------------------


def test_limits_of_a_rate_by_their_definition():
    for successes, trials in ((0, 9), (3, 50), (49, 50)):
        high = bounds.upper_limit(successes, trials, 0.03)
        assert at_most(trials, high, successes) == close(0.03)
        low, top = bounds.interval(successes, trials, 0.06)
        assert top == close(high)
        if successes:
            assert at_least(trials, low, successes) == close(0.03)
        else:
            assert low == 0
    assert bounds.upper_limit(0, 0, 0.1) == bounds.upper_limit(5, 5, 0.1) == 1
    assert bounds.interval(5, 5, 0.1)[1] == 1


@pytest.mark.parametrize(("m", "n", "p2"), [(1, 20, 0.2), (10, 20, 0.2), (50, 60, 0.05)])
def test_the_gap_needed_is_the_least(m, n, p2):
    pairs = max(1, m * (m - 1) / 2)
    gaps = [x for x in range(1, n + 2) if pairs * at_least(n, p2, x) <= 0.01]
    assert bounds.least_gap(m, n, p2, 0.01) == gaps[0]
    assert bounds.least_gap(m, 3, 0.9, 0.01) == 4


def test_columns_that_would_open_the_gap():
    m, n, gap, p2 = 50, 60, 14, 0.15
    deviations = stats.norm.isf(4 / m**2)
    mean = (gap + deviations * stats.binom(n, p2).std()) / n
    factors = np.geomspace(1.05, 1000, 80)
    wide = [math.ceil(n * factor) for factor in factors]
    enough = next(
        x for x in wide
        if bounds.least_gap(m, x, p2, 0.01) <= mean * x - deviations * stats.binom(x, p2).std()
    )  # fmt: skip
    assert bounds.columns_needed(m, n, gap, p2, 0.01) == enough > n * 1.1
    assert bounds.columns_needed(m, n, 0, 0.45, 1e-9) is None


def test_votes_that_are_lost():
    sizes, votes = np.array([5.0, 8.0]), np.array([4.0, 7.0])
    wrong = bounds.wrong_vote(sizes, votes, 0.1)
    assert wrong.tolist() == [close(at_least(5, 0.1, 4)), close(at_least(8, 0.1, 7))]
    assert (
        bounds.wrong_vote(5, 4, 0.7) == bounds.wrong_vote(5, 4, 0.5) == close(at_least(5, 0.5, 4))
    )
    for mean in (0.1, 3.0):
        least = bounds.poisson_quantile(mean, 1e-4)
        assert stats.poisson.sf(least, mean) <= 1e-4 < stats.poisson.sf(least - 1, mean)
    assert bounds.poisson_quantile(0.0, 1e-4) == 0


GOOD = Evidence(
    m=100, n=200, disagreements=900, compared=5000, gap=120, sizes=(60, 40),
    weakest_votes=(55, 37), not_majority=0, flips=2000, duplicates=0, duplicates_expected=0.0,
)  # fmt: skip


def parts(**changes):
    evidence = replace(GOOD, **changes)
    verdict = judge(evidence, 0.05)
    return {part.name: part for part in parts_of(evidence, verdict)}


def test_a_verdict_is_its_three_thirds():
    verdict = judge(GOOD, 0.06)
    assert verdict.p_hi == bounds.upper_limit(900, 5000, 0.02)
    assert verdict.q_hi == tails.noise_of_pair(verdict.p_hi)
    assert verdict.gap_needed == bounds.least_gap(100, 200, verdict.p_hi, 0.02)
    sizes, votes = np.array([60.0, 40.0]), np.array([55.0, 37.0])
    assert verdict.outvoted == 400 * bounds.wrong_vote(sizes, votes, 0.5).max()
    common = judge(GOOD, 0.06, "common")
    assert common.outvoted == 400 * bounds.wrong_vote(sizes, votes, verdict.q_hi).max()
    assert verdict.duplicates_allowed == 0
    assert verdict.holds(GOOD) == (True, True, True, True)
    exactly = replace(verdict, gap_needed=120, outvoted=verdict.alpha / 3)
    assert exactly.holds(GOOD) == (True, True, True, True)
    over = replace(verdict, gap_needed=121, outvoted=0.0201, q_hi=0.5, duplicates_allowed=-1)
    assert over.holds(GOOD) == (False, False, False, False)


@pytest.mark.parametrize(
    ("part", "changes", "words"),
    [
        ("noise", {"disagreements": 4990}, "more columns, more rows or less noise would help"),
        ("partition", {"m": 1, "sizes": (1,), "weakest_votes": (1,)}, "a single row"),
        ("partition", {"sizes": (100, 0)}, "1 templates have no row"),
        ("partition", {"gap": 40}, "columns of the same kind"),
        ("partition", {"gap": 0}, "less noise would not be enough"),
        ("templates", {"not_majority": 3}, "3 template bits are not the majority"),
        ("templates", {"weakest_votes": (35, 25)}, "times as many rows would be enough"),
        ("templates", {"weakest_votes": (30, 20)}, "at most 1, 0.017 needed: more rows alone"),
        ("distinct rows", {"duplicates": 9}, "copies of each other"),
    ],
)
def test_what_fails_is_said(part, changes, words):
    found = parts(**changes)
    assert not found[part].holds
    assert words in found[part].says


def test_what_holds_is_said():
    found = parts()
    assert all(part.holds for part in found.values())
    assert "from 5,000 comparisons" in found["noise"].says
    assert "120 columns or more" in found["partition"].says
    assert "would" not in found["partition"].says
    assert "needed" not in found["templates"].says
    assert parts(sizes=(100,), weakest_votes=(80,), gap=201)["partition"].says.startswith("one ")


def test_the_least_alpha_is_where_the_verdict_turns():
    alpha = least_alpha(replace(GOOD, gap=85))
    assert 1e-14 < alpha < 0.5
    for factor, issued in ((1.001, True), (0.97, False)):
        verdict = judge(replace(GOOD, gap=85), alpha * factor)
        assert all(verdict.holds(replace(GOOD, gap=85))) == issued
    assert least_alpha(replace(GOOD, not_majority=1)) == 1


# --- the rules, the limits, the planner -----------------------------------------------------


def test_numbers_at_the_ends_of_their_range():
    assert checks.count(1, "n") == 1
    assert checks.count(10**15, "n") == 10**15
    assert checks.positive(1.1e-15, "q", 0.5) == 1.1e-15
    assert checks.positive(1.0, "c", 1.0, closed=True) == 1
    for call in (
        lambda: checks.count(0, "n"),
        lambda: checks.count(10**15 + 1, "n"),
        lambda: checks.positive(0, "q", 0.5),
        lambda: checks.positive(1e-15, "q", 0.5),
        lambda: checks.positive(0.5, "q", 0.5),
        lambda: checks.positive(1.1, "c", 1.0, closed=True),
        lambda: checks.positive(math.inf, "l"),
        lambda: checks.weights([0.5, 0.5 + 1e-8], 2),
        lambda: checks.weights([1.0, 0.0], 2),
    ):
        with pytest.raises(ValueError, match="must"):
            call()
    assert checks.positive(1e300, "l") == 1e300
    assert checks.weights([0.5, 0.5 + 1e-10], 2).sum() == close(1, abs=1e-15)
    assert checks.weights_with_least(0.1, 3) == close([0.1, 0.45, 0.45])
    assert checks.weights_with_least(1.0, 1) == [1.0]
    assert [checks.largest_separation(k) for k in (1, 2, 3, 4, 5)] == close(
        [1, 1, 2 / 3, 2 / 3, 3 / 5]
    )


def test_distances_that_templates_can_have():
    assert checks.distances(10, 2, 10).tolist() == [[0, 10], [10, 0]]
    assert checks.distances(6.9999999, 3, 11)[0].tolist() == [0, 7, 7]
    assert checks.distances(1, 2, 10).max() == 1
    line = [[0, 3, 7], [3, 0, 4], [7, 4, 0]]  # d[0, 2] = d[0, 1] + d[1, 2] just holds
    assert checks.distances(line, 3, 7).tolist() == line
    for bad, words in (
        (0.9, "1 … n"),
        (11, "1 … n"),
        ([[0, 3, 8], [3, 0, 4], [8, 4, 0]], "triangle"),
        ([[0, 3], [4, 0]], "symmetric"),
        ([[1, 3], [3, 0]], "symmetric"),
        ([[0, 8, 7], [8, 0, 6], [7, 6, 0]], "sum must be at most 2n = 20"),
    ):
        with pytest.raises(ValueError, match=words):
            checks.distances(bad, 3 if np.size(bad) == 9 else 2, 10)
    with pytest.raises(ValueError, match="apart on average"):
        checks.distances(2, 5, 3)
    assert checks.distances(6, 5, 10).max() == 6


def test_recovery_with_labels_known_is_a_sum():
    def right(rows):
        wrong = at_least(rows, 0.2, rows // 2 + 1)
        wrong += pmf(rows, 0.2, rows // 2) / 2 if rows % 2 == 0 else 0
        return (1 - wrong) ** 9

    w = (0.7, 0.3)
    at = limit(9, 20, 2, 0.2, 9, w)
    assert at.recovery_uniform == close(
        sum(pmf(20, 0.7, x) * right(x) * right(20 - x) for x in range(21))
    )
    assert at.recovery_masks == close(right(20))
    w = (0.5, 0.3, 0.2)
    product = math.prod(sum(pmf(20, p, x) * right(x) for x in range(21)) for p in w)
    assert limit(9, 20, 3, 0.2, 6, w).recovery_uniform == close(product)
    assert limit(9, 20, 1, 0.2, 0, [1.0]).recovery_uniform == close(right(20))
    assert not limit(45, 60, 4, 0.2, 20, [0.25] * 4).label_error_is_exact


def test_labels_of_three_templates_are_lost_as_often_as_rows_say():
    """Over all rows of 6 columns."""
    templates = np.array([[0, 0, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 1]])
    d = (templates[:, None] != templates).sum(axis=2)
    assert sorted(d[np.triu_indices(3, 1)].tolist()) == [3, 4, 5]
    for w in itertools.permutations((0.55, 0.3, 0.15)):
        known = 0.0
        for row in itertools.product((0, 1), repeat=6):
            flips = (templates != row).sum(axis=1)
            known += max(x * 0.15**f * 0.85 ** (6 - f) for x, f in zip(w, flips, strict=True))
        at = limit(6, 10, 3, 0.15, d, w)
        assert at.label_error_is_exact
        assert at.label_error == close(1 - known)


def test_searches_end_where_things_turn():
    for turn in (1, 2, 3, 17, 1024, 10**9):
        assert _least_whole(lambda x, turn=turn: x >= turn) == turn
        assert _on_a_grid(lambda x, turn=turn: x >= turn, "n", 10**9, 1).value == turn
    assert _least_whole(lambda x: x > 10**9) is None
    assert _least_whole(lambda x: x >= 5, 5) == 5
    assert _least_whole(lambda x: x >= 77, 5) == 77
    assert _on_a_grid(lambda x: x >= 0.35, "c", 100, 0.01).value == close(0.35)
    assert _least_real(lambda x: x >= 0.3) == 0.3
    assert _least_real(lambda x: x >= 1.0) == 1.0
    assert _least_real(lambda x: x > 1.0) is None


def test_plans_that_cannot_be():
    with pytest.raises(ValueError, match="one template needs no certificate"):
        plan("n", q=0.1, k=1)
    assert plan("n", q=0.1, k=1, w_min=1.0, method="theorem").value > 1
    with pytest.raises(ValueError, match="one template needs no certificate"):
        certificate(45, 300, 1, 0.1, 45, [1.0])
    found = plan("c", q=0.49, n=20, m=10)
    assert found.value is None
    assert "holds nowhere on a grid up to 1" in found.note
    assert str(found).startswith("least c by the certificate: none (")
