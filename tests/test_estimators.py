"""The estimators as scikit-learn users meet them: checks, attributes, files, errors."""

import inspect
import json
import pickle
import re
import zipfile

import numpy as np
import pandas as pd
import pytest
from conftest import random_bits
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from bitmix import BitMatrix, ClassicEM, TemplateMixture, TwoRoundEM
from bitmix.datasets import sample_mixture
from bitmix.errors import FileFormatError, InputError
from bitmix.estimators.base import check_components
from bitmix.metrics import templates_recovered
from bitmix.models import file as modelfile

BOTH = [TwoRoundEM, ClassicEM]

# Checks of scikit-learn we know to fail, each with its reason.
NO_CLASSIFIER = (
    "the check takes whatever has predict_proba for a classifier and reads classifier_tags, which "
    "a mixture does not have; sparse input is tested below"
)
EXPECTED_FAILURES = {
    "check_estimator_sparse_array": NO_CLASSIFIER,
    "check_estimator_sparse_matrix": NO_CLASSIFIER,
}


@pytest.mark.filterwarnings("ignore::bitmix.errors.BitmixWarning")
@parametrize_with_checks(
    [TwoRoundEM(binarize=0.0), ClassicEM(binarize=0.0), TemplateMixture(binarize=0.0)],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", [TwoRoundEM, ClassicEM, TemplateMixture])
def test_parameters_are_documented_as_they_are(kind):
    """Every parameter once, in the order of the signature, with its default."""
    part = re.search(r"Parameters\n +-+\n(.*?)\n\n +Attributes", kind.__doc__, re.DOTALL)
    documented = re.findall(r"^ {4}(\w+) : (.*)$", part[1], re.MULTILINE)
    parameters = inspect.signature(kind).parameters
    assert [name for name, _ in documented] == list(parameters)
    for name, text in documented:
        default = parameters[name].default
        if default is None:
            assert "optional" in text or "or None" in text
        else:
            written = f'"{default}"' if isinstance(default, str) else repr(default)
            assert f"default={written}" in text.replace("1e-7", "1e-07")


@pytest.mark.filterwarnings("ignore::bitmix.errors.BitmixWarning")
@pytest.mark.parametrize("kind", [TwoRoundEM, ClassicEM, TemplateMixture])
def test_attributes_are_documented(kind):
    """Every attribute of a fit has an entry, or is one of scikit-learn's."""
    model = kind(2, random_state=0).fit(random_bits(60, 9, 0))
    part = re.search(r"Attributes\n +-+\n(.*?)\n\n +(?:Notes|Examples)", kind.__doc__, re.DOTALL)
    documented = set(re.findall(r"\b\w+_\b", part[1]))
    common = {"n_features_in_", "mixture_", "id_column_", "label_column_", "feature_names_in_",
              "calibration_", "representatives_", "k_chosen_", "table_hash_"}  # fmt: skip
    properties = (name for name, value in vars(kind).items() if isinstance(value, property))
    present = {name for name in (*vars(model), *properties) if name.endswith("_")} - common
    assert sorted(present - documented) == []
    assert all(hasattr(model, name) for name in documented)


@pytest.fixture(scope="module", params=BOTH)
def fitted(request, planted):
    rows, _, _ = planted
    return request.param(3, n_init=4, random_state=0).fit(rows)


def test_attributes(fitted, planted):
    rows, labels, truth = planted
    assert fitted.templates_.dtype == np.uint8
    assert fitted.means_.dtype == np.float64
    assert fitted.templates_.shape == fitted.means_.shape == truth.shape
    np.testing.assert_array_equal(fitted.templates_, fitted.means_ > 0.5)
    assert (np.diff(fitted.weights_) <= 0).all()
    assert fitted.n_features_in_ == 200
    assert fitted.seed_ == 0
    assert not hasattr(fitted, "labels_")
    assert templates_recovered(fitted.templates_, truth)


def test_predictions_fit_together(fitted, planted):
    rows, labels, truth = planted
    found = fitted.predict(rows)
    p = fitted.predict_proba(rows)
    assert p.shape == (600, 3)
    assert (p.sum(axis=1) == 1).all()
    np.testing.assert_array_equal(p.argmax(axis=1), found)
    np.testing.assert_array_equal(fitted.fit_predict(rows), found)
    assert fitted.score(rows) == pytest.approx(fitted.score_samples(rows).mean())
    n, q = 200, fitted.noise_
    D = np.abs(rows.to_dense(float)[:, None] - fitted.means_[None]).sum(axis=2)
    log_wf = np.log(fitted.weights_) + D * np.log(q) + (n - D) * np.log(1 - q)
    np.testing.assert_allclose(
        fitted.score_samples(rows), np.logaddexp.reduce(log_wf, axis=1), atol=1e-6
    )


def test_information_criteria_use_binary_templates(fitted, planted):
    rows, _, _ = planted
    n, q, m = 200, fitted.noise_, 600
    D = (rows.to_dense()[:, None] != fitted.templates_[None]).sum(axis=2)
    log_wf = np.log(fitted.weights_) + D * np.log(q) + (n - D) * np.log(1 - q)
    log_likelihood = np.logaddexp.reduce(log_wf, axis=1).sum()
    parameters = 3 * 200 + 2 + 1
    assert fitted.bic(rows) == pytest.approx(-2 * log_likelihood + parameters * np.log(m))
    assert fitted.aic(rows) == pytest.approx(-2 * log_likelihood + 2 * parameters)
    known = type(fitted)(3, noise=0.1, random_state=0).fit(rows)
    assert known.n_parameters_ == parameters - 1


def test_the_rounded_model_is_a_density():
    """Over all 2^6 rows the probabilities sum to 1."""
    rows = random_bits(100, 6, seed=0)
    model = TwoRoundEM(2, n_seeds=8, random_state=0).fit(rows)
    everything = np.arange(64)[:, None] >> np.arange(6) & 1
    from bitmix.em.predict import log_likelihoods

    density = np.exp(log_likelihoods(BitMatrix.from_dense(everything), model.mixture_.density()))
    assert density.sum() == pytest.approx(1, abs=1e-7)


def test_samples_come_from_the_fitted_templates(fitted):
    X, labels = fitted.sample(2000)
    again, _ = fitted.sample(2000)
    other, _ = fitted.sample(2000, random_state=1)
    assert isinstance(X, BitMatrix)
    assert X.shape == (2000, 200)
    assert again == X
    assert other != X
    flips = (X.to_dense() != fitted.templates_[labels]).mean()
    # 400,000 bits: within 6 standard deviations, by chance missed below 10^-8
    assert abs(flips - fitted.noise_) < 6 * np.sqrt(fitted.noise_ / 400_000)


def test_the_seed_used_is_kept(planted):
    rows, _, _ = planted
    free = TwoRoundEM(3).fit(rows)
    again = TwoRoundEM(3, random_state=free.seed_).fit(rows)
    np.testing.assert_array_equal(free.means_, again.means_)
    for state in (np.random.default_rng(4), np.random.RandomState(4), np.int64(4)):
        assert TwoRoundEM(3, random_state=state).fit(rows).seed_ >= 0


def test_clone_and_pickle(fitted, planted):
    rows, _, _ = planted
    assert clone(fitted).get_params() == fitted.get_params()
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(rows), fitted.predict(rows))


# --- model files ----------------------------------------------------------------------------


def test_save_and_load(fitted, planted, tmp_path):
    rows, _, _ = planted
    path = tmp_path / "model"
    fitted.save(path)
    again = type(fitted).load(path)
    assert again.get_params() == fitted.get_params()
    np.testing.assert_array_equal(again.means_, fitted.means_)
    np.testing.assert_array_equal(again.predict_proba(rows), fitted.predict_proba(rows))
    assert {k for k in vars(again) if k.endswith("_")} == {
        k for k in vars(fitted) if k.endswith("_")
    }
    for name in fitted._fitted_values:
        assert getattr(again, name) == getattr(fitted, name)
    for one, other in zip(again.history_, fitted.history_, strict=True):
        assert one.to_dict() == other.to_dict()
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_a_model_keeps_names_starts_and_odd_seeds(planted, tmp_path):
    rows, _, truth = planted
    table = pd.DataFrame(rows.to_dense()).add_prefix("gene ")
    model = ClassicEM(3, init=truth, random_state=np.random.RandomState(0)).fit(table)
    model.save(tmp_path / "model")
    again = ClassicEM.load(tmp_path / "model")
    assert again.feature_names_in_.tolist() == list(table.columns)
    np.testing.assert_array_equal(again.init, truth)
    assert again.random_state == again.seed_ == model.seed_
    with pytest.raises(ValueError, match="feature names"):
        again.predict(table.rename(columns={"gene 0": "other"}))


@pytest.mark.parametrize("kind", [TwoRoundEM, ClassicEM, TemplateMixture])
def test_parameters_set_after_the_fit_are_saved_for_the_next(kind, planted, tmp_path):
    """They say nothing of the templates that are there, of which 3 stay 3."""
    model = kind(3, random_state=0).fit(planted[0]).set_params(n_components=5)
    model.save(tmp_path / "model")
    again = kind.load(tmp_path / "model")
    assert again.n_components == 5
    np.testing.assert_array_equal(again.templates_, model.templates_)
    np.testing.assert_array_equal(again.predict(planted[0]), model.predict(planted[0]))
    assert again.fit(planted[0]).templates_.shape[0] == 5


def test_numpy_parameters_can_be_saved(planted, tmp_path):
    import scipy.sparse

    rows, _, truth = planted
    TwoRoundEM(np.int64(3), noise=np.float32(0.1), random_state=np.int64(1)).fit(rows).save(
        tmp_path / "a"
    )
    assert TwoRoundEM.load(tmp_path / "a").n_components == 3
    ClassicEM(3, init=scipy.sparse.csr_array(truth)).fit(rows).save(tmp_path / "b")
    np.testing.assert_array_equal(ClassicEM.load(tmp_path / "b").init, truth)


class Evil:
    def __reduce__(self):
        return (pytest.fail, ("loading a model ran code",))


def test_files_that_are_no_models_are_refused(fitted, tmp_path):
    path = tmp_path / "model"

    def refused(words, cls=None):
        with pytest.raises(FileFormatError, match=words):
            (cls or type(fitted)).load(path)

    path.write_text("hello")
    refused("not a bitmix model")
    path.write_bytes(pickle.dumps(Evil()))
    refused("not a bitmix model")
    with path.open("wb") as file:
        np.savez(file, header=np.array([Evil()], dtype=object))
    refused("plain arrays only")
    with path.open("wb") as file:
        np.savez(file, means=np.zeros(3))
    refused("not a bitmix model or is damaged")
    fitted.save(path)
    other = ClassicEM if isinstance(fitted, TwoRoundEM) else TwoRoundEM
    refused(f"holds a {type(fitted).__name__}", other)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    refused("not a bitmix model")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda h, a: h.update(version=2), "version 2"),
        (lambda h, a: h.update(format="other"), "format 'other'"),
        (lambda h, a: a.update(noise=np.array(0.7)), "damaged: noise"),
        (lambda h, a: a.update(noise=np.array("x")), "damaged: noise"),
        (lambda h, a: a.update(noise=np.array([0.1, 0.2])), "damaged: noise"),
        (lambda h, a: h["fitted"].pop("seed_"), "damaged: 'seed_'"),
        (lambda h, a: h["params"].update(surprise=1), "damaged: .*surprise"),
        (lambda h, a: h.pop("history"), "damaged: 'history'"),
        (lambda h, a: a.update(weights=np.array([2.0, -0.5, -0.5])), "damaged: weights"),
        (lambda h, a: a.update(weights=np.array([np.nan, 0.5, 0.5])), "damaged: weights"),
        (lambda h, a: a.update(weights=np.array([1.0])), "damaged: weights"),
        (lambda h, a: a.update(means=a["means"] + 1), "damaged: means"),
        (lambda h, a: a.update(means=a["means"] * np.nan), "damaged: means"),
        (lambda h, a: a.pop("means"), "damaged: 'means'"),
        (lambda h, a: h["fitted"].update(n_features_in_=201), "damaged: 200 columns, 201 claimed"),
        (lambda h, a: h["fitted"].update(seed_="x"), "damaged: seed_ must be a whole number"),
        (lambda h, a: h.update(feature_names=["a"]), "damaged: feature_names"),
        (lambda h, a: h.update(feature_names={"a": 1}), "damaged: feature_names"),
        (lambda h, a: h["history"][0].update(log_likelihood="<script>"), "damaged: could not"),
    ],
)
def test_damaged_models_are_refused(fitted, tmp_path, change, words):
    path = tmp_path / "model"
    fitted.save(path)
    header, arrays = modelfile.read(path)
    change(header, arrays)
    with path.open("wb") as file:
        np.savez(file, header=np.frombuffer(json.dumps(header).encode(), np.uint8), **arrays)
    with pytest.raises(FileFormatError, match=words):
        type(fitted).load(path)


def zip_with(path, name, data):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, data)


def test_hostile_archives_are_refused(fitted, tmp_path):
    path = tmp_path / "model"

    def refused(words):
        with pytest.raises(FileFormatError, match=words):
            type(fitted).load(path)

    def header(text):
        with path.open("wb") as file:
            np.savez(file, header=np.frombuffer(text.encode(), np.uint8))

    for text in ("[1]", '"a"', "null"):
        header(text)
        refused("format None")
    header("[" * 200_000)
    refused("damaged")
    zip_with(path, "header", b"no npy at all")
    refused("damaged")
    claim = b"{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000000,), }"
    claim = claim.ljust(117) + b"\n"
    zip_with(path, "header.npy", b"\x93NUMPY\x01\x00v\x00" + claim)
    refused("it claims float64 of shape .*, but has 128 bytes")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.npy", bytes(1 << 26))
    refused("claim to hold")
    fitted.save(path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    refused("damaged")


def test_nothing_is_written_where_saving_fails(fitted, tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder .*absent to write model into"):
        fitted.save(tmp_path / "absent" / "model")
    assert list(tmp_path.iterdir()) == []


# --- bad input ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"rounds": 1}, "rounds must be at least 2, got 1"),
        ({"rounds": 2.5}, "rounds must be a whole number, got 2.5"),
        ({"n_components": 0}, "n_components must be at least 1, got 0"),
        ({"n_components": 31}, "n_components must be at most .*n_samples=30, got 31"),
        ({"n_seeds": 1}, "n_seeds must be at least n_components = 2, got 1"),
        ({"n_seeds": 31}, "n_seeds must be at most .*30, got 31"),
        (
            {"n_seeds": None, "min_weight": 0.6},
            "min_weight must be at most 1/n_components = 0.5, got 0.6",
        ),
        ({"min_weight": 0}, "min_weight"),
        ({"n_seeds": None, "delta": float("nan")}, "delta"),
        ({"delta": 1}, "delta must lie strictly between 0 and 1, got 1"),
        ({"n_init": 0}, "n_init must be at least 1, got 0"),
        ({"noise": 0}, "noise must lie strictly between 0 and 0.5, got 0"),
        ({"noise": 0.5}, "noise must lie"),
        ({"noise": "low"}, "noise must be a number, got 'low'"),
        ({"pruning": "l2"}, "pruning must be 'l1'.*'l2'"),
        ({"binarize": "yes"}, "binarize must be a number"),
        ({"binarize": np.array([0.5])}, "binarize must be a number"),
        ({"random_state": -1}, "random_state must be at least 0, got -1"),
        ({"random_state": "x"}, "random_state must be a whole number"),
    ],
)
def test_bad_parameters_are_named(params, words):
    with pytest.raises(InputError, match=words):
        TwoRoundEM(**{"n_seeds": 5, **params}).fit(random_bits(30, 9, 0))


@pytest.mark.parametrize(
    ("params", "words"),
    [({"max_iter": 0}, "max_iter must be at least 1"), ({"noise": 0.9}, "noise")],
)
def test_bad_parameters_of_classic_are_named(params, words):
    with pytest.raises(InputError, match=words):
        ClassicEM(**params).fit(random_bits(30, 9, 0))


@pytest.mark.filterwarnings("ignore::bitmix.errors.BitmixWarning")
@pytest.mark.parametrize("params", [{"min_weight": 5e-324}, {"delta": 5e-324}])
def test_extreme_parameters_are_capped(params):
    model = TwoRoundEM(2, random_state=0, **params).fit(random_bits(30, 9, 0))
    assert model.n_seeds_ == 7


def test_a_failed_refit_leaves_the_old_model(planted):
    rows, _, _ = planted
    model = TwoRoundEM(3, random_state=0).fit(rows)
    before = {name: value for name, value in vars(model).items() if name.endswith("_")}
    for params in ({"rounds": 1}, {"n_components": 10_000}, {"binarize": "x"}):
        with pytest.raises(InputError):
            clone(model).set_params(**params).fit(rows.to_dense()[:, :5])
        broken = model.set_params(**params)
        with pytest.raises(InputError):
            broken.fit(rows.to_dense()[:, :5])
        model.set_params(rounds=2, n_components=3, binarize=None)
    after = {name: value for name, value in vars(model).items() if name.endswith("_")}
    assert before.keys() == after.keys()
    assert all(before[name] is after[name] for name in before)


def test_new_rows_are_new():
    """Data, fit and sample from one number share no random stream."""
    truth = np.random.default_rng(0).integers(2, size=(3, 200))
    X, labels = sample_mixture(truth, [0.5, 0.3, 0.2], 0.1, 600, 7)
    model = TwoRoundEM(3, noise=0.1, random_state=7).fit(X)
    Y, other = model.sample(600)
    assert (X.words == Y.words).all(axis=1).mean() == 0
    # labels agree by chance only: 600 draws, at most .38 + 6 standard deviations (below 10^-8)
    found = model.predict(X)
    assert (found == other).mean() < 0.38 + 6 * np.sqrt(0.38 * 0.62 / 600)


def test_the_callers_decimal_context_does_not_matter(planted):
    import decimal

    rows, _, _ = planted
    expected = TwoRoundEM(3, random_state=0).fit(rows)
    with decimal.localcontext(decimal.Context(prec=3, traps=[decimal.Inexact])):
        again = TwoRoundEM(3, random_state=0).fit(rows)
    np.testing.assert_array_equal(expected.means_, again.means_)
    assert expected.history_[0].log_likelihood == again.history_[0].log_likelihood


def test_bad_rows_are_named(fitted):
    with pytest.raises(InputError, match="0 sample"):
        fitted.predict(random_bits(5, 200, 0)[:0])
    with pytest.raises(ValueError, match="X has 7 features, but .* is expecting 200"):
        fitted.predict(random_bits(5, 7, 0))
    with pytest.raises(InputError, match="got 3 at row 0, column 0"):
        fitted.predict([[3] * 200])
    with pytest.raises(ValueError, match="not fitted"):
        TwoRoundEM().predict([[0, 1]])
    with pytest.raises(ValueError, match="not fitted"):
        TwoRoundEM().save("never")


def test_too_many_rows_are_refused_before_work():
    with pytest.raises(InputError, match="2,147,483,648 rows"):
        check_components(2, 2**31 + 1, 10)


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize("density", [0.5, 0.01])
def test_tables_sparse_and_packed_give_one_fit(estimator, density, tmp_path):
    """Also where a sparse matrix is kept as lists of ones."""
    import dask.array as da
    import scipy.sparse

    rows = random_bits(300, 200, 3, density)
    dense = rows.to_dense()
    rows.save(tmp_path / "x.bits")
    fits = [
        estimator(3, random_state=0).fit(X)
        for X in (
            rows,
            dense,
            dense.astype(float),
            scipy.sparse.csr_matrix(dense),
            scipy.sparse.csc_array(dense),
            pd.DataFrame(dense),
            BitMatrix.open(tmp_path / "x.bits"),
            da.from_array(dense, chunks=(70, 64)),
        )
    ]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.means_, fits[0].means_)
        np.testing.assert_array_equal(fit.weights_, fits[0].weights_)
        assert fit.history_[-1].log_likelihood == fits[0].history_[-1].log_likelihood


def test_scores_take_weights_as_repeated_rows(fitted, planted):
    rows, _, _ = planted
    weights = np.arange(600) % 4
    repeated = rows[np.repeat(np.arange(600), weights)]
    assert fitted.score(rows, sample_weight=weights) == fitted.score(repeated)
    assert fitted.bic(rows, sample_weight=weights) == fitted.bic(repeated)
    assert fitted.aic(rows, sample_weight=weights) == fitted.aic(repeated)
    assert fitted.score(rows.weighted(weights)) == fitted.score(repeated)


def test_rows_with_weights_are_refused_where_they_would_be_ignored(fitted, planted):
    rows, _, _ = planted
    weighted = rows.weighted(np.full(600, 2))
    with pytest.raises(InputError, match="X has weights"):
        clone(fitted).fit(weighted)
    with pytest.raises(InputError, match="X has weights"):
        fitted.certify(weighted)


def test_sampled_rows_are_fitted_again():
    X, _ = sample_mixture([[0] * 50, [1] * 50], [0.5, 0.5], 0.1, 300, 0)
    model = TwoRoundEM(2, random_state=0).fit(X)
    again = TwoRoundEM(2, random_state=1).fit(model.sample(300)[0])
    assert templates_recovered(model.templates_, again.templates_)
