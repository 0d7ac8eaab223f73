"""Disks that are full, fail or are shared: a clear error and exit code 2, and nothing half-written.

Small disks are made in a mount namespace of their own, which takes no rights where the system
allows that; elsewhere these tests are skipped.
"""

import json
import os
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from bitmix import BitMatrix, TemplateMixture

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


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("x.bits", "convert rows.csv -o disk/x.bits --force"),
        ("x.csv", "predict my.model rows.bits -o disk/x.csv --force"),
        ("x.npy", "predict my.model rows.bits -o disk/x.npy --force"),
        ("x.parquet", "predict my.model rows.bits -o disk/x.parquet --force"),
        ("x.model", "fit rows.bits -k 2 --starts 1 -o disk/x.model --force"),
        ("x.html", "fit rows.bits -k 2 --starts 1 --report disk/x.html --force"),
    ],
)
def test_a_full_disk_keeps_the_old_file(place, name, command):
    """Room for the old file, and for the first bytes of the new one."""
    found = small_disk(
        place, 32768,
        f"""
        (disk / {name!r}).write_text("old")
        leave(4096)
        answer = run(*{command.split()!r})
        answer["files"] = files()
        """,
    )  # fmt: skip
    assert found["code"] == 2, found
    assert found["said"] == f"bitmix: [Errno 28] No space left on device: 'disk/{name}'\n"
    assert found["files"].pop("filler")
    assert found["files"] == {name: b"old".hex()}


def test_a_checkpoint_on_a_full_disk(place):
    """One that cannot be begun is not left; one that was begun serves when there is room."""
    found = small_disk(
        place, 16384,
        """
        every = "from bitmix.em import checkpoint as c; c._WORTH = c._SECONDS = 0;"
        fit = ["fit", "rows.bits", "-k", "2", "--method", "two-round", "--json"]
        answer = {}
        leave(0)
        answer["none"] = run(*fit, "--checkpoint", "disk/c", before=every)
        answer["then"] = [path.name for path in disk.iterdir()]
        leave(8192)
        answer["some"] = run(*fit, "--checkpoint", "disk/c", before=every)
        (disk / "filler").unlink()
        subprocess.run(["mount", "-o", "remount,size=4m", disk], check=True)
        answer["kept"] = (disk / "c").stat().st_size
        answer["room"] = run(*fit, "--checkpoint", "disk/c", before=every)
        answer["calm"] = run(*fit)
        """,
    )  # fmt: skip
    for end in (found["none"], found["some"]):
        assert end["code"] == 2, end
        assert end["said"] == "bitmix: [Errno 28] No space left on device: 'disk/c'\n"
    assert found["then"] == ["filler"]
    assert found["kept"] > 4096
    assert found["room"]["code"] == 0, found
    assert found["room"]["out"] == found["calm"]["out"]


def test_reproduce_on_a_full_disk(place):
    """The old figure stays; runs that were finished are kept, and more come when there is room."""
    found = small_disk(
        place, 65536,
        """
        from bitmix.experiments.cells import Cell
        from bitmix.experiments.store import Store

        cells = [Cell("least", {"n": 100}, {}, seed) for seed in range(2000)]
        answer = {"put": 0}
        try:
            with Store(disk / "results.sqlite") as store:
                for cell in cells:
                    store.put(cell, {"value": cell.seed}, 0.5)
                    answer["put"] += 1
        except OSError as error:
            answer["store"] = str(error)
        (disk / "fig1.csv").write_text("old")
        leave(0)
        answer["figure"] = run("reproduce", "fig1", "--out", "disk", "--jobs", "1")
        (disk / "filler").unlink()
        answer["files"] = sorted(path.name for path in disk.iterdir())
        answer["old"] = (disk / "fig1.csv").read_text()
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        with Store(disk / "results.sqlite") as store:
            answer["kept"] = len(store)
            for cell in cells:
                store.put(cell, {"value": cell.seed}, 0.5)
            answer["wrong"] = sum(store.get(cell) != {"value": cell.seed} for cell in cells)
            answer["all"] = len(store)
        """,
    )  # fmt: skip
    assert 0 < found["put"] < 2000
    assert "is the disk full?" in found["store"]
    assert found["figure"]["code"] == 2, found
    assert "Traceback" not in found["figure"]["said"]
    assert "disk/" in found["figure"]["said"]
    assert found["old"] == "old"
    assert not [name for name in found["files"] if name.startswith(".")]
    assert (found["kept"], found["wrong"], found["all"]) == (found["put"], 0, 2000)
