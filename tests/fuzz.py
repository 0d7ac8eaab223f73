"""Fuzzing: what comes from outside gives a right value or one of our errors, and nothing else.

A target is a function of bytes and an empty folder. Inputs are valid files whose bytes were
flipped, cut, doubled or mixed with those of another, and files whose headers lie. ``make fuzz``
gives each target a share of FUZZ_SECONDS in a process of its own; `test_fuzz.py` runs a slice.
"""

import contextlib
import gc
import gzip
import hashlib
import io
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import scipy.io
import scipy.sparse
import zarr
from PIL import Image

from bitmix import BitMatrix, ClassicEM, TemplateMixture, TwoRoundEM
from bitmix.errors import BitmixWarning, FileFormatError, InputError
from bitmix.estimators.load import load_model
from bitmix.features.images import read_grey
from bitmix.rows.files import open_table
from bitmix.rows.files import text as text_files

OURS = (InputError, FileFormatError)
SCIKIT_LEARN = ("X has ", "The feature names should match")  # what every estimator of it says
SECONDS, WAITING, BYTES_MORE, TIMES_INPUT = 5, 120, 200 << 20, 10
ROOM = 4 << 30  # address space beyond what is in use, so that a lie about sizes is a MemoryError

Target = Callable[[bytes, Path], None]


class Broken(AssertionError):
    """A promise that an input broke."""


class TooSlow(BaseException):
    """Not an Exception, so that no handler takes it for a damaged file."""


# --- the targets ----------------------------------------------------------------------------


def read_bits(data: bytes, folder: Path) -> None:
    path = put(folder / "x.bits", data)
    X = BitMatrix.open(path)
    start = 16 + int.from_bytes(data[8:16], "little")
    header, n = json.loads(data[16:start]), X.shape[1]
    missing, weight_one = header.get("missing", False), header.get("weight_one", 0)
    if header["version"] == 1:
        missing, weight_one = False, 0
    width = 8 * -(-n // 64)
    per_row = width * (2 if missing else 1) + 8 * (weight_one > 0)
    octets = np.frombuffer(data[start : start + len(X) * per_row], dtype=np.uint8)
    octets = octets.reshape(len(X), per_row)

    def unpacked(first: int) -> np.ndarray:
        bits = np.unpackbits(octets[:, first : first + width], axis=1, bitorder="little")
        agree(not bits[:, n:].any(), "bits past the last column")
        return bits[:, :n]

    bits, known = unpacked(0), unpacked(width) if missing else np.ones(X.shape, dtype=np.uint8)
    seen = np.where(known == 1, bits, np.nan)
    agree(np.array_equal(X.to_dense(np.float64), seen, equal_nan=True), "other bits")
    agree(not np.any(bits > known), "bits of missing cells")
    if weight_one:
        units = octets[:, -8:].copy().view("<u8")[:, 0]
        agree(np.array_equal(X.weights, units / weight_one), "other weights")
        agree(bool(np.all(units > 0)) and sum(units.tolist()) <= 2**31, "weights of nonsense")
    table = open_table(path).load()
    agree(table.rows == X, "the table is not the matrix")
    agree(table.ids is None or len(table.ids) == len(X), "an id for each row")


def reader(ending: str, slow: Callable[[Path], np.ndarray] | None = None) -> Target:
    """Reads a table; where `slow` can read the file as well, it must see the same."""

    def read(data: bytes, folder: Path) -> None:
        path = put(folder / f"x{ending}", data)
        loaded = open_table(path).load()
        rows, ids = loaded.rows, loaded.ids
        agree(len(rows) > 0 and not loaded.labels, "rows")
        agree(ids is None or len(ids) == len(rows), "an id for each row")
        if slow is not None and (rows.codes is None or slow is slow_text):
            same = np.array_equal(rows.to_dense(np.float64), slow(path), equal_nan=True)
            agree(same, "another reader sees other bits")

    return read


def read_zarr(data: bytes, folder: Path) -> None:
    """The files of a folder, which come as an archive."""
    for name, content in members(data).items():
        path = folder / "x.zarr" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        put(path, content)
    rows = open_table(folder / "x.zarr").read()
    seen = zarr.open(str(folder / "x.zarr"), mode="r")[:]
    same = np.array_equal(rows.to_dense(np.float64), seen.astype(np.float64), equal_nan=True)
    agree(same or rows.codes is not None, "another reader sees other bits")


def slow_text(path: Path) -> np.ndarray:
    """Cell by cell, with the standard module."""
    nothing = {"_digits": lambda *_: None, "_by_pyarrow": lambda *_, **__: None}
    with mock.patch.multiple(text_files.TextPart, **nothing):
        return open_table(path).read().to_dense(np.float64)


def slow_npy(path: Path) -> np.ndarray:
    return np.load(path, allow_pickle=False)


def slow_fps(path: Path) -> np.ndarray:
    lines = path.read_bytes().replace(b"\r\n", b"\n").rstrip(b"\r\n").split(b"\n")
    n = next((int(x.partition(b"=")[2]) for x in reversed(lines) if x.startswith(b"#num_bits=")), 0)
    while lines[0].startswith(b"#"):
        lines.pop(0)
    octets = [np.frombuffer(bytes.fromhex(x.split(b"\t")[0].decode()), np.uint8) for x in lines]
    bits = np.unpackbits(np.array(octets), axis=1, bitorder="little")
    return bits[:, : n or None]


def read_model(data: bytes, folder: Path) -> None:
    model = load_model(put(folder / "model", data))
    k, n = model.templates_.shape
    X = np.zeros((2, n), dtype=np.uint8)
    X[1, ::2] = 1
    p = model.predict_proba(X)
    agree(p.shape == (2, k) and np.all(p.sum(axis=1) == 1), "shares that do not sum to 1")
    agree(np.isfinite(model.score_samples(X)).all(), "a likelihood that is no number")
    model.sample(3)
    repr(model)


def read_image(data: bytes, folder: Path) -> None:
    grey = read_grey(put(folder / "image", data), (24, 30), least=6)
    agree(grey.shape == (24, 30) and grey.dtype == np.float32, "shape")
    agree(bool(np.all((grey >= 0) & (grey <= 1))), "values outside 0 … 1")


def fit_anything(data: bytes, folder: Path) -> None:
    """Odd dtypes, shapes, objects, weights, masks and parameters, all chosen by the bytes."""
    choose = random.Random(data)
    X, more = odd_table(choose), {}
    kind = choose.choice([TwoRoundEM, ClassicEM, TemplateMixture])
    params = {name: odd_value(choose) for name in kind().get_params() if choose.random() < 0.1}
    if any(params.get(name) is big for name in ("n_init", "max_iter", "rounds") for big in BIG):
        return  # a wish for a million starts or rounds is granted
    if kind is TemplateMixture and choose.random() < 0.3:
        weights = [odd_value(choose), np.ones(7), [1e-9] * 7, [1e9] * 7]
        more["sample_weight"] = choose.choice(weights)
    if kind is TemplateMixture and choose.random() < 0.2:
        more["mask"] = choose.choice([odd_value(choose), np.eye(7, 5), np.ones((7, 5), bool)])
    model = kind(**params).fit(X, **more)
    agree(bool(np.isfinite(model.means_).all()), "means that are no numbers")
    labels = model.predict(odd_table(choose) if choose.random() < 0.3 else X)
    agree(labels.min() >= 0 and labels.max() < len(model.weights_), "labels out of range")


def run_command(data: bytes, folder: Path) -> None:
    """The command line: exit code 0, 1 or 2, never a traceback."""
    from bitmix.__main__ import main

    choose = random.Random(data)
    for name, content in command_files().items():
        put(folder / name, content)
    before, code = sys.argv, 0
    arguments = odd_arguments(choose)
    sys.argv = ["bitmix", *arguments]
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with (
        contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(out),
    ):  # fmt: skip
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        finally:
            sys.argv = before
    agree(code in (0, 1, 2, None), f"exit code {code}")
    for name, content in command_files().items():
        same = "--force" in arguments or (folder / name).read_bytes() == content
        agree(same, f"{name} was changed")
    if code == 2:
        agree("Traceback" not in out.buffer.getvalue().decode(), "a traceback")
        agree({x.name for x in folder.iterdir()} == {*command_files()}, "a file left behind")
        raise InputError("exit code 2")


TARGETS: dict[str, Target] = {
    "bits": read_bits,
    "csv": reader(".csv", slow_text),
    "tsv": reader(".tsv", slow_text),
    "csv.gz": reader(".csv.gz", slow_text),
    "txt": reader(".txt", slow_text),
    "rtab": reader(".rtab", slow_text),
    "mtx": reader(".mtx"),
    "fps": reader(".fps", slow_fps),
    "npy": reader(".npy", slow_npy),
    "npz": reader(".npz"),
    "parquet": reader(".parquet"),
    "arrow": reader(".arrow"),
    "zarr": read_zarr,
    "model": read_model,
    "image": read_image,
    "input": fit_anything,
    "command": run_command,
}


# --- odd values -----------------------------------------------------------------------------

BIG = (10**30, 10**6, 1e300)
VALUES = (
    None, True, False, 0, 1, 2, 3, -1, 0.5, 1e-9, 0.499999, 1.0, -0.0, float("nan"), float("inf"),
    *BIG, "", "1", "l1", "cell", b"1", [], {}, (1, 2), object, 1j, np.int8(2), np.float32(0.25),
    np.array(2), np.array([2]), np.datetime64("NaT"), range(3),
)  # fmt: skip
DTYPES = (
    "bool", "uint8", "int8", "int64", "uint64", "float16", "float32", "float64", "longdouble",
    ">i4", ">f8", "complex64", "object", "S1", "U1", "M8[s]", "m8[s]", "i4,f4",
)  # fmt: skip


def odd_value(choose: random.Random) -> object:
    return choose.choice(VALUES)


def odd_table(choose: random.Random) -> object:
    odd = [(1, 1), (7, 64), (65, 2), (0, 5), (5, 0), (5,), (), (2, 2, 2)]
    shape = choose.choice([(7, 5)] * 6 + odd)
    bits = np.random.default_rng(choose.randrange(99)).integers(2, size=shape)
    table = bits.astype(choose.choice(DTYPES[:10])) if choose.random() < 0.7 else bits
    if choose.random() < 0.15:
        with contextlib.suppress(ValueError, TypeError):
            table = bits.astype(choose.choice(DTYPES))
    if choose.random() < 0.15 and bits.ndim == 2 and bits.size:
        table = bits.astype(object)
        table[choose.randrange(len(bits)), 0] = odd_value(choose)
    wrap = choose.choice(
        [lambda x: x] * 4
        + [
            list, np.asfortranarray, lambda x: x[::-1, ::-1], pd.DataFrame, scipy.sparse.csr_array,
            scipy.sparse.coo_matrix, np.ma.masked_array, lambda x: np.ma.masked_equal(x, 1),
            lambda x: x.tolist(), BitMatrix.from_dense, pa.table, iter, memoryview,
            lambda x: pd.DataFrame(x, columns=[f"c{i}" for i in range(np.shape(x)[1])]),
            lambda x: pd.DataFrame(x).astype("category"), lambda x: odd_value(choose),
        ]
    )  # fmt: skip
    try:
        return wrap(table)
    except Exception:  # not every wrapper takes every array; what comes out is what counts
        return table


def odd_arguments(choose: random.Random) -> list[str]:
    files = [*command_files(), "absent.csv", ".", "", "..", "x" * 300 + ".csv", "a\tb", "ü.bits"]
    outputs = ["out.bits", "out.csv", "out.npy", "out.parquet", "no/out.bits", "out", "x.csv", "."]
    pages = ["out.html", "out.bits", "no/out.html"]
    numbers = ["0", "1", "2", "-1", "1e3", "nan", "inf", "0.1", "0.5", "1e-300", "٣", "9" * 25]
    others = [*numbers, "m", "n", "c", "id", "auto", "classic", "two-round", "cell", "updown"]
    options = {
        "fit": ["-k", "--method", "--noise-model", "--rounds", "--starts", "--seed", "-o", "--json",
                "--prior", "--tol", "--max-iter", "--max-rows-search", "--report", "--id-column",
                "--label-column", "--no-certificate", "--quiet", "--force"],
        "predict": ["-o", "--id-column", "--force", "--quiet", "--json"],
        "inspect": ["--json"],
        "certify": ["--json", "--alpha", "--seed", "--check"],
        "convert": ["-o", "--format", "--id-column", "--label-column", "--quiet", "--json"],
        "sketch": ["-o", "--cell-size", "--orientations", "--threshold", "--json"],
        "plan": ["--k", "--n", "--m", "--c", "--q", "--w-min", "--solve-for", "--json", "--delta"],
    }  # fmt: skip
    valid = [
        "fit x.csv -k 2 --starts 1", "fit named.csv -k 2 --id-column id", "fit x.bits -k 1-2",
        "fit weighted.bits -k 1", "convert weighted.bits -o out.bits", "fit gaps.bits -k 1",
        "predict my.model x.bits -o out.csv", "predict my.model x.csv -o -", "inspect my.model",
        "convert x.csv -o out.bits", "convert named.csv -o out.bits", "certify my.model x.bits",
        "plan --k 2 --n 500 --q 0.1 --m 900",
    ]  # fmt: skip
    command = choose.choice([*options, "fit", "convert", "predict", "nonsense"])
    words = [command, *choose.choices(files, k=choose.choice([0, 1, 1, 1, 2, 2]))]
    if choose.random() < 0.6:
        words = choose.choice(valid).split()
        command = words[0]
        if choose.random() < 0.3:
            return words
    for option in choose.choices(options.get(command, ["--json"]), k=choose.randrange(4)):
        words.append(option)
        if option in ("--json", "--quiet", "--force", "--check", "--no-certificate"):
            continue
        if option == "-o":
            words.append(choose.choice(outputs))
        elif option == "--report":
            words.append(choose.choice(pages))
        elif option in ("--starts", "--rounds", "-k"):  # large numbers are granted, in their time
            words.append(choose.choice([*numbers[:9], "auto", "1-3", "3-1", "1-", "2-2"]))
        else:
            words.append(choose.choice(others))
    if "-o" not in words and "out" not in words and choose.random() < 0.5:
        words += ["-o", choose.choice(outputs)]
    return words


# --- valid inputs, and lies -----------------------------------------------------------------


@cache
def small() -> np.ndarray:
    return np.random.default_rng(0).integers(2, size=(9, 70), dtype=np.uint8)


def written(write: Callable[[Path], object], name: str = "x") -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / name)
        return (Path(folder) / name).read_bytes()


def text(separator: str, bits: np.ndarray, *, names: bool = True) -> bytes:
    lines = [separator.join(["id", *(f"c{i}" for i in range(bits.shape[1]))])] if names else []
    lines += [separator.join(["1"] * names + list(map(str, row))) for row in bits.tolist()]
    return "\n".join(lines).encode() + b"\n"


def npy(shape: object, dtype: str = "<i8", data: bytes = b"", order: object = False) -> bytes:
    header = f"{{'descr': {dtype!r}, 'fortran_order': {order!r}, 'shape': {shape!r}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


def archive(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return out.getvalue()


def members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def packed(header: object, words: bytes = b"") -> bytes:
    body = header if isinstance(header, bytes) else json.dumps(header).encode()
    return b"BITMIX\r\n" + len(body).to_bytes(8, "little") + body + words


@cache
def models() -> tuple[bytes, ...]:
    X = small()[:, :20]
    kinds = [TwoRoundEM(2, n_seeds=4, random_state=0), ClassicEM(2, random_state=0)]
    kinds += [TemplateMixture(2, noise_model=m, random_state=0) for m in ("shared", "cell")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BitmixWarning)
        return tuple(written(kind.fit(X).save) for kind in kinds)


@cache
def command_files() -> dict[str, bytes]:
    return {
        "x.csv": text(",", small()[:, :20], names=False),
        "named.csv": text(",", small()[:, :20]),
        "x.bits": written(BitMatrix.from_dense(small()[:, :20]).save),
        "weighted.bits": written(BitMatrix.from_dense(small()[:, :20]).weighted(range(9)).save),
        "gaps.bits": written(BitMatrix.from_dense(small()[:, :20]).masked(np.eye(9, 20) > 0).save),
        "my.model": models()[2],
        "broken.csv": b"0,1\n0\n",
        "broken.npz": b"PK\x03\x04",
    }


@cache
def seeds(target: str) -> tuple[bytes, ...]:
    """Valid inputs."""
    bits = small()
    with_gaps = BitMatrix.from_dense(np.where(bits[::-1] == 1, bits, np.nan), missing=True)
    frame = pd.DataFrame(bits[:, :12]).add_prefix("c")
    images = [Image.fromarray(np.kron(bits * np.uint8(255), np.ones((3, 1), np.uint8)), "L")]
    images += [images[0].convert(mode) for mode in ("RGB", "RGBA", "P", "1", "I;16")]

    def sparse(kind: type, **more: object) -> bytes:
        return written(lambda p: scipy.sparse.save_npz(p, kind(bits), **more), "x.npz")

    def pictures() -> Iterator[bytes]:
        for image in images:
            for form in ("png", "tiff", "gif", "bmp", "jpeg", "webp", "ppm"):
                with contextlib.suppress(OSError):  # not every format knows every mode
                    yield written(lambda p, f=form, i=image: i.save(p, f))

    def ipc(stream: bool) -> bytes:
        out, table = io.BytesIO(), pa.Table.from_pandas(frame)
        with (pa.ipc.new_stream if stream else pa.ipc.new_file)(out, table.schema) as writer:
            writer.write_table(table, max_chunksize=4)
        return out.getvalue()

    def stored(dtype: str, **more: object) -> bytes:
        with tempfile.TemporaryDirectory() as name:
            options = {"chunks": (4, 40), **more}
            array = zarr.create_array(name, shape=bits.shape, dtype=dtype, **options)
            array[:] = bits
            found = [path for path in sorted(Path(name).rglob("*")) if path.is_file()]
            return archive({str(path.relative_to(name)): path.read_bytes() for path in found})

    fps = b"#FPS1\n#num_bits=70\n" + b"".join(
        row.tobytes().hex().encode() + b"\tmol %d\n" % i
        for i, row in enumerate(np.packbits(bits, axis=1, bitorder="little"))
    )
    found = {
        "bits": lambda: [
            written(rows.save)
            for rows in (
                BitMatrix.from_dense(bits), BitMatrix.from_dense(frame), with_gaps,
                BitMatrix.from_dense(bits).weighted(np.arange(9)), with_gaps.weighted([0.3] * 9),
            )
        ],
        "csv": lambda: [
            text(",", bits), text(",", bits, names=False), b'a,"b, c"\n1.0,True\n0,"1"\n',
        ],
        "tsv": lambda: [text("\t", bits), text("\t", bits, names=False)],
        "csv.gz": lambda: [gzip.compress(text(",", bits))],
        "txt": lambda: [
            text(";", bits), text(" ", bits, names=False), b"a;b\nyes;NA\nno;2\nYES;1\n",
            b'"A" "B"\n"1" 1 2\n"2" 2 1\n', b"x\ty\nred\t1\ngreen\t\nblue\t0\n",
        ],
        "rtab": lambda: [b"Gene\ts1\ts2\ng1\t1\t0\ng2\t0\t1\ng3\t1\t1\n"],
        "mtx": lambda: [
            written(lambda p: scipy.io.mmwrite(p, scipy.sparse.coo_array(bits)), "x.mtx"),
            b"%%MatrixMarket matrix coordinate pattern general\n3 4 2\n1 2\n3 4\n",
        ],
        "fps": lambda: [fps, fps.partition(b"70\n")[2], fps.replace(b"\n", b"\r\n")],
        "npy": lambda: [
            npy(bits.shape, kind, bits.astype(kind).tobytes(), order)
            for kind in ("|u1", "<f8", ">i4", "|b1", "<f2") for order in (False, True)
        ],
        "npz": lambda: [
            sparse(scipy.sparse.csr_array), sparse(scipy.sparse.csc_array),
            sparse(scipy.sparse.coo_array, compressed=False), sparse(scipy.sparse.bsr_array),
            archive({"x.npy": npy(bits.shape, "|u1", bits.tobytes())}),
        ],
        "parquet": lambda: [
            written(frame.to_parquet), written(frame.astype(bool).to_parquet),
            written(lambda p: frame.astype(float).to_parquet(p, compression="gzip")),
        ],
        "arrow": lambda: [ipc(stream=False), ipc(stream=True)],
        "zarr": lambda: [
            stored("uint8"), stored("bool", zarr_format=2), stored("float32", compressors=None),
            stored("int8", shards=(8, 80)),
        ],
        "model": lambda: [*models()],
        "image": lambda: [*pictures()],
    }  # fmt: skip
    return tuple(found.get(target, lambda: [b"0"])())


HUGE = (0, 1, -1, 2**31, 2**32, 2**48, 2**62, 2**63, 2**64, 10**30, 1.5, True, None, "1", [], {})


def lie(target: str, choose: random.Random) -> bytes:
    """A well-formed input that claims what is not so; any bytes where a format has no claims."""
    size, other = choose.choice(HUGE), choose.choice(HUGE)
    if target == "bits":
        header = {"format": "bits", "version": choose.choice([1, 2]), "rows": 9, "columns": 70}
        header.update(choose.choice([{}, {"missing": True}, {"weight_one": 1}]))
        wrong = choose.choice([*header, "rows", "columns", "names", "about", "missing"])
        header[wrong] = size
        header.update(choose.choice([{}, {}, {"columns": other}, {"weight_one": other}]))
        words = choose.randbytes(8) * choose.choice([9, 18, 27, 36, 45])
        return packed(choose.choice([header] * 5 + [[header], b"[" * 10**5, size]), words)
    kinds = ["<i8", "|u1", "|b1", "<f8", "|O", "<U9", "<M8[s]", "V8", "|S1", [("a", "<i8")]]
    shape = choose.choice([(size, other), (size,), (3, size), (other, 2), size, (), (1, 2, 3)])
    data = choose.randbytes(choose.choice([0, 8, 48]))
    array = npy(shape, choose.choice(kinds), data, choose.choice([True, False, 7]))
    if target == "npy":
        return array
    if target == "npz":
        return _sparse_lie(choose, array)
    if target == "model":
        return _model_lie(choose, array)
    if target == "zarr":
        return _zarr_lie(choose)
    if target == "mtx":
        kind = choose.choice(["coordinate integer", "coordinate pattern", "array real"])
        form = choose.choice(["general", "symmetric", "skew-symmetric", "hermitian"])
        return f"%%MatrixMarket matrix {kind} {form}\n{size} {other} 2\n1 1 1\n2 2 1\n".encode()
    if target == "fps":
        return f"#FPS1\n#num_bits={size}\n{'ff' * choose.randrange(9)}\n".encode()
    if target in ("csv", "tsv", "txt", "rtab"):
        cells = [str(odd_value(choose)) for _ in range(choose.randrange(1, 9))]
        return "\n".join([",".join(cells)] * choose.randrange(4)).encode()
    if target == "csv.gz":
        return gzip.compress(lie("csv", choose))
    return choose.randbytes(choose.randrange(64))


def _sparse_lie(choose: random.Random, array: bytes) -> bytes:
    def whole(values: list[int], dtype: str = "<i8") -> bytes:
        return npy((len(values),), dtype, np.array(values).astype(dtype).tobytes())

    def some(count: int, *dtypes: str) -> bytes:
        numbers = [0, 1, 2, 3, -1, 9, 2**24, 2**31, 2**40, 2**62, -(2**63)]
        return whole(choose.choices(numbers, k=count), choose.choice(dtypes or ["<i8"]))

    forms = [b"csr", b"csc", b"coo", b"bsr", b"dia", b"xyz"]
    members = {
        "format.npy": npy((), "|S3", choose.choice(forms)),
        "shape.npy": some(choose.choice([2, 2, 2, 1, 3])),
        "data.npy": whole([1, 1, 1], choose.choice(["<i8", "|u1", "<f8", "|b1"])),
        "indices.npy": some(3, "<i8", "<i4", "<f8"),
        "indptr.npy": some(4, "<i8", "<i4", "<f8"),
        "row.npy": some(3),
        "col.npy": some(3),
        "offsets.npy": some(1),
    }
    if choose.random() < 0.5:
        members[choose.choice([*members])] = array
    if choose.random() < 0.2:
        members = {choose.choice(["../x.npy", "/x.npy", "x", "x.npy", "a/b.npy"]): array}
    return archive(members)


def _model_lie(choose: random.Random, array: bytes) -> bytes:
    """A model with one thing of its header or one array replaced."""
    inside = members(choose.choice(models()))
    if choose.random() < 0.4:
        inside[choose.choice([*inside, "init.npy", "../x.npy"])] = array
        return archive(inside)
    start = inside["header.npy"].index(b"\n") + 1
    body = _with_a_lie(inside["header.npy"][start:], choose)
    inside["header.npy"] = npy((len(body),), "|u1", body)
    return archive(inside)


def _zarr_lie(choose: random.Random) -> bytes:
    """A folder whose description says something else, or that lacks a file."""
    inside = members(choose.choice(seeds("zarr")))
    if choose.random() < 0.2:
        del inside[choose.choice([*inside])]
        return archive(inside)
    name = next(name for name in ("zarr.json", ".zarray") if name in inside)
    inside[name] = _with_a_lie(inside[name], choose)
    return archive(inside)


def _with_a_lie(text: bytes, choose: random.Random) -> bytes:
    """JSON with one thing replaced."""
    place = header = json.loads(text)
    while True:
        keys = [*place] if isinstance(place, dict) else [*range(len(place))]
        key = choose.choice(keys)
        deeper = place[key]
        if isinstance(deeper, dict | list) and deeper and choose.random() < 0.8:
            place = deeper
            continue
        break
    wrong = [*HUGE, float("nan"), float("inf"), 10**400, "x", [[1]], -0.1, 0.7, 0.5]
    place[key] = choose.choice(wrong)
    return json.dumps(header).encode()


def mutated(data: bytes, choose: random.Random, others: list[bytes] | tuple[bytes, ...]) -> bytes:
    """A few small wounds."""
    out = bytearray(data)
    for _ in range(choose.choice([1, 1, 2, 4, 8])):
        at = choose.randrange(len(out) + 1)
        end = min(len(out), at + choose.choice([1, 1, 2, 8, 64]))
        how = choose.randrange(8)
        if how == 0 and at < len(out):
            out[at] ^= 1 << choose.randrange(8)
        elif how == 1:
            out[at:end] = choose.randbytes(end - at)
        elif how == 2:
            del out[at:end]
        elif how == 3:
            out[at:at] = out[at:end]
        elif how == 4:
            out[at:at] = choose.choice([b"\0", b"\xff" * 8, b"\n", b",", b"-", b"9" * 20, b"\xc3("])
        elif how == 5 and choose.random() < 0.3:
            del out[at:]
        elif how == 6:
            other = choose.choice(others)
            start = choose.randrange(len(other) + 1)
            out[at:end] = other[start : start + choose.choice([1, 8, 64, 999])]
        elif how == 7:  # numbers in headers are little-endian
            number = choose.choice([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1])
            width = choose.choice([2, 4, 8])
            out[at : at + width] = (number % (1 << (8 * width))).to_bytes(width, "little")
    return bytes(out)


def inputs(target: str, seed: int) -> Iterator[bytes]:
    """Without end; the same for the same seed."""
    choose = random.Random(f"{target} {seed}")
    valid = seeds(target)
    yield from valid
    while True:
        if target in ("input", "command"):
            yield choose.randbytes(8)
        elif choose.random() < 0.25:
            yield lie(target, choose)
        elif target == "zarr":  # in its files, not in the archive that we carry them in
            inside = members(choose.choice(valid))
            name = choose.choice([*inside])
            yield archive({**inside, name: mutated(inside[name], choose, [*inside.values()])})
        else:
            yield mutated(choose.choice(valid), choose, valid)


# --- the oracle -----------------------------------------------------------------------------


def agree(holds: bool, says: str) -> None:
    if not holds:
        raise Broken(says)


def put(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def attempt(target: str, data: bytes, folder: Path) -> str:
    """Run a target on an input: "value" or "refused"; anything else is raised."""
    with _peak() as peak, _deadline(), warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", BitmixWarning)
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        warnings.filterwarnings("ignore", module="PIL")
        warnings.filterwarnings("ignore", message="X (has|does not have valid) feature names")
        with np.errstate(all="raise", under="ignore"):  # what is too small to matter becomes 0
            try:
                TARGETS[target](data, folder)
                outcome = "value"
            except OURS as error:
                agree(bool(str(error)), "an error that says nothing")
                outcome = "refused"
            except ValueError as error:
                if not str(error).startswith(SCIKIT_LEARN):
                    raise
                outcome = "refused"
    allowed = TIMES_INPUT * len(data) + BYTES_MORE
    agree(peak() <= allowed, f"{peak():,} bytes of memory for {len(data):,} of input")
    if target != "command":
        agree(len([*folder.iterdir()]) <= 1, "a file left behind")
    return outcome


@contextlib.contextmanager
def _deadline() -> Iterator[None]:
    """Seconds of work, which do not depend on what else the machine does; and an end to waiting."""

    def late(*_: object) -> None:
        raise TooSlow(f"more than {SECONDS} seconds of work, or {WAITING} of waiting")

    limits = [
        (signal.SIGPROF, signal.ITIMER_PROF, SECONDS),
        (signal.SIGALRM, signal.ITIMER_REAL, WAITING),
    ]
    before = {number: signal.signal(number, late) for number, _, _ in limits}
    for _, timer, seconds in limits:
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for number, timer, _ in limits:
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])


@contextlib.contextmanager
def _peak() -> Iterator[Callable[[], int]]:
    """How much more memory was resident at the worst moment; 0 where the system does not tell."""
    grown = [0]
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    before = _resident("VmRSS")
    yield lambda: grown[0]
    grown[0] = _resident("VmHWM") - before


def _resident(what: str) -> int:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(x.split()[1]) for x in lines if x.startswith(what)), 0)


def campaign(
    target: str, tries: Iterable[bytes]
) -> tuple[Counter[str], dict[str, tuple[bytes, str]]]:
    """Counts of outcomes, and one input for each way in which a promise broke."""
    counts: Counter[str] = Counter()
    broken: dict[str, tuple[bytes, str]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "work"
        for data in tries:
            folder.mkdir()
            try:
                counts[attempt(target, data, folder)] += 1
            except (Exception, TooSlow) as error:
                counts["broken"] += 1
                place = traceback.extract_tb(error.__traceback__)[-1]
                key = f"{type(error).__name__} {Path(place.filename).name}:{place.lineno}"
                broken.setdefault(key, (data, traceback.format_exc()))
            shutil.rmtree(folder)
            if sum(counts.values()) % 200 == 0:
                gc.collect()
    return counts, broken


def main() -> int:
    """Each target in a process of its own, so that one that dies is seen and the others go on."""
    seconds = float(os.environ.get("FUZZ_SECONDS", "120"))
    seed = int(os.environ.get("FUZZ_SEED", str(int(time.time()))))
    wanted = os.environ.get("FUZZ_TARGETS", "").split() or [*TARGETS]
    if len(sys.argv) > 1:
        return _one(sys.argv[1], seed, seconds)
    bad, total = 0, 0
    print(f"seed {seed}, {seconds / len(wanted):.1f} seconds per target", flush=True)
    for target in wanted:
        share = {"FUZZ_SEED": str(seed), "FUZZ_SECONDS": str(seconds / len(wanted))}
        done = subprocess.run(
            [sys.executable, __file__, target], env={**os.environ, **share},
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        print(f"{target:12}{done.stdout.strip()}", flush=True)
        if done.returncode < 0:
            print(f"{target:12}died of signal {-done.returncode}")
        total += int(done.stdout.split()[0].replace(",", "")) if done.stdout else 0
        bad += done.returncode != 0
    print(f"{total:,} inputs, {bad} targets with broken promises")
    return int(bad > 0)


def _one(target: str, seed: int, seconds: float) -> int:
    import resource

    os.environ["BITMIX_KERNELS"] = "reference"  # small inputs; compiling takes longer than they do

    seeds(target)
    in_use = _resident("VmSize")
    if in_use:
        resource.setrlimit(resource.RLIMIT_AS, (in_use + ROOM, in_use + ROOM))
    end = time.monotonic() + seconds
    in_time = itertools.takewhile(lambda _: time.monotonic() < end, inputs(target, seed))
    counts, broken = campaign(target, in_time)
    told = ", ".join(f"{counts[name]:,} {name}" for name in ("value", "refused", "broken"))
    print(f"{sum(counts.values()):,} inputs: {told}")
    for key, (data, trace) in broken.items():
        name = hashlib.sha256(data).hexdigest()[:12]
        kept = Path(tempfile.gettempdir()) / f"bitmix-fuzz-{target}-{name}"
        kept.write_bytes(data)
        print(f"--- {key}, kept as {kept}\n{trace}", file=sys.stderr)
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
