"""Rows on disk: the same bits as in memory, and clear errors when the file changes."""

import os
import pickle

import numpy as np
import pandas as pd
import pytest

from bitmix import BitMatrix, ClassicEM, TemplateMixture, TwoRoundEM
from bitmix.datasets import make_templates, sample_mixture
from bitmix.errors import FileFormatError, InputError
from bitmix.rows import bitfile


def planted(m=3000, n=150, k=3, noise=0.1):
    truth = make_templates(k, n, separation=0.3, random_state=0)
    return sample_mixture(truth, [1 / k] * k, noise, m, random_state=1)[0]


ESTIMATORS = [
    TwoRoundEM(3, random_state=0),
    TwoRoundEM(3, rounds=5, n_init=2, random_state=1),
    ClassicEM(3, n_init=2, max_iter=6, random_state=0),
    TemplateMixture(3, random_state=0),
    TemplateMixture(3, max_rows_search=500, random_state=0),
    TemplateMixture(3, noise_model="cell", n_init=1, max_rows_search=500, random_state=2),
]


def same(a, b):
    """To the last bit."""
    return (
        a.means_.tobytes() == b.means_.tobytes()
        and a.weights_.tobytes() == b.weights_.tobytes()
        and np.array_equal(a.templates_, b.templates_)
        and np.array_equal(a.noise_, b.noise_)
        and [r.log_likelihood for r in a.history_] == [r.log_likelihood for r in b.history_]
    )


@pytest.fixture
def stored(tmp_path):
    X = planted()
    X.save(tmp_path / "x.bits")
    return X, BitMatrix.open(tmp_path / "x.bits")


@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
def test_a_fit_from_disk_has_the_same_bits(stored, model):
    X, on_disk = stored
    assert on_disk.file is not None
    assert X.file is None
    here, there = model.fit(X), pickle.loads(pickle.dumps(model)).fit(on_disk)
    assert same(here, there)
    assert np.array_equal(here.predict(X), there.predict(on_disk))


@pytest.mark.parametrize("model", ESTIMATORS[3:], ids=str)
@pytest.mark.parametrize(("gaps", "weighted"), [(True, False), (False, True), (True, True)])
def test_missing_cells_and_weights_on_disk_have_the_same_bits(tmp_path, model, gaps, weighted):
    X = planted()
    if gaps:
        X = X.masked(np.random.default_rng(2).random(X.shape) < 0.1)
    if weighted:
        X = X.weighted(np.arange(len(X)) % 5)
    X.save(tmp_path / "x.bits")
    on_disk = BitMatrix.open(tmp_path / "x.bits")
    assert on_disk == X
    assert (on_disk.layout, on_disk.total_weight) == (X.layout, X.total_weight)
    here, there = model.fit(X), pickle.loads(pickle.dumps(model)).fit(on_disk)
    assert same(here, there)
    assert np.array_equal(here.predict_proba(X), there.predict_proba(on_disk))


def test_rows_on_disk_behave_as_those_in_memory(stored):
    X, on_disk = stored
    assert on_disk == X
    assert on_disk.density == X.density
    assert on_disk[5:9] == X[5:9]
    assert on_disk[::-7] == X[::-7]
    assert on_disk[[4, 1, -1, 4]] == X[[4, 1, -1, 4]]
    assert np.array_equal(on_disk[17], X[17])
    mask = np.arange(len(X)) % 3 == 0
    assert on_disk[mask] == X[mask]
    again = pickle.loads(pickle.dumps(on_disk))
    assert again.file is not None
    assert again == X
    with pytest.raises(IndexError, match="3,000 rows"):
        on_disk[[3000]]
    with pytest.raises(IndexError, match="mask"):
        on_disk[mask[:-1]]


def test_names_of_columns_stay_with_the_bits(tmp_path):
    table = pd.DataFrame(planted(200, 5, 2).to_dense(), columns=list("vwxyz"))
    X = BitMatrix.from_dense(table)
    X[3:].save(tmp_path / "named.bits")
    named = BitMatrix.open(tmp_path / "named.bits")
    assert named.feature_names == tuple("vwxyz")
    model = TemplateMixture(2, random_state=0).fit(named)
    assert model.feature_names_in_.tolist() == list("vwxyz")
    assert len(model.predict(table)) == 200
    assert len(model.predict(BitMatrix(X.words, 5))) == 200  # bits without names are believed
    with pytest.raises(InputError, match="column 0 was 'v', now 'w'"):
        model.predict(BitMatrix.from_dense(table[list("wvxyz")]))
    with pytest.raises(InputError, match="expecting 5 features"):
        model.predict(BitMatrix.from_dense(table[list("vwxy")]))
    model.fit(BitMatrix(X.words, 5))
    assert not hasattr(model, "feature_names_in_")


def test_a_file_that_shrinks_in_mid_fit_is_an_error(tmp_path):
    planted(20_000, 640).save(tmp_path / "x.bits")
    X = BitMatrix.open(tmp_path / "x.bits")
    os.truncate(tmp_path / "x.bits", 400_000)
    with pytest.raises(FileFormatError, match=r"x\.bits was cut short while it was read"):
        TwoRoundEM(3, random_state=0).fit(X)
    with pytest.raises(FileFormatError, match="should be"):
        BitMatrix.open(tmp_path / "x.bits")


def test_a_file_that_vanishes_in_mid_fit_is_read_to_the_end(tmp_path):
    X = planted()
    X.save(tmp_path / "x.bits")
    on_disk = BitMatrix.open(tmp_path / "x.bits")
    os.unlink(tmp_path / "x.bits")  # the system keeps what is open
    assert same(TwoRoundEM(3, random_state=0).fit(on_disk), TwoRoundEM(3, random_state=0).fit(X))


def test_damage_of_a_large_file_is_found_where_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("bitmix.rows.bitfile._CHECKED_BYTES", 0)
    planted(500, 70).save(tmp_path / "x.bits")
    with (tmp_path / "x.bits").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\xff")
    with pytest.raises(FileFormatError, match=r"bits are set past its last column \(69\)"):
        TwoRoundEM(3, n_seeds=9, random_state=0).fit(BitMatrix.open(tmp_path / "x.bits"))


@pytest.mark.parametrize("hurt", [
    lambda h: h.replace(b'["a", "b"]', b'["a", "a", "b"]'[:10].ljust(10)),
    lambda h: h.replace(b'["a", "b"]', b'["a", 123]'),
    lambda h: h.replace(b'"names"', b'"about"'),
])  # fmt: skip
def test_damaged_names_are_refused(tmp_path, hurt):
    X = BitMatrix.from_dense(pd.DataFrame({"a": [0, 1], "b": [1, 1]}))
    X.save(tmp_path / "x.bits")
    before = (tmp_path / "x.bits").read_bytes()
    assert hurt(before) != before
    (tmp_path / "x.bits").write_bytes(hurt(before))
    with pytest.raises(FileFormatError, match="damaged"):
        BitMatrix.open(tmp_path / "x.bits")


@pytest.mark.system
def test_many_names_of_columns(tmp_path):
    names = [f"a rather long name of column number {i}" for i in range(1_700_000)]
    with bitfile.writing(tmp_path / "wide.bits", len(names), names) as writer:
        writer.append(np.zeros((1, -(-len(names) // 64)), dtype=np.uint64))
    assert BitMatrix.open(tmp_path / "wide.bits").feature_names == tuple(names)
