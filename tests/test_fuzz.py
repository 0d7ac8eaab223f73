"""A fixed number of inputs of `fuzz.py` for each target, and the inputs that broke a promise."""

import io
import json
import struct
import time
import zipfile
from itertools import islice

import fuzz
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
from typer.testing import CliRunner

from bitmix import BitMatrix, TemplateMixture
from bitmix.cli import app
from bitmix.errors import FileFormatError, InputError
from bitmix.estimators.load import load_model
from bitmix.features.images import read_grey
from bitmix.rows.files import open_table

INPUTS = dict.fromkeys(fuzz.TARGETS, 1000) | {"command": 200, "zarr": 150, "image": 400}


@pytest.mark.posix
@pytest.mark.system
@pytest.mark.parametrize("target", fuzz.TARGETS)
def test_some_inputs(target, monkeypatch):
    monkeypatch.setenv("BITMIX_KERNELS", "reference")
    counts, broken = fuzz.campaign(target, islice(fuzz.inputs(target, 0), INPUTS[target]))
    assert not broken, "\n".join(trace for _, trace in broken.values())
    assert counts["value"] > 0
    assert counts["refused"] > 0


@pytest.mark.posix
def test_the_oracle_sees_what_is_wrong(tmp_path, monkeypatch):
    def target(doing):
        monkeypatch.setitem(fuzz.TARGETS, "csv", doing)
        counts, broken = fuzz.campaign("csv", [b"a,b\n0,1\n"])
        assert counts == {"broken": 1}
        return next(iter(broken))

    def hangs(data, folder):
        while True:
            pass

    def waits(data, folder):
        time.sleep(60)

    def litters(data, folder):
        fuzz.put(folder / "a", data)
        fuzz.put(folder / "b", data)

    monkeypatch.setattr(fuzz, "SECONDS", 0.1)
    assert "TooSlow" in target(hangs)
    monkeypatch.setattr(fuzz, "SECONDS", 5)
    with monkeypatch.context() as patch:
        patch.setattr(fuzz, "WAITING", 0.1)
        assert "TooSlow" in target(waits)
    assert "Broken" in target(litters)
    assert "ZeroDivisionError" in target(lambda data, folder: 1 // 0)
    if fuzz._resident("VmHWM"):
        monkeypatch.setattr(fuzz, "BYTES_MORE", 1 << 20)
        assert "Broken" in target(lambda data, folder: np.ones(1 << 24).sum())


# --- found by fuzzing -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        fuzz.npy((-1, 2)), fuzz.npy((-1, -1), order=True), fuzz.npy((True, 3), data=bytes(24)),
        fuzz.npy((2, 2), data=bytes(32)).replace(b"'shape'", b"'\0hape'"),
        fuzz.npy((2, 2), data=bytes(32)).replace(b"(2, 2)", b"(2, (2"),
    ],
)  # fmt: skip
def test_numpy_headers_that_lie(data, tmp_path):
    with pytest.raises(FileFormatError, match="not a NumPy array"):
        open_table(fuzz.put(tmp_path / "x.npy", data)).read()


def sparse(path, **changed):
    """A sparse matrix of scipy with some of its arrays replaced."""
    scipy.sparse.save_npz(path, scipy.sparse.coo_array(np.eye(3, dtype=np.uint8)))
    with np.load(path) as arrays:
        members = {**arrays, **changed}
    np.savez(path, **members)
    return path


def test_sparse_matrices_that_lie(tmp_path):
    path = tmp_path / "x.npz"
    for shape, says in (
        ((10**12, 3), "claims 1,000,000,000,000 rows, but has 3 entries"),
        ((3, 10**12), "at most 16,777,216 columns"),
        ((-3, 3), "claims -3 rows"),
    ):
        with pytest.raises(InputError, match=says):
            open_table(sparse(path, shape=np.array(shape))).read()
    with pytest.raises(FileFormatError, match="not a sparse matrix"):
        open_table(sparse(path, shape=np.array(3))).read()
    scipy.sparse.save_npz(path, scipy.sparse.csr_array(np.eye(3, dtype=np.uint8)))
    with np.load(path) as arrays:
        members = dict(arrays)
    for pointers in ([0, np.nan, 2, 3], [0, 2**40, 0, -1]):  # of the second SciPy checks nothing
        np.savez(path, **{**members, "indptr": np.array(pointers)})
        with pytest.raises(FileFormatError, match="damaged"):
            open_table(path).read()


def test_an_archive_whose_directory_points_before_its_start(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, np.eye(3))
    data = bytearray(path.read_bytes())
    entry = data.index(b"PK\x01\x02")
    data[entry + 42 : entry + 46] = struct.pack("<I", 2**31)
    with pytest.raises(FileFormatError):
        open_table(fuzz.put(path, bytes(data))).read()


def test_arrow_with_names_that_are_no_text(tmp_path):
    out, table = io.BytesIO(), pa.table({"abcd": [0, 1]})
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    path = fuzz.put(tmp_path / "x.arrow", out.getvalue().replace(b"abcd", b"\xe3bcd"))
    with pytest.raises(FileFormatError, match="not what its ending says"):
        open_table(path)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("[9,70]", "[999999999999,70]"), "bytes claim to hold 999,999,999,999 rows"),
        (("[4,40]", "[0,40]"), "its chunks are said to be|damaged"),
    ],
)
def test_zarr_folders_that_lie(words, says, tmp_path):
    """Chunks that are not there count as zeros: any number of rows costs nothing."""
    inside = fuzz.members(fuzz.seeds("zarr")[1])
    described = json.dumps(json.loads(inside[".zarray"]), separators=(",", ":"))
    assert words[0] in described
    (tmp_path / "x.zarr").mkdir()
    fuzz.put(tmp_path / "x.zarr" / ".zarray", described.replace(*words).encode())
    with pytest.raises(FileFormatError, match=says):
        open_table(tmp_path / "x.zarr").read()


def with_header(data, change):
    """A model whose header says something else."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    header = json.loads(members["header.npy"][members["header.npy"].index(b"\n") + 1 :])
    change(header)
    body = json.dumps(header).encode()
    return fuzz.archive({**members, "header.npy": fuzz.npy((len(body),), "|u1", body)})


TWO_ROUND, TEMPLATE = 0, 2  # of `fuzz.models`


@pytest.mark.parametrize(
    ("model", "change"),
    [
        (TWO_ROUND, lambda header: header.update({"class": ["TwoRoundEM"]})),
        (TWO_ROUND, lambda header: header["fitted"].update(seed_=0.7)),
        (TWO_ROUND, lambda header: header["fitted"].update(seed_=-1)),
        (TWO_ROUND, lambda header: header["fitted"].update(n_seeds_=float("inf"))),
        (TWO_ROUND, lambda header: header["history"][0].update(n_templates=float("inf"))),
        (TWO_ROUND, lambda header: header["history"][0].update(log_likelihood=10**400)),
        (TEMPLATE, lambda header: header["fitted"].update(converged_=1)),
        (TEMPLATE, lambda header: header["fitted"].update(objective_=float("nan"))),
        (TEMPLATE, lambda header: header["fitted"].update(starts_=3)),
        (TEMPLATE, lambda header: header["fitted"].update(starts_=[{"objective": 0.0}])),
        (TEMPLATE, lambda header: header["fitted"]["starts_"][0].update(n_steps=0.5)),
        (TEMPLATE, lambda header: header["fitted"].update(noise_model_scores_=7)),
        (TEMPLATE, lambda header: header["fitted"].update(noise_model_scores_={"x": {}})),
    ],
)
def test_model_headers_that_lie(model, change, tmp_path):
    data = with_header(fuzz.models()[model], change)
    with pytest.raises(FileFormatError):
        load_model(fuzz.put(tmp_path / "model", data))


def categories_of_tuples():
    cells = np.array([[0, 0], [0, 1], [1, 1]], dtype=object)
    cells[0, 0] = (1, 2)
    return pd.DataFrame(cells).astype("category")


@pytest.mark.parametrize(
    ("X", "more", "says"),
    [
        (np.ma.masked_equal([0, 1], 1), {}, "2D"),
        (np.ma.masked_equal(np.eye(3) * 1j, 0), {}, "X must hold 0 and 1"),
        (np.ma.masked_array([[0, [1]], [1, 0]], [[1, 0], [0, 0]], dtype=object), {}, "list at row"),
        (np.ma.masked_array(np.zeros((2, 2), "i4,f4")), {}, "X must hold 0 and 1"),
        (np.ma.masked_array(np.zeros((2, 2), "i4,f4"), mask=True), {}, "X must hold 0 and 1"),
        (categories_of_tuples(), {}, r"cells must hold one value, got \(1, 2\)"),
        (np.eye(3), {"sample_weight": "cell"}, "sample_weight must be 3 numbers"),
        (np.eye(3), {"sample_weight": [{}, 1, 1]}, "sample_weight must be 3 numbers"),
        (np.eye(3), {"sample_weight": [10**400, 1, 1]}, "sample_weight must be 3 numbers"),
        (scipy.sparse.coo_array([0, 1, 1]), {}, "2D"),
    ],
)
def test_odd_tables(X, more, says):
    with pytest.raises(InputError, match=says):
        TemplateMixture(1).fit(X, **more)


@pytest.mark.parametrize("prior", [1e300, 2.0**32, float("inf"), float("nan"), -1, "1", None])
def test_priors_that_make_no_sense(prior):
    with pytest.raises(InputError, match="prior must"):
        TemplateMixture(1, prior=prior).fit(np.eye(3))


def test_weights_below_one_row(recwarn):
    """Part of a table with weights may weigh less than one row of it."""
    rows = BitMatrix.from_dense(np.eye(9)).weighted(np.full(9, 0.2))[:3]
    for noise_model in ("shared", "cell"):
        model = TemplateMixture(2, noise_model=noise_model, random_state=0).fit(rows)
        assert model.weights_.sum() == pytest.approx(1)
    assert {warning.category.__module__ for warning in recwarn} <= {"bitmix.errors"}


@pytest.mark.parametrize("threshold", [[], {}, 10**400, np.datetime64("NaT"), "1", float("nan")])
def test_thresholds_that_are_no_numbers(threshold):
    with pytest.raises(InputError, match="binarize must"):
        TemplateMixture(1, binarize=threshold).fit(np.eye(3))
    with pytest.raises(InputError, match="binarize must"):
        BitMatrix.from_dense(np.eye(3), binarize=threshold)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8])
@pytest.mark.parametrize("threshold", [1e300, -1e300])
def test_thresholds_beyond_the_type(dtype, threshold):
    with np.errstate(all="raise"):
        found = BitMatrix.from_dense(np.eye(3, dtype=dtype), binarize=threshold).to_dense()
    assert (found == (threshold < 0)).all()


def test_a_fit_with_probabilities_of_few_cells_is_shown(tmp_path):
    path = fuzz.put(tmp_path / "x.csv", b"1,0\n0,1\n0,1\n1,1\n")
    done = CliRunner().invoke(app, ["fit", str(path), "-k", "1", "--noise-model", "cell"])
    assert done.exit_code == 0, done.exception
    assert "column 1   0.75 [" in done.stdout


def test_whatever_an_image_raises_is_ours(tmp_path, monkeypatch):
    """A damaged PNG made Pillow run out of memory."""
    path = fuzz.put(tmp_path / "x.png", fuzz.seeds("image")[0])

    def fails(*_):
        raise MemoryError

    monkeypatch.setattr("PIL.ImageOps.exif_transpose", fails)
    with pytest.raises(InputError, match="not an image or is damaged"):
        read_grey(path, (24, 24))
