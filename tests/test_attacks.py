"""Files as an attacker would send them, and links where files are written."""

import io
import pickle
import struct
import tracemalloc
import zipfile

import fuzz
import numpy as np
import pytest
from typer.testing import CliRunner

from bitmix import BitMatrix, TwoRoundEM
from bitmix.cli import app
from bitmix.errors import FileFormatError, InputError
from bitmix.estimators.load import load_model
from bitmix.rows.files import open_table

LITTLE = 4 << 20  # bytes: far less than any of these files claims to need


def refused(read, *errors):
    """The error, after which next to nothing has been allocated."""
    tracemalloc.start()
    try:
        with pytest.raises(errors or FileFormatError) as found:
            read()
        assert tracemalloc.get_traced_memory()[1] < LITTLE
    finally:
        tracemalloc.stop()
    return str(found.value)


class Evil:
    def __reduce__(self):
        return (pytest.fail, ("loading ran code",))


def test_pickles_are_never_loaded(tmp_path):
    objects = io.BytesIO()
    np.save(objects, np.array([Evil()], dtype=object), allow_pickle=True)
    members = {"x.npy": objects.getvalue()}
    for name, data in {
        "a.npz": fuzz.archive(members), "a.npy": objects.getvalue(), "b.npy": pickle.dumps(Evil()),
        "c.npz": fuzz.archive({f"{part}.npy": objects.getvalue() for part in
                               ("format", "shape", "data", "indices", "indptr")}),
    }.items():  # fmt: skip
        path = fuzz.put(tmp_path / name, data)
        refused(lambda path=path: open_table(path).read(), FileFormatError, InputError)
    for member in ("header", "means", "extra"):
        with zipfile.ZipFile(io.BytesIO(fuzz.models()[0])) as file:
            whole = {name: file.read(name) for name in file.namelist()}
        path = fuzz.put(tmp_path / "m", fuzz.archive({**whole, f"{member}.npy": members["x.npy"]}))
        assert "plain arrays only" in refused(lambda path=path: load_model(path))


@pytest.mark.parametrize(("m", "n"), [(2**48, 2**48), (2**61, 64), (2**58 + 1, 1), (3, 2**63)])
def test_packed_shapes_that_overflow(tmp_path, m, n):
    """In 64 bits m·words·8 of these would wrap round, some to less than the file has."""
    header = {"format": "bits", "version": 1, "rows": m, "columns": n}
    path = fuzz.put(tmp_path / "x.bits", fuzz.packed(header, bytes(8)))
    refused(lambda: BitMatrix.open(path))
    refused(lambda: open_table(path))


@pytest.mark.parametrize("version", [0, 4, 1.5, True, "1", None, [1], 10**30])
def test_unknown_versions(tmp_path, version):
    header = {"format": "bits", "version": version, "rows": 1, "columns": 1}
    path = fuzz.put(tmp_path / "x.bits", fuzz.packed(header, bytes(8)))
    refused(lambda: BitMatrix.open(path))


def layout_of(missing, weight_one, words):
    """One row of 70 columns in a packed file of version 2."""
    header = {"format": "bits", "version": 2, "rows": 1, "columns": 70}
    header |= {"missing": missing, "weight_one": weight_one}
    return fuzz.packed(header, np.array(words, dtype="<u8").tobytes())


@pytest.mark.parametrize(
    ("missing", "weight_one", "words", "says"),
    [
        (True, 0, [1, 0, 0, 1], "bits of missing cells are set"),
        (True, 0, [0, 0, 0, 1 << 6], "past its last column"),
        (False, 1, [0, 0, 0], "weights of its rows make no sense"),
        (False, 1, [0, 0, 2**32], "weights of its rows make no sense"),
        (False, 1, [0, 0, 2**64 - 1], "weights of its rows make no sense"),
        ("yes", 0, [0, 0], "header cannot be read"),
        (False, -1, [0, 0, 1], "header cannot be read"),
        (False, True, [0, 0, 1], "header cannot be read"),
        (True, 1, [0, 0, 0, 0], "should be"),
    ],
)
def test_layouts_that_no_writer_writes(tmp_path, missing, weight_one, words, says):
    path = fuzz.put(tmp_path / "x.bits", layout_of(missing, weight_one, words))
    assert says in refused(lambda: BitMatrix.open(path))


def test_weights_that_the_integer_sums_have_no_room_for(tmp_path):
    """Each weight for itself is possible."""
    row = np.array([0, 0, 2**31], dtype="<u8").tobytes()
    header = {"format": "bits", "version": 2, "rows": 2, "columns": 70, "weight_one": 1}
    X = BitMatrix.open(fuzz.put(tmp_path / "x.bits", fuzz.packed(header, 2 * row)))
    assert "have no room for the weights" in refused(lambda: X.total_weight, InputError)


def test_version_1_has_no_layouts(tmp_path):
    header = {"format": "bits", "version": 1, "rows": 1, "columns": 70, "missing": True}
    path = fuzz.put(tmp_path / "x.bits", fuzz.packed({**header, "weight_one": 9}, bytes(16)))
    X = BitMatrix.open(path)
    assert X.shape == (1, 70)
    assert X.total_weight == 1
    assert not X.to_dense().any()


def lying_sizes(data, claim):
    """A zip whose directory claims that every member is `claim` bytes, packed and not."""
    out, at = bytearray(data), 0
    while (at := out.find(b"PK\x01\x02", at)) >= 0:
        out[at + 20 : at + 28] = struct.pack("<II", claim, claim)
        at += 4
    return bytes(out)


def test_zip_bombs(tmp_path):
    """A member that unpacks to a thousand times its size, and directories that lie about sizes."""
    bomb = fuzz.npy((1 << 26,), "|u1", bytes(1 << 26))
    path = fuzz.put(tmp_path / "model", fuzz.archive({"header.npy": bomb}))
    assert "claim to hold" in refused(lambda: load_model(path))
    path = fuzz.put(tmp_path / "model", lying_sizes(fuzz.models()[0], 2**31))
    assert "claim to hold" in refused(lambda: load_model(path))
    data = fuzz.archive({"x.npy": fuzz.npy((2**30, 2), "|u1", bytes(64))})
    path = fuzz.put(tmp_path / "x.npz", lying_sizes(data, 2**31))
    assert "claim to hold" in refused(lambda: open_table(path).read())


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "C:\\x", "..\\x"])
def test_names_that_climb_write_nothing(tmp_path, name):
    """Members are read by name and never written out: such a name is only a strange name."""
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    array = fuzz.npy((2, 2), "|u1", bytes(4))
    table = fuzz.put(folder / "x.npz", fuzz.archive({f"{name}.npy": array}))
    assert open_table(table).read().shape == (2, 2)
    with zipfile.ZipFile(io.BytesIO(fuzz.models()[0])) as file:
        whole = {member: file.read(member) for member in file.namelist()}
    model = fuzz.put(folder / "model", fuzz.archive({**whole, f"{name}.npy": array}))
    assert load_model(model).n_components == 2
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a", "b", "model", "x.npz"]


# --- links where we write -------------------------------------------------------------------


@pytest.fixture
def link(tmp_path):
    """A link, and the file it points to."""
    (tmp_path / "elsewhere").mkdir()
    target = fuzz.put(tmp_path / "elsewhere" / "precious", b"keep me")
    (tmp_path / "out").symlink_to(target)
    return tmp_path / "out", target


@pytest.mark.posix
def test_a_link_is_replaced_by_the_file(link):
    """What it pointed to stays as it was."""
    path, target = link
    model = TwoRoundEM(2, n_seeds=4, random_state=0).fit(fuzz.small())
    for write in (BitMatrix.from_dense(np.eye(3)).save, model.save):
        path.unlink()
        path.symlink_to(target)
        write(path)
        assert not path.is_symlink()
        assert target.read_bytes() == b"keep me"


@pytest.mark.posix
def test_the_command_line_spares_a_link_even_to_nothing(link, tmp_path):
    path, target = link
    out = path.rename(tmp_path / "out.bits")
    table = fuzz.put(tmp_path / "x.csv", b"1,0\n0,1\n")
    out.unlink()
    out.symlink_to(target.with_name("absent"))
    done = CliRunner().invoke(app, ["convert", str(table), "-o", str(out)])
    assert "already exists" in str(done.exception)
    assert out.is_symlink()
    done = CliRunner().invoke(app, ["convert", str(table), "-o", str(out), "--force"])
    assert done.exit_code == 0, done.exception
    assert not out.is_symlink()
    assert [p.name for p in target.parent.iterdir()] == ["precious"]
