"""Tables as they come: codes, missing cells, ids, weights, other shapes and formats.

Every file is made here and compared with the array that it was made from, bit for bit.
"""

import gzip
import importlib.util
import io
import json
import os
import re
import shlex
import warnings
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.io
import scipy.sparse
from command import bitmix as noting_bitmix

from bitmix import BitMatrix, ClassicEM, TemplateMixture, TwoRoundEM, select_components
from bitmix.__main__ import main
from bitmix.errors import CodesWarning, InputError, SkippedWarning
from bitmix.rows.codes import Codes, Fingerprint
from bitmix.rows.files import Request, open_table, text
from bitmix.rows.learn import looks_missing

M, N = 90, 7
SHARED = Path(os.environ.get("BITMIX_TABLES", Path(__file__).parents[2] / "shared/data/tables"))


@pytest.fixture(autouse=True)
def quiet_codes():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CodesWarning)
        yield


@pytest.fixture(scope="module")
def bits():
    return np.random.default_rng(0).integers(2, size=(M, N), dtype=np.uint8)


@pytest.fixture(scope="module")
def gaps():
    return np.random.default_rng(1).random((M, N)) < 0.2


def names(n=N):
    return [f"q{i}" for i in range(n)]


def words(bits, pair, gaps=None, missing="NA"):
    """A table of two words in place of 0 and 1."""
    table = pd.DataFrame(np.array(pair, dtype=object)[bits], columns=names(bits.shape[1]))
    return table if gaps is None else table.mask(gaps, missing)


def dense(rows):
    return rows.to_dense(np.float64)


def expected(bits, gaps):
    return np.where(gaps, np.nan, bits)


@dataclass(frozen=True)
class Finished:
    returncode: int
    stdout: str
    stderr: str


def bitmix(*arguments):
    """Run a command in this process."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code or 0
    return Finished(code, out.getvalue(), err.getvalue())


PAIRS = [
    ("0", "1"), ("1", "2"), ("1.0", "2.0"), ("no", "yes"), ("No", "Yes"), ("N", "Y"), ("F", "T"),
    ("FALSE", "TRUE"), ("absent", "present"), ("Absent", "PRESENT"), ("-", "+"), ("bad", "good"),
    ("left, far", 'right "so"'),
]  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("without", ["", "_digits", "_by_pyarrow"])
def test_two_values_are_read_as_0_and_1(pair, without, bits, gaps, tmp_path, monkeypatch):
    """By each of the three ways to read text, from other formats, and in Python."""
    if without:
        monkeypatch.setattr(text.TextPart, "_digits", lambda self: None)
    if without == "_by_pyarrow":
        monkeypatch.setattr(text.TextPart, "_by_pyarrow", lambda self, **_: None)
    table = words(bits, pair, gaps, None)
    table.to_csv(tmp_path / "x.csv", index=False, na_rep="NA")
    table.to_csv(tmp_path / "x.tsv", index=False, sep="\t")
    table.to_csv(tmp_path / "semicolons.csv", index=False, sep=";")
    table.to_parquet(tmp_path / "x.parquet")
    table.astype("category").to_feather(tmp_path / "x.feather")
    for path in tmp_path.iterdir():
        rows = open_table(path).read()
        np.testing.assert_array_equal(dense(rows), expected(bits, gaps), str(path))
    model = TemplateMixture(2, n_init=2, random_state=0).fit(table)
    plain = TemplateMixture(2, n_init=2, random_state=0).fit(expected(bits, gaps))
    assert model.means_.tobytes() == plain.means_.tobytes()


def test_numbers_of_arrays_are_read_by_codes(bits, gaps, tmp_path):
    coded = np.where(gaps, np.nan, bits + 1.0)
    np.save(tmp_path / "x.npy", coded)
    np.savez(tmp_path / "x.npz", coded)
    for path in tmp_path.iterdir():
        np.testing.assert_array_equal(dense(open_table(path).read()), expected(bits, gaps))
    np.save(tmp_path / "codes.npy", np.where(gaps, -9, bits.astype(int)))
    rows = open_table(tmp_path / "codes.npy", missing=-9).read()
    np.testing.assert_array_equal(dense(rows), expected(bits, gaps))
    with pytest.raises(InputError, match="-9.*looks like a code for a missing cell: set missing="):
        open_table(tmp_path / "codes.npy").read()


def test_counts_above_a_threshold(bits, gaps, tmp_path):
    """The same from text, Parquet, arrays and in Python; the model keeps the threshold."""
    counts = np.where(gaps, np.nan, bits * 7.5 + np.arange(M)[:, None] / M)
    table = pd.DataFrame(counts, columns=names())
    table.to_csv(tmp_path / "x.csv", index=False)
    table.to_parquet(tmp_path / "x.parquet")
    np.save(tmp_path / "x.npy", counts)
    paths = sorted(tmp_path.iterdir())
    for path in paths:
        rows = open_table(path, binarize=5).read()
        np.testing.assert_array_equal(dense(rows), expected(bits, gaps))
    for source in paths:
        model = tmp_path / "m.model"
        options = ["--binarize", "5", "-k", "2", "--noise-model", "cell", "--force"]
        assert bitmix("fit", source, *options, "-o", model).returncode == 0
        said = {bitmix("predict", model, path, "-o", "-").stdout for path in paths}
        assert len(said) == 1
        assert len(said.pop().splitlines()) == M + 1


@pytest.mark.parametrize("missing", ["", "NA", "NaN", "null", ".", "?", "-9", "99", "n/a", "3"])
def test_missing_codes(missing, bits, gaps, tmp_path):
    path = tmp_path / "x.csv"
    words(bits, ("0", "1"), gaps, missing).to_csv(path, index=False)
    by_default = missing in ("", "NA", "NaN", "null")
    if not by_default:
        with pytest.raises(
            InputError, match=rf"got '{re.escape(missing)}' at line \d+, column 'q\d'.*missing"
        ):
            open_table(path).read()
    rows = open_table(path, missing=() if by_default else missing).read()
    np.testing.assert_array_equal(dense(rows), expected(bits, gaps))
    assert rows.n_missing == gaps.sum()


def test_what_looks_missing():
    for value, others in (("-9", "01"), ("99", "12"), ("9", "01"), ("999", "12"), (".", "01")):
        assert looks_missing(value, [*others, value])
    for value, others in (("2", "01"), ("5", "1234"), ("-", "+"), ("9", "8"), ("-1", ["-2", "-3"])):
        assert not looks_missing(value, [*others, value])


def test_columns_with_one_value_follow_the_others(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b,c\n1,1,2\n2,1,2\n1,1,2\n")
    assert open_table(path).read().to_dense().tolist() == [[0, 0, 1], [1, 0, 1], [0, 0, 1]]
    path.write_text("a,b\nno,NO\nyes,no\n")
    assert open_table(path).read().to_dense().tolist() == [[0, 0], [1, 0]]
    path.write_text("a,b\n1,1\n0,1\n")
    assert open_table(path).read().to_dense().tolist() == [[1, 1], [0, 1]]
    path.write_text("a,b\n1,x\n0,x\n")
    with pytest.raises(
        InputError, match=r"got 'x' at line 2, column 'b'.*no other value.*drop='b'"
    ):
        open_table(path).read()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1,0\n2,1\n", "got '2' at line 3, column 'a': the column holds 1 and 2, but .* 'b'"),
        ("a,b\n1,0\n0,7.5\n", "got '7.5' at line 3, column 'b'"),
        ("a,b\nyes,0\nYes,1\nno,2\n", "got '2' at line 4, column 'b'"),
        ("a,b\nred,0\nRed,1\n", "'red' at line 2, column 'a': it differs from 'Red' only in case"),
        ("a,n\n0,34\n1,2\n", "set weight_column='n' if each row stands for so many"),
        ("1991,1992\n0,1\n", "could be a row or the names of the columns: set header=False"),
        ("a;b,c\n0;1,1\n", "could have cells between commas or semicolons: set sep="),
        ("a,a\n0,1\n", "two columns named 'a'.*header=False"),
    ],
)
def test_what_could_be_read_in_two_ways_is_an_error(content, message, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        open_table(path).read()
    refused = bitmix("fit", path, "-k", "1", "-o", tmp_path / "m.model")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert sorted(tmp_path.iterdir()) == [path]


def test_listed_ones(bits, tmp_path):
    scale = np.array(["1 very", "2 quite", "3 not", "4 never"])
    cells = np.random.default_rng(2).integers(4, size=(M, N))
    table = pd.DataFrame(scale[cells], columns=names())
    table.insert(0, "sex", np.where(bits[:, 0] == 1, "m", "f"))
    table.to_csv(tmp_path / "x.csv", index=False)
    rows = open_table(tmp_path / "x.csv", one_values=["1 very", "2 quite"]).read()
    np.testing.assert_array_equal(rows.to_dense()[:, 1:], cells < 2)
    np.testing.assert_array_equal(rows.to_dense()[:, 0], bits[:, 0])
    assert rows.feature_names == ("sex=m", *names())
    model = TemplateMixture(2, n_init=2, random_state=0).fit(
        table, one_values=["1 very", "2 quite"]
    )
    assert model.codes_ == rows.codes
    with pytest.raises(InputError, match="one_values='none' lists values that no column has"):
        open_table(tmp_path / "x.csv", one_values="none")


def test_codes_are_said_once_and_kept_in_the_model(bits, gaps, tmp_path):
    table = words(bits, ("no", "yes"), gaps, None)
    with pytest.warns(
        CodesWarning, match="'yes' is read as 1 and 'no' as 0 in all columns"
    ) as told:
        model = TemplateMixture(2, n_init=2, random_state=0).fit(table)
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        labels = model.predict(table)
        model.save(tmp_path / "m.model")
        again = TemplateMixture.load(tmp_path / "m.model")
        assert again.codes_ == model.codes_
        np.testing.assert_array_equal(again.predict(table), labels)
        ones = table.iloc[:5].map(lambda cell: "YES")  # by the codes of the fit, not by its own
        np.testing.assert_array_equal(again.predict(ones), again.predict(ones.map(str.lower)))
    with pytest.raises(InputError, match=r"the fit has seen, got 'maybe' at row 0, column 2"):
        again.predict(table.iloc[:3].assign(q2="maybe"))
    with pytest.raises(InputError, match="the columns of X must be those of the fit"):
        again.predict(table[names()[::-1]])
    assert BitMatrix.from_dense(bits).codes is None
    assert TemplateMixture(2, random_state=0).fit(bits).codes_ is None


@pytest.mark.filterwarnings("ignore::bitmix.errors.BitmixWarning")
def test_the_paper_s_estimators_read_codes(bits):
    table = words(bits, ("no", "yes"))
    for estimator in (TwoRoundEM(2, random_state=0), ClassicEM(2, random_state=0)):
        coded = estimator.fit(table).means_
        np.testing.assert_array_equal(coded, estimator.fit(bits).means_)
    table["q0"] = np.array(["red", "green", "blue"])[np.arange(M) % 3]
    with pytest.raises(InputError, match="more than two values: use TemplateMixture"):
        TwoRoundEM(2).fit(table)
    assert select_components(words(bits, ("no", "yes")), [1, 2]).model.codes_ is not None


def test_words_become_items(bits, tmp_path):
    """As one column per value with ``items=``; numbers become items only if it is said."""
    colours = np.random.default_rng(3).integers(3, size=M)
    one_hot = np.eye(3, dtype=np.uint8)[colours]
    by_hand = np.hstack([one_hot, bits])
    table = words(bits, ("0", "1"))
    table.insert(0, "colour", np.array(["blue", "green", "red"])[colours])
    path = tmp_path / "x.csv"
    table.to_csv(path, index=False)
    rows = open_table(path).read()
    np.testing.assert_array_equal(rows.to_dense(), by_hand)
    assert rows.feature_names == ("colour=blue", "colour=green", "colour=red", *names())
    settings = {"n_init": 2, "noise_model": "cell", "random_state": 0}
    model = TemplateMixture(2, **settings).fit(rows)
    plain = TemplateMixture(2, **settings).fit(by_hand, items=[[0, 1, 2]])
    assert model.means_.tobytes() == plain.means_.tobytes()
    table.loc[3, "colour"] = None
    table.to_csv(path, index=False)
    assert open_table(path).read().n_missing == 1
    table["colour"] = colours
    table.to_csv(path, index=False)
    with pytest.raises(InputError, match=r"got '2' at line .*set items='colour' if"):
        open_table(path).read()
    np.testing.assert_array_equal(open_table(path, items="colour").read().to_dense(), by_hand)
    model = TemplateMixture(2, **settings).fit(table.astype(int), items="colour")
    assert model.means_.tobytes() == plain.means_.tobytes()


def test_columns_and_roles(bits, tmp_path):
    table = words(bits, ("0", "1"))
    table.insert(0, "who", [f"r{i}" for i in range(M)])
    table["kind"], table["place"] = ["a", "b"] * (M // 2), "here"
    table["n"] = np.arange(M) % 4
    path = tmp_path / "x.csv"
    table.to_csv(path, index=False)
    roles = {"id_column": "who", "label_column": ["kind", "place"], "weight_column": "n"}
    loaded = open_table(path, **roles).load()
    used = np.arange(M) % 4 > 0  # rows of weight 0 are left out
    assert loaded.rows == BitMatrix.from_dense(bits).weighted(np.arange(M) % 4)
    assert loaded.ids == list(table["who"][used])
    assert loaded.labels == {
        "kind": list(table["kind"][used]), "place": list(table["place"][used])
    }  # fmt: skip
    for columns, chosen in (
        ("q1:q3", [1, 2, 3]), ("q3:q1", [3, 2, 1]), ("q5,q0", [5, 0]), ("q[12]", [1, 2]),
        (["q2", "q6"], [2, 6]),
    ):  # fmt: skip
        rows = open_table(path, columns=columns).read()
        np.testing.assert_array_equal(rows.to_dense(), bits[:, chosen])
    dropped = open_table(path, drop="who,kind,place,n,q0")
    np.testing.assert_array_equal(dropped.read().to_dense(), bits[:, 1:])
    assert dropped.roles.left_out["q0"] == "dropped"
    with pytest.raises(InputError, match=r"x\.csv has no column drop='z\*': it has who"):
        open_table(path, drop="z*")
    with pytest.raises(InputError, match=r"weights .* got 'r0' at line 2, column 'who'"):
        open_table(path, columns="q*", weight_column="who").load()


@pytest.mark.parametrize("sep", [",", ";", "\t", " "])
def test_row_names_of_r_and_pandas(sep, bits, tmp_path):
    table = words(bits, ("1", "2"))
    table.index = [f"row {i}" for i in range(M)]
    quoted = {"quoting": 2, "sep": sep}
    table.to_csv(tmp_path / "write.csv", **quoted)
    table.rename_axis("rownames").to_csv(tmp_path / "rdatasets.csv", **quoted)
    lines = table.to_csv(**quoted).split("\n")  # write.table names no row names
    lines[0] = lines[0].removeprefix(f'""{sep}')
    (tmp_path / "table.txt").write_text("\n".join(lines))
    for path in tmp_path.iterdir():
        loaded = open_table(path).load()
        np.testing.assert_array_equal(loaded.rows.to_dense(), bits, str(path))
        assert loaded.ids == list(table.index)
        assert loaded.rows.feature_names == tuple(names())


def test_text_of_other_programs(bits, tmp_path):
    rows = [" ".join(map(str, row)) for row in bits]
    (tmp_path / "blanks.data").write_text("".join(f" {row} \n" for row in rows))
    (tmp_path / "wide.csv").write_text("\n".join(row.replace(" ", "   ") for row in rows))
    (tmp_path / "pipes.csv").write_text("\n".join(row.replace(" ", "|") for row in rows))
    for name, options in (("blanks.data", {}), ("wide.csv", {}), ("pipes.csv", {"sep": "|"})):
        np.testing.assert_array_equal(
            open_table(tmp_path / name, **options).read().to_dense(), bits
        )
    table = words(bits, ("nö", "yäs"))
    table.to_csv(tmp_path / "latin.csv", index=False, encoding="latin-1")
    table.to_csv(tmp_path / "utf16.csv", index=False, encoding="utf-16")
    with pytest.raises(InputError, match="line 2 is not: name its encoding, as encoding='latin-1'"):
        open_table(tmp_path / "latin.csv").read()
    for name, encoding in (("latin.csv", "latin-1"), ("utf16.csv", None)):
        rows = open_table(tmp_path / name, encoding=encoding).read()
        np.testing.assert_array_equal(rows.to_dense(), bits)
    (tmp_path / "bare.csv").write_text("a,0,1\nb,1,1\n")
    loaded = open_table(tmp_path / "bare.csv", header=False, id_column="0").load()
    assert (loaded.ids, loaded.rows.to_dense().tolist()) == (["a", "b"], [[0, 1], [1, 1]])


@pytest.mark.parametrize("shape", [(1, 1), (63, 65), (64, 64), (130, 7), (3, 200)])
def test_features_in_rows(shape, tmp_path):
    bits = np.random.default_rng(4).integers(2, size=shape, dtype=np.uint8)
    genes, strains = [f"g{i}" for i in range(shape[1])], [f"s{i}" for i in range(shape[0])]
    table = pd.DataFrame(bits.T, index=pd.Index(genes, name="Gene"), columns=strains)
    table.to_csv(tmp_path / "x.Rtab", sep="\t")
    table.to_csv(tmp_path / "x.csv")
    for path, options in ((tmp_path / "x.Rtab", {}), (tmp_path / "x.csv", {"transpose": True})):
        loaded = open_table(path, **options).load()
        np.testing.assert_array_equal(loaded.rows.to_dense(), bits)
        assert (loaded.ids, loaded.rows.feature_names) == (strains, tuple(genes))
    chosen = open_table(tmp_path / "x.Rtab", columns=genes[::-2]).read()
    np.testing.assert_array_equal(chosen.to_dense(), bits[:, ::-2])


def test_features_in_rows_with_codes_and_missing_cells(bits, gaps, tmp_path):
    """Mutations by cells with 3 for missing, and yes and no."""
    for pair, missing in ((("0", "1"), "3"), (("no", "yes"), "?")):
        table = words(bits, pair, gaps, missing).T
        table.to_csv(tmp_path / "x.csv")
        rows = open_table(tmp_path / "x.csv", transpose=True, missing=missing).read()
        np.testing.assert_array_equal(dense(rows), expected(bits, gaps))
        assert len(rows.codes.columns) == N
        options = ["--transpose", "--missing", missing]
        model = tmp_path / "m.model"
        fitted = bitmix("fit", tmp_path / "x.csv", "-k", "2", *options, "-o", model, "--force")
        assert fitted.returncode == 0, fitted.stderr
        labels = bitmix("predict", model, tmp_path / "x.csv", "--transpose", "-o", "-").stdout
        by_hand = TemplateMixture.load(model).predict(rows)
        found = [line.split(",") for line in labels.splitlines()[1:]]
        assert [name for name, *_ in found] == [str(i) for i in range(M)]
        assert [int(label) for _, label, *_ in found] == by_hand.tolist()


def test_gene_presence_absence(bits, tmp_path):
    path = tmp_path / "gene_presence_absence.csv"
    table = pd.DataFrame({
        "Gene": names(), "Non-unique Gene name": "", "Annotation": 'a "b", c', "No. isolates": 3,
    })  # fmt: skip
    for i, row in enumerate(bits):
        table[f"s{i}"] = [f"s{i}_{j}" if bit else "" for j, bit in enumerate(row)]
    table.to_csv(path, index=False)
    loaded = open_table(path).load()
    np.testing.assert_array_equal(loaded.rows.to_dense(), bits)
    assert loaded.rows.feature_names == tuple(names())
    assert loaded.ids == [f"s{i}" for i in range(M)]
    table.drop(columns=["Non-unique Gene name", "Annotation", "No. isolates"]).to_csv(
        path, index=False
    )
    np.testing.assert_array_equal(open_table(path).read().to_dense(), bits)
    assert bitmix("fit", path, "-k", "2", "-o", tmp_path / "m.model").returncode == 0
    predicted = bitmix("predict", tmp_path / "m.model", path, "-o", "-")
    assert predicted.stdout.count("\n") == M + 1, predicted.stderr


@pytest.mark.parametrize("n", [1, 7, 8, 64, 130])
@pytest.mark.parametrize("bitorder", ["big", "little"])
def test_packed_bytes(n, bitorder, tmp_path):
    bits = np.random.default_rng(n).integers(2, size=(20, n), dtype=np.uint8)
    octets = np.packbits(bits, axis=1, bitorder=bitorder)
    rows = BitMatrix.from_packed(octets, n, bitorder)
    assert rows == BitMatrix.from_dense(bits)
    np.testing.assert_array_equal(rows.to_packed(bitorder), octets)
    np.save(tmp_path / "x.npy", octets)
    np.savez(tmp_path / "x.npz", octets)
    fixed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(octets.shape[1]), len(octets), [None, pa.py_buffer(octets.tobytes())]
    )
    pa.parquet.write_table(pa.table({"fp": fixed}), tmp_path / "x.parquet")
    for path in tmp_path.iterdir():
        table = open_table(path, packed=bitorder)
        assert table.read() == BitMatrix.from_packed(octets, None, bitorder)
        assert table.codes == Codes(packed=bitorder)
    with pytest.raises(InputError, match=r"bitorder must be 'big' or 'little', got 'huge'"):
        BitMatrix.from_packed(octets, n, "huge")
    with pytest.raises(InputError, match="columns take"):
        BitMatrix.from_packed(octets, n + 8, bitorder)


def test_matrix_market(bits, tmp_path):
    scipy.io.mmwrite(tmp_path / "x.mtx", scipy.sparse.coo_array(bits))
    (tmp_path / "x.mtx.gz").write_bytes(gzip.compress((tmp_path / "x.mtx").read_bytes()))
    for name in ("x.mtx", "x.mtx.gz"):
        np.testing.assert_array_equal(open_table(tmp_path / name).read().to_dense(), bits)
    folder = tmp_path / "tenx"
    folder.mkdir()
    scipy.io.mmwrite(folder / "matrix.mtx", scipy.sparse.coo_array(bits.T * 3))
    (folder / "features.tsv").write_text("".join(f"{name}\tx\n" for name in names()))
    barcodes = "".join(f"c{i}\n" for i in range(M))
    (folder / "barcodes.tsv.gz").write_bytes(gzip.compress(barcodes.encode()))
    loaded = open_table(folder / "matrix.mtx", binarize=0).load()
    np.testing.assert_array_equal(loaded.rows.to_dense(), bits)
    assert loaded.rows.feature_names == tuple(names())
    assert loaded.ids == barcodes.split()
    with pytest.raises(InputError, match=r"matrix\.mtx: X must hold 0 and 1, got 3.0 at row"):
        open_table(folder / "matrix.mtx").read()
    (folder / "features.tsv").write_text("a\nb\n")
    with pytest.raises(InputError, match="name 2 features and 90 rows"):
        open_table(folder / "matrix.mtx")


def test_anndata_files(bits, tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "x.h5ad"
    matrix = scipy.sparse.csr_array(bits.astype(np.float32))
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", matrix.shape
        for part in ("data", "indices", "indptr"):
            group[part] = getattr(matrix, part)
        file.create_group("layers")["counts"] = 5.0 * bits
        for axis, labels in (("obs", [f"c{i}" for i in range(M)]), ("var", names())):
            file.create_group(axis)["_index"] = labels
            file[axis].attrs["_index"] = "_index"
        kind = file["obs"].create_group("kind")
        kind["categories"], kind["codes"] = ["a", "b"], np.arange(M) % 2
    loaded = open_table(path, label_column="kind").load()
    np.testing.assert_array_equal(loaded.rows.to_dense(), bits)
    assert loaded.rows.feature_names == tuple(names())
    assert loaded.ids[:2] == ["c0", "c1"]
    assert loaded.labels == {"kind": ["a", "b"] * (M // 2)}
    counts = open_table(path, layer="counts", binarize=1).read()
    np.testing.assert_array_equal(counts.to_dense(), bits)
    with pytest.raises(InputError, match="has no layer 'no'"):
        open_table(path, layer="no")


def test_pairs(bits, tmp_path):
    path = tmp_path / "x.csv"
    pairs = "".join(f"u{i},p{j}\n" for i, j in np.argwhere(bits))
    path.write_text("user,page\n" + pairs + pairs)
    loaded = open_table(path, pairs=True).load()
    order = [int(name[1:]) for name in loaded.rows.feature_names]
    rows = [int(name[1:]) for name in loaded.ids]
    np.testing.assert_array_equal(loaded.rows.to_dense(), bits[np.ix_(rows, order)])
    fitted = bitmix("fit", path, "--pairs", "-k", "2", "-o", tmp_path / "m.model")
    assert fitted.returncode == 0, fitted.stderr
    path.write_text("user,page\nx,p3\nx,other\n")
    predicted = bitmix("predict", tmp_path / "m.model", path, "--pairs", "-o", "-")
    assert predicted.stdout.startswith("id,label,probability,"), predicted.stderr


def test_molecules(tmp_path):
    pytest.importorskip("rdkit")
    from rdkit import Chem
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    smiles = ["CCO", "c1ccccc1O", "CC(=O)Oc1ccccc1C(=O)O", "CN1C=NC2=C1C(=O)N(C(=O)N2C)C"]
    generator = GetMorganGenerator(radius=2, fpSize=2048)
    bits = np.array([generator.GetFingerprintAsNumPy(Chem.MolFromSmiles(s)) for s in smiles])
    (tmp_path / "x.smi").write_text("".join(f"{s} drug {i}\n" for i, s in enumerate(smiles)))
    pd.DataFrame({"id": list("abcd"), "smiles": smiles}).to_csv(tmp_path / "x.csv", index=False)
    loaded = open_table(tmp_path / "x.smi").load()
    np.testing.assert_array_equal(loaded.rows.to_dense(), bits)
    assert loaded.ids == [f"drug {i}" for i in range(4)]
    table = open_table(tmp_path / "x.csv", smiles_column="smiles", id_column="id").load()
    assert (table.rows, table.ids) == (loaded.rows, list("abcd"))
    assert table.rows.codes == Codes(fingerprint=Fingerprint(2, 2048))
    small = open_table(tmp_path / "x.smi", fingerprint=Fingerprint(1, 64)).read()
    assert small.shape == (4, 64)
    (tmp_path / "x.smi").write_text("CCO a\nC1CC b\n")
    with pytest.raises(InputError, match=r"x\.smi .* got 'C1CC' at line 2"):
        open_table(tmp_path / "x.smi").read()
    (tmp_path / "y.csv").write_text("smiles\n" + "".join("C" * i + "CCCCCO\n" for i in range(30)))
    with pytest.raises(InputError, match="set smiles_column='smiles' if these are molecules"):
        open_table(tmp_path / "y.csv").read()


def test_molecules_that_cannot_be_read_are_named_or_counted(tmp_path):
    pytest.importorskip("rdkit")
    smiles = ["CCO", "no(molecule", "CCN", "CCCC", "C1CC"]
    (tmp_path / "x.smi").write_text("".join(f"{s} m{i}\n" for i, s in enumerate(smiles)))
    table = pd.DataFrame({"smiles": smiles, "kind": list("abcde")})
    table.to_csv(tmp_path / "x.csv", index=False)
    options = {"x.smi": {}, "x.csv": {"smiles_column": "smiles", "label_column": "kind"}}
    for name, line in (("x.smi", 2), ("x.csv", 3)):
        with pytest.raises(InputError, match=rf"'no\(molecule' at line {line}: .* skip_errors"):
            open_table(tmp_path / name, **options[name]).load()
        with pytest.warns(SkippedWarning, match="2 molecules .* left out, the first 'no\\(mol"):
            loaded = open_table(tmp_path / name, skip_errors=True, **options[name]).load()
        assert loaded.smiles == ["CCO", "CCN", "CCCC"]
        assert loaded.rows.shape == (3, 2048)
    assert loaded.labels == {"kind": ["a", "c", "d"]}
    assert loaded.ids == loaded.smiles
    done = noting_bitmix("inspect", tmp_path / "x.smi", "--skip-errors")
    assert done.stdout.startswith("3 rows"), done.stderr
    assert "2 molecules that RDKit cannot read were left out" in done.stderr
    assert "--skip-errors" in bitmix("inspect", tmp_path / "x.smi").stderr
    (tmp_path / "bits.csv").write_text("a,b\n0,1\n1,0\n")
    with pytest.raises(InputError, match="skip_errors= is for molecules"):
        open_table(tmp_path / "bits.csv", skip_errors=True)
    codes = Codes(fingerprint=Fingerprint(radius=2))
    with pytest.raises(InputError, match="radius=3.* but the model was fitted on .*radius=2"):
        open_table(tmp_path / "x.smi", codes=codes, fingerprint=Fingerprint(radius=3))


@pytest.mark.parametrize(
    ("kind", "same"),
    [
        ("RDKit-Morgan/2 radius=2 fpSize=2048 useFeatures=0 useChirality=0", True),
        ("RDKit-Morgan/2 radius=3 fpSize=2048 useFeatures=0", False),
        ("RDKit-Morgan/2 radius=2 fpSize=2048 useFeatures=1", False),
        ("RDKit-MACCS166/2", False),
    ],
)
def test_a_model_of_molecules_refuses_other_fingerprints(tmp_path, kind, same):
    pytest.importorskip("rdkit")
    (tmp_path / "x.smi").write_text("".join(f"{'C' * i}O m{i}\n" for i in range(1, 25)))
    model = tmp_path / "x.model"
    assert bitmix("fit", tmp_path / "x.smi", "-k", "1", "-o", model).returncode == 0
    (tmp_path / "x.fps").write_text(f"#FPS1\n#num_bits=2048\n#type={kind}\n{'00' * 256}\tx\n")
    done = bitmix("predict", model, tmp_path / "x.fps", "-o", "-")
    assert done.returncode == (0 if same else 2), done.stderr
    assert same or "was fitted on 'Morgan fingerprints, radius 2, 2048 bits'" in done.stderr


def test_tables_in_memory_of_other_libraries(bits, gaps):
    table = words(bits, ("no", "yes"), gaps, None)
    settings = {"n_init": 2, "random_state": 0}
    means = TemplateMixture(2, **settings).fit(expected(bits, gaps)).means_
    for other in (pa.table(table), pl.from_pandas(table), table.astype("category")):
        assert TemplateMixture(2, **settings).fit(other).means_.tobytes() == means.tobytes()


def test_ids_codes_weights_and_gaps_in_packed_files(bits, gaps, tmp_path):
    """The same rows, ids and codes from the packed file as from the text."""
    table = words(bits, ("no", "yes"), gaps, None)
    table.insert(0, "who", [f"näme\n{i}" if i == 3 else f"r{i}" for i in range(M)])
    table["n"] = 1 + np.arange(M) % 3
    table["who"] = table["who"].str.replace("\n", " ")
    table.to_csv(tmp_path / "x.csv", index=False)
    for options in ({"weight_column": "n"}, {"drop": "n"}):
        source = open_table(tmp_path / "x.csv", id_column="who", **options)
        source.save(tmp_path / "x.bits")
        loaded, packed = source.load(), open_table(tmp_path / "x.bits").load()
        assert (packed.rows, packed.ids) == (loaded.rows, loaded.ids)
        assert packed.rows.codes == loaded.rows.codes
        assert packed.rows.feature_names == tuple(names())
    chunks = list(open_table(tmp_path / "x.bits", columns=["q3", "q1"]).chunks())
    assert [i for chunk in chunks for i in chunk.ids] == list(table["who"])


def test_models_of_other_formats_predict(bits, tmp_path, monkeypatch):
    """Fit and predict by files of one kind, and by what ``bitmix convert`` makes of them."""
    monkeypatch.chdir(tmp_path)
    wide = np.random.default_rng(6).integers(2, size=(M, 64), dtype=np.uint8)
    np.save("x.npy", np.packbits(wide, axis=1))
    octets = np.packbits(wide, axis=1, bitorder="little")
    Path("y.fps").write_text(
        "".join(f"{row.tobytes().hex()}\tm{i}\n" for i, row in enumerate(octets))
    )
    scipy.io.mmwrite("z.mtx", scipy.sparse.coo_array(wide * 3))
    kinds = {"x.npy": ["--packed", "big"], "y.fps": [], "z.mtx": ["--binarize", "0"]}
    if importlib.util.find_spec("rdkit") is not None:
        Path("w.smi").write_text("".join(f"{'C' * i}O m{i}\n" for i in range(1, 20)))
        kinds["w.smi"] = []
    means = set()
    for name, options in kinds.items():
        fitted = bitmix("fit", name, *options, "-k", "2", "-o", "m.model", "--force")
        assert fitted.returncode == 0, fitted.stderr
        if name != "w.smi":
            means.add(TemplateMixture.load("m.model").means_.tobytes())
        labels = bitmix("predict", "m.model", name, "-o", "-").stdout
        converted = bitmix("convert", name, *options, "-o", "c.bits", "--force")
        assert converted.returncode == 0, converted.stderr
        again = bitmix("predict", "m.model", "c.bits", "-o", "-")
        assert again.stdout == labels, again.stderr
        assert labels.count("\n") > 19
    assert len(means) == 1  # packed bytes give the groups of the fingerprints


def test_an_option_that_does_not_apply_is_an_error(bits, tmp_path):
    np.save(tmp_path / "x.npy", bits)
    BitMatrix.from_dense(bits).save(tmp_path / "x.bits")
    with pytest.raises(InputError, match=r"one_values= does not apply to .*x\.bits, a packed file"):
        open_table(tmp_path / "x.bits", one_values="2")
    with pytest.raises(InputError, match="packed must be 'big' or 'little'"):
        Request(packed="huge")
    with pytest.raises(InputError, match="packed already"):
        TemplateMixture(2).fit(BitMatrix.from_dense(bits), one_values=1)


def test_certificates_need_every_cell(bits, gaps):
    model = TemplateMixture(2, noise_model="shared", random_state=0).fit(expected(bits, gaps))
    with pytest.raises(InputError, match="counts the flips of every cell, but X has missing cells"):
        model.certify(expected(bits, gaps))


def test_the_command_line_from_a_table_to_labels(bits, gaps, tmp_path):
    """Codes, missing cells, ids, two label columns and weights; the next command works as told."""
    table = words(bits, ("no", "yes"), gaps, "?")
    table.index = [f"r{i}" for i in range(M)]
    table["kind"], table["place"], table["n"] = ["a", "b"] * (M // 2), "here", 2
    path, model = tmp_path / "rows.csv", tmp_path / "m.model"
    table.to_csv(path, sep=";")
    options = ["--missing", "?", "--label-column", "kind", "--label-column", "place",
               "--weight-column", "n"]  # fmt: skip
    inspected = bitmix("inspect", path, *options, "--json")
    summary = json.loads(inspected.stdout)
    assert (summary["rows"], summary["columns"], summary["missing_cells"]) == (M, N, gaps.sum())
    assert summary["read_as"][0] == "'yes' is read as 1 and 'no' as 0 in all columns"
    assert summary["label_columns"] == ["kind", "place"]
    assert summary["total_weight"] == 2 * M
    told = bitmix("fit", path, "-k", "2", *options, "--noise-model", "cell")
    assert told.returncode == 0, told.stderr
    assert "'yes' is read as 1 and 'no' as 0 in all columns" in told.stdout
    assert "weights: column 'n', 180 in all" in told.stdout
    assert f"next: bitmix fit {path} -k 2 --noise-model cell --label-column kind" in told.stdout
    fitted = bitmix(
        "fit", path, "-k", "2", *options, "--noise-model", "cell", "-o", model, "--json"
    )
    assert json.loads(fitted.stdout)["against"].keys() == {"column 'kind'", "column 'place'"}
    shown = bitmix("inspect", model).stdout
    assert "'yes' is read as 1" in shown
    labels = bitmix("predict", model, path, "-o", "-").stdout.splitlines()
    again = TemplateMixture.load(model)
    proba = again.predict_proba(BitMatrix.from_dense(expected(bits, gaps), missing=True))
    assert [line.split(",")[0] for line in labels[1:]] == list(table.index)
    assert [int(line.split(",")[1]) for line in labels[1:]] == proba.argmax(axis=1).tolist()
    converted = bitmix("convert", path, "--missing", "?", "--drop", "kind,place,n")
    assert converted.returncode == 0, converted.stderr
    from_bits = bitmix("predict", model, tmp_path / "rows.bits", "-o", "-").stdout.splitlines()
    assert from_bits == labels
    written = bitmix("fit", path, "-k", "2", *options, "--report", tmp_path / "r.html")
    assert written.returncode == 0, written.stderr


@pytest.mark.filterwarnings("ignore::bitmix.errors.BitmixWarning")
def test_every_command_of_the_page_works(bits, tmp_path, monkeypatch):
    """The page "Your file": a file of each kind is made, and its command run."""
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[1] / "docs" / "your_file.rst").read_text()
    commands = [shlex.split(line)[1:] for line in re.findall(r"^    (bitmix fit .*)$", page, re.M)]
    words(bits, ("1", "2")).to_csv("answers.csv")
    scale = np.array(["1 Extremely well", "2 Quite well", "3 Not well"], dtype=object)
    cells = np.random.default_rng(5).integers(3, size=(M, 3))
    pd.DataFrame(scale[cells], columns=["MORAL", "CARES", "SMART"]).to_csv("scales.csv")
    words(bits, ("0", "1")).value_counts().rename("n").reset_index().to_csv(
        "patterns.csv", index=False
    )
    coded = words(bits.astype(int), ("0", "1"), np.eye(M, N) == 1, "-9")
    coded.assign(age=30, party="a", sex="b").to_csv("coded.csv", index=False)
    table = pd.DataFrame(bits.T, index=pd.Index(names(), name="Gene")).add_prefix("s")
    table.to_csv("genes.Rtab", sep="\t")
    table.replace(0, "").to_csv("gene_presence_absence.csv")
    table.mask((table == 0) & (np.eye(N, M) == 1), 3).to_csv("mutations.csv")
    scipy.io.mmwrite("matrix.mtx", scipy.sparse.coo_array(bits * 3))
    np.save("vectors.npy", bits)
    Path("prints.fps").write_text("".join(f"{i % 4:02x}\tm{i}\n" for i in range(20)))
    Path("drugs.smi").write_text("CCO a\nCCN b\nc1ccccc1 c\n")
    Path("drugs.csv").write_text("name,smiles\na,CCO\nb,CCN\nc,c1ccccc1\n")
    Path("clicks.csv").write_text("".join(f"u{i},p{j}\n" for i, j in np.argwhere(bits)))
    absent = {"cells.h5ad"}  # see `test_anndata_files`
    if importlib.util.find_spec("rdkit") is None:
        absent |= {"drugs.smi", "drugs.csv"}
    assert len(commands) > 10
    for command in commands:
        if command[1] not in absent:
            done = bitmix(*command, "--quiet")
            assert done.returncode == 0, (command, done.stderr)


REAL = {
    "lca/carcinoma.csv": {},
    "lca/carcinoma_grouped.csv": {"weight_column": "n"},
    "lca/election.csv": {"columns": "MORALG:INTELB", "one_values": ["1 Extremely well",
                                                                    "2 Quite well"]},
    "lca/gss82.csv": {},
    "lca/values.csv": {},
    "odd/bnpc_example.csv": {"missing": "3"},
    "odd/dataHou78.csv": {"missing": "3", "one_values": ["1", "2"]},
    "odd/salmonella_first_800_genes.Rtab": {},
}  # fmt: skip


@pytest.mark.parametrize("name", REAL)
def test_real_tables(name):
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"there is no {name}")
    rows = open_table(path, **REAL[name]).read()
    separator = "," if "lca" in name else "\t" if "Rtab" in name else " "
    header = None if separator == " " else "infer"
    index = None if "grouped" in name or separator == " " else 0
    raw = pd.read_csv(path, sep=separator, header=header, index_col=index)
    if name in ("lca/carcinoma.csv", "lca/values.csv"):
        by_hand = raw.to_numpy() - 1.0
    elif name == "lca/carcinoma_grouped.csv":
        by_hand = raw.to_numpy()[:, :7]
        np.testing.assert_array_equal(rows.weights, raw["n"])
    elif name == "lca/election.csv":
        cells = raw.iloc[:, :12]
        by_hand = np.where(cells.isna(), np.nan, cells.map(lambda c: str(c)[:1] in "12"))
    elif name == "lca/gss82.csv":
        by_hand = pd.get_dummies(raw).to_numpy()[:, [0, 1, 2, 4, 6, 7, 8, 9]]
    elif "Rtab" in name:
        by_hand = raw.to_numpy().T
    else:
        cells = raw.to_numpy().astype(float)
        by_hand = np.where(cells == 3, np.nan, np.minimum(cells, 1))
    np.testing.assert_array_equal(dense(rows), by_hand)
