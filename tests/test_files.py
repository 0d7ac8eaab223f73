"""Files to bits: every format gives the same rows, and says where it is wrong."""

import csv
import errno
import gzip
import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse
import zarr
from command import bitmix
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bitmix import BitMatrix, TemplateMixture, TwoRoundEM
from bitmix.cli.data import Reading, read_on_cluster
from bitmix.errors import CodesWarning, ColumnWarning, FileFormatError, InputError
from bitmix.rows import bitfile, convert
from bitmix.rows.codes import Codes
from bitmix.rows.files import FORMATS, ending, lines, open_stream, open_table, text

M, N = 53, 70


@pytest.fixture(scope="module")
def bits():
    return np.random.default_rng(0).integers(2, size=(M, N), dtype=np.uint8)


@pytest.fixture(params=["one block", "many blocks"])
def any_blocks(request, monkeypatch):
    """Runs a test on blocks larger than the file and on blocks of a few rows."""
    if request.param == "many blocks":
        monkeypatch.setattr(lines, "BLOCK_BYTES", 333)
        monkeypatch.setattr(convert, "BLOCK_CELLS", 300)
    return request.param


def frame(bits):
    return pd.DataFrame(bits).add_prefix("bit ")


def names_of(bits):
    return tuple(f"bit {i}" for i in range(bits.shape[1]))


def octets(bits):
    return np.packbits(bits, axis=1, bitorder="little")


def write_text(path, separator, bits, *, header=True, end="\n", last="\n", cells="01"):
    rows = [list(names_of(bits))] if header else []
    rows += [[cells[bit] for bit in row] for row in bits]
    text = end.join(separator.join(row) for row in rows) + last
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def write_fps(path, bits, header="#FPS1\n#num_bits={n}\n#type=Test/1 a=b\n", end="\n", upper=False):
    text = header.format(n=bits.shape[1]).replace("\n", end)
    for i, row in enumerate(octets(bits)):
        digits = row.tobytes().hex()
        text += f"{digits.upper() if upper else digits}\tmölecule {i}{end}"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def write_fixed(path, bits, **more):
    """Packed bytes in one column of a Parquet file."""
    packed = octets(bits)
    column = pa.array([row.tobytes() for row in packed], pa.binary(packed.shape[1]))
    pyarrow.parquet.write_table(pa.table({**more, "fp": column}), path, row_group_size=20)


def write_zarr(path, bits, dtype="uint8", chunks=(7, 40), **more):
    array = zarr.create_array(path, shape=bits.shape, chunks=chunks, dtype=dtype, **more)
    array[:] = bits.astype(dtype)


def arrow_table(bits):
    return pa.Table.from_pandas(frame(bits), preserve_index=False)


def read_all(table):
    """The rows, their ids, and the labels of the one label column."""
    loaded = table.load()
    return loaded.rows, loaded.ids, next(iter(loaded.labels.values()), None)


def write_ipc(path, bits, stream):
    content = arrow_table(bits)
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    with new(path, content.schema) as writer:
        writer.write_table(content, max_chunksize=17)


WRITERS = {
    "bits.bits": lambda p, b: BitMatrix.from_dense(b).save(p),
    "named.bits": lambda p, b: BitMatrix.from_dense(frame(b)).save(p),
    "c.npy": np.save,
    "fortran.npy": lambda p, b: np.save(p, np.asfortranarray(b)),
    "big-endian.npy": lambda p, b: np.save(p, b.astype(">i4")),
    "bool.npy": lambda p, b: np.save(p, b.astype(bool)),
    "float.npy": lambda p, b: np.save(p, b.astype(np.float32)),
    "dense.npz": lambda p, b: np.savez(p, b),
    "fortran.npz": lambda p, b: np.savez_compressed(p, rows=np.asfortranarray(b)),
    "csr.npz": lambda p, b: scipy.sparse.save_npz(p, scipy.sparse.csr_matrix(b)),
    "stored.npz": lambda p, b: scipy.sparse.save_npz(p, scipy.sparse.csr_array(b), False),
    "csc.npz": lambda p, b: scipy.sparse.save_npz(p, scipy.sparse.csc_matrix(b * 1.0)),
    "coo.npz": lambda p, b: scipy.sparse.save_npz(p, scipy.sparse.coo_array(b)),
    "bsr.npz": lambda p, b: scipy.sparse.save_npz(p, scipy.sparse.bsr_array(b)),
    "plain.csv": lambda p, b: write_text(p, ",", b),
    "pandas.csv": lambda p, b: frame(b).to_csv(p, index=False),
    "polars.csv": lambda p, b: pl.DataFrame(frame(b)).write_csv(p),
    "bare.csv": lambda p, b: write_text(p, ",", b, header=False),
    "windows.csv": lambda p, b: write_text(p, ",", b, end="\r\n", last="\r\n"),
    "no-last-newline.csv": lambda p, b: write_text(p, ",", b, last=""),
    "blank-end.csv": lambda p, b: write_text(p, ",", b, last="\n\n\r\n"),
    "floats.csv": lambda p, b: write_text(p, ",", b, cells=["0.0", "1.0"]),
    "words.csv": lambda p, b: write_text(p, ",", b, cells=["False", "TRUE"]),
    "bare-floats.csv": lambda p, b: write_text(p, ",", b, header=False, cells=["0.0", "1.0"]),
    "spaces.csv": lambda p, b: write_text(p, ",", b, cells=[" 0", "1 "]),
    "quotes.csv": lambda p, b: write_text(p, ",", b, cells=['"0"', '"1"']),
    "plain.tsv": lambda p, b: write_text(p, "\t", b),
    "semicolons.txt": lambda p, b: write_text(p, ";", b),
    "packed.txt.gz": lambda p, b: write_text(p, "\t", b),
    "bare.data": lambda p, b: write_text(p, " ", b, header=False),
    "packed.csv.gz": lambda p, b: write_text(p, ",", b),
    "packed.tsv.gz": lambda p, b: write_text(p, "\t", b),
    "mark.csv": lambda p, b: frame(b).to_csv(p, index=False, encoding="utf-8-sig"),
    "ints.parquet": lambda p, b: frame(b).to_parquet(p, index=False, row_group_size=20),
    "bools.parquet": lambda p, b: frame(b).astype(bool).to_parquet(p, index=False),
    "floats.parquet": lambda p, b: frame(b).astype(float).to_parquet(p, index=False),
    "polars.parquet": lambda p, b: pl.DataFrame(frame(b)).write_parquet(p),
    "packed.parquet": lambda p, b: write_fixed(p, np.hstack([b, np.zeros((len(b), 2), np.uint8)])),
    "file.arrow": lambda p, b: write_ipc(p, b, stream=False),
    "stream.ipc": lambda p, b: write_ipc(p, b, stream=True),
    "pandas.feather": lambda p, b: frame(b).to_feather(p),
    "polars.feather": lambda p, b: pl.DataFrame(frame(b)).write_ipc(p, compression="lz4"),
    "lower.fps": write_fps,
    "upper.fps": lambda p, b: write_fps(p, b, upper=True, end="\r\n"),
    "headless.fps": lambda p, b: write_fps(p, b, header=""),
    "packed.fps.gz": write_fps,
    "ints.zarr": write_zarr,
    "bools.zarr": lambda p, b: write_zarr(p, b, "bool", (20, 20)),
    "floats.zarr": lambda p, b: write_zarr(p, b, "float32", (500, 7)),
    "shards.zarr": lambda p, b: write_zarr(p, b, chunks=(4, 10), shards=(8, 40)),
    "version 2.zarr": lambda p, b: write_zarr(p, b, zarr_format=2),
}  # fmt: skip
NAMELESS = (".npy", ".npz", ".fps", ".fps.gz", ".zarr")


def has_names(name):
    return ending(Path(name)) not in NAMELESS and name not in (
        "bits.bits", "bare.csv", "bare-floats.csv", "packed.parquet", "bare.data",
    )  # fmt: skip


def test_every_ending_is_tested():
    elsewhere = {".rtab", ".rtab.gz", ".mtx", ".mtx.gz", ".h5ad", ".smi"}  # in test_tables
    assert {ending(Path(name)) for name in WRITERS} | elsewhere == set(FORMATS)


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_bits(name, bits, any_blocks, tmp_path):
    WRITERS[name](tmp_path / name, bits)
    found = open_table(tmp_path / name)
    chunks = [chunk.words for chunk in found.chunks()]
    again = [chunk.words for chunk in found.chunks()]
    rows = found.read()
    if name in ("packed.parquet", "headless.fps"):  # whole bytes: two more columns of zeros
        bits = np.hstack([bits, np.zeros((M, 2), dtype=np.uint8)])
    assert rows == BitMatrix.from_dense(bits)
    np.testing.assert_array_equal(np.concatenate(chunks), rows.words)
    np.testing.assert_array_equal(np.concatenate(again), rows.words)
    assert found.n_columns == bits.shape[1]
    assert found.n_rows in (None, M)
    assert found.names == rows.feature_names == (names_of(bits) if has_names(name) else None)
    if any_blocks == "many blocks":
        assert len(chunks) > 1
    assert max(map(len, chunks)) <= M


@given(
    m=st.integers(1, 9), n=st.integers(1, 130), seed=st.integers(0, 99), block=st.integers(1, 400),
    ids=st.sampled_from(["", "first", "middle", "last", "both"]), crlf=st.booleans(),
    last=st.booleans(), quote=st.booleans(), always=st.booleans(),
)  # fmt: skip
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_text_of_any_shape(tmp_path_factory, m, n, seed, block, ids, crlf, last, quote, always):
    path = tmp_path_factory.mktemp("text") / "rows.csv"
    bits = np.random.default_rng(seed).integers(2, size=(m, n))
    words = [f"röw {i}" + (', "x"' if quote and i % 2 else "") for i in range(m)]
    content = frame(bits)
    kinds = [str(i % 3) for i in range(m)]
    if ids:
        content.insert({"last": n, "middle": n // 2}.get(ids, 0), "who", words)
    if ids == "both":
        content["what"] = kinds
    data = content.to_csv(
        index=False,
        lineterminator="\r\n" if crlf else "\n",
        quoting=csv.QUOTE_NONNUMERIC if always else csv.QUOTE_MINIMAL,
    ).encode()
    path.write_bytes(data if last else data.rstrip())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", block)
        found = open_table(
            path, id_column="who" if ids else None, label_column="what" if ids == "both" else None
        )
        rows, who, what = read_all(found)
    assert rows == BitMatrix.from_dense(bits)
    assert found.names == names_of(bits)
    assert who == (words if ids else None)
    assert what == (kinds if ids == "both" else None)


@given(
    m=st.integers(1, 9), n=st.integers(1, 130), seed=st.integers(0, 99), block=st.integers(1, 400)
)
@settings(max_examples=50, deadline=None)
def test_fingerprints_of_any_length(tmp_path_factory, m, n, seed, block):
    path = tmp_path_factory.mktemp("fps") / "rows.fps"
    bits = np.random.default_rng(seed).integers(2, size=(m, n), dtype=np.uint8)
    write_fps(path, bits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", block)
        rows, ids, _ = read_all(open_table(path))
    assert rows == BitMatrix.from_dense(bits)
    assert ids == [f"mölecule {i}" for i in range(m)]


@pytest.mark.parametrize(
    ("first", "last", "cells", "end"),
    [
        ("", "", "01", "\n"),
        ("", "", "01", "\r\n"),
        ("näme", "", "01", "\n"),
        ("", "kind", "01", "\r\n"),
        ("näme", "kind", "01", "\n"),
        ("", "", ["0.0", "1.0"], "\n"),
        ("", "", ["False", "TRUE"], "\n"),
        ("näme", "kind", ["0.0", "1.0"], "\n"),
        ('"a name"', '"kind"', "01", "\n"),
    ],
)
def test_common_tables_are_not_read_cell_by_cell(
    first, last, cells, end, bits, tmp_path, monkeypatch
):
    """Single digits are read as bytes, other common spellings by pyarrow."""
    monkeypatch.delattr(text.TextPart, "_by_csv")
    if cells == "01" and '"' not in first:
        monkeypatch.delattr(text.TextPart, "_by_pyarrow")
    around = [[word] * bool(word) for word in (first, last)]
    rows = [["who"] * bool(first) + list(names_of(bits)) + ["what"] * bool(last)]
    rows += [around[0] + [cells[bit] for bit in row] + around[1] for row in bits]
    path = tmp_path / "rows.csv"
    path.write_bytes("".join(",".join(row) + end for row in rows).encode())
    found = open_table(
        path, id_column="who" if first else None, label_column="what" if last else None
    )
    rows, ids, labels = read_all(found)
    assert rows == BitMatrix.from_dense(bits)
    assert ids == ([first.strip('"')] * M if first else None)
    assert labels == ([last.strip('"')] * M if last else None)


def outcome(path, **options):
    """What a file gives: cells (None if missing), ids and labels, or the error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CodesWarning)
            rows, ids, labels = read_all(open_table(path, **options))
    except InputError as error:
        return str(error)
    return cells_of(rows).tolist(), ids, labels


def cells_of(rows):
    """The cells of rows as floats; NaN for a missing one."""
    if isinstance(rows, BitMatrix):
        return rows.to_dense(np.float64)
    return np.where(rows.known.to_dense(), rows.bits.to_dense(np.float64), np.nan)


@given(
    n=st.integers(1, 4), m=st.integers(1, 5), seed=st.integers(0, 99),
    layout=st.sampled_from(["", "first", "last", "both", "middle"]),
    changes=st.lists(
        st.tuples(
            st.integers(0, 200),
            st.sampled_from([*'01,"x .\t\n\r', ".0", "True", "", '"a"', '""', "NA", "nan", "1e0"]),
        ),
        max_size=3,
    ),
)  # fmt: skip
@settings(max_examples=400, deadline=None)
def test_every_way_to_read_text_agrees(tmp_path_factory, n, m, seed, layout, changes):
    """Whatever is written over the cells of a table: the same rows or the same error."""
    path = tmp_path_factory.mktemp("both") / "rows.csv"
    content = frame(np.random.default_rng(seed).integers(2, size=(m, n)))
    if layout in ("first", "both"):
        content.insert(0, "who", "a")
    if layout == "middle":
        content.insert(n // 2, "who", "a")
    if layout in ("last", "both"):
        content["what"] = "b"
    header, *rows = content.to_csv(index=False).splitlines(keepends=True)
    cells = list("".join(rows))
    for place, letters in changes:
        cells[place % len(cells)] = letters
    path.write_bytes((header + "".join(cells)).encode())
    options = {"id_column": "who"} if "who" in content else {}
    options |= {"label_column": "what"} if "what" in content else {}
    quick = repr(outcome(path, **options))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text.TextPart, "_digits", lambda self: None)
        assert repr(outcome(path, **options)) == quick
        patch.setattr(text.TextPart, "_by_pyarrow", lambda self, **_: None)
        assert repr(outcome(path, **options)) == quick


def test_bit_order_of_fingerprints(tmp_path):
    path = tmp_path / "one.fps"
    path.write_text("#FPS1\n#num_bits=10\n#software=a\n#source=x\n#source=y\n0102\tA\textra\n")
    found = open_table(path)
    assert np.flatnonzero(found.read().to_dense()).tolist() == [0, 9]
    assert found.about == {"num_bits": "10", "software": "a", "source": "x\ny"}
    assert next(found.chunks()).ids == ["A"]


def with_ids(bits):
    content = frame(bits)
    content.insert(0, "who", [f"näme, {i}" for i in range(len(bits))])
    content["what"] = ["cat", "dog"] * (len(bits) // 2) + ["cat"] * (len(bits) % 2)
    return content


def write_with_ids(path, bits):
    content = with_ids(bits)
    kind = ending(path)
    if kind == ".parquet":
        content.to_parquet(path, row_group_size=20)
    elif kind in (".feather", ".arrow"):
        content.astype({"what": "category"}).to_feather(path)
    else:
        content.to_csv(path, index=False, sep="\t" if ".tsv" in path.name else ",")


TABLES = ["rows.csv", "rows.tsv", "rows.csv.gz", "rows.parquet", "rows.feather"]


@pytest.mark.parametrize("name", TABLES)
def test_ids_and_labels_are_no_features(name, bits, any_blocks, tmp_path):
    write_with_ids(tmp_path / name, bits)
    found = open_table(tmp_path / name, id_column="who", label_column="what")
    rows, ids, labels = read_all(found)
    content = with_ids(bits)
    assert rows == BitMatrix.from_dense(bits)
    assert found.has_ids
    assert found.names == names_of(bits)
    assert ids == list(content["who"])
    assert labels == list(content["what"])
    with pytest.raises(InputError, match=r"set id_column='who' if .* label_column='who'"):
        open_table(tmp_path / name, label_column="what").read()


@pytest.mark.parametrize("name", [*TABLES, "rows.bits"])
def test_columns_are_picked_by_name_in_order(name, bits, any_blocks, tmp_path):
    if name == "rows.bits":
        BitMatrix.from_dense(frame(bits)).save(tmp_path / name)
    else:
        write_with_ids(tmp_path / name, bits)
    chosen = [5, 69, 0, 33]
    found = open_table(tmp_path / name, columns=[f"bit {i}" for i in chosen])
    assert found.names == tuple(f"bit {i}" for i in chosen)
    assert found.read() == BitMatrix.from_dense(bits[:, chosen])
    with pytest.raises(InputError, match=r"rows\..* has no column columns='no': it has"):
        open_table(tmp_path / name, columns=["bit 1", "no"])
    with pytest.raises(InputError, match=r"has no column id_column='no': it has"):
        open_table(tmp_path / name, id_column="no")
    with pytest.raises(InputError, match=r"column 'bit 1' of .* is asked for as a feature"):
        open_table(tmp_path / name, columns=["bit 1"], label_column="bit 1")


def test_a_column_of_a_packed_file_can_be_the_label(bits, tmp_path):
    BitMatrix.from_dense(frame(bits)).save(tmp_path / "rows.bits")
    found = open_table(tmp_path / "rows.bits", label_column="bit 3")
    rows, ids, labels = read_all(found)
    assert rows == BitMatrix.from_dense(np.delete(bits, 3, axis=1))
    assert (ids, labels) == (None, [str(bit) for bit in bits[:, 3]])


def test_packed_bytes_with_ids_beside_them(bits, tmp_path):
    path = tmp_path / "rows.parquet"
    write_fixed(path, bits[:, :64], who=[str(i) for i in range(M)])
    rows, ids, _ = read_all(open_table(path, id_column="who"))
    assert rows == BitMatrix.from_dense(bits[:, :64])
    assert ids == [str(i) for i in range(M)]
    with pytest.raises(InputError, match="packed bytes in a column, which must be the only"):
        open_table(path)


@pytest.mark.parametrize("name", ["ID", "label", "Class", "target", "y", "index", "name"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_disguised_label_is_told(name, kind, bits, tmp_path):
    path = tmp_path / f"rows.{kind}"
    content = frame(bits).rename(columns={"bit 4": name})
    content.to_csv(path, index=False) if kind == "csv" else content.to_parquet(path)
    with pytest.warns(ColumnWarning, match=f"column '{name}' .* label_column='{name}'"):
        assert open_table(path).n_columns == N
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_table(path, label_column=name).n_columns == N - 1
        assert open_table(path, columns=[name, "bit 0"]).n_columns == 2


def test_an_index_of_pandas_is_no_feature(bits, tmp_path):
    frame(bits).to_csv(tmp_path / "rows.csv")
    frame(bits).set_index(np.arange(M) ** 2).to_parquet(tmp_path / "rows.parquet")
    for name, index in (("rows.csv", ""), ("rows.parquet", "__index_level_0__")):
        table = open_table(tmp_path / name)
        assert (table.roles.id_name, table.n_columns) == (index, N)
        assert len(table.load().ids) == M


@pytest.mark.parametrize("ending", [".fps", ".fps.gz", ".csv", ".tsv"])
def test_a_mark_of_byte_order_is_no_content(ending, tmp_path):
    """What Windows puts before UTF-8; a fingerprint was said to hold a digit that is none."""
    text = b"#FPS1\n#num_bits=8\n0f\ta\nf0\tb\n" if "fps" in ending else b"0\n1\n1\n"
    pack = gzip.compress if ending.endswith(".gz") else bytes
    for name, data in (("plain", text), ("marked", b"\xef\xbb\xbf" + text)):
        (tmp_path / f"{name}{ending}").write_bytes(pack(data))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColumnWarning)
        plain, marked = (open_table(tmp_path / f"{x}{ending}") for x in ("plain", "marked"))
    assert marked.about == plain.about
    assert marked.read() == plain.read()
    (tmp_path / f"only{ending}").write_bytes(pack(b"\xef\xbb\xbf"))
    with pytest.raises(InputError, match="is empty"):
        open_table(tmp_path / f"only{ending}")


@pytest.mark.parametrize(("text", "rows"), [("0,1\n1,1\n", 2), ("0\n1\n1\n", 3)])
def test_a_first_line_that_may_be_names_is_a_row_with_a_note(text, rows, tmp_path):
    (tmp_path / "x.csv").write_text(text)
    with pytest.warns(ColumnWarning, match="is read as a row: set header=True"):
        assert len(open_table(tmp_path / "x.csv").read()) == rows
    (tmp_path / "y.csv").write_text("1,0\n1,1\n")
    assert len(open_table(tmp_path / "y.csv").read()) == 2  # no note


@pytest.mark.posix
def test_errors_of_reads_name_the_file(tmp_path):
    """Linux answers a read of unmapped memory as it does one of a broken disk."""
    if not Path("/proc/self/mem").exists():
        pytest.skip("looks at /proc")
    for kind in (".csv", ".tsv", ".fps", ".npy", ".npz", ".bits", ".arrow", ".parquet"):
        path = tmp_path / f"rows{kind}"
        path.symlink_to("/proc/self/mem")
        with pytest.raises(OSError, match=f"rows{kind}"):
            open_table(path).read()


@pytest.mark.posix
@pytest.mark.parametrize("name", ["rows.bits", "rows.csv"])
def test_a_read_that_fails_midway_names_the_file(name, bits, tmp_path, monkeypatch):
    def fails(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    WRITERS["bits.bits" if name == "rows.bits" else "bare.csv"](tmp_path / name, bits)
    table = open_table(tmp_path / name)
    monkeypatch.setattr(os, "preadv", fails)
    monkeypatch.setattr("bitmix.rows.files.lines.Lines._read", fails)
    with pytest.raises(OSError, match=rf"Input/output error: '.*{name}'"):
        BitMatrix.open(tmp_path / name) if name == "rows.bits" else table.read()


@pytest.mark.parametrize(
    "name", ["file.arrow", "stream.ipc", "ints.parquet", "c.npy", "fortran.npy", "bare.csv"]
)
def test_a_file_that_shrinks_is_an_error(name, tmp_path, monkeypatch):
    """Of a file that is mapped, a look at what is no longer there would end the process."""
    path = tmp_path / name
    bits = np.random.default_rng(0).integers(2, size=(20_000, 8), dtype=np.uint8)
    WRITERS[name](path, bits)
    chunks = open_table(path).chunks()
    monkeypatch.setattr(convert, "BLOCK_CELLS", 800)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 800)
    next(chunks)
    os.truncate(path, 10_001)
    with pytest.raises((FileFormatError, InputError), match=name):
        for _ in chunks:
            pass


GOOD = "a,b,c\n" + "0,1,0\n" * 30


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (GOOD + "0,1\n" + GOOD[6:], r"rows.csv .* 3 columns, but line 32 has 2 cells"),
        (GOOD + "0,1,0,1\n", r"line 32 has 4 cells"),
        (GOOD + "0,1,0,\n", r"line 32 has 4 cells"),
        (GOOD + "\n0,1,0\n", r"line 32 has 0 cells"),
        (
            GOOD + "0,x,0\n",
            r"rows.csv must hold 0 and 1, got 'x' at line 32, column 'b': set",
        ),
        (GOOD + "0,2,0\n", r"got '2' at line 32, column 'b'"),
        (GOOD + "0,1,/\n", r"got '/' at line 32, column 'c'"),
        (GOOD + "0-1,0,0\n", r"got '0-1' at line 32, column 'a'"),
        (GOOD + "0-1,0\n", r"line 32 has 2 cells"),
        (GOOD + "0,1,0.5\n", r"got '0.5' at line 32, column 'c'"),
        (GOOD + '0,"1,0\n', r"rows.csv, line 32: unexpected end of data"),
        ("1,0\n" * 40 + "0,x\n", r"got 'x' at line 41, cell 2: set"),
        ("", "rows.csv is empty"),
        ("\n\n", "rows.csv is empty"),
        ("\n\na,b\n0,1\n", "rows.csv must not start with an empty line"),
        (GOOD + "\n\r\n\n0,1,0\n", r"line 32 has 0 cells"),
        (GOOD + "0,1,.01\n", r"got '.01' at line 32, column 'c'"),
        (GOOD + "0,1,1.0.0\n", r"got '1.0.0' at line 32, column 'c'"),
        (GOOD + "0,1,TrueFalse\n", r"got 'TrueFalse' at line 32, column 'c'"),
        ("a,b\n", "rows.csv has no rows"),
        ("a,b,a\n0,1,0\n", "two columns named 'a'"),
        ("a;b,c\n0;1,1\n", "could have cells between commas or semicolons"),
        ("1990,1991\n0,1\n", "could be a row or the names of the columns"),
    ],
)
def test_bad_text(content, words, any_blocks, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(content)
    with pytest.raises(InputError, match=words):
        open_table(path).read()


@pytest.mark.parametrize(
    "line", [b"0,m\xfc,1\n", b'0,"m\xfc",1\n', b"0,1,\xff\n"], ids=["id", "quoted id", "cell"]
)
def test_text_that_is_not_utf8(line, any_blocks, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(GOOD.encode() + line)
    with pytest.raises(InputError, match=r"rows.csv must be UTF-8 text, but line 32 is not"):
        open_table(path, id_column="b").read()


FPS = "#FPS1\n#num_bits=12\n" + "0f0a\tA\n" * 30


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (FPS + "0f\tB\n", r"rows.fps, line 33: .* must be 4 hexadecimal digits, got 2"),
        (FPS + "0f0a00\tB\n", r"line 33: .* got 6"),
        (FPS + "0f0\tB\n", r"line 33: .* got 3"),
        (FPS + "\tB\n", r"line 33: .* got 0"),
        (FPS + "0g0a\tB\n", r"line 33: .* digit 2 is 'g'"),
        (FPS + "0f0aB\n", r"line 33: .* must be 4 hexadecimal digits, got 5"),
        (FPS + "0f1a\tB\n", r"line 33: bits are set past the last of 12"),
        (FPS + "0f0a\n", r"line 33: every fingerprint must have a tab and an id"),
        (FPS + "\n" + FPS[19:], r"line 33: .* got 0"),
        ("#FPS1\n#num_bits=12\n", "rows.fps has no rows"),
        ("#FPS1\n", "rows.fps has no fingerprints"),
        ("", "rows.fps is empty"),
        ("#FPS1\n#num_bits=many\n00\tA\n", "#num_bits= with a number from 1, got 'many'"),
        ("#FPS2\n00\tA\n", "only FPS1 is read"),
    ],
)
def test_bad_fingerprints(content, words, any_blocks, tmp_path):
    path = tmp_path / "rows.fps"
    path.write_text(content)
    with pytest.raises(InputError, match=words):
        open_table(path).read()


def test_fingerprints_whose_ids_are_not_utf8(tmp_path):
    path = tmp_path / "rows.fps"
    path.write_bytes(FPS.encode() + b"0f0a\tm\xfc\n")
    with pytest.raises(InputError, match="line 33: the id is not UTF-8"):
        open_table(path).read()


def write_bad_cell(path, bits):
    bits = bits.astype(np.int64)
    bits[40, 6] = 2
    kind = ending(path)
    if kind == ".zarr":
        write_zarr(path, bits, "int64")
    elif kind == ".npy":
        np.save(path, np.asfortranarray(bits) if "fortran" in path.name else bits)
    elif kind == ".npz":
        scipy.sparse.save_npz(path, getattr(scipy.sparse, f"{path.stem}_array")(bits))
    elif kind == ".parquet":
        frame(bits).to_parquet(path)
    else:
        frame(bits).to_feather(path)


@pytest.mark.parametrize(
    "name", ["rows.zarr", "rows.npy", "fortran.npy", "csr.npz", "csc.npz", "a.parquet", "a.feather"]
)
def test_a_cell_that_is_no_bit_is_found(name, bits, any_blocks, tmp_path):
    write_bad_cell(tmp_path / name, bits)
    with pytest.raises(InputError, match=rf"{name} must hold 0 and 1, got 2 at row 40, column 6"):
        open_table(tmp_path / name).read()


@pytest.mark.parametrize("name", ["rows.parquet", "rows.feather"])
def test_missing_cells_and_text_columns_of_tables(name, bits, any_blocks, tmp_path):
    path = tmp_path / name
    content = frame(bits).astype("Int8")
    content.iloc[41, 2] = None
    write = content.to_parquet if name.endswith("parquet") else content.to_feather
    write(path)
    assert open_table(path).read().n_missing == 1
    content["bit 2"] = [f"word {i}" for i in range(M)]
    write(path)
    with pytest.raises(InputError, match=r"at row 0, column 2 \('bit 2'\).*id_column='bit 2'"):
        open_table(path).read()


def write_incomplete(path, cells):
    """Cells with NaN, in the way each format writes a missing cell."""
    kind = ending(path)
    content = frame(cells)
    nullable = content.astype("Int8")
    if kind in (".csv", ".tsv"):
        content = content.map(lambda cell: path.stem if np.isnan(cell) else str(int(cell)))
        content = content.replace("blank", "")
        content.to_csv(path, index=False, sep="," if kind == ".csv" else "\t")
    elif kind == ".parquet":
        (content if path.stem == "nan" else nullable).to_parquet(path)
    elif kind == ".feather":
        (nullable.astype("boolean") if path.stem == "bool" else nullable).to_feather(path)
    elif kind == ".zarr":
        write_zarr(path, cells, "float32")
    elif path.stem == "sparse":
        scipy.sparse.save_npz(path, scipy.sparse.csr_array(np.nan_to_num(cells, nan=7.0)))
        with np.load(path) as parts:
            parts = dict(parts)
        parts["data"] = np.where(parts["data"] == 7.0, np.nan, parts["data"])
        np.savez(path, **parts)
    elif kind == ".npz":
        np.savez(path, cells)
    else:
        np.save(path, np.asfortranarray(cells) if path.stem == "fortran" else cells)


@pytest.mark.parametrize(
    "name",
    ["blank.csv", "NA.csv", "NaN.tsv", "null.csv", "nan.parquet", "null.parquet", "int.feather",
     "bool.feather", "rows.npy", "fortran.npy", "rows.npz", "sparse.npz", "rows.zarr"],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
def test_missing_cells_of_every_format(name, bits, any_blocks, tmp_path):
    """The same fit as of the array, bit for bit."""
    cells = bits.astype(np.float64)
    cells[np.random.default_rng(1).random(bits.shape) < 0.1] = np.nan
    cells[: M // 2] = bits[: M // 2]  # the first chunks have none
    write_incomplete(tmp_path / name, cells)
    rows = open_table(tmp_path / name).read()
    np.testing.assert_array_equal(cells_of(rows), cells)
    model = TemplateMixture(2, n_init=2, random_state=0).fit(rows)
    expected = TemplateMixture(2, n_init=2, random_state=0).fit(cells)
    assert model.means_.tobytes() == expected.means_.tobytes()
    np.testing.assert_array_equal(model.predict_proba(rows), expected.predict_proba(cells))
    named = ending(Path(name)) not in NAMELESS
    assert hasattr(model, "feature_names_in_") == named
    with pytest.raises(InputError, match="X has missing cells"):
        TwoRoundEM(2, n_seeds=5).fit(rows)


def test_missing_cells_of_packed_files(bits, any_blocks, tmp_path):
    """All of its columns, some of them, and one as the labels."""
    path = tmp_path / "rows.bits"
    table = frame(np.where(np.eye(M, N) == 1, np.nan, bits))
    cells = table.to_numpy()
    BitMatrix.from_dense(table, missing=True).save(path)
    np.testing.assert_array_equal(cells_of(open_table(path).read()), cells)
    chosen = [5, 69, 0, 33]
    some = open_table(path, columns=[f"bit {i}" for i in chosen])
    np.testing.assert_array_equal(cells_of(some.read()), cells[:, chosen])
    rows, _, labels = read_all(open_table(path, label_column="bit 60"))
    np.testing.assert_array_equal(cells_of(rows), np.delete(cells, 60, axis=1))
    assert labels == [str(bit) for bit in bits[:, 60]]
    converted = bitmix("convert", path, "-o", tmp_path / "out.bits")
    assert converted.returncode == 0, converted.stderr
    assert BitMatrix.open(tmp_path / "out.bits") == open_table(path).read()


def test_weights_of_packed_files(bits, any_blocks, tmp_path):
    """They are read with the rows, or refused where they would be lost."""
    path, model = tmp_path / "rows.bits", tmp_path / "my.model"
    rows = BitMatrix.from_dense(frame(bits)).weighted(np.arange(M) % 4)
    rows.save(path)
    read = open_table(path).read()
    assert read == rows
    assert np.array_equal(read.weights, np.arange(M)[np.arange(M) % 4 > 0] % 4)
    with pytest.raises(InputError, match=r"rows\.bits has weights"):
        read_all(open_table(path, label_column="bit 3"))
    converted = bitmix("convert", path, "-o", tmp_path / "out.bits")
    assert converted.returncode == 0, converted.stderr
    assert BitMatrix.open(tmp_path / "out.bits") == rows
    fitted = bitmix("fit", path, "-k", "2", "-o", model, "--no-certificate")
    assert fitted.returncode == 0, fitted.stderr
    expected = TemplateMixture(2, random_state=0).fit(rows)
    assert TemplateMixture.load(model).means_.tobytes() == expected.means_.tobytes()
    predicted = bitmix("predict", model, path, "-o", "-")
    labels = [int(line.split(",")[1]) for line in predicted.stdout.splitlines()[1:]]
    assert labels == expected.predict(rows).tolist()


def cut(path):
    """All but the last third of a file."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])


@pytest.mark.parametrize(
    "name",
    ["c.npy", "fortran.npy", "dense.npz", "csr.npz", "csc.npz", "packed.csv.gz", "packed.fps.gz",
     "ints.parquet", "packed.parquet", "file.arrow", "stream.ipc", "pandas.feather", "bits.bits"],
)  # fmt: skip
def test_files_cut_short_are_damaged(name, bits, tmp_path):
    path = tmp_path / name
    WRITERS[name](path, bits)
    cut(path)
    with pytest.raises(FileFormatError, match=name):
        open_table(path).read()


@pytest.mark.parametrize("name", ["dense.npz", "csr.npz", "csc.npz", "ints.parquet"])
def test_files_damaged_within(name, bits, tmp_path):
    path = tmp_path / name
    WRITERS[name](path, bits)
    data = bytearray(path.read_bytes())
    start = 4 if name.endswith(".parquet") else len(data) // 3  # a header: bits have no checksum
    data[start : start + 40] = bytes(40)
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match=name):
        open_table(path).read()


def test_a_damaged_chunk_of_zarr(bits, tmp_path):
    path = tmp_path / "rows.zarr"
    write_zarr(path, bits)
    chunk = max((p for p in path.rglob("*") if p.is_file() and p.name != "zarr.json"), key=str)
    chunk.write_bytes(chunk.read_bytes()[:-3])
    with pytest.raises(FileFormatError, match=r"rows.zarr is damaged or cut short"):
        open_table(path).read()


def test_folders_that_are_no_zarr_array(tmp_path):
    (tmp_path / "empty.zarr").mkdir()
    with pytest.raises(FileFormatError, match="empty.zarr is not a zarr folder"):
        open_table(tmp_path / "empty.zarr")
    zarr.create_group(tmp_path / "group.zarr").create_array("rows", shape=(2, 2), dtype="u1")
    with pytest.raises(InputError, match=r"group of arrays \(rows\)"):
        open_table(tmp_path / "group.zarr")
    zarr.create_array(tmp_path / "one.zarr", shape=(5,), dtype="u1")
    with pytest.raises(InputError, match=r"must be rows and columns of 0 and 1, got uint8 of"):
        open_table(tmp_path / "one.zarr")
    (tmp_path / "rows.csv").mkdir()
    with pytest.raises(InputError, match="rows.csv must be a file"):
        open_table(tmp_path / "rows.csv")
    (tmp_path / "file.zarr").write_text("")
    with pytest.raises(InputError, match="file.zarr must be a folder"):
        open_table(tmp_path / "file.zarr")


def test_arrays_that_are_no_tables(tmp_path):
    np.save(tmp_path / "text.npy", np.array([["a"]]))
    np.save(tmp_path / "flat.npy", np.zeros(3))
    np.save(tmp_path / "none.npy", np.zeros((0, 3)))
    np.save(tmp_path / "objects.npy", np.array([[None]]), allow_pickle=True)
    np.savez(tmp_path / "two.npz", a=np.zeros((1, 1)), b=np.zeros((1, 1)))
    for name, words in {
        "text.npy": "got <U1",
        "flat.npy": r"of shape \(3,\)",
        "none.npy": r"of shape \(0, 3\)",
        "objects.npy": "Python objects, which are never loaded",
        "two.npz": "must hold one array or a sparse matrix, got a, b",
    }.items():
        with pytest.raises((InputError, FileFormatError), match=words):
            open_table(tmp_path / name)


def test_no_more_memory_is_taken_than_a_file_has(bits, tmp_path):
    """A header that claims a petabyte, and column numbers outside of the matrix."""
    path = tmp_path / "rows.npy"
    np.save(path, bits)
    path.write_bytes(path.read_bytes().replace(b"(53, 70), }         ", b"(99999999999, 70), }"))
    with pytest.raises(FileFormatError, match="rows.npy is .* cut short: it claims"):
        open_table(path)
    for kind in (scipy.sparse.csr_array, scipy.sparse.csc_array):
        matrix = kind(bits)
        matrix.indices[5] = 1 << 30
        scipy.sparse.save_npz(tmp_path / "rows.npz", matrix)
        with pytest.raises(FileFormatError, match="rows.npz is"):
            open_table(tmp_path / "rows.npz").read()
    matrix = scipy.sparse.csr_array(bits)
    matrix.indptr[5] = 0
    scipy.sparse.save_npz(tmp_path / "rows.npz", matrix)
    with pytest.raises(FileFormatError, match="row pointers decrease"):
        open_table(tmp_path / "rows.npz").read()


def test_what_needs_names_is_refused_without_them(bits, tmp_path):
    for name in ("c.npy", "bare.csv", "lower.fps", "bits.bits", "ints.zarr", "csr.npz"):
        WRITERS[name](tmp_path / name, bits)
        with pytest.raises(InputError, match=f"{name} does not name its columns|does not apply"):
            open_table(tmp_path / name, label_column="what")
        with pytest.raises(InputError, match="70 columns without names, but the model was .* 71"):
            open_table(tmp_path / name, columns=[str(i) for i in range(71)], codes=Codes())
        some = open_table(tmp_path / name, columns=[str(i) for i in range(70)], codes=Codes())
        assert some.n_columns == 70


@pytest.mark.parametrize(
    ("name", "library"), [("a.parquet", "pyarrow"), ("a.feather", "pyarrow"), ("a.zarr", "zarr")]
)
def test_a_missing_library_is_named(name, library, bits, tmp_path, monkeypatch):
    writer = {"a.parquet": "ints.parquet", "a.feather": "pandas.feather", "a.zarr": "ints.zarr"}
    WRITERS[writer[name]](tmp_path / name, bits)
    for module in [m for m in sys.modules if m.split(".")[0] == library]:
        monkeypatch.setitem(sys.modules, module, None)
    extra = "dask" if library == "zarr" else "files"
    with pytest.raises(
        ModuleNotFoundError, match=rf"needs {library}: pip install 'bitmix\[{extra}\]'"
    ):
        open_table(tmp_path / name)


@pytest.mark.parametrize("kind", ["csv", "csv with ids", "fps", "npy", "npz"])
def test_memory_is_bounded_by_a_block(kind, tmp_path):
    """Files of 30 MB and more are read with a few blocks of memory."""
    rng = np.random.default_rng(0)
    path = tmp_path / f"rows.{kind.split()[0]}"
    if kind == "fps":
        line = b"0123456789abcdef" * 32 + b"\tan id\n"
        path.write_bytes(b"#FPS1\n#num_bits=2048\n" + line * 70_000)
    elif path.suffix == ".csv":
        names = ",".join(f"bit{i}" for i in range(500))
        row = ",".join("01"[b] for b in rng.integers(2, size=500))
        ids = kind == "csv with ids"
        content = [f"name{i},{row}\n" if ids else f"{row}\n" for i in range(36_000)]
        path.write_text(("who," if ids else "") + names + "\n" + "".join(content))
    else:
        write = np.save if kind == "npy" else np.savez_compressed
        write(path, np.tile(rng.integers(2, size=(36, 1000), dtype=np.uint8), (1000, 1)))
    found = open_table(path, id_column="who" if kind == "csv with ids" else None)
    next(iter(found.chunks()))  # what is imported and cached on the way is no part of it
    tracemalloc.start()
    rows = sum(len(chunk.words) for chunk in found.chunks())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows == (70_000 if kind == "fps" else 36_000)
    assert peak < 40e6  # some blocks of 4 MB


@pytest.mark.system
@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_memory_of_arrow_is_bounded_by_a_block(kind, tmp_path):
    """72 MB, of Parquet in one row group, of Arrow in record batches of 7 MB."""
    path = tmp_path / f"rows.{kind}"
    bits = np.random.default_rng(0).integers(2, size=(20, 3_600_000), dtype=np.uint8)
    content = pa.table({f"bit {i}": column for i, column in enumerate(bits)})
    if kind == "parquet":
        pyarrow.parquet.write_table(content, path, row_group_size=3_600_000)
    else:
        with pa.ipc.new_file(path, content.schema) as writer:
            writer.write_table(content, max_chunksize=360_000)
    code = (
        "import pyarrow; from bitmix.rows.files import open_table\n"
        f"print(sum(len(chunk.words) for chunk in open_table({str(path)!r}).chunks()))\n"
        "print(pyarrow.default_memory_pool().max_memory())"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    rows, peak = map(int, answer.split())
    assert rows == 3_600_000
    assert peak < 36e6


CONVERTED = ["named.bits", "c.npy", "csr.npz", "pandas.csv", "plain.tsv", "ints.parquet",
             "pandas.feather", "packed.fps.gz", "ints.zarr"]  # fmt: skip


@pytest.mark.parametrize("name", CONVERTED)
def test_convert(name, bits, tmp_path):
    WRITERS[name](tmp_path / name, bits)
    result = bitmix("convert", tmp_path / name, "-o", tmp_path / "out.bits", "--json")
    answer = json.loads(result.stdout)
    assert result.returncode == 0
    assert (answer["rows"], answer["columns"]) == (M, N)
    assert answer["density"] == pytest.approx(bits.mean())
    assert answer["bytes"] == (tmp_path / "out.bits").stat().st_size
    assert answer["megabytes_per_second"] > 0
    rows = BitMatrix.open(tmp_path / "out.bits")
    assert rows == BitMatrix.from_dense(bits)
    assert rows.feature_names == (names_of(bits) if has_names(name) else None)
    if name == "packed.fps.gz":
        assert bitfile.WordsFile(tmp_path / "out.bits").about["type"] == "Test/1 a=b"


def test_convert_names_its_output_and_spares_what_is_there(bits, tmp_path):
    path, out = tmp_path / "rows.csv.gz", tmp_path / "rows.bits"
    write_with_ids(path, bits)
    before = path.read_bytes()
    apart = ("--id-column", "who", "--label-column", "what")
    done = bitmix("convert", path, *apart)
    assert done.returncode == 0
    assert "53 rows, 70 columns, density 0." in done.stdout
    assert "rows.bits" in done.stdout
    assert BitMatrix.open(out) == BitMatrix.from_dense(bits)
    first = out.read_bytes()
    refused = bitmix("convert", path, *apart)
    assert refused.returncode == 2
    assert "--force" in refused.stderr
    assert out.read_bytes() == first
    quiet = bitmix("convert", path, *apart, "--force", "--quiet")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    itself = bitmix("convert", out, "-o", out, "--force")
    assert itself.returncode == 2
    assert "is the input" in itself.stderr
    assert out.read_bytes() == first
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", ["csv", "tsv", "fps"])
def test_convert_reads_standard_input(kind, bits, tmp_path):
    if kind == "fps":
        write_fps(tmp_path / "rows.fps", bits)
    else:
        write_text(tmp_path / f"rows.{kind}", "," if kind == "csv" else "\t", bits)
    arguments = ("convert", "-", "--format", kind, "-o", tmp_path / "out.bits", "--json")
    result = bitmix(*arguments, input=(tmp_path / f"rows.{kind}").read_text())
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["megabytes_per_second"] is None
    rows = BitMatrix.open(tmp_path / "out.bits")
    assert rows == BitMatrix.from_dense(bits)
    assert rows.feature_names == (None if kind == "fps" else names_of(bits))
    empty = bitmix(*arguments, "--force")
    assert empty.returncode == 2
    assert "standard input is empty" in empty.stderr
    nowhere = bitmix("convert", "-")
    assert nowhere.returncode == 2
    assert "give -o" in nowhere.stderr


def test_a_pipe_may_be_read_again(bits, any_blocks, tmp_path):
    write_fps(tmp_path / "rows.fps", bits)
    with (tmp_path / "rows.fps").open("rb") as file:
        found = open_stream(file, "fps")
        assert found.read() == BitMatrix.from_dense(bits)
        assert found.read() == BitMatrix.from_dense(bits)


def test_convert_tells_of_a_disguised_label(bits, tmp_path):
    frame(bits).rename(columns={"bit 0": "label"}).to_csv(tmp_path / "rows.csv", index=False)
    result = bitmix("convert", tmp_path / "rows.csv")
    assert result.returncode == 0
    assert "bitmix: note: column 'label'" in result.stderr


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "rows.csv",
            GOOD + "0,x,0\n",
            "line 32, column 'b': set --missing 'x' if",
        ),
        ("rows.fps", FPS + "0f\tB\n", "line 33"),
        ("rows.doc", "", "must be one of .bits, .npy, .npz, .csv"),
        ("rows.parquet", "PAR1", "rows.parquet is not what its ending says"),
        ("rows.csv.gz", "0,1", "rows.csv.gz is cut short or damaged"),
        ("absent.csv", None, "there is no file"),
    ],
)
def test_convert_leaves_nothing_behind(name, content, words, tmp_path):
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    result = bitmix("convert", path, "-o", tmp_path / "out.bits")
    assert result.returncode == 2
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert sorted(tmp_path.iterdir()) == ([] if content is None else [path])
    if content is not None:
        assert path.read_text() == content


@pytest.mark.posix
@pytest.mark.system
def test_a_full_disk_leaves_nothing_behind(tmp_path):
    """A limit on the size of files stands in for the end of the disk."""
    import resource

    path = tmp_path / "rows.npy"
    np.save(path, np.zeros((20_000, 1000), dtype=np.bool_))
    limit = (1 << 20, 1 << 20)
    result = subprocess.run(
        [sys.executable, "-m", "bitmix", "convert", path, "-o", tmp_path / "out.bits"],
        capture_output=True, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )  # fmt: skip
    assert result.returncode == 2
    assert "out.bits" in result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.posix
@pytest.mark.system
def test_an_interrupt_leaves_nothing_behind(tmp_path):
    path = tmp_path / "rows.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(400):
            file.write((b"0," * 999 + b"1\n") * 500)
    process = subprocess.Popen(
        [sys.executable, "-m", "bitmix", "convert", str(path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while len(list(tmp_path.iterdir())) < 2 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "Traceback" not in error
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture(scope="module")
def two_kinds():
    """60 rows of two templates, far apart, and their kinds."""
    rng = np.random.default_rng(3)
    kinds = np.arange(60) % 2
    truth = np.array([[0] * 40 + [1] * 40, [1] * 40 + [0] * 40])
    return (truth[kinds] ^ (rng.random((60, 80)) < 0.05)).astype(np.uint8), kinds


@pytest.mark.parametrize("name", CONVERTED)
def test_fit_takes_every_format(name, two_kinds, tmp_path):
    bits, _ = two_kinds
    WRITERS[name](tmp_path / name, bits)
    model = tmp_path / "my.model"
    result = bitmix("fit", tmp_path / name, "-k", "2", "-o", model, "--json", "--starts", "2")
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert (answer["rows"], answer["columns"], answer["members"]) == (60, 80, [30, 30])
    names = getattr(TemplateMixture.load(model), "feature_names_in_", None)
    assert (None if names is None else tuple(names)) == (
        names_of(bits) if has_names(name) else None
    )


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_fit_prints_purity_against_a_label_column(kind, two_kinds, tmp_path):
    bits, kinds = two_kinds
    path, model = tmp_path / f"rows.{kind}", tmp_path / "my.model"
    content = frame(bits).assign(who=[f"r{i}" for i in range(60)], kind=kinds)
    content.to_csv(path, index=False) if kind == "csv" else content.to_parquet(path)
    apart = ("--id-column", "who", "--label-column", "kind")
    result = bitmix("fit", path, "-k", "2", "--starts", "2", *apart, "-o", model)
    assert "60 rows, 80 columns" in result.stdout
    assert "purity 1.0000, entropy 0.0000 against column 'kind'" in result.stdout
    refused = bitmix("fit", path, "-k", "2", "--label-column", "kind")
    assert refused.returncode == 2
    assert "--id-column 'who'" in refused.stderr
    certified = bitmix("certify", model, path, "--json")  # picks its columns by name
    assert json.loads(certified.stdout)["evidence"]["n"] == 80


def test_a_cluster_does_not_read_packed_bytes(bits, tmp_path):
    write_fixed(tmp_path / "rows.parquet", bits)
    with pytest.raises(ValueError, match="one column per bit, .* has packed bytes"):
        read_on_cluster(tmp_path / "rows.parquet", Reading())


def test_images_have_no_columns(tmp_path):
    result = bitmix("fit", tmp_path, "-k", "2", "--id-column", "x")
    assert result.returncode == 2
    assert "is a folder of images" in result.stderr


def test_a_file_that_vanishes_is_an_error(bits, tmp_path):
    for name in ("plain.csv", "ints.parquet", "c.npy", "lower.fps", "csr.npz"):
        path = tmp_path / name
        WRITERS[name](path, bits)
        found = open_table(path)
        path.unlink()
        with pytest.raises(OSError, match=name):
            found.read()
