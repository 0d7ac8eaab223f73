"""TemplateMixture: its likelihood, its noise models, weights, missing cells, and what it finds."""

import decimal
import itertools
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conftest import random_bits
from scipy.special import logsumexp

from bitmix import BitMatrix, TemplateMixture
from bitmix.datasets import make_templates, sample_mixture
from bitmix.em import noise, prune, seeds, step
from bitmix.em.search import SeededRound, Settings, fewer, fit_templates, merged
from bitmix.em.step import Statistics, expect, leads
from bitmix.errors import DuplicateTemplatesWarning, InputError
from bitmix.estimators.load import load_model
from bitmix.kernels import backend, fixed
from bitmix.metrics import templates_recovered
from bitmix.models.mixture import NOISE_MODELS, NoisyTemplates, noise_shape
from bitmix.rows import as_rows
from bitmix.support.randomness import stream

TRUTH = make_templates(3, 150, separation=0.3, random_state=4)
RNG = np.random.default_rng(8)
NOISES = {
    "shared": 0.1,
    "component": np.array([[0.05], [0.1], [0.2]]),
    "feature": RNG.uniform(0.01, 0.25, (1, 150)),
    "cell": RNG.uniform(0.01, 0.25, (3, 150)),
}


def sampled(model, m=450, seed=0):
    return sample_mixture(TRUTH, [0.5, 0.3, 0.2], NOISES[model], m, random_state=seed)


def random_mixture(model, k, n, seed):
    rng = np.random.default_rng(seed)
    templates = rng.integers(2, size=(k, n), dtype=np.uint8)
    weights = rng.dirichlet(np.ones(k))
    return NoisyTemplates(templates, weights, rng.uniform(0.001, 0.5, noise_shape(model, k, n)))


def exact_log_likelihoods(mixture, bits, known=None):
    """ln Σ_i w_i f_i(x) in plain floats."""
    p = mixture.probabilities
    known = np.ones(bits.shape) if known is None else known
    logs = (bits * known) @ np.log(p).T + ((1 - bits) * known) @ np.log(1 - p).T
    return logsumexp(logs + np.log(mixture.weights), axis=1)


def em_steps(rows, mixture, model):
    """EM steps without end: the mixture after each, and the statistics it was made from."""
    while True:
        statistics = expect(rows, mixture)
        mixture = noise.maximise(statistics, model, mixture.templates)
        yield mixture, statistics


def objective(mixture, statistics, model):
    return statistics.log_likelihood + noise.log_prior(
        mixture, model, noise.column_rates(statistics)
    )


# -- the arithmetic ----------------------------------------------------------------------------


def test_integer_logarithms_are_as_close_as_stated(kernels):
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [rng.random(300), 10.0 ** rng.uniform(-300, 0, 300), [1.0, 0.5, 5e-324]]
    )
    found = backend().logs(values, fixed.tables())
    with decimal.localcontext(prec=40):
        for value, units in zip(values.tolist(), found.tolist(), strict=True):
            exact = decimal.Decimal(value).ln() * 2**32
            assert abs(units - exact) <= 2**3  # 2^-29 nats


@pytest.mark.parametrize("model", NOISE_MODELS)
def test_likelihoods_are_those_of_plain_floats(model, kernels):
    mixture = random_mixture(model, 4, 130, 1)
    rows = random_bits(60, 130, 2)
    found = expect(rows, mixture)
    exact = exact_log_likelihoods(mixture, rows.to_dense(float)).sum()
    assert abs(found.log_likelihood - exact) <= 60 * (
        (2 * 130 + 1) * 2.0**-28 + fixed.likelihood_error(4)
    )


@pytest.mark.parametrize("model", NOISE_MODELS)
def test_missing_cells_leave_out_their_factor(model, kernels):
    mixture = random_mixture(model, 3, 70, 3)
    rng = np.random.default_rng(4)
    bits, known = rng.integers(2, size=(40, 70)), rng.random((40, 70)) < 0.7
    known[5] = False
    rows = as_rows(bits, mask=~known, missing=True)
    found = expect(rows, mixture)
    assert abs(found.log_likelihood - exact_log_likelihoods(mixture, bits, known).sum()) < 1e-4
    other = as_rows(
        np.where(known, bits, 1 - bits), mask=~known, missing=True
    )  # what lies under a mask
    assert expect(other, mixture).same_as(found)


@pytest.mark.parametrize("model", NOISE_MODELS)
def test_nothing_missing_is_as_if_cells_could_be(model):
    mixture = random_mixture(model, 3, 70, 5)
    plain = random_bits(50, 70, 6)
    from bitmix.rows.augmented import AugmentedRows

    wide = AugmentedRows(plain, BitMatrix.from_dense(np.ones((50, 70))))
    a, b = expect(plain, mixture), expect(wide, mixture)
    assert np.array_equal(b.known, np.broadcast_to(b.mass[:, None], b.known.shape))
    assert np.array_equal(a.mass, b.mass)
    assert np.array_equal(a.sums, b.sums)
    assert a.likelihood_units == b.likelihood_units


@pytest.mark.parametrize("model", NOISE_MODELS)
@pytest.mark.parametrize("seed", range(4))
def test_every_step_raises_the_objective(model, seed):
    """On data that no model fits; the integers may cost up to the stated bound."""
    rows = random_bits(80, 60, seed, density=0.3)
    mixture = random_mixture(model, 5, 60, seed + 10)
    bound = 80 * ((2 * 60 + 1) * 2.0**-28 + fixed.likelihood_error(5)) * 2 + 80 * 60 * 2.0**-26
    before, values = mixture, []
    for after, statistics in itertools.islice(em_steps(rows, mixture, model), 30):
        values.append(objective(before, statistics, model))
        before = after
    assert all(b >= a - bound for a, b in itertools.pairwise(values))
    assert values[-1] > values[0] + 1


@pytest.mark.parametrize("model", NOISE_MODELS)
def test_the_m_step_is_the_best_there_is(model):
    """No other noise and no flipped template bit gives more, the shares being what they are."""
    rows = random_bits(50, 12, 0, density=0.4)
    mixture = random_mixture(model, 3, 12, 1)
    statistics = expect(rows, mixture)
    shape = noise_shape(model, 3, 12)
    best = noise.maximise(statistics, model, mixture.templates)

    def expected(candidate):
        p = candidate.probabilities
        ones, cells = statistics.sums / 2**30, statistics.counts / 2**30
        fit = (ones * np.log(p) + (cells - ones) * np.log(1 - p)).sum()
        return fit + noise.log_prior(candidate, model, noise.column_rates(statistics))

    top = expected(best)
    rng = np.random.default_rng(3)
    for _ in range(100):
        templates = best.templates ^ (rng.random((3, 12)) < 0.05)
        moved = np.clip(best.noise * np.exp(rng.normal(0, 0.2, shape)), 1e-6, 0.5)
        assert expected(NoisyTemplates(templates, best.weights, best.noise)) <= top + 1e-9
        assert expected(NoisyTemplates(best.templates, best.weights, moved)) <= top + 1e-9


# -- weights and missing cells, as users give them -----------------------------------------------


@pytest.mark.parametrize("model", NOISE_MODELS)
def test_weighted_rows_are_repeated_rows(model, kernels):
    bits = random_bits(40, 90, 1).to_dense()
    weights = np.random.default_rng(2).integers(0, 4, 40)
    once = as_rows(bits, sample_weight=weights, missing=True)
    often = as_rows(np.repeat(bits, weights, axis=0), missing=True)
    mixture = random_mixture(model, 3, 90, 3)
    for (a, sa), (b, sb) in itertools.islice(
        zip(em_steps(once, mixture, model), em_steps(often, mixture, model), strict=True), 5
    ):
        assert sa.same_as(sb)
        assert sa.likelihood_units == sb.likelihood_units
        assert np.array_equal(a.noise, b.noise)
        assert np.array_equal(a.weights, b.weights)


def test_fractional_weights_scale():
    X, _ = sampled("shared", 300)
    halves = TemplateMixture(3, random_state=0).fit(X, sample_weight=np.full(300, 0.5))
    ones = TemplateMixture(3, random_state=0).fit(X)
    assert np.array_equal(halves.templates_, ones.templates_)
    assert np.allclose(halves.weights_, ones.weights_)
    assert halves.history_[-1].log_likelihood == pytest.approx(ones.history_[-1].log_likelihood / 2)


@pytest.mark.parametrize("how", ["nan", "mask", "masked array", "nullable"])
def test_missing_cells_may_come_in_any_dress(how):
    X, labels = sampled("shared")
    gaps = np.random.default_rng(1).random(X.shape) < 0.25
    bits = X.to_dense()
    filled = np.where(gaps, np.nan, bits.astype(float))
    given = {
        "nan": filled,
        "mask": bits,
        "masked array": np.ma.masked_array(bits, gaps),
        "nullable": pd.DataFrame(filled).astype("Int8"),
    }[how]
    model = TemplateMixture(3, random_state=0).fit(given, mask=gaps if how == "mask" else None)
    assert templates_recovered(model.templates_, TRUTH)
    if how != "mask":
        assert (model.predict(given) == np.argsort([0, 1, 2])[labels]).mean() > 0.99
    reference = TemplateMixture(3, random_state=0).fit(filled)
    assert np.array_equal(model.means_, reference.means_)


def test_a_row_of_which_nothing_is_known_gets_the_prior():
    X, _ = sampled("shared")
    model = TemplateMixture(3, random_state=0).fit(X)
    unknown = np.full((2, 150), np.nan)
    assert np.allclose(model.predict_proba(unknown), model.weights_, atol=fixed.share_error(3))
    assert np.allclose(model.score_samples(unknown), 0, atol=1e-6)


def test_only_template_mixture_takes_nan():
    from bitmix import TwoRoundEM

    with pytest.raises(InputError, match="missing cell .* at row 0"):
        TwoRoundEM().fit([[np.nan, 1.0], [0.0, 1.0]])


# -- what it finds -------------------------------------------------------------------------------


@pytest.mark.parametrize("model", NOISE_MODELS)
def test_planted_templates_and_noise_are_found(model):
    """Well separated: 45 bits of 150 apart. Wrong bits need a cluster vote of 90 rows or more to
    fail at a noise of ¼ or less: probability under 1e-6 for all bits together."""
    X, labels = sampled(model)
    fit = TemplateMixture(3, noise_model=model, random_state=0).fit(X)
    assert templates_recovered(fit.templates_, TRUTH)
    assert (
        np.shape(fit.noise_)
        == {"shared": (), "component": (3,), "feature": (150,), "cell": (3, 150)}[model]
    )
    order = [int(np.flatnonzero((t == TRUTH).all(axis=1))[0]) for t in fit.templates_]
    assert (np.array(order)[fit.predict(X)] == labels).mean() > 0.99
    planted = np.broadcast_to(NOISES[model], (3, 150))[order]
    found = np.broadcast_to(fit.mixture_.noise, (3, 150))
    rows = (
        450
        * fit.weights_[:, None]
        * (150 / fit.mixture_.noise.shape[1])
        * (3 / fit.mixture_.noise.shape[0])
    )
    assert np.all(np.abs(found - planted) < 6 * np.sqrt(0.25 * 0.75 / rows) + 1 / rows)
    assert fit.converged_
    assert 1 <= fit.n_agreeing_ <= fit.n_starts_ <= (20 if model == "cell" else 10)
    assert fit.duplicates_ == []
    assert list(fit.weights_) == sorted(fit.weights_, reverse=True)


def test_margins_and_differing_features():
    X, _ = sampled("shared")
    table = pd.DataFrame(X.to_dense(), columns=[f"bit {i}" for i in range(150)])
    fit = TemplateMixture(3, random_state=0).fit(table)
    p = np.sort(fit.predict_proba(table), axis=1)
    sure = p[:, -1] > 1 - 1e-8
    assert np.all(fit.margins(table)[sure] > 15)
    close = ~sure
    odds = np.log(p[close, -1] / p[close, -2])
    assert np.allclose(fit.margins(table)[close], odds, atol=1e-3)
    names = fit.differing_features(0, 1)
    assert list(names) == [
        f"bit {i}" for i in np.flatnonzero(fit.templates_[0] != fit.templates_[1])
    ]
    assert np.isinf(TemplateMixture(1).fit(X).margins(X)).all()
    with pytest.raises(InputError, match="templates 0 … 2"):
        fit.differing_features(0, 3)


@pytest.mark.parametrize("model", NOISE_MODELS)
def test_saved_and_loaded_it_says_the_same(model, tmp_path):
    X, _ = sampled(model)
    fit = TemplateMixture(3, noise_model=model, random_state=0).fit(X)
    fit.save(tmp_path / "a.model")
    for other in (TemplateMixture.load(tmp_path / "a.model"), load_model(tmp_path / "a.model")):
        assert np.array_equal(other.predict_proba(X), fit.predict_proba(X))
        assert np.array_equal(other.noise_, fit.noise_)
        assert other.bic(X) == fit.bic(X)
        assert (other.n_iter_, other.n_agreeing_) == (fit.n_iter_, fit.n_agreeing_)


def test_sampling_from_a_fit_gives_its_noise():
    """20,000 rows: shares within 6 standard deviations."""
    X, _ = sampled("cell")
    fit = TemplateMixture(3, noise_model="cell", random_state=0).fit(X)
    rows, labels = fit.sample(20_000)
    bits = rows.to_dense()
    for i in range(3):
        mine = bits[labels == i]
        p = fit.mixture_.probabilities[i]
        assert np.all(np.abs(mine.mean(axis=0) - p) < 6 * np.sqrt(p * (1 - p) / len(mine)) + 1e-3)


def test_a_sample_of_the_rows_is_enough_and_then_all_take_part():
    X, _ = sampled("shared", 4000)
    fit = TemplateMixture(3, round_one_rows=300, random_state=0).fit(X)
    assert templates_recovered(fit.templates_, TRUTH)
    whole = TemplateMixture(3, random_state=0).fit(X)
    assert np.allclose(fit.means_, whole.means_)  # one step on all rows brings it there
    assert fit.noise_ == pytest.approx(whole.noise_)


@pytest.mark.filterwarnings("ignore::bitmix.errors.BitmixWarning")
def test_same_bits_on_any_back_end_and_any_threads(monkeypatch):
    pytest.importorskip("numba")
    X, _ = sampled("cell", 700, seed=3)
    results = []
    for kernel, threads in (("compiled", "1"), ("compiled", "3"), ("reference", "2")):
        monkeypatch.setenv("BITMIX_KERNELS", kernel)
        monkeypatch.setenv("BITMIX_NUM_THREADS", threads)
        for model in ("shared", "cell"):
            fit = TemplateMixture(4, noise_model=model, random_state=1).fit(X)
            results.append(
                (model, fit.means_.tobytes(), fit.mixture_.noise.tobytes(), fit.weights_.tobytes())
            )
    assert len(set(results)) == 2


@pytest.mark.filterwarnings("ignore::bitmix.errors.BitmixWarning")
def test_too_many_components_are_reported_not_nan():
    X = np.repeat([[0, 0, 0, 0], [1, 1, 1, 1]], 20, axis=0)
    for model in NOISE_MODELS:
        with pytest.warns(DuplicateTemplatesWarning, match="fewer components"):
            fit = TemplateMixture(4, noise_model=model, random_state=0).fit(X)
        assert fit.duplicates_
        assert np.isfinite(fit.score(X))
        assert np.isfinite(fit.predict_proba(X)).all()
        assert np.all((fit.mixture_.noise > 0) & (fit.mixture_.noise <= 0.5))


@pytest.mark.filterwarnings("ignore::bitmix.errors.BitmixWarning")
@pytest.mark.parametrize("X", [np.zeros((1, 1)), np.zeros((5, 3)), np.ones((4, 70)), np.eye(6)])
@pytest.mark.parametrize("model", NOISE_MODELS)
def test_odd_tables(X, model):
    for k in (1, min(2, len(X)), len(X)):
        fit = TemplateMixture(k, noise_model=model, random_state=0).fit(X)
        assert np.isfinite(fit.score(X))
        assert fit.templates_.shape == (k, X.shape[1])


# -- starts --------------------------------------------------------------------------------------


def test_distances_are_expected_hamming_distances():
    rng = np.random.default_rng(0)
    means = rng.random((6, 500))
    distances = prune.ExpectedHamming(means, np.full(6, 8 << 30), 1 << 30)
    found = np.array([distances.to(i, debiased=False) for i in range(6)])
    exact = np.array([[(s * (1 - t) + t * (1 - s)).sum() for t in means] for s in means])
    np.fill_diagonal(exact, 0)
    scale = exact[0, 1] / found[0, 1]
    assert np.allclose(found * scale, exact, rtol=1e-4)


def test_debiased_distances_estimate_those_of_the_templates():
    """Means of 10 rows at q = .2 of templates 100 of 2,000 bits apart: averaged over 60 pairs, the
    debiased distance is d(1-2q)² = 36 within 6 standard errors; undebiased it is above 600."""
    templates = make_templates(2, 2000, separation=0.05, random_state=0)
    estimates = []
    for seed in range(60):
        labels = np.arange(20) % 2
        bits = templates[labels] ^ (np.random.default_rng(seed).random((20, 2000)) < 0.2)
        means = np.array([bits[labels == i].mean(axis=0) for i in (0, 1)])
        found = prune.ExpectedHamming(means, np.full(2, 10 << 30), 1 << 30).to(0, debiased=True)[1]
        estimates.append(found / 2.0 ** (2 * min(20, (52 - 11) // 2)))
    error = np.std(estimates) / np.sqrt(60)
    assert abs(np.mean(estimates) - 36) < 6 * error
    assert error < 3


def test_starts_prefer_the_far_and_heavy():
    """Three groups of templates at mutual distance 0 within: three distinct groups are chosen
    unless chance picks within a group, which distance 0 forbids."""
    apart = np.where(np.arange(9)[:, None] // 3 == np.arange(9)[None] // 3, 0, 1000)
    rng = np.random.default_rng(0)
    for _ in range(50):
        chosen = prune.spread(apart.__getitem__, np.full(9, 5 << 30), 3, rng)
        assert sorted(c // 3 for c in chosen) == [0, 1, 2]
    nowhere = np.zeros(4, dtype=np.int64)
    chosen = prune.spread(lambda i: nowhere, np.full(4, 1 << 30), 4, rng)
    assert sorted(chosen) == [0, 1, 2, 3]


# -- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "fit", "says"),
    [
        (
            {"noise_model": "pink"},
            {},
            "noise_model must be one of shared, component, feature, cell",
        ),
        ({"n_init": 0}, {}, "n_init must be at least 1"),
        ({"tol": -1}, {}, "tol"),
        ({"tol": float("nan")}, {}, "tol"),
        ({"round_one_rows": 0}, {}, "round_one_rows"),
        ({"round_one_rows": 1}, {}, "round_one_rows must be at least 2"),
        ({"min_weight": 0.9}, {}, "min_weight"),
        ({}, {"sample_weight": [1, 2]}, "one per row"),
        ({}, {"sample_weight": [1, -2, 1, 1]}, "not negative, got -2"),
        ({}, {"sample_weight": [1, np.nan, 1, 1]}, "for row 1"),
        ({}, {"sample_weight": np.zeros(4)}, "must not be zero"),
        ({}, {"sample_weight": np.full(4, 1e12)}, "scale it down"),
        ({}, {"mask": np.zeros((3, 2), dtype=bool)}, "mask must be True where"),
        ({}, {"mask": np.full((4, 2), 0.5)}, "mask must be True where"),
    ],
)
def test_bad_input_is_named(params, fit, says):
    with pytest.raises(InputError, match=says):
        TemplateMixture(**params).fit([[0, 1], [1, 0], [0, 0], [1, 1]], **fit)


def test_values_that_are_not_bits_are_still_refused():
    with pytest.raises(InputError, match=r"got 2.0 at row 1, column 0"):
        TemplateMixture().fit([[np.nan, 1.0], [2.0, 1.0]])
    with pytest.raises(InputError, match="infinity"):
        TemplateMixture().fit([[np.inf, 1.0], [0.0, 1.0]])


def test_damaged_noise_is_refused(tmp_path):
    from bitmix.errors import FileFormatError
    from bitmix.models import file as modelfile

    X, _ = sampled("feature")
    fit = TemplateMixture(3, noise_model="feature", random_state=0).fit(X)
    fit.save(tmp_path / "a.model")
    header, arrays = modelfile.read(tmp_path / "a.model")
    for wrong in (np.full((1, 150), 0.7), np.full((1, 149), 0.1), np.full((1, 150), np.nan)):
        modelfile.write(tmp_path / "b.model", header, {**arrays, "noise": wrong})
        with pytest.raises(FileFormatError, match="damaged"):
            TemplateMixture.load(tmp_path / "b.model")
    modelfile.write(tmp_path / "b.model", header, {**arrays, "means": arrays["means"][:, :9]})
    with pytest.raises(FileFormatError, match="means must have"):
        TemplateMixture.load(tmp_path / "b.model")


# -- ties, leads, leaving out ---------------------------------------------------------------------


def test_a_tie_goes_with_its_column():
    """Two clusters of two rows; in column 0 the first is tied and the second has ones, in column 1
    the other way round with zeros."""
    bits = np.array([[0, 0], [1, 1], [1, 0], [1, 0]], dtype=np.uint8)
    shares = np.array([[1, 0], [1, 0], [0, 1], [0, 1]]) << 30
    statistics = Statistics(4, shares.sum(axis=0), shares.T @ bits, 0, 0)
    found = noise.maximise(statistics, "shared", np.zeros((2, 2), dtype=np.uint8))
    assert found.templates.tolist() == [[1, 0], [1, 0]]


def test_leads_are_what_leaving_out_costs():
    """Far apart, a row without its template goes to the second best, and loses the lead."""
    X, labels = sampled("shared")
    fit = TemplateMixture(3, random_state=0).fit(X)
    lead = leads(X, fit.mixture_.scores())
    margins = fit.margins(X)
    found = fit.predict(X)
    expected = [np.floor(margins[found == i]).sum() for i in range(3)]
    assert lead.tolist() == expected


def test_components_too_many_are_left_out_again():
    X, _ = sampled("shared")
    rng = stream(0, "seeds")
    settings = Settings("shared", 10, 200, 1e-5)
    seeded = SeededRound.of(X, 40, rng)
    many = fit_templates(X, 6, seeded, settings, rng)
    few = fewer(X, many, 3, settings)
    assert few.mixture.n_components == 3
    assert templates_recovered(few.mixture.templates, TRUTH)
    both = merged(few, fit_templates(X, 3, seeded, settings, rng), settings)
    assert both.n_agreeing >= 2


def test_round_one_rows_follow_the_theory():
    X, _ = sampled("shared", 9000)
    assert TemplateMixture(3, random_state=0).fit(X).round_one_rows_ == 4096
    assert TemplateMixture(3, round_one_rows=500, random_state=0).fit(X).round_one_rows_ == 500
    assert TemplateMixture(3, random_state=0).fit(X[:1000]).round_one_rows_ == 1000


def test_a_constant_column_of_many_rows_keeps_its_noise_off_zero():
    """1 - p would be 0 from some ten million rows on; zeros and ones are treated alike."""
    c = 10**8
    statistics = Statistics(c, np.array([c << 30]), np.array([[c << 30, 0, (c // 2) << 30]]), 0)
    found = noise.maximise(statistics, "cell", np.zeros((1, 3), dtype=np.uint8))
    NoisyTemplates.from_arrays(found.arrays())
    assert found.noise[0, 0] == pytest.approx(found.noise[0, 1], rel=1e-12)
    assert 0 < found.noise[0, 0] < 1e-15
    assert found.templates.tolist() == [[1, 0, 0]]


def test_one_template_with_noise_by_column_is_not_the_cell_model():
    """(wrong + ½) / (m + 1), and its template bits count."""
    bits = random_bits(40, 6, 0).to_dense()
    bits[:, 0] = 1
    fit = TemplateMixture(1, noise_model="feature", random_state=0).fit(bits)
    assert fit.noise_[0] == pytest.approx(0.5 / 41)
    from bitmix import select_components

    chosen = select_components(bits, [1], noise_model="feature", random_state=0)
    assert chosen.candidates[0].bic == pytest.approx(fit.bic(bits))


def test_weights_that_are_small_are_not_lost():
    """Normalised to a sum of 1, as some tools have them."""
    X, _ = sampled("shared", 300)
    weights = np.random.default_rng(0).uniform(0.5, 1.5, 300)
    rows = as_rows(X, sample_weight=weights / weights.sum(), missing=True)
    counts = rows.layout.weights(rows.map_rows(np.copy)).astype(float)
    assert np.allclose(counts / counts.sum(), weights / weights.sum(), rtol=1e-4)
    with pytest.raises(InputError, match="sum must be at least 1, got 0.5"):
        TemplateMixture(3).fit(X, sample_weight=0.5 * weights / weights.sum())


def test_the_debiased_distance_knows_what_a_row_weighs():
    means = np.random.default_rng(0).random((4, 50))
    mass = np.array([3, 4, 5, 6]) << 30
    plain = prune.ExpectedHamming(means, mass, 1 << 30)
    scaled = prune.ExpectedHamming(means, mass << 16, 1 << 46)
    for i in range(4):
        assert np.array_equal(plain.to(i, debiased=True), scaled.to(i, debiased=True))


def test_starts_that_stand_at_once_and_agree_are_few():
    """Templates far apart: three starts are enough. Fair coins have no templates to stand."""
    templates = make_templates(3, 500, separation=0.3, random_state=0)
    X, _ = sample_mixture(templates, [0.5, 0.3, 0.2], 0.05, 300, random_state=0)
    fit = TemplateMixture(3, random_state=0).fit(X)
    assert fit.n_starts_ == fit.n_agreeing_ == 3
    coins = np.random.default_rng(0).integers(2, size=(300, 500), dtype=np.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert TemplateMixture(3, random_state=0).fit(coins).n_starts_ > 3


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("missing", [False, True])
def test_mean_scores_are_means_of_scores(weighted, missing):
    """Within a unit, over rows with weights and cells missing, for popcounts and affine scores."""
    rng = np.random.default_rng(0)
    X, _ = sampled("shared", 200)
    weights = rng.integers(1, 9, size=200)
    mask = rng.random(X.shape) < 0.2
    rows = as_rows(
        X, sample_weight=weights if weighted else None, mask=mask if missing else None, missing=True
    )
    plain = as_rows(X)
    mixture = seeds.pick(plain, 9, rng, None)
    for model in (mixture, replace(mixture, means=0.1 + 0.8 * mixture.means)):
        scores = model.scores(missing=missing)
        packed = rows.map_rows(np.copy)
        words, counts = rows.layout.scored(packed), rows.layout.weights(packed)
        exact = [
            sum(int(c) * int(s) for c, s in zip(counts, column, strict=True)) / int(counts.sum())
            for column in scores(words).T
        ]
        assert np.abs(step.mean_scores(rows, scores) - np.array(exact)).max() < 4


def test_a_component_without_weight_stays_without_when_cooled():
    from bitmix.em.search import _cooled

    rows = random_bits(200, 20, 0)
    templates = rows.to_dense()[:2]
    mixture = NoisyTemplates(templates, np.array([1.0, 0.0]), np.full((2, 20), 0.3))
    assert _cooled(rows, mixture, (4,)).weights.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("seed", range(5))
def test_a_survey_of_few_questions(seed):
    """Two classes answer 8 questions with probabilities .85 and .15, 1,000 people: each estimate
    rests on 300 or more, within 6 standard deviations of .021, and some more for shared rows."""
    p = np.where(np.arange(16).reshape(2, 8) % 5 < 2, 0.85, 0.15)
    rng = np.random.default_rng(seed)
    labels = (rng.random(1000) < 0.4).astype(int)
    answers = (rng.random((1000, 8)) < p[labels]).astype(np.uint8)
    fit = TemplateMixture(2, noise_model="cell", random_state=seed).fit(answers)
    found = np.where(fit.templates_ == 1, 1 - fit.noise_, fit.noise_)
    assert np.abs(found - p).max() < 0.15
    assert np.abs(fit.weights_ - [0.6, 0.4]).max() < 0.12
