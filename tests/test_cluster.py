"""Past one machine: Dask arrays, workers that die, and the same bits all the same."""

import time

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from bitmix import BitMatrix, ClassicEM, TemplateMixture, TwoRoundEM
from bitmix.datasets import make_templates, sample_mixture
from bitmix.errors import ClusterError, InputError

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
zarr = pytest.importorskip("zarr")

from bitmix.rows.cluster import ClusterRows  # noqa: E402 needs dask
from bitmix.rows.workers import Workers  # noqa: E402

M, N = 12_000, 200


@pytest.fixture(scope="module")
def X():
    truth = make_templates(3, N, separation=0.3, random_state=0)
    return sample_mixture(truth, [0.5, 0.3, 0.2], 0.1, M, random_state=1)[0]


@pytest.fixture(scope="module")
def dense(X):
    return X.to_dense()


@pytest.fixture(scope="module")
def client():
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 10}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def same(a, b):
    """To the last bit."""
    return (
        a.means_.tobytes() == b.means_.tobytes()
        and a.weights_.tobytes() == b.weights_.tobytes()
        and np.array_equal(a.noise_, b.noise_)
        and [r.log_likelihood for r in a.history_] == [r.log_likelihood for r in b.history_]
    )


ESTIMATORS = [
    TwoRoundEM(3, rounds=3, random_state=0),
    ClassicEM(3, max_iter=5, random_state=3),
    TemplateMixture(3, random_state=0),
    TemplateMixture(3, noise_model="feature", max_rows_search=1000, random_state=0),
    TemplateMixture(3, noise_model="cell", max_rows_search=500, n_init=1, random_state=0),
]


def fitted(model, X, **options):
    return type(model)(**model.get_params()).fit(X, **options)


@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
@pytest.mark.parametrize("chunks", [(M, N), (5000, 64), (777, N)], ids=str)
def test_threads_of_dask_give_the_same_bits(X, dense, model, chunks):
    assert same(fitted(model, X), fitted(model, da.from_array(dense, chunks=chunks)))


@pytest.mark.system
@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
def test_two_workers_give_the_same_bits(client, X, dense, model):
    lazy = da.from_array(dense, chunks=(1700, 150))
    here, there = fitted(model, X), fitted(model, lazy)
    assert same(here, there)
    labels = there.predict(lazy)
    assert isinstance(labels, da.Array)
    assert labels.shape == (M,)
    assert np.array_equal(labels.compute(), here.predict(X))
    assert np.array_equal(there.predict_proba(lazy).compute(), here.predict_proba(X))
    assert there.score(lazy) == pytest.approx(here.score(X), abs=1e-9)


@pytest.mark.system
def test_chunks_of_unknown_size_are_counted(client, X, dense):
    lazy = da.from_array(dense, chunks=(2500, N))
    filtered = lazy[lazy.sum(axis=1) >= 0]
    assert np.isnan(filtered.shape[0])
    model = fitted(ESTIMATORS[0], filtered)
    assert same(fitted(ESTIMATORS[0], X), model)
    assert np.array_equal(model.predict(filtered).compute(), model.predict(X))


def test_chunks_without_rows_are_no_harm(X, dense):
    parts = [da.from_array(part, chunks=-1) for part in (dense[:0], dense[:50], dense[50:])]
    assert same(fitted(ESTIMATORS[0], X), fitted(ESTIMATORS[0], da.concatenate(parts)))
    lazy = da.from_array(dense, chunks=(4000, N))
    some = lazy[lazy[:, 0] > 1]  # none at all
    with pytest.raises(InputError, match="0 sample"):
        fitted(ESTIMATORS[0], some)
    with pytest.raises(InputError, match="0 sample"):
        fitted(ESTIMATORS[0], lazy[:0])


def test_nothing_is_computed_by_predict(tmp_path, X, dense):
    model = fitted(ESTIMATORS[0], X)

    def look(block):
        (tmp_path / f"{time.monotonic_ns()}").touch()  # a worker may be another process
        return block

    lazy = da.from_array(dense, chunks=(3000, N)).map_blocks(look, dtype=np.uint8, meta=dense[:0])
    labels = model.predict(lazy)
    assert not list(tmp_path.iterdir())
    assert np.array_equal(labels[:10].compute(), model.predict(X)[:10])
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.system
def test_zarr_parquet_and_packed_files(client, tmp_path, X, dense):
    want = fitted(ESTIMATORS[0], X)
    array = zarr.create_array(
        tmp_path / "x.zarr", shape=dense.shape, chunks=(1000, 100), dtype=dense.dtype
    )
    array[:] = dense
    assert same(want, fitted(ESTIMATORS[0], da.from_zarr(str(tmp_path / "x.zarr"))))
    X.save(tmp_path / "x.bits")
    assert same(want, fitted(ESTIMATORS[0], ClusterRows.of_file(tmp_path / "x.bits")))
    dd = pytest.importorskip("dask.dataframe")
    table = pd.DataFrame(dense, columns=[f"c{i}" for i in range(N)])
    table.to_parquet(tmp_path / "x.parquet", row_group_size=2000)
    lazy = dd.read_parquet(tmp_path / "x.parquet")
    model = fitted(ESTIMATORS[0], lazy)
    assert same(want, model)
    assert model.feature_names_in_.tolist() == list(table.columns)
    assert np.array_equal(model.predict(lazy).compute(), want.predict(X))


@pytest.mark.system
@pytest.mark.filterwarnings("ignore")
def test_what_is_lost_is_computed_again(client, X, dense, monkeypatch):
    compute, lost = Workers.compute, []

    def losing(self, tasks):
        if len(lost) < 2:
            lost.append(distributed.futures_of(tasks))
            client.cancel(lost[-1], force=True)
        return compute(self, tasks)

    monkeypatch.setattr(Workers, "compute", losing)
    lazy = da.from_array(dense, chunks=(5000, N))
    assert same(fitted(ESTIMATORS[0], X), fitted(ESTIMATORS[0], lazy))
    assert [len(futures) for futures in lost] == [3, 3]


@pytest.mark.system
def test_losses_without_end_are_one_clear_error(client, dense, monkeypatch):
    def losing(self, tasks):
        raise distributed.comm.CommClosedError("gone")

    monkeypatch.setattr(Workers, "compute", losing)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    with pytest.raises(ClusterError, match="lost in each of 6 attempts.*CommClosedError: gone"):
        fitted(ESTIMATORS[0], da.from_array(dense, chunks=(5000, N)))


def test_wrong_values_name_their_row(dense):
    wrong = dense.copy()
    wrong[9999, 7] = 5
    lazy = da.from_array(wrong, chunks=(4000, N))
    with pytest.raises(InputError, match="got 5 at row 9999, column 7"):
        fitted(ESTIMATORS[0], lazy)
    with pytest.raises(InputError, match=r"got 5 .* \(rows counted within block 2 of X\)"):
        fitted(ESTIMATORS[0], lazy[lazy[:, 0] >= 0])
    assert fitted(TwoRoundEM(3, binarize=0.5, n_seeds=30, random_state=0), lazy).n_features_in_ == N


def test_what_a_cluster_cannot_do_is_said(X, dense):
    lazy = da.from_array(dense, chunks=(4000, N))
    with pytest.raises(InputError, match="rows and columns"):
        TemplateMixture(3).fit(lazy[0])
    with pytest.raises(InputError, match="number of columns of X is not known"):
        TemplateMixture(3).fit(lazy[:, lazy.sum(axis=0) >= 0])
    with pytest.raises(InputError, match="responsibilities of rows in memory"):
        TemplateMixture(3, init=np.arange(M) % 3).fit(lazy)
    model = fitted(ESTIMATORS[0], lazy)
    with pytest.raises(InputError, match=f"expecting {N} features"):
        model.predict(lazy[:, :50])


# Missing cells and weights


@pytest.fixture(scope="module")
def gaps(dense):
    """One cell of ten is missing, and the first 100 rows are complete."""
    cells = dense.astype(np.float32)
    cells[100:][np.random.default_rng(2).random((M - 100, N)) < 0.1] = np.nan
    return cells


@pytest.fixture(scope="module")
def weights():
    """Whole numbers, every eighth of them 0."""
    return np.arange(M) % 8


PARTIAL = [
    TemplateMixture(3, noise_model=noise_model, max_rows_search=1000, n_init=2, random_state=0)
    for noise_model in ("shared", "cell")
]


def same_in_all_chunks(model, here, lazy, **options):
    """The fit to rows on a cluster is the fit here, and so is what it says about rows."""
    other = fitted(model, lazy, **options)
    assert same(here, other)
    assert np.array_equal(other.predict_proba(lazy).compute(), here.predict_proba(lazy.compute()))


@pytest.mark.parametrize("model", PARTIAL, ids=str)
@pytest.mark.parametrize("chunks", [(M, N), ((100, 4900, 7000), 64), (2500, N)], ids=str)
def test_missing_cells_give_the_same_bits(gaps, model, chunks):
    """A block may lack no cell, but all of them have the same layout."""
    same_in_all_chunks(model, fitted(model, gaps), da.from_array(gaps, chunks=chunks))


@pytest.mark.parametrize("model", PARTIAL, ids=str)
def test_a_mask_gives_the_same_bits(dense, gaps, model):
    mask, lazy = np.isnan(gaps), da.from_array(dense, chunks=(5000, N))
    want = fitted(model, gaps)
    for given in (mask, da.from_array(mask, chunks=(3000, 64))):
        assert same(want, fitted(model, lazy, mask=given))


@pytest.mark.parametrize("model", PARTIAL, ids=str)
def test_weights_give_the_same_bits(X, dense, weights, model):
    lazy = da.from_array(dense, chunks=(5000, 100))
    want = fitted(model, X, sample_weight=weights)
    for given in (weights, da.from_array(weights, chunks=777)):
        assert same(want, fitted(model, lazy, sample_weight=given))


@pytest.mark.system
@pytest.mark.parametrize("model", PARTIAL, ids=str)
def test_two_workers_give_the_same_bits_with_gaps_and_weights(client, gaps, weights, model):
    lazy = da.from_array(gaps, chunks=(1700, N))
    want = fitted(model, gaps, sample_weight=weights + 0.5)
    same_in_all_chunks(model, want, lazy, sample_weight=weights + 0.5)
    unknown = lazy[da.nansum(lazy, axis=1) >= 0]
    assert same(want, fitted(model, unknown, sample_weight=weights + 0.5))


def test_rows_on_a_cluster_are_the_rows_here(gaps, weights):
    """Every part of the protocol, with missing cells and weights."""
    here = BitMatrix.from_dense(gaps, missing=True).weighted(weights)
    lazy = da.from_array(gaps, chunks=(1000, N))
    there = ClusterRows.of(lazy, missing=True, sample_weight=weights)
    assert (there.shape, there.layout) == (here.shape, here.layout)
    assert there.total_weight == here.total_weight
    assert np.array_equal(there.weights, here.weights)
    assert np.array_equal(there.base, here.base)
    chosen = np.array([-1, 0, 4999, 5000, 17, 17])
    assert np.array_equal(there.take(chosen), here.take(chosen))
    assert there.subset(chosen) == here.subset(chosen)
    for draw in (7, 500):
        drawn = [rows.draw(draw, np.random.default_rng(0)) for rows in (here, there)]
        assert np.array_equal(*drawn)
    with pytest.raises(IndexError, match="asked for row"):
        there.take([here.shape[0]])


def test_a_packed_file_keeps_its_layout_on_a_cluster(tmp_path, gaps, weights):
    rows = BitMatrix.from_dense(gaps, missing=True).weighted(weights)
    rows.save(tmp_path / "x.bits")
    there = ClusterRows.of_file(tmp_path / "x.bits", block_bytes=1 << 16)
    assert there.subset(np.arange(len(rows))) == rows
    assert same(fitted(PARTIAL[0], rows), fitted(PARTIAL[0], there))
    other = weights[weights > 0][::-1]
    want = fitted(PARTIAL[0], rows, sample_weight=other)  # in place of those in the file
    assert same(want, fitted(PARTIAL[0], there, sample_weight=other))


def test_wrong_gaps_and_weights_on_a_cluster(dense, gaps):
    lazy, partial = (da.from_array(cells, chunks=(4000, N)) for cells in (dense, gaps))
    with pytest.raises(InputError, match="missing cell .* at row 100"):
        TwoRoundEM(3).fit(partial[:4000])
    with pytest.raises(InputError, match="X has missing cells"):
        TwoRoundEM(3).fit(ClusterRows.of(partial, missing=True))
    with pytest.raises(InputError, match="X has weights"):
        TwoRoundEM(3).fit(ClusterRows.of(lazy, sample_weight=np.ones(M)))
    with pytest.raises(InputError, match=f"sample_weight must be {M} numbers"):
        TemplateMixture(3).fit(lazy, sample_weight=np.ones(M - 1))
    with pytest.raises(InputError, match="not negative, got -1"):
        TemplateMixture(3).fit(lazy, sample_weight=np.full(M, -1))
    with pytest.raises(InputError, match=r"mask must be True .* got shape \(3, 3\)"):
        TemplateMixture(3).fit(lazy, mask=np.ones((3, 3)))
    with pytest.raises(InputError, match="packed already"):
        TemplateMixture(3).fit(ClusterRows.of(lazy), mask=np.ones((M, N)))


def test_chunks_may_be_sparse(X, dense):
    lazy = da.from_array(dense, chunks=(5000, N)).map_blocks(scipy.sparse.csr_array)
    assert same(fitted(ESTIMATORS[0], X), fitted(ESTIMATORS[0], lazy))


def test_a_table_may_name_its_columns_as_it_likes():
    table = pd.DataFrame({"map_reduce": [0, 1] * 50, "__dask_graph__": [1, 0] * 50})
    assert TemplateMixture(2, random_state=0).fit(table).predict(table).tolist() == [0, 1] * 50


def test_a_file_changed_under_the_workers_is_noticed(tmp_path, X):
    X.save(tmp_path / "x.bits")
    rows = ClusterRows.of_file(tmp_path / "x.bits")
    BitMatrix(X.words ^ np.uint64(1), N).save(tmp_path / "x.bits")
    with pytest.raises(InputError, match="was changed while it was read"):
        TwoRoundEM(3, random_state=0).fit(rows)


@pytest.mark.system
def test_a_pass_is_shown_on_a_terminal_if_it_is_wanted(client, dense, X, capfd, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes standard error for a terminal
    lazy = da.from_array(dense, chunks=(1000, N))
    silent = TwoRoundEM(3, rounds=3, random_state=0).fit(lazy)
    assert capfd.readouterr().err == ""
    verbose = TwoRoundEM(3, rounds=3, verbose=True, random_state=0).fit(lazy)
    assert "percent of a pass" in capfd.readouterr().err
    assert same(silent, TwoRoundEM(3, rounds=3, random_state=0).fit(X))
    assert same(silent, verbose)
