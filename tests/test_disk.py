"""Disks that are full, fail or are shared: a clear error and exit code 2, and nothing half-written.

Small disks are made in a mount namespace of their own, which takes no rights where the system
allows that; elsewhere these tests are skipped.
"""

import errno
import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from bitmix import BitMatrix, TemplateMixture
from bitmix.rows import bitfile
from bitmix.support.atomic import atomic_write

NOBODY = 65534
ROOT = Path(__file__).parents[1]

INSIDE = """
import os, subprocess, sys
import json
from pathlib import Path
import numpy, pandas, scipy.sparse, sklearn  # once, for all who are forked
from bitmix.__main__ import main
size, disk = sys.argv[1], Path(sys.argv[2])
subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={{size}}", "tmpfs", disk], check=True)
os.chdir(disk.parent)

def run(*arguments, before=""):
    child = os.fork()
    if child == 0:
        sys.argv = ["bitmix", *arguments]
        for number, name in ((1, "out"), (2, "said")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        code = 0
        try:
            exec(before)
            main()
        except SystemExit as end:
            code = end.code or 0
        finally:
            sys.stdout.flush()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {{"code": code, "out": Path("out").read_text(), "said": Path("said").read_text()}}

def files():
    return {{path.name: path.read_bytes().hex() for path in sorted(disk.iterdir())}}

def leave(room):
    with open(disk / "filler", "wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)): pass
        except OSError: pass
        file.truncate(file.tell() // 4096 * 4096 - room)

{scenario}
print(json.dumps(answer))
"""


def small_disk(tmp_path, size, scenario):
    """Run a scenario where `disk`, a folder, has room for so many bytes; its `answer`."""
    disk = tmp_path / "disk"
    disk.mkdir(exist_ok=True)
    code = INSIDE.format(scenario=textwrap.dedent(scenario))
    command = ["unshare", "--map-root-user", "--mount", sys.executable, "-c", code]
    done = subprocess.run(
        [*command, str(size), str(disk)], capture_output=True, text=True,
        env={**os.environ, "BITMIX_KERNELS": "reference"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def may_mount(tmp_path_factory):
    if shutil.which("unshare") is None:
        return False
    command = ["unshare", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "tmpfs"]
    done = subprocess.run([*command, tmp_path_factory.mktemp("try")], capture_output=True)
    return done.returncode == 0


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with rows, and a model of them, beside which a small disk may be mounted."""
    if not may_mount(tmp_path_factory):
        pytest.skip("no file system may be mounted here")
    folder = tmp_path_factory.mktemp("place")
    bits = (np.random.default_rng(0).random((2000, 100)) < 0.1).astype(np.uint8)
    bits[::2, :50] ^= 1
    np.savetxt(folder / "rows.csv", bits, fmt="%d", delimiter=",")
    X = BitMatrix.from_dense(bits)
    X.save(folder / "rows.bits")
    TemplateMixture(2, n_init=1, random_state=0).fit(X).save(folder / "my.model")
    return folder


COMMANDS = {
    "x.bits": "convert rows.csv -o disk/x.bits --force",
    "x.csv": "predict my.model rows.bits -o disk/x.csv --force",
    "x.npy": "predict my.model rows.bits -o disk/x.npy --force",
    "x.parquet": "predict my.model rows.bits -o disk/x.parquet --force",
    "x.model": "fit rows.bits -k 2 --starts 1 -o disk/x.model --force",
    "x.html": "fit rows.bits -k 2 --starts 1 --report disk/x.html --force",
}


@pytest.mark.posix
@pytest.mark.system
def test_a_full_disk_keeps_the_old_file(place):
    """There is room for the old file, and for the first bytes of the new one."""
    found = small_disk(
        place, 32768,
        f"""
        answer = {{}}
        for name, command in {COMMANDS!r}.items():
            (disk / name).write_text("old")
            leave(4096)
            answer[name] = run(*command.split())
            answer[name]["files"] = files()
            for path in disk.iterdir():
                path.unlink()
        """,
    )  # fmt: skip
    assert found.keys() == COMMANDS.keys()
    for name, end in found.items():
        assert end["code"] == 2, end
        assert end["said"] == f"bitmix: [Errno 28] No space left on device: 'disk/{name}'\n"
        assert end["files"].pop("filler")
        assert end["files"] == {name: b"old".hex()}


@pytest.mark.posix
@pytest.mark.system
def test_the_reproduction_on_a_full_disk(place, monkeypatch):
    """The old figure stays, as do finished runs; more are stored once there is room."""
    pytest.importorskip("reproduction", reason="a source package does not hold it")
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    found = small_disk(
        place, 65536,
        """
        from reproduction.runs import Run
        from reproduction.store import Store

        runs = [Run("least", {"n": 100}, {}, seed) for seed in range(2000)]
        answer = {"put": 0}
        try:
            with Store(disk / "results.sqlite") as store:
                for one in runs:
                    store.put(one, {"value": one.seed}, 0.5)
                    answer["put"] += 1
        except OSError as error:
            answer["store"] = str(error)
        (disk / "fig1.csv").write_text("old")
        leave(0)
        program = "global main; from reproduction.__main__ import main"
        answer["figure"] = run("fig1", "--out", "disk", "--jobs", "1", before=program)
        (disk / "filler").unlink()
        answer["files"] = sorted(path.name for path in disk.iterdir())
        answer["old"] = (disk / "fig1.csv").read_text()
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        with Store(disk / "results.sqlite") as store:
            answer["kept"] = len(store)
            for one in runs:
                store.put(one, {"value": one.seed}, 0.5)
            answer["wrong"] = sum(store.get(one) != {"value": one.seed} for one in runs)
            answer["all"] = len(store)
        """,
    )  # fmt: skip
    assert 0 < found["put"] < 2000
    assert "or the disk full?" in found["store"]
    assert found["figure"]["code"] == 2, found
    assert "Traceback" not in found["figure"]["said"]
    assert "disk/" in found["figure"]["said"]
    assert found["old"] == "old"
    assert not [name for name in found["files"] if name.startswith(".")]
    assert (found["kept"], found["wrong"], found["all"]) == (found["put"], 0, 2000)


WRITING = """
import sys
from bitmix import BitMatrix
import numpy as np
path, value = sys.argv[1], int(sys.argv[2])
X = BitMatrix.from_dense(np.full((500, 700), value, dtype=np.uint8))
print("ready", flush=True)
sys.stdin.readline()
for _ in range(100):
    X.save(path)
"""


@pytest.mark.posix
@pytest.mark.system
def test_two_processes_save_to_one_path(tmp_path):
    """Whoever reads meanwhile sees all that one of them wrote, and none is left half-written."""
    path = tmp_path / "x.bits"
    BitMatrix.from_dense(np.zeros((500, 700), dtype=np.uint8)).save(path)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITING, path, str(value)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for value in (0, 1)
    ]
    assert [writer.stdout.readline() for writer in writers] == ["ready\n"] * 2
    for writer in writers:
        writer.stdin.write("begin\n")
        writer.stdin.flush()
    reads = 0
    while any(writer.poll() is None for writer in writers):
        ones = int(BitMatrix.open(path, in_memory=True).to_dense().sum())
        assert ones in (0, 500 * 700)
        reads += 1
    assert reads > 0
    for writer in writers:
        writer.communicate()
    assert [writer.returncode for writer in writers] == [0, 0]
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.bits"]


@pytest.mark.posix
@pytest.mark.parametrize("when", ["before", "midway"])
def test_a_folder_that_may_no_longer_be_written_to(when, tmp_path):
    """Rights do not bind root, so the work is done by nobody in particular."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "x.bits").write_bytes(b"old")
    os.chown(folder, NOBODY, NOBODY)
    for entry in (tmp_path, *tmp_path.parents):
        if not os.stat(entry).st_mode & 0o001:
            os.chmod(entry, os.stat(entry).st_mode | 0o011)
    child = os.fork()
    if child == 0:
        code = 0
        try:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            if when == "before":
                os.chmod(folder, 0o500)
            with bitfile.writing(folder / "x.bits", 64) as writer:
                writer.append(np.ones((9, 1), dtype=np.uint64))
                os.chmod(folder, 0o500)
        except PermissionError as error:
            code = 3 if "x.bits" in str(error) else 4
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    os.chmod(folder, 0o700)
    assert (folder / "x.bits").read_bytes() == b"old"


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_no_other(call, tmp_path, monkeypatch):
    def fails(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    X = BitMatrix.from_dense(np.eye(9, dtype=np.uint8))
    X.save(tmp_path / "x.bits")
    monkeypatch.setattr(os, call, fails)
    with pytest.raises(OSError, match=r"Input/output error: '.*x\.bits'"):
        BitMatrix.from_dense(np.ones((9, 9), dtype=np.uint8)).save(tmp_path / "x.bits")
    monkeypatch.undo()
    assert BitMatrix.open(tmp_path / "x.bits") == X
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.bits"]


def test_ctrl_c_as_soon_as_there_is_a_file_leaves_none(tmp_path, monkeypatch):
    def opens_and_is_interrupted(path, mode):
        open(path, mode).close()
        assert len(list(tmp_path.iterdir())) == 1
        raise KeyboardInterrupt

    monkeypatch.setattr("bitmix.support.atomic.open", opens_and_is_interrupted, raising=False)
    with pytest.raises(KeyboardInterrupt), atomic_write(tmp_path / "x.bits"):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.posix
@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_file_has_the_rights_that_new_files_have(mask, tmp_path):
    before = os.umask(mask)
    try:
        BitMatrix.from_dense(np.eye(9, dtype=np.uint8)).save(tmp_path / "x.bits")
    finally:
        os.umask(before)
    assert (tmp_path / "x.bits").stat().st_mode & 0o777 == 0o666 & ~mask


@pytest.mark.parametrize("call", ["open", "replace"])
def test_an_error_names_the_file_that_was_asked_for(call, tmp_path, monkeypatch):
    def denied(path, *_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    place = ("bitmix.support.atomic.open", denied) if call == "open" else (os, "replace", denied)
    monkeypatch.setattr(*place, raising=False)
    with pytest.raises(PermissionError) as caught, atomic_write(tmp_path / "x.bits"):
        pass
    assert caught.value.filename == str(tmp_path / "x.bits")
    assert not list(tmp_path.iterdir())
