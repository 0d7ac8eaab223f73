"""The certificate of a fit: honest under the model, and the model checks notice what is not."""

import json
import warnings

import numpy as np
import pytest
from hostile import OUTSIDE, copied_rows, hard_fit
from scipy import stats

from bitmix import BitMatrix, TwoRoundEM, certify_fit
from bitmix.certify import matched_disagreements
from bitmix.datasets import make_templates, paper_pair, sample_mixture
from bitmix.errors import InputError
from bitmix.metrics import templates_recovered
from bitmix.randomness import stream
from bitmix.theory import fit_bounds
from bitmix.theory.fit_verdict import Evidence, judge, least_alpha

quiet = pytest.mark.filterwarnings("ignore::bitmix.errors.BitmixWarning")


# --- issued where it should be --------------------------------------------------------------


def test_easy_fits_are_certified():
    """n = 50, q = .1, c = 1, m = 300: issued in ≥ 95 %; `benchmarks/trust.py` has 494 of 500.

    A true rate of .975 or more gives fewer than 182 of 200 with probability below 10^-6.
    """
    truth, issued = paper_pair(50, 1.0), 0
    for seed in range(200):
        X, _ = sample_mixture(truth, [0.5, 0.5], 0.1, 300, seed)
        issued += TwoRoundEM(2, random_state=seed).fit(X).certify(X).issued
    assert issued >= 182


def test_what_it_says():
    truth = paper_pair(50, 1.0)
    X, labels = sample_mixture(truth, [0.5, 0.5], 0.1, 300, 1)
    certificate = certify_fit(X, truth)
    assert certificate.issued
    assert certificate.alpha == 0.05
    assert [part.name for part in certificate.parts] == [
        "noise", "partition", "templates", "distinct rows",
    ]  # fmt: skip
    assert 0.08 < certificate.q_hi < 0.15  # above the true .1 but for one data set in sixty
    assert (
        certificate.q_interval[0] < certificate.evidence.flips / 15_000 < certificate.q_interval[1]
    )
    for size, (low, high) in zip(np.bincount(labels), certificate.weight_intervals, strict=True):
        assert low < size / 300 < high
    assert certificate.least_alpha < 0.05
    assert certify_fit(X, truth, alpha=certificate.least_alpha * 1.05).issued
    assert not certify_fit(X, truth, alpha=certificate.least_alpha * 0.95).issued
    assert "ISSUED" in str(certificate)
    assert "independent draws" in str(certificate)
    assert "independent draws" in certificate._repr_html_()
    assert json.loads(json.dumps(certificate.to_dict()))["issued"] is True
    assert certify_fit(X, truth).to_dict() == certificate.to_dict()  # the split is fixed


def test_why_not():
    X, _ = sample_mixture(paper_pair(2000, 0.04), [0.5, 0.5], 0.05, 300, 0)
    certificate = certify_fit(X, paper_pair(2000, 0.04))
    assert not certificate.issued
    partition = certificate.parts[1]
    assert not partition.holds
    assert partition.has < partition.needs
    assert "noise below" in partition.says
    assert "columns of the same kind" in partition.says
    few, _ = sample_mixture(paper_pair(400, 1.0), [0.5, 0.5], 0.1, 12, 0)
    templates = certify_fit(few, paper_pair(400, 1.0)).parts[2]
    assert not templates.holds
    assert "times as many rows would do" in templates.says or "majority" in templates.says


def test_remedies_are_true():
    """What the certificate says would do, does, on fresh data and with a little margin."""
    truth = paper_pair(2000, 0.04)
    X, _ = sample_mixture(truth, [0.5, 0.5], 0.05, 300, 0)
    says = certify_fit(X, truth).parts[1].says
    noise = float(says.split("noise below ")[1].split(" ")[0])
    columns = int(says.split("about ")[1].split(" ")[0].replace(",", ""))
    assert 0 < noise < 0.05
    wide = paper_pair(round(1.2 * columns), 0.04)
    assert certify_fit(sample_mixture(wide, [0.5, 0.5], 0.05, 300, 1)[0], wide).issued
    narrow = paper_pair(round(columns / 1.5), 0.04)
    assert not certify_fit(sample_mixture(narrow, [0.5, 0.5], 0.05, 300, 1)[0], narrow).issued


# --- never wrongly --------------------------------------------------------------------------


@quiet
@pytest.mark.parametrize("part", range(4))
def test_wrong_fits_are_not_certified(part):
    """400 hard fits, honest and hostile, at α = .05 and .5.

    Issued-and-wrong has probability ≤ α each: more than stats.binom.isf(2.5·10^-7, …) of them is a
    false alarm of at most 10^-6 in all."""
    seeds = range(100 * part, 100 * part + 100)
    wrong = issued_wrong = issued_wrong_loose = 0
    for seed in seeds:
        rows, found, truth = hard_fit(seed)
        if templates_recovered(found, truth):
            continue
        wrong += 1
        evidence = certify_fit(rows, found).evidence
        issued_wrong += all(judge(evidence, 0.05).holds(evidence))
        issued_wrong_loose += all(judge(evidence, 0.5).holds(evidence))
    assert wrong >= 20
    assert issued_wrong <= stats.binom.isf(2.5e-7, 100, 0.05)
    assert issued_wrong_loose <= stats.binom.isf(2.5e-7, 100, 0.5)


def test_a_single_wrong_bit_is_seen():
    truth = paper_pair(50, 1.0)
    X, _ = sample_mixture(truth, [0.5, 0.5], 0.1, 300, 3)
    for i, s in ((0, 0), (1, 17), (1, 49)):
        wrong = truth.copy()
        wrong[i, s] ^= 1
        certificate = certify_fit(X, wrong)
        assert not certificate.issued
        assert "1 template bits are not the majority" in certificate.parts[2].says


def test_a_template_nobody_is_near_is_refused():
    truth = make_templates(3, 60, separation=0.5, random_state=0)
    X, _ = sample_mixture(truth[:2], [0.5, 0.5], 0.05, 200, 0)
    certificate = certify_fit(X, truth)
    assert not certificate.issued
    assert "no row nearest" in certificate.parts[1].says


def test_noise_is_bounded_without_trusting_the_clusters():
    """The upper limit misses the true p2 in at most α/3 of cases: 300 runs at error .2."""
    misses = 0
    for seed in range(300):
        X, _ = sample_mixture(
            make_templates(3, 40, separation=0.3, random_state=seed),
            [0.3, 0.3, 0.4],
            0.15,
            40,
            seed,
        )
        differ, compared = matched_disagreements(X.words, 40, stream(seed, "certificate"))
        misses += fit_bounds.upper_limit(differ, compared, 0.2) < 2 * 0.15 * 0.85
    assert misses <= stats.binom.isf(1e-6, 300, 0.2)


# --- outside the model ----------------------------------------------------------------------


def test_the_checks_are_quiet_inside_the_model():
    """1,000 checks (200 certificates × 5) flagged below 10^-4 each: 6 or more has p < 10^-8."""
    flagged = 0
    for seed in range(200):
        truth = make_templates(2, 80, separation=0.5, random_state=seed)
        X, _ = sample_mixture(truth, [0.5, 0.5], 0.1, 150, seed)
        flagged += len(certify_fit(X, truth).objections)
    assert flagged < 6


@pytest.mark.parametrize("make", OUTSIDE, ids=lambda make: make.__name__)
def test_what_is_outside_the_model_is_noticed(make):
    """20 data sets each: always a check objects or the certificate is refused."""
    for seed in range(20):
        certificate = certify_fit(*make(seed))
        assert certificate.objections or not certificate.issued


@pytest.mark.parametrize(
    ("n", "q", "m"), [(50, 0.01, 300), (100, 0.01, 300), (1000, 0.001, 1000), (100, 0.05, 1500)]
)
def test_equal_rows_by_right_are_not_refused(n, q, m):
    """Where noise is low many rows are equal by chance: 40 data sets, each refused below 10^-4."""
    truth = paper_pair(n, 1.0)
    refused = 0
    for seed in range(40):
        X, _ = sample_mixture(truth, [0.5, 0.5], q, m, seed)
        refused += not certify_fit(X, truth).parts[3].holds
    assert refused <= 2


def test_copied_rows_are_refused():
    certificate = certify_fit(*copied_rows(0))
    assert not certificate.issued
    assert "copies of each other" in certificate.parts[3].says


# --- edges ----------------------------------------------------------------------------------


def test_one_template_and_one_row():
    X, _ = sample_mixture([[0] * 40], [1.0], 0.1, 60, 0)
    one = certify_fit(X, [[0] * 40])
    assert one.issued
    assert "nothing to part" in one.parts[1].says
    assert not certify_fit(X[:1], [[0] * 40]).issued
    assert not certify_fit([[0], [0], [1]], [[0]]).issued


def test_fair_coins_are_not_certified():
    X = BitMatrix.from_dense(np.random.default_rng(0).integers(2, size=(100, 60)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not TwoRoundEM(2, random_state=0).fit(X).certify(X).issued


def test_many_rows_are_subsampled(monkeypatch):
    monkeypatch.setattr("bitmix.certify.MOST_ROWS", 500)
    truth = make_templates(3, 300, separation=0.5, random_state=0)
    X, _ = sample_mixture(truth, [0.3, 0.3, 0.4], 0.1, 5000, 0)
    certificate = certify_fit(X, truth)
    assert certificate.issued
    assert certificate.evidence.m == 500
    wrong = truth.copy()
    wrong[0, 0] ^= 1
    assert not certify_fit(X, wrong).issued


def test_bad_input_is_named():
    X, _ = sample_mixture(paper_pair(20, 1.0), [0.5, 0.5], 0.1, 50, 0)
    with pytest.raises(InputError, match="alpha"):
        certify_fit(X, paper_pair(20, 1.0), alpha=1.0)
    with pytest.raises(InputError, match="templates must have the 20 columns"):
        certify_fit(X, paper_pair(21, 1.0))
    with pytest.raises(InputError, match="got 2 at row 0"):
        certify_fit(X, [[2] * 20])


# --- the numbers behind it ------------------------------------------------------------------


def test_clopper_pearson():
    for successes, trials in ((0, 10), (3, 10), (10, 10)):
        high = fit_bounds.upper_limit(successes, trials, 0.05)
        if successes < trials:
            assert stats.binom.cdf(successes, trials, high) == pytest.approx(0.05)
        else:
            assert high == 1
        low, high = fit_bounds.interval(successes, trials, 0.1)
        assert low <= successes / trials <= high
    assert fit_bounds.upper_limit(0, 0, 0.05) == 1


@pytest.mark.parametrize(("m", "n", "p"), [(30, 50, 0.2), (300, 2000, 0.02), (2, 5, 0.4)])
def test_least_gap_is_least(m, n, p):
    gap = fit_bounds.least_gap(m, n, p, 0.01)
    pairs = m * (m - 1) / 2
    assert pairs * stats.binom.sf(gap - 1, n, p) <= 0.01
    assert pairs * stats.binom.sf(gap - 2, n, p) > 0.01


def test_verdict_is_monotone_in_alpha():
    evidence = Evidence(300, 50, 600, 3375, 28, (150, 150), (120, 118), 0, 1500, 0, 0.0)
    order = [sum(judge(evidence, a).holds(evidence)) for a in (1e-9, 1e-6, 1e-3, 0.05, 0.5)]
    assert order == sorted(order)
    assert (
        least_alpha(Evidence(300, 50, 600, 3375, 1, (150, 150), (120, 118), 0, 1500, 0, 0.0)) == 1
    )
