"""Where operating systems differ: the branch that Linux takes, and the one that others take."""

import ast
import errno
import io
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from command import bitmix as run_bitmix

from bitmix import BitMatrix, TemplateMixture, system
from bitmix.support.atomic import atomic_write

SOURCE = Path(system.__file__).parent
NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def test_only_one_module_asks_for_the_system():
    """What some system lacks is used in `system` alone, and files of text name their encoding."""
    lacking = {
        "preadv", "pread", "posix_fadvise", "sched_getaffinity", "register_at_fork", "fork",
        "replace", "rename", "symlink", "link", "getuid", "geteuid", "chown", "killpg", "kill",
    }  # fmt: skip
    modules = {"fcntl", "msvcrt", "resource", "pwd", "grp", "termios", "tty", "pty", "signal"}
    for path in SOURCE.rglob("*.py"):
        if path.name == "system.py":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            where = f"{path}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert not (node.value.id == "os" and node.attr in lacking | {"name"}), where
                assert (node.value.id, node.attr) != ("sys", "platform"), where
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
                assert not names & modules, where
            if isinstance(node, ast.Call):
                called = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if called in ("read_text", "write_text", "TextIOWrapper"):
                    assert "encoding" in {word.arg for word in node.keywords}, where


@pytest.mark.parametrize("lacks", ["nothing", "preadv"])
def test_files_are_read_at_a_position(lacks, tmp_path, monkeypatch):
    if lacks != "nothing":
        monkeypatch.delattr(os, lacks, raising=False)
    path = tmp_path / "größe 名前.bin"
    path.write_bytes(b"\r\n\x1a" + bytes(range(256)))  # what a text mode would change
    handle, octets = system.open_to_read(path), bytearray(6)
    try:
        assert system.read_at(handle, memoryview(octets), 0, threading.Lock()) == 6
        assert bytes(octets) == b"\r\n\x1a\x00\x01\x02"
        assert system.read_at(handle, memoryview(octets), 257, threading.Lock()) == 2
        assert bytes(octets[:2]) == b"\xfe\xff"
    finally:
        os.close(handle)


def test_without_what_only_linux_has(tmp_path, monkeypatch):
    """Cores, threads after a fork, reading ahead, and glibc's memory: each may be missing."""
    X = BitMatrix.from_dense(np.random.default_rng(0).random((500, 70)) < 0.5)
    X.save(tmp_path / "x.bits")
    want = TemplateMixture(2, random_state=0).fit(X).means_
    for name in ("sched_getaffinity", "register_at_fork", "posix_fadvise", "preadv"):
        monkeypatch.delattr(os, name, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert system.cores() == 3
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert system.cores() == 1
    system.after_fork(pytest.fail)
    with monkeypatch.context() as another_library:
        another_library.setattr("ctypes.CDLL", lambda name: object())
        system.keep_freed_memory()
    stored = BitMatrix.open(tmp_path / "x.bits")
    assert np.array_equal(TemplateMixture(2, random_state=0).fit(stored).means_, want)


def on(monkeypatch, platform):
    """Have `system`, and nobody else, take this for the platform."""
    monkeypatch.setattr(system, "sys", SimpleNamespace(platform=platform))


class Windows:
    """`os.replace` as on Windows: refused, here so many times, while the old file is open."""

    def __init__(self, monkeypatch, refusals, seconds):
        self.calls, self.refusals, self.real = 0, refusals, os.replace
        on(monkeypatch, "win32")
        monkeypatch.setattr(os, "replace", self)
        monkeypatch.setattr(system, "_REPLACE_SECONDS", seconds)

    def __call__(self, source, target):
        self.calls += 1
        if self.calls <= self.refusals:
            raise PermissionError(errno.EACCES, "Access is denied", str(source))
        self.real(source, target)


def test_a_file_that_is_open_for_a_moment_is_replaced(tmp_path, monkeypatch):
    (tmp_path / "x").write_bytes(b"old")
    windows = Windows(monkeypatch, 2, seconds=60)
    with atomic_write(tmp_path / "x") as file:
        file.write(b"new")
    assert windows.calls == 3
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"x": b"new"}


def test_a_file_that_stays_open_is_named_with_a_remedy(tmp_path, monkeypatch):
    (tmp_path / "x").write_bytes(b"old")
    Windows(monkeypatch, 10**9, seconds=0.2)
    with (
        pytest.raises(PermissionError, match=r"open, here or .* close it .*x'$"),
        atomic_write(tmp_path / "x") as file,
    ):
        file.write(b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"x": b"old"}


@pytest.mark.parametrize("platform", ["linux", "win32", "darwin"])
def test_two_outputs_that_differ_in_case(platform, tmp_path, monkeypatch):
    (tmp_path / "rows.csv").write_text("a,b\n" + "0,1\n1,0\n" * 20)
    on(monkeypatch, platform)
    names = ("-o", "Out.model", "--report", "out.MODEL.html")
    same = ("-o", "out.html", "--report", "OUT.html")
    assert system.same_name(Path(names[1])) != system.same_name(Path(names[3]))
    paths = [Path(tmp_path / same[1]), Path(tmp_path / same[3])]
    assert (len({system.same_name(path) for path in paths}) == 2) == (platform == "linux")
    if platform != "linux":
        done = run_bitmix("fit", "rows.csv", "-k", "2", *same, cwd=tmp_path)
        assert (done.returncode, "is given twice" in done.stderr) == (2, True)
        assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]


@pytest.mark.parametrize("has", [("SIGTERM", "SIGHUP"), ("SIGTERM", "SIGBREAK")])
def test_signals_are_those_of_the_system(has, monkeypatch):
    taken = []
    for number, name in enumerate(("SIGTERM", "SIGHUP", "SIGBREAK")):
        monkeypatch.delattr(signal, name, raising=False)
        if name in has:
            monkeypatch.setattr(signal, name, number, raising=False)
    monkeypatch.setattr(signal, "signal", lambda number, handler: taken.append(number))
    system.end_on_signals(print)
    assert len(taken) == len(has)


def test_signals_are_left_alone_outside_the_main_thread():
    found = []

    def run():
        system.end_on_signals(pytest.fail)
        found.append("done")

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == ["done"]
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("encoding", ["cp1252", "cp932", "cp437"])
def test_consoles_without_utf_8(encoding, tmp_path):
    """Names, rules of tables and the paper's symbols are printed as far as the console can."""
    name = "größe 名前.csv"
    (tmp_path / name).write_bytes("größe,名前\r\n".encode() + b"0,1\r\n1,0\r\n" * 20)
    for command in (("fit", name, "-k", "2", "-o", "名 1.model"), ("inspect", name), ("demo",)):
        done = run_bitmix(*command, cwd=tmp_path, encoding=encoding)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "名 1.model").is_file()
    done = run_bitmix("fit", "名無し.csv", "-k", "2", cwd=tmp_path, encoding=encoding)
    printed = "名無し" if encoding == "cp932" else "???"
    assert (done.returncode, printed in done.stderr) == (2, True)


def test_streams_that_are_no_text_files_are_left_alone():
    system.print_anything(io.StringIO(), None)


def test_lines_that_end_as_on_windows_are_the_same_rows(tmp_path):
    table = b"id,a,b,c\nx,0,1,1\ny,1,0,0\nz,1,1,0\n" + b"w,0,0,1\n" * 10
    found = []
    for name, ends in (("unix.csv", b"\n"), ("windows.csv", b"\r\n")):
        (tmp_path / name).write_bytes(table.replace(b"\n", ends))
        run_bitmix("convert", name, "--id-column", "id", "-o", f"{name}.bits", cwd=tmp_path)
        found.append((tmp_path / f"{name}.bits").read_bytes())
    assert found[0] == found[1]


def test_no_file_is_opened_in_the_encoding_of_the_machine(tmp_path):
    """Python warns of each text file that is opened without an encoding of its own."""
    (tmp_path / "rows.csv").write_text("a,b\n" + "0,1\n1,0\n" * 20)
    code = (
        "import sys; from bitmix.__main__ import main\n"
        "import matplotlib, rich, sklearn, jinja2, bitmix.report\n"
        "import warnings; warnings.filterwarnings('error', category=EncodingWarning)\n"
        "main('fit rows.csv -k 2 -o my.model --report my.html'.split())"
    )
    done = subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", "-W", "ignore", "-c", code],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "BITMIX_KERNELS": "reference"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "my.html").is_file()


FIT = """
import sys, warnings, numpy as np
from bitmix import TemplateMixture
rows = np.random.default_rng(0).integers(0, 2, (300, 40))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model = TemplateMixture(3, noise_model="cell", random_state=0).fit(rows)
print(len([w for w in caught if w.category.__name__ == "CacheWarning"]))
print(model.means_.tobytes().hex()[:4000])
"""


def fit_elsewhere(python_path, as_nobody=False, **environment):
    """How many warnings of a fit with compiled kernels, in a process of its own, and its bits."""
    done = subprocess.run(
        [*(AS_NOBODY if as_nobody else []), sys.executable, "-B", "-c", FIT],
        capture_output=True, text=True, check=False, cwd=python_path,
        env={**os.environ, "PYTHONPATH": str(python_path), "BITMIX_KERNELS": "compiled",
             **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    warned, bits = done.stdout.splitlines()
    return int(warned), bits


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the package without compiled kernels, and the bits of a fit with NumPy."""
    pytest.importorskip("numba")
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(SOURCE, folder / "bitmix", ignore=shutil.ignore_patterns("__pycache__"))
    return folder, fit_elsewhere(folder, BITMIX_KERNELS="reference")[1]


@pytest.mark.system
def test_a_damaged_cache_of_kernels(copy, tmp_path):
    """One warning for all kernels; the same bits."""
    folder, want = copy
    kept = {"NUMBA_CACHE_DIR": str(tmp_path)}
    assert fit_elsewhere(folder, **kept) == (0, want)
    files = sorted(tmp_path.rglob("*.nb[ic]"))
    assert len(files) >= 40
    for number, path in enumerate(files):
        path.write_bytes((b"", b"not what numba wrote", path.read_bytes()[:100])[number % 3])
    assert fit_elsewhere(folder, **kept) == (1, want)


@pytest.mark.system
@pytest.mark.posix
@pytest.mark.parametrize("home", ["writable", "missing"])
def test_an_account_that_may_not_write_to_the_installation(copy, home, tmp_path_factory):
    """Kernels are kept in the account's own cache folder; if it has none, one warning is given."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can become somebody else")
    folder, want = copy
    place = tmp_path_factory.mktemp("home")
    own = place / home
    if home == "writable":
        own.mkdir()
        os.chown(own, NOBODY, NOBODY)
    for entry in (folder, own, *folder.parents, *own.parents):
        if entry.exists():
            entry.chmod(entry.stat().st_mode | 0o055 if entry != own else 0o700)
    account = {"HOME": str(own), "XDG_CACHE_HOME": str(own / "cache")}
    if subprocess.run([*AS_NOBODY, sys.executable, "-c", "import numba"], check=False).returncode:
        pytest.skip("others may not run this Python")
    expected = (0, want) if home == "writable" else (1, want)
    assert fit_elsewhere(folder, as_nobody=True, **account) == expected
    assert not list((folder / "bitmix").rglob("*.nbi"))
    assert bool(list(own.rglob("*.nbi"))) == (home == "writable")
