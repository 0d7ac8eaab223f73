"""How many templates: the criteria by hand, weights, and what is chosen."""

import itertools
import math
import warnings
from decimal import Decimal, localcontext

import numpy as np
import pytest
from conftest import random_bits

from bitmix import BitMatrix, TemplateMixture, TwoRoundEM, select_components
from bitmix.datasets import make_templates, sample_mixture
from bitmix.errors import InputError, RangeWarning
from bitmix.estimators.select import CRITERIA, template_nats
from bitmix.kernels import fixed
from bitmix.models.mixture import NOISE_MODELS


def planted(k, q, seed, n=300, m=None):
    templates = make_templates(k, n, separation=0.2, random_state=seed)
    weights = np.arange(1, k + 1) / (k * (k + 1) / 2)
    return sample_mixture(templates, weights, q, m or 60 * k, random_state=seed)[0]


def fitted_bits(model):
    arrays = (model.templates_, model.weights_, model.probabilities_)
    return model.noise_model_, model.objective_, *(array.tobytes() for array in arrays)


def outcome(selection):
    """Everything that was decided, to the last bit."""
    models = tuple(map(fitted_bits, selection.models))
    return selection.n_components, repr(selection.candidates), models


# -- the criteria by hand ----------------------------------------------------------------------


def exact_rows(model, bits):
    """ln L and the entropy of the responsibilities, in decimal arithmetic."""
    p = [[Decimal(value) for value in row] for row in model.probabilities_.tolist()]
    logs = [[((1 - value).ln(), value.ln()) for value in row] for row in p]
    weights = [Decimal(weight).ln() for weight in model.weights_.tolist()]
    log_likelihood = entropy = Decimal(0)
    for row in bits.tolist():
        scores = [
            weight + sum(pair[x] for pair, x in zip(component, row, strict=True))
            for weight, component in zip(weights, logs, strict=True)
        ]
        total = sum(score.exp() for score in scores)
        log_likelihood += total.ln()
        shares = [score.exp() / total for score in scores]
        entropy -= sum(share * share.ln() for share in shares)
    return log_likelihood, entropy


def exact_code_length(templates):
    """ln of the number of code words that `template_nats` tells apart, by its definition."""
    k, n = templates.shape
    ones = templates.sum(axis=0).tolist()
    counts = [ones.count(j) for j in range(k + 1)]
    numbers = math.comb(n + k, k)  # how many columns have 0, 1, … k ones
    columns = math.factorial(n)  # which columns these are
    for count in counts:
        columns //= math.factorial(count)
    owners = math.prod(math.comb(k, j) ** count for j, count in enumerate(counts))
    shared, plain = numbers * columns * owners, 2 ** (k * n)
    return Decimal(2 * min(shared, plain)).ln()  # one bit says which of the two codes is used


@pytest.mark.parametrize("noise_model", NOISE_MODELS)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_criteria_by_hand(noise_model, k):
    """In 40 digits. Scores are within (2n+1)·2^-28 and log-likelihoods of rows within
    `likelihood_error`. A share is within `share_error`; as x·ln x changes by no more than 22 times
    as much as x does between 2^-30 and 1, this bounds the error of the entropy.
    """
    bits = planted(2, 0.1, 5, n=24, m=60).to_dense()
    estimator = TemplateMixture(noise_model=noise_model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RangeWarning)
        selection = select_components(bits, [k], estimator, random_state=0)
    (candidate,), model = selection.candidates, selection.model
    n_rates = {"shared": 1, "updown": 2, "component": k, "feature": 24, "cell": 24 * k}
    real, n_bits = k - 1 + n_rates[noise_model], 0 if noise_model == "cell" else 24 * k
    with localcontext(prec=40):
        log_likelihood, entropy = exact_rows(model, bits)
        log_m = Decimal(60).ln()
        mdl = real * log_m / 2 - log_likelihood
        mdl += exact_code_length(model.templates_) if n_bits else 0
        bic = (real + n_bits) * log_m - 2 * log_likelihood
        aic = 2 * (real + n_bits) - 2 * log_likelihood
        icl = float(mdl + entropy)
    error = 60 * ((2 * 24 + 1) * 2.0**-28 + fixed.likelihood_error(k)) + 1e-9
    entropy_error = 60 * 22 * k * fixed.share_error(k)
    assert candidate.log_likelihood == pytest.approx(float(log_likelihood), abs=error, rel=0)
    assert candidate.mdl == pytest.approx(float(mdl), abs=error, rel=0)
    assert candidate.icl == pytest.approx(icl, abs=error + entropy_error, rel=0)
    assert candidate.bic == pytest.approx(float(bic), abs=2 * error, rel=0)
    assert candidate.aic == pytest.approx(float(aic), abs=2 * error, rel=0)
    assert candidate.bic == pytest.approx(model.bic(bits), rel=1e-12)
    assert candidate.aic == pytest.approx(model.aic(bits), rel=1e-12)
    assert (candidate.n_agreeing, candidate.n_starts) == (model.n_agreeing_, model.n_starts_)


def test_given_rates_are_no_parameters():
    X = planted(2, 0.1, 5, n=24, m=60)
    free, one, both = (
        select_components(X, [1, 2, 3], TemplateMixture(noise_model="updown", noise=noise))
        for noise in (None, (0.1, None), (0.1, 0.1))
    )
    for selection, n_given in ((one, 1), (both, 2)):
        for candidate, other in zip(selection.candidates, free.candidates, strict=True):
            saved = other.aic + 2 * other.log_likelihood
            assert candidate.aic + 2 * candidate.log_likelihood == pytest.approx(
                saved - 2 * n_given, abs=1e-6
            )


def test_no_function_of_the_platform_decides(monkeypatch):
    """Logarithms and exponentials come from tables, also where the noise model is chosen."""
    X = planted(2, 0.1, 5, n=60, m=100)
    expected = {
        criterion: outcome(select_components(X, [1, 2, 3], criterion=criterion, random_state=0))
        for criterion in ("mdl", "icl", "bic", "aic")
    }

    def refuse(*args, **kwargs):
        raise AssertionError("a function of the platform was called")

    for name in ("log", "exp", "log1p", "expm1", "log10", "pow", "lgamma"):
        monkeypatch.setattr(math, name, refuse)
    for name in ("log", "exp", "log1p", "expm1", "log10", "logaddexp"):
        monkeypatch.setattr(np, name, refuse)
    for criterion, found in expected.items():
        again = select_components(X, [1, 2, 3], criterion=criterion, random_state=0)
        assert outcome(again) == found


def test_templates_are_coded_by_what_they_share():
    """Every pattern of 3 columns and 2 templates: the lengths are those of a code (Kraft)."""
    total = 0.0
    for bits in itertools.product([0, 1], repeat=6):
        total += math.exp(-template_nats(np.array(bits, dtype=np.uint8).reshape(2, 3)))
    assert total <= 1 + 1e-9
    rng = np.random.default_rng(0)
    one = rng.integers(2, size=1000, dtype=np.uint8)
    alike = np.array([one] * 5)
    alike[1:, :100] ^= rng.integers(2, size=(4, 100), dtype=np.uint8)
    apart = rng.integers(2, size=(5, 1000), dtype=np.uint8)
    assert template_nats(alike) < 0.4 * template_nats(apart)
    assert template_nats(apart) <= 5001 * math.log(2)


# -- laws --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("criterion", "k_range"),
    [*((criterion, None) for criterion in CRITERIA[:4]), ("stability", [1, 2, 4])],
)
def test_weighted_rows_are_repeated_rows(criterion, k_range):
    """Twelve patterns: the range that is tried by default follows the weights as well."""
    rng = np.random.default_rng(3)
    patterns = np.unique(rng.integers(2, size=(40, 6)), axis=0)[:12]
    weights = rng.integers(0, 9, 12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RangeWarning)
        once = select_components(
            patterns, k_range, criterion=criterion, sample_weight=weights, random_state=0
        )
        often = select_components(
            np.repeat(patterns, weights, axis=0), k_range, criterion=criterion, random_state=0
        )
    assert len(once.candidates) > len(patterns) // 10
    assert outcome(once) == outcome(often)


def test_weights_that_cannot_be_repeated_are_refused_where_rows_are_split():
    X = planted(2, 0.1, 5, n=24, m=60)
    for weights in (np.full(60, 1.5), np.full(60, 10_000)):
        with pytest.raises(InputError, match="stability splits the rows into halves"):
            select_components(X, [2], criterion="stability", sample_weight=weights)
        select_components(X, [2], sample_weight=weights, random_state=0)


def test_it_is_repeatable_and_takes_missing_cells(tmp_path):
    X = planted(3, 0.05, 9).to_dense().astype(float)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    BitMatrix.from_dense(X, missing=True).save(tmp_path / "x.bits")
    first, second, on_disk = (
        select_components(rows, range(1, 6), random_state=4)
        for rows in (X, X, BitMatrix.open(tmp_path / "x.bits"))
    )
    assert outcome(first) == outcome(second) == outcome(on_disk)
    assert first.n_components == 3


def test_the_model_that_was_chosen_is_kept():
    """It is the fit with the chosen number, the parameters of the estimator and the same seed."""
    X = planted(3, 0.1, 7)
    estimator = TemplateMixture(9, prior=0.5, n_init=4, random_state=11)
    selection = select_components(X, range(1, 6), estimator)
    assert selection.n_components == len(selection.model.weights_) == 3
    assert [len(model.weights_) for model in selection.models] == [1, 2, 3, 4, 5]
    for k, model in zip(range(1, 6), selection.models, strict=True):
        noise_model = selection.model.noise_model_
        by_hand = TemplateMixture(k, noise_model=noise_model, prior=0.5, n_init=4, random_state=11)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert fitted_bits(by_hand.fit(X)) == fitted_bits(model)
    assert (estimator.n_components, estimator.noise_model) == (9, "auto")
    assert not hasattr(estimator, "weights_")


@pytest.mark.parametrize("seed", range(3))
def test_the_noise_model_is_chosen_again_for_the_number_that_is_selected(seed):
    """Three templates are too few for six, so that a probability per cell seems better. In 18 other
    tables of 3 to 20 templates, the number and the noise model were always those planted."""
    X = planted(6, 0.1, seed)
    assert TemplateMixture(3, random_state=seed).fit(X).noise_model_ != "shared"
    selection = select_components(X, random_state=seed)
    assert selection.n_components == 6
    assert {model.noise_model_ for model in selection.models} == {"shared"}
    assert selection.model.noise_model_scores_


def test_the_noise_model_is_chosen_once_in_the_middle_of_the_range():
    X = planted(3, 0.1, 7)
    selection = select_components(X, range(1, 6), random_state=0)
    assert {model.noise_model_ for model in selection.models} == {"shared"}
    assert [bool(model.noise_model_scores_) for model in selection.models] == [
        False, False, True, False, False,
    ]  # fmt: skip
    given = select_components(X, [3, 4], TemplateMixture(noise=(0.1, 0.1)), random_state=0)
    assert {model.noise_model_ for model in given.models} == {"updown"}


def test_the_columns_of_a_table_are_those_of_the_model():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(planted(2, 0.1, 7, n=30).to_dense()).add_prefix("gene ")
    selection = select_components(X, [2, 3], random_state=0)
    assert selection.model.feature_names_in_.tolist() == list(X.columns)


# -- what is chosen ----------------------------------------------------------------------------


@pytest.mark.parametrize("k", range(1, 13))
def test_the_planted_number_is_chosen(k):
    """60 bits of 300 apart, q = .05: the lightest template has 13 rows or so, which save 13·60·2.6
    nats against 300·ln 2 for writing it down; chance does not close such a gap."""
    around = range(max(1, k - 3), k + 4)
    found = select_components(planted(k, 0.05, k), around, random_state=0)
    assert found.n_components == k
    assert [candidate.n_components for candidate in found.candidates] == list(around)


def test_without_a_range_it_stops_when_nothing_improves():
    """After three numbers without improvement, and at one template per ten rows at the latest."""
    found = select_components(planted(3, 0.05, 3), random_state=0)
    assert found.n_components == 3
    assert [candidate.n_components for candidate in found.candidates] == [1, 2, 3, 4, 5, 6]
    few = random_bits(25, 12, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RangeWarning)
        assert len(select_components(few, random_state=0).candidates) == 2
        assert len(select_components(few[:5], random_state=0).candidates) == 1


@pytest.mark.parametrize("seed", range(5))
def test_fair_coins_have_one_template(seed):
    """A second template costs 200·ln 2 = 139 nats. Splitting 100 rows of fair coins into two
    clusters gains well under half of that, whatever the split."""
    coins = random_bits(100, 200, seed)
    assert select_components(coins, range(1, 5), random_state=0).n_components == 1


def test_a_template_of_few_rows_is_found():
    """Ten templates, the lightest of ten rows or so, noise .2."""
    templates = make_templates(10, 1000, separation=0.1, random_state=0)
    weights = np.arange(1, 11) / 55
    for seed in (1004, 1008, 1011):
        X, _ = sample_mixture(templates, weights, 0.2, 500, random_state=seed)
        assert select_components(X, range(8, 13), random_state=seed).n_components == 10


def test_every_criterion_finds_groups_that_are_far_apart():
    """Three templates, 60 bits of 300 apart, of 30 rows or so: the third saves 30·60·2.6 nats. A
    fourth gains what the flips of some rows have in common, well under its 300 bits. AIC counts a
    bit as 1 nat, which is more than ln 2."""
    X = planted(3, 0.05, 7)
    for criterion in CRITERIA:
        found = select_components(X, [2, 3, 4], criterion=criterion, random_state=0)
        assert found.criterion == criterion
        assert found.n_components == 3
    rows = found.table().to_dict("records")
    assert [row["n_components"] for row in rows] == [2, 3, 4]
    assert all(row["icl"] >= row["mdl"] for row in rows)


def test_fair_coins_have_no_stable_groups():
    """Two fits to halves of 60 rows of coins do not agree on more than a few labels."""
    found = select_components(
        random_bits(60, 100, 1), range(1, 4), criterion="stability", random_state=0
    )
    assert found.n_components == 1
    assert found.candidates[0].stability == pytest.approx(0.1)
    assert all(candidate.stability > 0.3 for candidate in found.candidates[1:])


def test_the_end_of_the_range_is_reported():
    X = planted(4, 0.05, 3)
    with pytest.warns(RangeWarning, match="3 is the largest number that was tried.*wider range"):
        selection = select_components(X, range(1, 4), random_state=0)
    assert selection.at_end
    assert not select_components(X, range(1, 6), random_state=0).at_end
    assert not select_components(X, [4], random_state=0).at_end


def test_the_plot_marks_the_choice():
    from matplotlib.figure import Figure

    found = select_components(planted(2, 0.05, 1), range(1, 5), random_state=0)
    ax = found.plot(Figure().subplots())
    assert "2 templates" in ax.get_title()
    assert list(ax.lines[0].get_xdata()) == [1, 2, 3, 4]
    assert list(ax.lines[0].get_ydata()) == [candidate.mdl for candidate in found.candidates]
    assert list(ax.lines[1].get_xdata()) == [2]


def test_the_table_of_a_notebook_marks_the_choice():
    found = select_components(planted(2, 0.05, 1), range(1, 4), random_state=0)
    text = found._repr_html_()
    assert "<td><b>2</b></td>" in text
    assert "<td>3</td>" in text


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"k_range": []}, "k_range must hold at least one"),
        ({"k_range": [0]}, "at least 1"),
        ({"k_range": [50]}, "at most the number of rows"),
        ({"k_range": [1.5]}, "must be a whole number"),
        ({"k_range": [11], "criterion": "stability"}, "at most half the number of rows"),
        ({"criterion": "vibes"}, "criterion must be one of mdl, icl, bic, aic, stability"),
        ({"estimator": TemplateMixture(noise_model="pink")}, "noise_model must be one of"),
        ({"estimator": TemplateMixture(noise=0.7)}, "noise must lie"),
        ({"sample_weight": [1, 2]}, "sample_weight must be 20 numbers"),
        ({"random_state": -1}, "random_state must be at least 0"),
    ],
)
def test_bad_input_is_named(given, says):
    with pytest.raises(InputError, match=says):
        select_components(random_bits(20, 10, 0), **given)


@pytest.mark.parametrize("estimator", [3, "x", TwoRoundEM(2)])
def test_other_estimators_are_refused(estimator):
    with pytest.raises(InputError, match="estimator must be a TemplateMixture"):
        select_components(np.eye(4), [1, 2], estimator)


def test_numbers_grow_faster_from_20_on():
    from itertools import islice

    from bitmix.estimators.select import _growing

    tried = list(islice(_growing(), 40))
    assert tried[:20] == list(range(1, 21))
    assert all(1 < b / a <= 1.125 for a, b in itertools.pairwise(tried[19:]))


def test_the_number_is_not_limited_to_20():
    truth = make_templates(32, 256, separation=0.4, random_state=0)
    X, _ = sample_mixture(truth, np.full(32, 1 / 32), 0.02, 1000, random_state=0)
    selection = select_components(
        X, estimator=TemplateMixture(noise_model="shared"), random_state=0
    )
    assert 30 <= selection.n_components <= 34
    assert not selection.stopped_by_time


def test_a_time_limit_ends_the_search_and_says_so():
    truth = make_templates(6, 100, separation=0.4, random_state=0)
    X, _ = sample_mixture(truth, np.full(6, 1 / 6), 0.02, 200, random_state=0)
    with pytest.warns(RangeWarning, match=r"time limit of 0 s ended the search at 1 templates"):
        selection = select_components(X, time_limit=0, random_state=0)
    assert selection.stopped_by_time
    assert selection.n_components == 1
    with pytest.raises(InputError, match="time_limit"):
        select_components(X, time_limit=-1)
