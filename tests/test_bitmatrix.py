"""BitMatrix: from whatever users bring, to words and back, on disk and in scikit-learn."""

import threading
import time
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from conftest import random_bits
from sklearn.pipeline import make_pipeline

from bitmix import BitMatrix, TwoRoundEM
from bitmix.errors import FileFormatError, InputError
from bitmix.kernels.bits import unpack
from bitmix.rows import as_rows, convert


@pytest.fixture
def bits():
    return np.random.default_rng(0).integers(2, size=(50, 70), dtype=np.uint8)


SOURCES = {
    "bool": lambda b: b.astype(bool),
    "int8": lambda b: b.astype(np.int8),
    "int64": lambda b: b.astype(np.int64),
    "float32": lambda b: b.astype(np.float32),
    "float64 in Fortran order": lambda b: np.asfortranarray(b.astype(float)),
    "object": lambda b: b.astype(object),
    "list": lambda b: b.tolist(),
    "csr": scipy.sparse.csr_matrix,
    "coo array": scipy.sparse.coo_array,
    "csc of bool": lambda b: scipy.sparse.csc_matrix(b.astype(bool)),
    "pandas": lambda b: pd.DataFrame(b).add_prefix("c"),
    "pandas of mixed types": lambda b: pd.DataFrame(b).astype({0: bool, 1: float}),
    "pandas nullable": lambda b: pd.DataFrame(b).astype("Int8"),
    "polars": lambda b: pl.DataFrame(b),
    "pyarrow": lambda b: pa.table({f"c{i}": column for i, column in enumerate(b.T)}),
    "BitMatrix": BitMatrix.from_dense,
}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("block_cells", [1 << 22, 300])
def test_every_source_gives_the_same_words(name, block_cells, bits, monkeypatch):
    monkeypatch.setattr(convert, "BLOCK_CELLS", block_cells)
    X = BitMatrix.from_dense(SOURCES[name](bits))
    assert BitMatrix.from_dense(bits) == X
    np.testing.assert_array_equal(X.to_dense(), bits)


def test_it_looks_like_a_matrix(bits):
    X = BitMatrix.from_dense(bits)
    assert X.shape == (50, 70)
    assert len(X) == 50
    assert X.nbytes == 50 * 2 * 8
    assert X.density == bits.mean()
    assert np.asarray(X).dtype == np.uint8
    assert np.asarray(X, dtype=float).dtype == float
    np.testing.assert_array_equal(np.asarray(X), bits)
    np.testing.assert_array_equal(X[3], bits[3])
    np.testing.assert_array_equal(X[-1], bits[-1])
    np.testing.assert_array_equal(X[5:20:3].to_dense(), bits[5:20:3])
    np.testing.assert_array_equal(X[[7, 7, 1]].to_dense(), bits[[7, 7, 1]])
    np.testing.assert_array_equal(X[bits[:, 0] == 1].to_dense(), bits[bits[:, 0] == 1])
    np.testing.assert_array_equal(np.array(list(X)), bits)
    assert BitMatrix.from_dense(1 - bits) != X
    assert BitMatrix.from_dense(bits[:, :-1]) != X
    assert X != "bits"
    assert repr(X) == "BitMatrix(50 rows × 70 columns, 800 bytes)"
    np.testing.assert_array_equal(X[[3, 1], ...].to_dense(), bits[[3, 1]])
    np.testing.assert_array_equal(X[2:4, :].to_dense(), bits[2:4])
    np.testing.assert_array_equal(X[np.array(3)], bits[3])
    np.testing.assert_array_equal(X[np.uint8(3)], bits[3])
    assert X[[]].shape == (0, 70)
    for wrong in ((0, 1), None, True, 1.5, "a", [[0, 1]], [0.5], (0, 1, 2)):
        with pytest.raises(IndexError, match="indexed by rows"):
            X[wrong]
    with pytest.raises(IndexError):
        X[50]
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(X, copy=False)


def test_sparse_entries_are_summed_and_zeros_may_be_stored():
    X = scipy.sparse.csr_array(([0.5, 0.5, 0.0], [2, 2, 1], [0, 2, 3]), shape=(2, 3))
    assert BitMatrix.from_dense(X).to_dense().tolist() == [[0, 0, 1], [0, 0, 0]]
    assert BitMatrix.from_dense(X, binarize=-1).to_dense().all()


def test_binarize_reads_values_above_the_threshold_as_one():
    X = BitMatrix.from_dense([[0.2, 0.5, 0.7]], binarize=0.5)
    assert X.to_dense().tolist() == [[0, 0, 1]]


@pytest.mark.parametrize(
    ("X", "words"),
    [
        ([[0, 1], [1, 2]], "got 2 at row 1, column 1.*binarize"),
        ([[0, 0.5]], "got 0.5 at row 0, column 1"),
        (np.array([[1, 0], [0, -1]], dtype=np.int8), "got -1 at row 1, column 1"),
        ([[0, np.nan]], "missing cell .NaN or empty. at row 0, column 1"),
        (np.array([[0, None]], dtype=object), "missing cell .NaN or empty. at row 0, column 1"),
        ([[0, np.inf]], "infinity at row 0, column 1"),
        (pd.DataFrame({"a": [0, 1], "b": [1, 7]}), r"got 7 at row 1, column 1 \('b'\)"),
        (pd.DataFrame({"a": [0, 1], "b": ["x", "y"]}), r"got 'x' at row 0, column 1 \('b'\)"),
        (pd.DataFrame({"a": pd.array([0, None], dtype="Int8")}), r"row 1, column 0 \('a'\)"),
        (pl.DataFrame({"a": [0, 3]}), r"got 3 at row 1, column 0 \('a'\)"),
        (pa.table({"a": [0, 3]}), r"got 3 at row 1, column 0 \('a'\)"),
        (scipy.sparse.csr_matrix([[0, 3]]), "got 3 at row 0, column 1"),
        ([0, 1, 1], "2D.*Reshape"),
        ([[[0]]], "2D"),
        (np.empty((0, 3)), r"0 sample\(s\)"),
        (np.empty((3, 0)), r"0 feature\(s\)"),
        ([[0, 1], [1]], "rows of equal length"),
        ([["a", "b"]], "0 and 1, got values of type <U1"),
        ([[1j]], "Complex"),
        ("rows.csv", "text 'rows.csv': read the file first"),
        (pl.LazyFrame({"a": [0, 1]}), "lazy LazyFrame: call .collect"),
        (pd.DataFrame({"a": ["0", "1"]}), r"got '0' at row 0, column 0 \('a'\)"),
        (pl.DataFrame({"a": ["0", "1"]}), r"got '0' at row 0"),
        (np.ma.masked_array([[0, 1]], mask=[[0, 1]]), "missing cell .* at row 0, column 1"),
        (np.array([["2020-01-01"]], dtype="M8[D]"), "type datetime64"),
        (np.array([[10**400, 0]], dtype=object), "row 0, column 0"),
        (np.array([[{}, 0]], dtype=object), "got dict at row 0, column 0"),
    ],
)
def test_bad_input_is_named(X, words):
    with pytest.raises(InputError, match=words):
        BitMatrix.from_dense(X)


def test_a_bad_value_is_found_in_any_block(monkeypatch):
    monkeypatch.setattr(convert, "BLOCK_CELLS", 10)
    X = np.zeros((100, 5))
    X[77, 3] = 9
    with pytest.raises(InputError, match=r"9\.0 at row 77, column 3"):
        BitMatrix.from_dense(X)


def test_words_are_checked():
    with pytest.raises(InputError, match="shape"):
        BitMatrix(np.zeros((3, 2), dtype=np.uint64), 64)
    with pytest.raises(InputError, match="int64"):
        BitMatrix(np.zeros((3, 1), dtype=np.int64), 64)
    with pytest.raises(InputError, match="past column 2 must be zero"):
        BitMatrix(np.full((3, 1), 8, dtype=np.uint64), 3)
    with pytest.raises(InputError, match="n_columns"):
        BitMatrix(np.zeros((3, 0), dtype=np.uint64), 0)


def test_sparse_is_never_densified_as_a_whole():
    rng = np.random.default_rng(0)
    indptr, indices = np.arange(0, 4001 * 5, 5), rng.integers(10_000, size=4000 * 5)
    indices += 10_000 * np.tile(np.arange(5), 4000)  # five ones a row, in different fifths
    X = scipy.sparse.csr_array((np.ones(20_000), indices, indptr), shape=(4000, 50_000))
    tracemalloc.start()
    packed = BitMatrix.from_dense(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert packed.density == X.nnz / (4000 * 50_000)
    assert peak < packed.nbytes + 100e6  # dense it would be 1.6 GB


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("n", [1, 64, 70])
def test_save_and_open(tmp_path, in_memory, n):
    X = BitMatrix.from_dense(np.random.default_rng(0).integers(2, size=(9, n)))
    X.save(tmp_path / "x.bits")
    assert BitMatrix.open(tmp_path / "x.bits", in_memory=in_memory) == X
    assert [path.name for path in tmp_path.iterdir()] == ["x.bits"]


def test_an_empty_selection_can_be_saved(tmp_path, bits):
    X = BitMatrix.from_dense(bits)[:0]
    X.save(tmp_path / "x.bits")
    assert BitMatrix.open(tmp_path / "x.bits") == X
    assert X.density == 0


def test_damaged_files_are_refused(tmp_path, bits):
    path = tmp_path / "x.bits"
    BitMatrix.from_dense(bits).save(path)
    good = path.read_bytes()

    def refused(data, words):
        path.write_bytes(data)
        with pytest.raises(FileFormatError, match=words):
            BitMatrix.open(path)

    refused(good[:-8], "cut short")
    refused(good + b"\0", "cut short or added to")
    refused(b"", "not a packed bitmix file")
    refused(b"PK\3\4 something else entirely", "not a packed bitmix file")
    refused(good[:12], "damaged")
    refused(good[:8] + b"\xff" * 8 + good[16:], "damaged")
    refused(good.replace(b'"version": 1', b'"version": 9'), "version 9")
    refused(good.replace(b'"rows": 50', b'"rows": -5'), "claims -5 rows")
    refused(good.replace(b'"rows": 50', b'"rows": 1e'), "damaged")
    refused(good.replace(b'"rows": 50', b'"rows":9**'), "damaged")
    refused(good[:-1] + b"\xff", "bits are set past its last column")
    refused(good.replace(b'"version": 1', b'"version":[]'), "version")
    deep = b"[" * 200_000
    refused(good[:8] + len(deep).to_bytes(8, "little") + deep, "damaged")
    huge = b'{"format": "bits", "version": 1, "rows": 0, "columns": 1' + b"0" * 30 + b"}"
    refused(good[:8] + len(huge).to_bytes(8, "little") + huge, "claims 0 rows")
    with pytest.raises(FileNotFoundError):
        BitMatrix.open(tmp_path / "absent.bits")


def test_a_failed_save_leaves_the_old_file(tmp_path, bits, monkeypatch):
    X = BitMatrix.from_dense(bits)
    X.save(tmp_path / "x.bits")

    def full(_):
        raise OSError("no space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        X[:3].save(tmp_path / "x.bits")
    monkeypatch.undo()
    assert BitMatrix.open(tmp_path / "x.bits") == X
    assert [path.name for path in tmp_path.iterdir()] == ["x.bits"]


class OnlyStream:
    """A table that offers nothing but the Arrow C stream, as a DuckDB relation does."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def test_tables_are_read_through_the_arrow_stream(bits):
    table = OnlyStream(pa.table({f"c{i}": column for i, column in enumerate(bits.T)}))
    assert BitMatrix.from_dense(table) == BitMatrix.from_dense(bits)


@pytest.mark.parametrize("threads", ["1", "4"])
def test_files_are_read_without_preadv(bits, tmp_path, monkeypatch, threads):
    """As on Windows, where a read starts at a position that all threads share."""
    monkeypatch.setenv("BITMIX_NUM_THREADS", threads)
    X = random_bits(30_000, 200, 0)
    X.save(tmp_path / "x.bits")
    monkeypatch.delattr("os.preadv")
    on_disk = BitMatrix.open(tmp_path / "x.bits")
    assert on_disk[[29_999, 5]] == X[[29_999, 5]]
    assert on_disk == X
    assert on_disk.density == X.density
    assert np.array_equal(on_disk.map_rows(np.copy), X.words)
    (tmp_path / "x.bits").write_bytes((tmp_path / "x.bits").read_bytes()[:-100])
    with pytest.raises(FileFormatError, match="cut short while it was read"):
        on_disk.take([29_999])


@pytest.mark.parametrize("threshold", [-1, 0, 0.5, 1, 5])
def test_binarize_does_not_depend_on_the_container(bits, threshold):
    expected = BitMatrix.from_dense(bits > threshold)
    for source in (
        bits,
        bits.astype(bool),
        BitMatrix.from_dense(bits),
        scipy.sparse.csr_array(bits),
    ):
        assert BitMatrix.from_dense(source, binarize=threshold) == expected
    for wrong in (np.nan, "0.5", None.__class__):
        with pytest.raises(InputError, match="binarize"):
            BitMatrix.from_dense(bits, binarize=wrong)


def test_it_goes_through_model_selection(planted):
    rows, labels, _ = planted
    from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split

    part, rest, _, _ = train_test_split(rows, labels, random_state=0)
    assert isinstance(part, BitMatrix)
    assert len(part) + len(rest) == 600
    scores = cross_val_score(TwoRoundEM(3, random_state=0), rows, cv=3, error_score="raise")
    dense = cross_val_score(TwoRoundEM(3, random_state=0), rows.to_dense(), cv=3)
    np.testing.assert_array_equal(scores, dense)
    search = GridSearchCV(TwoRoundEM(random_state=0), {"n_components": np.arange(2, 4)}, cv=3)
    assert search.fit(rows).best_params_["n_components"] == 3


def test_it_goes_through_a_pipeline(planted):
    rows, _, truth = planted
    model = make_pipeline("passthrough", TwoRoundEM(3, random_state=0)).fit(rows)
    assert model.predict(rows).shape == (600,)
    assert model[-1].templates_.shape == truth.shape


def test_a_pass_within_a_pass_does_not_wait_for_itself(monkeypatch):
    monkeypatch.setenv("BITMIX_NUM_THREADS", "2")
    X = random_bits(40_000, 2048, 0)
    assert X.map_reduce(lambda words: 0 * X.map_reduce(len) + len(words)) == 40_000
    doubled = X.map_rows(lambda words: X[:600].map_rows(lambda part: part[:, 0])[: len(words)])
    assert doubled.shape[0] > 600


def test_an_error_stops_the_other_threads(monkeypatch):
    monkeypatch.setenv("BITMIX_NUM_THREADS", "2")
    X, calls = random_bits(200_000, 64, 0), []

    def fail(words):
        calls.append(len(words))
        if len(calls) == 2:
            raise RuntimeError("here")
        time.sleep(0.05)
        return 0

    monkeypatch.setattr("bitmix.rows.packed._BLOCK_BYTES", 1 << 17)
    monkeypatch.setattr("bitmix.rows.packed._BLOCK_WORK", 1)
    with pytest.raises(RuntimeError, match="here"):
        X.map_reduce(fail)
    assert len(calls) <= 3 < 200_000 / max(calls)


def test_one_pool_serves_all(monkeypatch):
    monkeypatch.setenv("BITMIX_NUM_THREADS", "7")
    before = threading.active_count()
    for rows in range(600, 30_000, 3000):
        random_bits(rows, 640, 0).map_reduce(len)
    assert threading.active_count() <= before + 7


@pytest.mark.parametrize("n", [1, 64, 70])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_layout_takes_rows_apart(n, missing, weighted):
    X, known = (random_bits(9, n, seed).to_dense() for seed in (1, 2))
    weights = np.arange(1, 10) if weighted else None
    gaps = known == 0 if missing else None
    rows = as_rows(X, missing=True, mask=gaps, sample_weight=weights)
    words = rows.map_rows(lambda block: block.copy(), block_cells=1)
    layout = rows.layout
    assert (layout.missing, layout.weight_one) == (missing, int(weighted))
    assert np.array_equal(unpack(layout.bits(words), n), X & known if missing else X)
    assert np.array_equal(layout.weights(words), weights if weighted else np.ones(9))
    if missing:
        assert np.array_equal(unpack(layout.known(words), n), known)
    else:
        assert layout.known(words) is None
    scored = layout.scored(words)
    assert scored.flags.c_contiguous
    assert scored.shape[1] == (1 + missing) * -(-n // 64)
    per_bit = unpack(scored, 64 * scored.shape[1])
    bits, known_bits = layout.columns(per_bit, n)
    assert np.array_equal(bits, X & known if missing else X)
    assert known_bits is None if not missing else np.array_equal(known_bits, known)
