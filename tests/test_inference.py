"""Numbers for a paper: fit statistics, standard errors, bootstrap tests, residuals, outcomes."""

import csv
import io
import itertools
import json
import math
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import bitmix as run_bitmix
from scipy import optimize, stats

import bitmix
from bitmix import TemplateMixture, select_components
from bitmix.em.fit import held_out
from bitmix.errors import InputError
from bitmix.inference.classification import classification_matrix, influence
from bitmix.inference.estimates import interval
from bitmix.inference.matching import match
from bitmix.inference.pattern_table import pattern_table
from bitmix.inference.relate import People, bch
from bitmix.inference.replicates import for_each, resampled
from bitmix.inference.tables import Column, Table
from bitmix.kernels.items import Items
from bitmix.models.mixture import NOISE_MODELS, Mixture
from bitmix.support.randomness import stream

TABLES = Path(os.environ.get("BITMIX_TABLES", "tables")) / "lca"
P = np.array([[0.9] * 5 + [0.1] * 5, [0.15] * 10, [0.8] * 10])
SHARES = np.array([0.5, 0.3, 0.2])


def survey(m, seed, p=P, shares=SHARES):
    rng = np.random.default_rng(seed)
    classes = rng.choice(len(shares), size=m, p=shares)
    return (rng.random((m, p.shape[1])) < p[classes]).astype(np.uint8), classes


def latent_classes(X, k, prior=0.0, **options):
    return TemplateMixture(k, noise_model="cell", prior=prior, random_state=0).fit(X, **options)


def coded(frame):
    """Columns of 0 and 1 for each value of each column of a table, and the groups of columns."""
    parts, items, n = [], [], 0
    for name in frame:
        values = sorted(frame[name].dropna().unique())
        part = np.stack([frame[name] == value for value in values], axis=1).astype(float)
        part[frame[name].isna()] = np.nan
        items.append(list(range(n, n + len(values))))
        n += len(values)
        parts.append(part)
    return np.hstack(parts), items


@pytest.fixture(scope="module")
def fitted():
    X, _ = survey(500, 1)
    return latent_classes(X, 3), X


# fit statistics


def test_statistics_by_hand():
    """All patterns of four items: every number from its formula."""
    X, _ = survey(300, 2, P[:2, 3:7], np.array([0.6, 0.4]))
    model = latent_classes(X, 2)
    fit = bitmix.fit_statistics(model, X)
    w, p = model.weights_, model.probabilities_
    cells = np.array(list(itertools.product([0, 1], repeat=4)))
    joint = w * np.prod(np.where(cells[:, None, :] == 1, p, 1 - p), axis=2)
    expected = 300 * joint.sum(axis=1)
    observed = np.array([(cell == X).all(axis=1).sum() for cell in cells])
    some = observed > 0
    g_squared = 2 * (observed[some] * np.log(observed[some] / expected[some])).sum()
    posterior = joint / joint.sum(axis=1, keepdims=True)
    entropy = -(observed[:, None] * posterior * np.log(posterior)).sum()
    likelihood = (observed * np.log(joint.sum(axis=1))).sum()
    assert fit.n_parameters == 9
    assert fit.df == 15 - 9
    assert fit.log_likelihood == pytest.approx(likelihood, abs=1e-4)
    assert fit.g_squared == pytest.approx(g_squared, abs=1e-3)
    assert fit.chi_squared == pytest.approx(((observed - expected) ** 2 / expected).sum(), abs=1e-3)
    assert fit.entropy == pytest.approx(entropy, abs=1e-3)
    assert fit.entropy_r2 == pytest.approx(1 - entropy / 300 / math.log(2), abs=1e-5)
    assert fit.aic == pytest.approx(-2 * likelihood + 18, abs=1e-3)
    assert fit.bic == pytest.approx(-2 * likelihood + 9 * math.log(300), abs=1e-3)
    assert fit.sabic == pytest.approx(-2 * likelihood + 9 * math.log(302 / 24), abs=1e-3)
    assert fit.caic == pytest.approx(-2 * likelihood + 9 * (math.log(300) + 1), abs=1e-3)
    assert fit.icl == pytest.approx(fit.bic + 2 * entropy, abs=1e-2)
    put_into = posterior.argmax(axis=1)
    for i in range(2):
        of = observed * (put_into == i)
        assert fit.class_sizes[i] == of.sum()
        assert fit.classification[i] == pytest.approx(of @ posterior / of.sum(), abs=1e-5)
    assert fit.patterns.observed.sum() == 300
    assert len(fit.patterns.rows) == some.sum()


def test_weighted_rows_are_repeated_rows():
    X, _ = survey(400, 3, P[:, :6])
    patterns, counts = np.unique(X, axis=0, return_counts=True)
    model = latent_classes(X, 3)
    one = bitmix.fit_statistics(model, X).to_dict()
    other = bitmix.fit_statistics(model, patterns, sample_weight=counts).to_dict()
    for name, value in one.items():
        assert other[name] == pytest.approx(value, rel=1e-12), name
    a = bitmix.analytic_standard_errors(model, X).standard_errors
    b = bitmix.analytic_standard_errors(model, patterns, sample_weight=counts).standard_errors
    assert np.array_equal(a.probabilities, b.probabilities, equal_nan=True)
    a = bitmix.bootstrap(model, X, n=10).standard_errors
    b = bitmix.bootstrap(model, patterns, n=10, sample_weight=counts).standard_errors
    assert np.array_equal(a.probabilities, b.probabilities)
    a, b = (
        bitmix.bivariate_residuals(model, *given).residuals for given in ((X,), (patterns, 0, 0))
    )
    c = bitmix.bivariate_residuals(model, patterns, sample_weight=counts).residuals
    np.testing.assert_allclose(a, c, rtol=1e-9)
    assert np.nanmax(np.abs(a - b)) > 0.01


def test_the_table_of_patterns_counts_rows():
    X, _ = survey(200, 14, P[:2, 3:7], np.array([0.6, 0.4]))
    names = ["sings", "dances", "reads", "cooks"]
    model = latent_classes(pd.DataFrame(X, columns=names), 2)
    table = pattern_table(model, bitmix.fit_statistics(model, pd.DataFrame(X, columns=names)), 5)
    counts = {}
    for row in X.tolist():
        counts[tuple(row)] = counts.get(tuple(row), 0) + 1
    assert [record["observed"] for record in table.records] == sorted(counts.values())[:-6:-1]
    for record in table.records:
        row = [int(record[f"item_{i}"]) for i in range(4)]
        assert record["observed"] == counts[tuple(row)]
        expected = 200 * np.exp(model.score_samples(pd.DataFrame([row], columns=names)))[0]
        assert record["expected"] == pytest.approx(expected, rel=1e-6)


def test_missing_cells_leave_no_patterns():
    X = survey(200, 4)[0].astype(float)
    X[0, 0] = np.nan
    fit = bitmix.fit_statistics(latent_classes(X, 2), X)
    assert fit.patterns is None
    assert fit.df is None
    assert math.isnan(fit.g_squared)


@pytest.mark.parametrize("noise_model", NOISE_MODELS)
def test_every_noise_model_has_statistics(noise_model):
    X, _ = survey(200, 5)
    model = TemplateMixture(2, noise_model=noise_model, random_state=0).fit(X)
    fit = bitmix.fit_statistics(model, X)
    assert fit.bic == pytest.approx(model.bic(X), rel=1e-9)
    assert fit.patterns.expected.sum() <= 200 + 1e-6
    result = bitmix.bootstrap(model, X, n=5)
    assert result.standard_errors.probabilities.shape == (2, 10)
    noise = result.standard_errors.noise
    assert (noise is None) if noise_model == "cell" else (np.shape(noise) == np.shape(model.noise_))


# published numbers

needs_tables = pytest.mark.skipif(
    not TABLES.is_dir(), reason="BITMIX_TABLES names no folder with lca tables"
)


def table_of(name):
    return pd.read_csv(TABLES / f"{name}.csv", index_col=0)


@needs_tables
def test_carcinoma_as_published():
    X = table_of("carcinoma").to_numpy() - 1
    for k, likelihood in ((2, -317.2568), (3, -293.7050), (4, -289.2858)):
        fit = bitmix.fit_statistics(model := latent_classes(X, k), X)
        assert fit.log_likelihood == pytest.approx(likelihood, abs=0.001)
        if k == 3:
            assert round(fit.bic, 3) == 697.136
            assert round(fit.g_squared, 3) == 15.262
            assert round(fit.chi_squared, 3) == 20.503
            assert round(fit.entropy_r2, 3) == 0.926
            errors = bitmix.analytic_standard_errors(model, X)
            assert errors.standard_errors.weights.round(3).tolist() == [0.048, 0.048, 0.041]
            assert errors.n_left_out == 10


@needs_tables
def test_values_gss82_and_election_as_published():
    X = table_of("values").to_numpy() - 1
    for k, likelihood in ((1, -543.6498), (2, -504.4677)):
        fit = bitmix.fit_statistics(latent_classes(X, k), X)
        assert fit.log_likelihood == pytest.approx(likelihood, abs=0.001)
    X, items = coded(table_of("gss82"))
    for k, likelihood in ((2, -2783.268), (3, -2754.545), (4, -2746.621)):
        for seed in range(3):  # k = 4: one start in six ends at the best one, and there are 20
            options = {"noise_model": "cell", "prior": 0, "random_state": seed}
            model = TemplateMixture(k, **options).fit(X, items=items)
            fit = bitmix.fit_statistics(model, X)
            assert fit.log_likelihood == pytest.approx(likelihood, abs=0.001)
    X, items = coded(table_of("election").iloc[:, :12].dropna())
    for k, likelihood in ((2, -17344.92), (3, -16714.66)):
        fit = bitmix.fit_statistics(latent_classes(X, k, items=items), X)
        assert fit.log_likelihood == pytest.approx(likelihood, abs=0.01)
    X, items = coded(table_of("election").iloc[:, :12])  # missing answers; by StepMix
    fit = bitmix.fit_statistics(latent_classes(X, 3, items=items), X)
    assert fit.log_likelihood == pytest.approx(-21311.536, abs=0.01)


# the table of a selection


def test_the_enumeration_table():
    X, _ = survey(300, 6, P[:2, 2:8], np.array([0.6, 0.4]))
    estimator = TemplateMixture(noise_model="cell", prior=0)
    found = select_components(X, [1, 2, 3], estimator, criterion="bic", blrt=9, random_state=0)
    frame = found.table()
    assert frame["n_components"].tolist() == [1, 2, 3]
    assert frame["n_parameters"].tolist() == [6, 13, 20]
    assert frame["df"].tolist() == [57, 50, 43]
    for model, record in zip(found.models, frame.to_dict("records"), strict=True):
        fit = bitmix.fit_statistics(model, X)
        for name in ("log_likelihood", "aic", "bic", "sabic", "caic", "icl", "g_squared"):
            assert record[name] == pytest.approx(getattr(fit, name), rel=1e-12)
    assert (np.abs(frame["held_out"] * 300 / frame["log_likelihood"] - 1) < 0.1).all()
    assert frame["held_out"][1] > frame["held_out"][0]
    assert float(list(csv.DictReader(io.StringIO(found.table("csv"))))[1]["held_out"]) == (
        found.candidates[1].held_out
    )
    assert "| held-out ln L per row |" in found.table("markdown")
    assert "held-out ln L per row" in found.table("latex")
    assert math.isnan(frame["blrt"][0])
    assert frame["blrt"][1] == 1 / 10
    lines = list(csv.DictReader(io.StringIO(found.table("csv"))))
    assert [float(line["bic"]) for line in lines] == frame["bic"].tolist()
    assert lines[0]["entropy_r2"] == ""
    assert found.table("markdown").splitlines()[0].startswith("| k | parameters | ln L |")
    assert found.table("latex").startswith(r"\begin{tabular}{r")
    with pytest.raises(InputError, match="format must be one of markdown, latex, csv, got 'word'"):
        found.table("word")


def test_held_out_rows_are_not_fitted():
    """With one class, probabilities are shares of ones in the other folds, with a prior of a tenth
    of a row."""
    X, _ = survey(80, 3)
    model = latent_classes(X, 1)
    rows = model.rows_like_fit(X)
    fold_of = stream(0, "folds").permutation(80) % 4
    total = 0.0
    for fold in range(4):
        train = X[fold_of != fold]
        share = (train.sum(axis=0) + 0.5) / (len(train) + 1)
        p = (train.sum(axis=0) + 0.1 * share) / (len(train) + 0.1)
        test = X[fold_of == fold]
        total += (test * np.log(p) + (1 - test) * np.log(1 - p)).sum()
    found = held_out(rows, model.mixture_, model.settings_like_fit(), 0)
    assert found == pytest.approx(total / 80, abs=2e-3)
    assert found < bitmix.fit_statistics(model, X).log_likelihood / 80
    assert math.isnan(held_out(rows[:7], model.mixture_, model.settings_like_fit(), 0))
    twice = model.rows_like_fit(X[:40], np.full(40, 2.0))
    both = model.rows_like_fit(np.repeat(X[:40], 2, axis=0))
    values = [held_out(r, model.mixture_, model.settings_like_fit(), 0) for r in (twice, both)]
    assert values[0] == values[1]


def test_tables_escape_what_their_format_takes_for_markup():
    table = Table((Column("a", "a|b_c"), Column("x", "x", ".1f")), ({"a": "5% & {|}", "x": -1.0},))
    assert table.to_markdown().splitlines()[2] == r"| 5% & {\|} | −1.0 |"
    assert r"5\% \& \{|\} & $-$1.0 \\" in table.to_latex()


# analytic standard errors


def test_the_information_is_the_hessian():
    """Beside the second differences of ln L in the logits of all parameters, at a fit."""
    X, _ = survey(400, 7, P[:2, :6], np.array([0.6, 0.4]))
    model = latent_classes(X, 2)
    patterns, counts = np.unique(X, axis=0, return_counts=True)

    def likelihood(theta):
        w = np.array([1, np.exp(-theta[0])]) / (1 + np.exp(-theta[0]))
        p = 1 / (1 + np.exp(-theta[1:].reshape(2, 6)))
        f = np.prod(np.where(patterns[:, None, :] == 1, p, 1 - p), axis=2)
        return counts @ np.log(f @ w)

    start = np.concatenate([[model.weights_[0]], model.probabilities_.ravel()])
    theta = np.log(start / (1 - start))
    theta = optimize.minimize(lambda t: -likelihood(t), theta).x
    step, n = 1e-4, len(theta)
    shift = step * np.eye(n)
    hessian = [
        [
            likelihood(theta + a + b) - likelihood(theta + a - b)
            - likelihood(theta - a + b) + likelihood(theta - a - b)
            for b in shift
        ]
        for a in shift
    ]  # fmt: skip
    errors = np.sqrt(np.diagonal(np.linalg.inv(-np.array(hessian) / (4 * step**2))))
    ours = bitmix.analytic_standard_errors(model, X).standard_errors
    p = 1 / (1 + np.exp(-theta))
    expected = p * (1 - p) * errors
    assert ours.weights == pytest.approx(np.full(2, expected[0]), rel=1e-2)
    assert ours.probabilities.ravel() == pytest.approx(expected[1:], rel=1e-2)


def test_items_with_two_values_have_the_errors_of_binary_columns():
    X, _ = survey(400, 8, P[:2, :5], np.array([0.6, 0.4]))
    X = X.astype(float)
    X[::7, 1] = np.nan
    doubled = np.stack([1 - X, X], axis=2).reshape(400, 10)
    model = latent_classes(X, 2)
    both = latent_classes(doubled, 2, items=[[2 * s, 2 * s + 1] for s in range(5)])
    one = bitmix.analytic_standard_errors(model, X).standard_errors
    two = bitmix.analytic_standard_errors(both, doubled).standard_errors
    assert two.probabilities[:, 1::2] == pytest.approx(one.probabilities, rel=1e-3)
    assert two.weights == pytest.approx(one.weights, rel=1e-3)
    a, b = (bitmix.bivariate_residuals(m, x).residuals for m, x in ((model, X), (both, doubled)))
    np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore::bitmix.errors.DuplicateTemplatesWarning")
def test_too_many_classes_have_no_information():
    """Classes that start equal stay equal, so that their shares can be anything."""
    X, _ = survey(60, 9, P[:1, :3], np.ones(1))
    equal = TemplateMixture(2, noise_model="cell", init=np.full((2, 3), 0.7)).fit(X)
    with pytest.raises(InputError, match="not identified.*fewer classes"):
        bitmix.analytic_standard_errors(equal, X)


# bootstrap


def test_bootstrap_and_information_agree(fitted):
    """The ratio of both errors of a parameter is within .7 and 1.4: of 400 replicates, a standard
    deviation has a relative error of .035, and what is left is the difference of the two methods at
    500 people. Nothing here is random between runs."""
    model, X = fitted
    result = bitmix.bootstrap(model, X, n=400)
    analytic = bitmix.analytic_standard_errors(model, X)
    for name in ("weights", "probabilities"):
        ratio = getattr(result.standard_errors, name) / getattr(analytic.standard_errors, name)
        ratio = ratio[np.isfinite(ratio)]
        assert ((ratio > 0.7) & (ratio < 1.4)).all()
    assert result.unmatched == 0
    assert result.n == 400
    assert result.template_support.shape == (3, 10)
    assert (result.template_support[0] == 1).all()


def test_the_bootstrap_is_the_same_every_time(fitted, monkeypatch):
    model, X = fitted
    first = bitmix.bootstrap(model, X, n=6, random_state=3)
    monkeypatch.setenv("BITMIX_NUM_THREADS", "3")
    second = bitmix.bootstrap(model, X, n=6, random_state=3)
    assert np.array_equal(first.replicates.probabilities, second.replicates.probabilities)
    other = bitmix.bootstrap(model, X, n=6, random_state=4)
    assert not np.array_equal(first.replicates.weights, other.replicates.weights)


def test_a_replicate_has_as_many_people(fitted):
    model, X = fitted
    rows = model.rows_like_fit(X)
    table = resampled(rows, np.random.default_rng(0))
    assert table.total_weight == 500
    assert len(table) < 400  # 37 % of people are not drawn
    weights = np.random.default_rng(1).random(500) + 0.5
    table = resampled(rows.weighted(weights), np.random.default_rng(0))
    assert table.total_weight == pytest.approx(500, rel=0.1)


def test_intervals_stay_between_0_and_1_and_hold_the_estimate(fitted):
    model, X = fitted
    for result in (
        bitmix.bootstrap(model, X, n=20).intervals,
        bitmix.analytic_standard_errors(model, X).intervals,
    ):
        for estimate, ends in (
            (model.weights_, result.weights),
            (model.probabilities_, result.probabilities),
        ):
            assert (ends[..., 0] <= estimate).all()
            assert (ends[..., 1] >= estimate).all()
            assert (ends >= 0).all()
            assert (ends <= 1).all()
    ends = interval(np.array([0.5]), np.array([0.1]), 0.95)
    assert ends[0] == pytest.approx([0.3135, 0.6865], abs=1e-4)


def test_a_probability_at_its_bound_has_the_exact_interval():
    X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], [30, 70], axis=0)
    model = latent_classes(X, 2)
    ends = bitmix.bootstrap(model, X, n=20).intervals.probabilities
    assert ends[0, 0].tolist() == pytest.approx([0, 1 - 0.05 ** (1 / 70)])
    assert ends[1, 0].tolist() == pytest.approx([0.05 ** (1 / 30), 1])


def test_intervals_hold_the_truth():
    """Of the 33 parameters in each of 20 surveys, 95 % should be held. With coverage of at least
    .93 in truth, and the 33 intervals of a survey as dependent as can be, 20 surveys hold fewer
    than 70 % on average with a probability below 1e-6: by Bernstein's inequality for a mean of 20
    with variance .93·.07 and a distance of .23, it is exp(-20·.23²/2/(.065+.23/3))."""
    held = []
    for seed in range(20):
        X, _ = survey(500, 100 + seed)
        model = latent_classes(X, 3)
        order = match(Mixture(P, SHARES, None), model.mixture_)
        result = bitmix.bootstrap(model, X, n=40).intervals
        for truth, ends in ((SHARES, result.weights), (P, result.probabilities)):
            low, high = ends[order][..., 0], ends[order][..., 1]
            held.extend(((low <= truth) & (truth <= high)).ravel())
    assert np.mean(held) > 0.7


def test_classes_that_come_and_go_have_no_standard_errors(fitted, monkeypatch):
    model, X = fitted
    outcomes = iter([None, np.arange(3)] * 10)
    monkeypatch.setattr("bitmix.inference.bootstrap.match", lambda *mixtures: next(outcomes))
    with pytest.raises(InputError, match="could not be matched.*of 20 replicates.*fewer classes"):
        bitmix.bootstrap(model, X, n=20)


def test_matching_undoes_a_permutation():
    mixture = Mixture(P, SHARES, None)
    order = match(mixture, mixture.reordered(np.array([2, 0, 1])))
    assert order.tolist() == [1, 2, 0]
    twice = Mixture(P[[0, 0, 1]], SHARES, None)
    assert match(mixture, twice) is None


def test_results_come_in_order():
    assert for_each(range(7), lambda i: i * i) == [i * i for i in range(7)]
    with pytest.raises(ZeroDivisionError):
        for_each(range(3), lambda i: 1 // i)


# the bootstrap likelihood-ratio test


def test_blrt_finds_two_classes_and_not_three():
    """Two classes that ten items tell apart: 19 tables of one class have no statistic as large. p
    of three classes is 1/20 with probability .05 for one seed, but the seed is fixed."""
    X, _ = survey(200, 11, P[:2], np.array([0.6, 0.4]))
    two = bitmix.blrt(X, 2, n=19)
    assert two.p_value == 1 / 20
    assert two.statistic > 10 * two.replicates.max()
    three = bitmix.blrt(X, 3, n=39)
    assert three.p_value > 0.1
    assert len(three.replicates) < 39
    again = bitmix.blrt(X, 3, n=39)
    assert np.array_equal(three.replicates, again.replicates)


def test_blrt_of_items_and_missing_cells():
    rng = np.random.default_rng(0)
    answers = rng.integers(0, 3, (150, 4))
    X = (answers[:, :, None] == np.arange(3)).reshape(150, 12).astype(float)
    X[:20, :3] = np.nan
    items = [list(range(3 * s, 3 * s + 3)) for s in range(4)]
    estimator = TemplateMixture(noise_model="cell")
    result = bitmix.blrt(X, 2, estimator, items=items, n=9)
    assert result.p_value > 0.1
    assert result.n_components == 2


# bivariate residuals


def test_residuals_by_hand(fitted):
    model, X = fitted
    result = bitmix.bivariate_residuals(model, X)
    w, p = model.weights_, model.probabilities_
    for s, t in ((0, 1), (3, 8)):
        chi_squared = 0.0
        for a, b in itertools.product([0, 1], repeat=2):
            observed = ((X[:, s] == a) & (X[:, t] == b)).sum()
            p_a, p_b = (q if v else 1 - q for q, v in ((p[:, s], a), (p[:, t], b)))
            expected = 500 * (w * p_a * p_b).sum()
            chi_squared += (observed - expected) ** 2 / expected
        assert result.residuals[s, t] == pytest.approx(chi_squared, rel=1e-9)
        assert result.residuals[t, s] == pytest.approx(chi_squared, rel=1e-9)
    assert np.isnan(np.diagonal(result.residuals)).all()


def test_residuals_show_the_pair_that_is_associated():
    X, _ = survey(500, 12)
    X[:250, 7] = X[:250, 2]
    result = bitmix.bivariate_residuals(latent_classes(X, 3), pd.DataFrame(X), n=19)
    record = result.largest(1).records[0]
    assert (record["item"], record["other_item"]) == ("column 2", "column 7")
    assert record["p_value"] == result.p_largest == 1 / 20
    assert len(result.largest(3).records) == 3


def test_items_are_named_after_their_columns():
    frame = pd.DataFrame(
        {"a": [0, 1] * 20, "mood_low": [1, 0] * 20, "mood_mid": [0, 1] * 20, "mood_top": [0] * 40}
    )
    model = latent_classes(frame, 1, items=[[1, 2, 3]])
    result = bitmix.bivariate_residuals(model, frame)
    assert result.items == ("a", "mood")
    assert result.chi_squared.shape == (2, 2)


# outcomes by class


def two_classes(m, seed, flips=0.25):
    p = np.array([[flips] * 6, [1 - flips] * 6])
    return survey(m, seed, p, np.array([0.6, 0.4]))


def classes_of_model(model, classes):
    """The classes by the numbers that the fit gives them: probabilities are below ½ in class 0."""
    return classes if model.probabilities_[0].mean() < 0.5 else 1 - classes


@pytest.mark.parametrize("method", ["bch", "ml"])
def test_means_and_shares_by_class_are_right_on_average(method):
    """Over 25 surveys of 600, the mean of the estimates is within 6 standard errors of the truth
    (two-sided p of a normal: 2e-9), and their spread is what the standard errors say, within a
    factor of 2, which a χ² with 24 degrees of freedom leaves with p < 1e-6. Means of the people
    who are put into a class differ too little."""
    means, shares, plain, errors = [], [], [], []
    for seed in range(25):
        X, classes = two_classes(600, seed)
        rng = np.random.default_rng(seed)
        model = latent_classes(X, 2)
        z = classes_of_model(model, classes)
        y = rng.normal(z)
        relation = bitmix.relate(model, X, y, method=method)
        means.append(relation.estimates)
        errors.append(relation.standard_errors)
        plain.append([y[model.predict(X) == i].mean() for i in range(2)])
        voted = np.where(rng.random(600) < 0.2 + 0.6 * z, "yes", "no")
        shares.append(bitmix.relate(model, X, voted, method=method).estimates[:, 1])
    for values, expected in ((means, [0, 1]), (shares, [0.2, 0.8])):
        error = np.std(values, axis=0, ddof=1) / 5
        assert (np.abs(np.mean(values, axis=0) - expected) < 6 * error).all()
    ratio = np.std(means, axis=0, ddof=1) / np.mean(errors, axis=0)
    assert ((ratio > 0.5) & (ratio < 2)).all()
    difference = np.mean(plain, axis=0)[1] - np.mean(plain, axis=0)[0]
    assert difference < 0.9


def test_without_overlap_the_classes_are_groups():
    X = np.repeat([[0] * 8, [1] * 8], [60, 40], axis=0)
    y = np.arange(100) % 7 + 10.0 * (np.arange(100) >= 60)
    model = latent_classes(X, 2)
    for method in ("bch", "ml"):
        relation = bitmix.relate(model, X, y, method=method)
        assert relation.estimates == pytest.approx([y[:60].mean(), y[60:].mean()], rel=1e-6)
        error = [y[:60].std() / math.sqrt(60), y[60:].std() / math.sqrt(40)]
        assert relation.standard_errors == pytest.approx(error, rel=1e-3)
        z = (y[60:].mean() - y[:60].mean()) / math.hypot(*error)
        overall = relation.overall()
        assert overall["chi_squared"] == pytest.approx(z**2, rel=1e-3)
        assert overall["df"] == 1
        assert overall["p_value"] == pytest.approx(stats.chi2.sf(z**2, 1), rel=0.2)
        record = relation.pairwise().records[0]
        assert record["difference"] == pytest.approx(y[:60].mean() - y[60:].mean(), rel=1e-6)
    answers = np.array(["a", "b", "c"])[np.arange(100) % 3].astype(object)
    answers[0] = None
    for method in ("bch", "ml"):
        relation = bitmix.relate(model, X, answers, method=method)
        assert relation.values == ("a", "b", "c")
        assert relation.n_missing == 1
        assert relation.estimates[1] == pytest.approx([14 / 40, 13 / 40, 13 / 40], abs=1e-4)
        assert relation.estimates.sum(axis=1) == pytest.approx([1, 1])
        assert relation.overall()["df"] == 2
        assert len(relation.table().records) == 6


def test_weights_of_an_outcome_are_repeated_rows():
    X, classes = two_classes(300, 1)
    y = classes + 0.1 * np.arange(300)
    counts = np.arange(300) % 3  # some are 0
    model = latent_classes(X, 2)
    for method in ("bch", "ml"):
        one = bitmix.relate(model, X, y, method=method, sample_weight=counts)
        rows = np.repeat(np.arange(300), counts)
        other = bitmix.relate(model, X[rows], y[rows], method=method)
        assert one.estimates == pytest.approx(other.estimates, rel=1e-6)
        assert one.standard_errors == pytest.approx(other.standard_errors, rel=1e-6)
        assert one.first_step


def test_the_influence_of_a_person_is_what_a_little_more_weight_changes():
    """D after a fit in which one row counts a little more, people put into the same classes."""
    X, _ = two_classes(200, 3, flips=0.15)
    X = X.astype(float)
    X[::9, 2] = np.nan
    options = {"noise_model": "cell", "prior": 0, "tol": 1e-13, "random_state": 0}
    model = TemplateMixture(2, **options).fit(X, sample_weight=np.full(200, 1.0))
    rows = model.rows_like_fit(X)
    posterior = model.predict_proba(X)
    put_into = posterior.argmax(axis=1)
    matrix = classification_matrix(posterior, put_into, rows.weights)
    moves = influence(rows, model.mixture_, posterior, put_into, matrix)
    assert (rows.weights @ moves) == pytest.approx(np.zeros(4), abs=1e-4)
    for person in (0, 9, 57):
        less, more = (
            classification_matrix(fit.predict_proba(X), put_into, weights)
            for weights in (np.where(np.arange(200) == person, w, 1.0) for w in (0.75, 1.25))
            for fit in [TemplateMixture(2, **options).fit(X, sample_weight=weights)]
        )
        assert (more - less).ravel() * 2 == pytest.approx(moves[person], rel=0.01, abs=2e-5)


@pytest.mark.parametrize("method", ["bch", "ml"])
def test_standard_errors_count_that_classes_are_estimated(method, monkeypatch):
    """They are larger than those that take the classification errors for known."""
    X, classes = two_classes(600, 5, flips=0.3)
    model = latent_classes(X, 2)
    y = np.random.default_rng(5).normal(3 * classes)
    both = bitmix.relate(model, X, y, method=method)
    monkeypatch.setattr("bitmix.inference.relate.influence", lambda *parts: None)
    known = bitmix.relate(model, X, y, method=method)
    assert both.first_step
    assert not known.first_step
    assert (both.standard_errors > known.standard_errors).all()
    templates = TemplateMixture(2, noise_model="shared", random_state=0).fit(X)
    assert not bitmix.relate(templates, X, y, method=method).first_step


def test_bch_weights_undo_the_errors():
    """With the true classification errors, the correction is exact for any shares."""
    posterior = np.array([[0.8, 0.2], [0.3, 0.7]])
    matrix = classification_matrix(posterior, np.array([0, 1]), np.array([3.0, 2.0]))
    assert matrix == pytest.approx(np.array([[2.4 / 3.0, 0.6 / 3.0], [0.6 / 2.0, 1.4 / 2.0]]))
    seen = np.array([0.5, 0.5]) @ matrix  # shares of classes that people are put into
    y = np.array([[0.5 * matrix[0, s] * 10 / seen[s]] for s in range(2)])  # means, if only 0 has 10
    means, _ = bch(People(y, seen, np.arange(2), seen, None), matrix)
    assert means[:, 0] == pytest.approx([10, 0], abs=1e-9)


def test_the_command_line_passes_words_to_the_report(tmp_path):
    X, _ = survey(60, 2)
    pd.DataFrame(X).add_prefix("q").to_csv(tmp_path / "rows.csv", index=False)
    for more, said in (([], "classes"), (["--words", "groups"], "groups")):
        page = tmp_path / f"{said}.html"
        options = ["-k", "2", "--noise-model", "cell", "--report", str(page), *more]
        done = run_bitmix("fit", str(tmp_path / "rows.csv"), *options)
        assert done.returncode == 0, done.stderr
        assert f"<title>2 {said} in rows.csv</title>" in page.read_text()
        assert f", 2 {said}" in done.stdout


# bad input


def test_errors_say_rule_value_and_remedy(fitted):
    model, X = fitted
    cases = [
        (lambda: bitmix.bootstrap(model, X, n=0), "n must be at least 2, got 0: 200 are usual"),
        (lambda: bitmix.bootstrap(TemplateMixture, X), "needs a fitted TemplateMixture, got"),
        (lambda: bitmix.bootstrap(model, X, level=1.5), "level must lie strictly between 0 and 1"),
        (lambda: bitmix.blrt(X, 1), "k must be at least 2, got 1: the test compares k classes"),
        (lambda: bitmix.blrt(X, 2, n=0), "n must be at least 1, got 0: 99 are usual"),
        (lambda: bitmix.relate(model, X, [1, 2]), "outcome must be 500 values.*got shape"),
        (lambda: bitmix.relate(model, X, np.full(500, np.nan)), "outcome must have at least one"),
        (lambda: bitmix.relate(model, X, ["a"] * 500), "number of values of outcome.*at least 2"),
        (lambda: bitmix.relate(model, X, X[:, 0], method="modal"), "method must be one of bch, ml"),
        (lambda: bitmix.relate(model, X, ["a", "b"] * 250, kind="mean"), "kind='mean' needs num"),
        (lambda: bitmix.fit_statistics(X, X), "model must be a fitted estimator of bitmix, got"),
        (lambda: bitmix.bivariate_residuals(model, X, n=-1), "n must be at least 0, got -1"),
    ]
    for call, message in cases:
        with pytest.raises(InputError, match=message):
            call()
    shared = TemplateMixture(2, noise_model="shared", random_state=0).fit(X)
    with pytest.raises(InputError, match="are for noise_model='cell'.*use bitmix.bootstrap"):
        bitmix.analytic_standard_errors(shared, X)


def test_items_must_have_a_few_values():
    with pytest.raises(InputError, match="at least two column numbers each"):
        Items.of_groups([[0]], 3)
    with pytest.raises(InputError, match="at most 20 values, got 21"):
        Items.of_groups([list(range(21))], 21)
    X = np.eye(3)[np.arange(30) % 3]
    model = latent_classes(X, 1, items=[[0, 1, 2]])
    with pytest.raises(InputError, match="a value that the fit has not seen has no column"):
        model.predict(np.zeros((1, 3)))


# item probabilities, the command line and the report


def test_item_probabilities_by_name():
    frame = pd.DataFrame(survey(300, 13)[0][:, :4], columns=["a", "b", "c", "d"]).astype(float)
    frame.loc[:29, "b"] = np.nan
    model = latent_classes(frame, 2)
    errors = bitmix.analytic_standard_errors(model, frame)
    table = bitmix.item_probabilities(model, frame, errors)
    record = table.records[1]
    assert (record["item"], record["people"], record["missing"]) == ("b", 270, 30)
    assert record["class_1"] == model.probabilities_[1, 1]
    assert record["class_1_low"] == errors.intervals.probabilities[1, 1, 0]
    assert [column.heading for column in table.columns] == [
        "item", "class 0", "class 1", "n", "missing",
    ]  # fmt: skip
    assert table.frame()["class_0_high"].tolist() == [r["class_0_high"] for r in table.records]
    doubled = np.stack([frame == 0, frame == 1], axis=2).reshape(300, 8).astype(float)
    doubled[:30, 2:4] = np.nan
    names = [f"{name}_{answer}" for name in "abcd" for answer in ("no", "yes")]
    doubled = pd.DataFrame(doubled, columns=names)
    model = latent_classes(doubled, 2, items=[[0, 1], [2, 3], [4, 5], [6, 7]])
    lines = bitmix.item_probabilities(model, doubled).lines()
    assert [line[:2] for line in lines[:3]] == [["a", "no"], ["a", "yes"], ["b", "no"]]


@pytest.fixture(scope="module")
def survey_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("survey") / "survey.csv"
    X, _ = survey(200, 14, P[:2, 3:7], np.array([0.6, 0.4]))
    pd.DataFrame(X, columns=["sings", "dances", "reads", "cooks"]).to_csv(path, index=False)
    return path


CELL = ("--noise-model", "cell", "--prior", "0")


def test_the_command_line_prints_items_and_fit(survey_file, tmp_path):
    model = latent_classes(pd.read_csv(survey_file), 2)
    fit = bitmix.fit_statistics(model, pd.read_csv(survey_file))
    page = tmp_path / "page.html"
    done = run_bitmix("fit", survey_file, "-k", "2", *CELL, "--report", page)
    assert done.returncode == 0
    printed = " ".join(done.stdout.split())
    assert "2 classes" in printed
    assert f"ln L {fit.log_likelihood:.3f}" in printed
    assert f"G² {fit.g_squared:.2f}, χ² {fit.chi_squared:.2f} with {fit.df} df" in printed
    assert f"sings {model.probabilities_[0, 0]:.2f} [" in printed
    assert "--noise-model cell --prior 0.0 -o my.model" in printed
    text = page.read_text()
    assert "Item probabilities" in text
    assert f"{model.probabilities_[0, 0]:.2f} [" in text
    assert 'download="items.tex"' in text
    assert f"{fit.bic:,.2f}" in text


def test_the_command_line_prints_the_table_over_k(survey_file):
    options = ("fit", survey_file, "-k", "1-2", *CELL, "--blrt", "5", "--bootstrap", "5")
    done = run_bitmix(*options, "--table", "--words", "groups")
    assert "| k | parameters | ln L |" in done.stdout
    assert "2 groups" in done.stdout
    values = json.loads(run_bitmix(*options, "--json").stdout)
    assert [record["n_components"] for record in values["candidates"]] == [1, 2]
    assert values["candidates"][1]["blrt"] == pytest.approx(1 / 6)
    assert values["bic"] == pytest.approx(values["candidates"][1]["bic"])
    assert [item["item"] for item in values["items"]] == ["sings", "dances", "reads", "cooks"]
    assert np.shape(values["intervals"]["probabilities"]) == (2, 4, 2)
    assert len(values["standard_errors"]["weights"]) == 2


def test_predict_writes_the_whole_posterior(survey_file, tmp_path):
    path = tmp_path / "survey.model"
    run_bitmix("fit", survey_file, "-k", "2", *CELL, "-o", path)
    expected = bitmix.TemplateMixture.load(path).predict_proba(pd.read_csv(survey_file))
    for ending, read in ((".csv", pd.read_csv), (".parquet", pd.read_parquet)):
        target = tmp_path / f"labels{ending}"
        assert run_bitmix("predict", path, survey_file, "-o", target, "--proba").returncode == 0
        frame = read(target)
        assert list(frame) == ["row", "label", "probability_0", "probability_1"]
        np.testing.assert_allclose(frame.iloc[:, 2:], expected, rtol=1e-5)
    done = run_bitmix("predict", path, survey_file, "-o", tmp_path / "labels.npy", "--proba")
    assert done.returncode == 2
    assert "--proba needs a file with columns, got labels.npy: use .csv" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-k", "2", "--table"), "--table compares numbers of templates: give a range"),
        (("-k", "2", "--blrt", "9"), "--blrt compares numbers of templates: give a range"),
        (("-k", "2", "--method", "classic", "--bootstrap", "9"), "needs --method template"),
    ],
)
def test_options_without_a_meaning_are_refused(survey_file, options, message):
    done = run_bitmix("fit", survey_file, *options)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
