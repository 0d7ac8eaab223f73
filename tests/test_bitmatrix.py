"""BitMatrix: from whatever users bring, to words and back, on disk and in scikit-learn."""

import threading
import time
import tracemalloc

import dask.array as da
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
from bitmix.kernels.events import Events
from bitmix.rows import as_rows, convert
from bitmix.rows.protocol import PLAIN, Layout


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
        (pd.DataFrame({"a": [0, np.ones(1)]}), "at row 1, column 0"),
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
    monkeypatch.delattr("os.preadv", raising=False)
    on_disk = BitMatrix.open(tmp_path / "x.bits")
    assert on_disk[[29_999, 5]] == X[[29_999, 5]]
    assert on_disk == X
    assert on_disk.density == X.density
    assert np.array_equal(on_disk.map_rows(lambda block: block.words.copy()), X.words)
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


def count_rows(block):
    return len(block.words)


def row_sums(block):
    return np.bitwise_count(block.bits).sum(axis=1, dtype=np.int64)


def test_a_pass_within_a_pass_does_not_wait_for_itself(monkeypatch):
    monkeypatch.setenv("BITMIX_NUM_THREADS", "2")
    X = random_bits(40_000, 2048, 0)
    assert X.map_reduce(lambda block: 0 * X.map_reduce(count_rows) + count_rows(block)) == 40_000
    ones = X.map_rows(lambda block: X[:600].map_rows(row_sums)[:1].repeat(count_rows(block)))
    assert np.array_equal(ones, np.repeat(X[0].sum(), 40_000))


def test_an_error_stops_the_other_threads(monkeypatch):
    monkeypatch.setenv("BITMIX_NUM_THREADS", "2")
    X, calls = random_bits(200_000, 64, 0), []

    def fail(block):
        calls.append(count_rows(block))
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
        random_bits(rows, 640, 0).map_reduce(count_rows)
    assert threading.active_count() <= before + 7


# --- missing cells and weights ----------------------------------------------------------------


def with_layout(n, missing, weighted, m=9):
    """Rows, and what they should hold: bits, known cells, weights."""
    bits, known = (random_bits(m, n, seed).to_dense() for seed in (1, 2))
    known = known if missing else np.ones_like(known)
    weights = np.arange(m) % 4 + 1.0 if weighted else np.ones(m)
    rows = BitMatrix.from_dense(np.where(known, bits, np.nan), missing=True)
    rows = rows.weighted(weights) if weighted else rows
    return rows, bits & known, known, weights


LAYOUTS = pytest.mark.parametrize(
    ("missing", "weighted"), [(False, False), (False, True), (True, False), (True, True)]
)


@pytest.mark.parametrize("n", [1, 64, 70])
@LAYOUTS
def test_a_layout_takes_rows_apart(n, missing, weighted):
    rows, bits, known, weights = with_layout(n, missing, weighted)
    layout, words = rows.layout, rows.words
    assert layout == Layout(missing, int(weighted))
    assert words.shape == (9, layout.width(n))
    assert layout.width(n) == (1 + missing) * -(-n // 64) + weighted
    assert np.array_equal(unpack(layout.bits(words, n), n), bits)
    assert (layout.known(words, n) is None) == (not missing)
    assert (layout.weights(words) is None) == (not weighted)
    assert np.array_equal(rows.weights, weights)
    assert rows.total_weight == weights.sum()
    if missing:
        assert np.array_equal(unpack(layout.known(words, n), n), known)
    block_bits = rows.map_rows(lambda block: unpack(block.bits, n))
    assert np.array_equal(block_bits, bits)
    assert rows.density == bits.sum() / known.sum()


@LAYOUTS
def test_dense_again_has_nan_for_missing_cells(missing, weighted):
    rows, bits, known, _ = with_layout(70, missing, weighted)
    cells = np.where(known, bits, np.nan)
    assert np.array_equal(rows.to_dense(float), cells, equal_nan=True)
    assert np.array_equal(np.asarray(rows), cells, equal_nan=True)
    assert rows.to_dense().dtype == (np.float64 if missing else np.uint8)
    assert np.array_equal(rows[3], cells[3], equal_nan=True)
    if missing:
        with pytest.raises(InputError, match="cells are missing, for which uint8 has no value"):
            rows.to_dense(np.uint8)


@LAYOUTS
def test_parts_keep_their_layout(missing, weighted):
    """Slices, numbers and masks of rows, and rows that are repeated."""
    rows, bits, known, weights = with_layout(70, missing, weighted, m=30)
    cells = np.where(known, bits, np.nan)
    for part in (slice(3, 9), slice(0, 30, 4), [7, 7, 1], cells[:, 0] == 1):
        some = rows[part]
        assert some.layout == rows.layout
        assert np.array_equal(some.to_dense(float), cells[part], equal_nan=True)
        assert np.array_equal(some.weights, weights[part])
    often = rows.repeated()
    assert often.layout == Layout(missing)
    numbers = np.repeat(np.arange(30), weights.astype(int))
    assert np.array_equal(often.to_dense(float), cells[numbers], equal_nan=True)


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("n", [1, 64, 70])
@LAYOUTS
def test_files_keep_missing_cells_and_weights(tmp_path, n, missing, weighted, in_memory):
    """Rows without either are still files of version 1, which older releases can read."""
    rows, _, _, weights = with_layout(n, missing, weighted)
    rows.save(tmp_path / "x.bits")
    again = BitMatrix.open(tmp_path / "x.bits", in_memory=in_memory)
    assert again == rows
    assert again.layout == rows.layout
    assert np.array_equal(again.weights, weights)
    assert np.array_equal(again[4:7].words, rows[4:7].words)
    version = 2 if missing or weighted else 1
    assert f'"version": {version}'.encode() in (tmp_path / "x.bits").read_bytes()
    again[2:].save(tmp_path / "y.bits")
    assert BitMatrix.open(tmp_path / "y.bits") == rows[2:]


def test_fractional_weights_are_kept_in_files(tmp_path):
    weights = np.random.default_rng(0).uniform(0.1, 3, 50)
    rows = random_bits(50, 70, 0).weighted(weights)
    assert np.abs(rows.weights - weights).max() <= 2.0**-17
    rows.save(tmp_path / "x.bits")
    assert np.array_equal(BitMatrix.open(tmp_path / "x.bits").weights, rows.weights)


def test_masks_add_up_and_weights_replace_each_other(bits):
    rng = np.random.default_rng(0)
    first, second = rng.random(bits.shape) < 0.2, rng.random(bits.shape) < 0.2
    X = BitMatrix.from_dense(bits)
    both = X.masked(first).masked(second)
    assert both == X.masked(first | second)
    assert np.array_equal(np.isnan(both.to_dense()), first | second)
    assert X.masked(np.zeros(bits.shape, dtype=bool)) == X
    weights = rng.integers(1, 5, 50)
    assert both.weighted(weights) == X.weighted(weights).masked(first | second)
    assert X.weighted(np.full(50, 9)).weighted(weights) == X.weighted(weights)


def test_rows_of_weight_zero_are_left_out(bits):
    weights = np.arange(50) % 3
    X = BitMatrix.from_dense(bits).weighted(weights)
    assert X.shape == (33, 70)
    assert np.array_equal(X.to_dense(), bits[weights > 0])
    assert np.array_equal(X.weights, weights[weights > 0])
    sparse = BitMatrix.from_dense(scipy.sparse.csr_array(bits)).weighted(weights)
    assert sparse == X


def test_seeds_are_drawn_by_weight():
    """The rows that are drawn are those of the table in which each row stands so often."""
    weights = np.random.default_rng(0).integers(0, 5, 60)
    X = random_bits(60, 70, 1)
    drawn = X.weighted(weights).draw(40, np.random.default_rng(3))
    often = X[np.repeat(np.arange(60), weights)]
    numbers = often.draw(40, np.random.default_rng(3))
    assert X.weighted(weights).take(drawn).tobytes() == often.take(numbers).tobytes()


def test_a_missing_cell_is_taken_as_most_of_its_column():
    cells = np.array([[1, 0, np.nan], [1, np.nan, 1], [np.nan, 0, 1], [0, 1, 0]])
    rows = BitMatrix.from_dense(cells, missing=True)
    taken = unpack(rows.take([0, 1, 2, 3]), 3)
    assert taken.tolist() == [[1, 0, 1], [1, 0, 1], [1, 0, 1], [0, 1, 0]]
    on_dask = as_rows(da.from_array(cells, chunks=(3, 2)), missing=True, sample_weight=[1, 1, 1, 9])
    for by_weight in (rows.weighted([1, 1, 1, 9]), on_dask):
        taken = unpack(by_weight.take([0, 1, 2, 3]), 3)
        assert taken.tolist() == [[1, 0, 0], [1, 1, 1], [0, 0, 1], [0, 1, 0]]


def test_missing_cells_must_be_asked_for():
    cells = np.array([[1, np.nan], [0, 1]])
    with pytest.raises(InputError, match="missing cell"):
        BitMatrix.from_dense(cells)
    rows = BitMatrix.from_dense(cells, missing=True)
    with pytest.raises(InputError, match="X has missing cells"):
        BitMatrix.from_dense(rows)
    assert BitMatrix.from_dense(rows, missing=True) == rows
    assert BitMatrix.from_dense([[1, 0], [0, 1]], missing=True).layout == PLAIN


@pytest.mark.parametrize("threshold", [-1, 0.5, 5])
def test_missing_cells_stay_missing_when_values_are_read_as_bits(threshold):
    cells = np.array([[1, np.nan, 0], [0, 1, np.nan]])
    expected = np.where(np.isnan(cells), np.nan, cells > threshold)
    packed = BitMatrix.from_dense(cells, missing=True)
    for source in (cells, packed, packed.weighted([2, 3])):
        found = BitMatrix.from_dense(source, binarize=threshold, missing=True)
        assert np.array_equal(found.to_dense(float), expected, equal_nan=True)
    assert np.array_equal(found.weights, [2, 3])
    named = BitMatrix.from_dense(pd.DataFrame(cells, columns=["a", "b", "c"]), missing=True)
    again = BitMatrix.from_dense(named, binarize=threshold, missing=True)
    assert again.feature_names == ("a", "b", "c")


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (lambda X: X.masked(np.zeros((3, 2), dtype=bool)), "mask must be True where"),
        (lambda X: X.masked(np.full((50, 70), 0.5)), "mask must be True where .* got float64"),
        (lambda X: X.weighted([1, 2]), "sample_weight must be 50 numbers, one per row"),
        (lambda X: X.weighted(np.full(50, -1)), "not negative, got -1.0 for row 0"),
        (lambda X: X.weighted(np.full(50, np.nan)), "must be finite"),
        (lambda X: X.weighted(np.zeros(50)), "must not be zero for every row"),
        (lambda X: X.weighted(np.full(50, 0.01)), "its sum must be at least 1"),
        (lambda X: X.weighted(np.full(50, 2.0**30)), "must sum to at most"),
    ],
)
def test_bad_masks_and_weights_are_named(bits, how, says):
    with pytest.raises(InputError, match=says):
        how(BitMatrix.from_dense(bits))


def test_damaged_files_with_missing_cells_and_weights_are_refused(tmp_path):
    path = tmp_path / "x.bits"
    rows, _, _, _ = with_layout(70, missing=True, weighted=True)
    rows.save(path)
    good = path.read_bytes()
    body = len(good) - rows.nbytes

    def refused(data, words):
        path.write_bytes(data)
        with pytest.raises(FileFormatError, match=words):
            BitMatrix.open(path)

    def with_word(row, word, value):
        words = np.frombuffer(good[body:], dtype=np.uint64).reshape(9, 5).copy()
        words[row, word] = value
        return good[:body] + words.tobytes()

    refused(good.replace(b'"missing": true', b'"missing": 12.5'), "header cannot be read")
    refused(good.replace(b'"weight_one": 1', b'"weight_one":-1'), "header cannot be read")
    refused(good.replace(b'"weight_one": 1', b'"weight_one": 0'), "should be .* bytes")
    refused(good.replace(b'"version": 2', b'"version": 1'), "should be .* bytes")
    refused(good.replace(b'"version": 2', b'"version": 4'), "version 4")
    refused(good[:-8], "cut short")
    refused(with_word(4, 1, 1 << 63), "bits are set past its last column")
    refused(with_word(4, 3, 1 << 63), "bits are set past its last column")
    refused(with_word(4, 2, 0), "bits of missing cells are set")
    refused(with_word(4, 4, 0), "weights of its rows make no sense")
    refused(with_word(4, 4, 1 << 62), "weights of its rows make no sense")
    path.write_bytes(good)
    assert BitMatrix.open(path) == rows


# --- rows as lists of ones --------------------------------------------------------------------


def test_very_sparse_rows_are_kept_as_lists_and_look_the_same(tmp_path):
    dense = random_bits(80, 700, 0, density=0.005).to_dense()
    dense[3] = 0
    X, listed = BitMatrix.from_dense(dense), BitMatrix.from_dense(scipy.sparse.csr_array(dense))
    assert listed.nbytes < X.nbytes
    assert listed == X
    assert np.array_equal(listed.to_dense(), dense)
    assert np.array_equal(listed.words, X.words)
    assert listed.density == X.density
    assert np.array_equal(listed.map_rows(row_sums), dense.sum(axis=1))
    for part in (slice(3, 9), [5, 5, 2], dense[:, 0] == 1, slice(0, 0)):
        assert listed[part] == X[part]
    np.testing.assert_array_equal(listed[7], dense[7])
    weights = np.arange(80) % 3
    assert listed.weighted(weights) == X.weighted(weights)
    assert listed.weighted(weights).repeated() == X.weighted(weights).repeated()
    gaps = random_bits(80, 700, 1, density=0.1).to_dense()
    assert listed.masked(gaps) == X.masked(gaps)
    listed.weighted(weights).save(tmp_path / "x.bits")
    assert BitMatrix.open(tmp_path / "x.bits") == X.weighted(weights)


@LAYOUTS
@pytest.mark.parametrize("density", [0.02, 0.5, 0.98])
def test_events_are_the_cells_that_differ_from_the_base(missing, weighted, density):
    """Whether they are listed when asked for or kept beside the rows."""
    n = 70
    bits, known = random_bits(90, n, 1, density).to_dense(), random_bits(90, n, 2, 0.8).to_dense()
    cells = np.where(known, bits, np.nan) if missing else bits.astype(float)
    rows = BitMatrix.from_dense(cells, missing=True)
    rows = rows.weighted(np.arange(1, 91)) if weighted else rows
    base = rows.base.astype(float)

    kept = rows.listed
    made = rows.map_reduce(lambda block: [(block.words.copy(), block.events)])
    assert [len(words) for words, _ in made] == [90]
    fresh = Events.of_words(
        np.ascontiguousarray(rows.layout.bits(rows.words, n)), rows.layout.known(rows.words, n), n,
        rows.base,
    )  # fmt: skip
    assert np.array_equal(fresh.starts, kept.starts)
    assert np.array_equal(fresh.cells, kept.cells)
    events = made[0][1]
    for row, start, stop in zip(cells, events.starts[:-1], events.starts[1:], strict=True):
        differing = np.flatnonzero(~np.isnan(row) & (row != base))
        missing_cells = n + np.flatnonzero(np.isnan(row))
        found = sorted(events.cells[start:stop].tolist())
        assert found == [*differing.tolist(), *missing_cells.tolist()]


@pytest.mark.parametrize("kind", ["S1", np.float16, object])
def test_a_sparse_matrix_of_a_type_that_scipy_cannot_convert_is_refused(kind):
    X = scipy.sparse.coo_array(np.eye(3))
    X.data = X.data.astype(kind)  # older versions of scipy make such matrices themselves
    with pytest.raises(InputError, match="0 and 1, got a sparse matrix of type"):
        BitMatrix.from_dense(X)


@pytest.mark.parametrize("number", [-1, 3000])
def test_a_sparse_matrix_with_numbers_of_columns_that_are_not_there_is_refused(number):
    X = scipy.sparse.csr_array(np.eye(5, 3000))
    X.indices[2] = number
    with pytest.raises(InputError, match="X is damaged.*(indices|index values) must be"):
        BitMatrix.from_dense(X)


def test_rows_as_lists_are_packed_as_dense_ones_are():
    X = (np.random.default_rng(0).random((40, 700)) < 0.005).astype(np.uint8)
    X[:, 63:65] = 1
    listed = BitMatrix.from_dense(scipy.sparse.csr_array(X))
    assert listed == BitMatrix.from_dense(X)
    np.testing.assert_array_equal(listed.to_dense(), X)


@pytest.mark.parametrize("missing", [False, True])
def test_different_rows_with_their_weights(missing):
    """In the order in which they first appear, whatever holds them; few copies are put together."""
    rng = np.random.default_rng(0)
    X = rng.integers(2, size=(200, 4)).astype(float)
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    wide = np.concatenate([X, np.zeros((200, 700))], axis=1)
    rows = BitMatrix.from_dense(wide, missing=True)
    found = rows.distinct()
    assert found.total_weight == 200
    expected = {}
    for row in wide:
        expected[row.tobytes()] = expected.get(row.tobytes(), 0) + 1
    cells = found.to_dense()
    weights = dict(zip([row.tobytes() for row in cells.astype(float)], found.weights, strict=True))
    assert weights == expected
    if not missing:
        assert list(map(tuple, cells)) == list(dict.fromkeys(map(tuple, wide)))
        listed = BitMatrix.from_dense(scipy.sparse.csr_array(wide)).distinct()
        assert listed == found
    assert found.distinct() == found
    few = BitMatrix.from_dense(np.eye(6)[[0, 1, 2, 3, 3]])
    assert few.distinct() == few
    assert few[[3, 0, 4, 2, 1]].distinct() == few[[3, 4, 0, 2, 1]]


def test_negative_row_numbers_count_from_the_end():
    """In lists of ones, too."""
    bits = np.zeros((4, 640), dtype=np.uint8)
    bits[[0, 1, 2, 3, 3], [0, 10, 20, 30, 31]] = 1
    for X in (BitMatrix.from_dense(bits), BitMatrix.from_dense(scipy.sparse.csr_matrix(bits))):
        for rows in (-1, -3, [-2, 0], [3, -4]):
            np.testing.assert_array_equal(np.atleast_2d(X[rows]), np.atleast_2d(bits[rows]))
        with pytest.raises(IndexError):
            X[4]


@pytest.mark.parametrize("names", [["X", "obs_names", "var_names"], ["tocsr", "b", "column_names"]])
def test_columns_of_a_table_may_have_any_name(names):
    pandas = pytest.importorskip("pandas")
    bits = np.array([[1, 0, 0], [0, 1, 1], [1, 1, 0], [0, 0, 1]])
    X = BitMatrix.from_dense(pandas.DataFrame(bits, columns=names))
    assert X.feature_names == tuple(names)
    np.testing.assert_array_equal(X.to_dense(), bits)
