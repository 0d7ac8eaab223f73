"""SIGKILL at random moments: afterwards the old file or the whole new one, and the same bits.

    python benchmarks/kills.py [KILLS]      default 200, shared among five kinds of work

Every kill is of a forked process that does nothing but the work, at a moment drawn from the time
that the work takes. Left behind may be one hidden temporary file, which nobody reads. A fit with a
checkpoint and `reproduce` go on from where they were killed; the latter's store must not get less.
"""

import contextlib
import hashlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from bitmix import BitMatrix, TwoRoundEM

FORKING = """
import os, sys
from bitmix import BitMatrix, TwoRoundEM
folder = sys.argv[1]
{before}
def work():
{work}
def ended():
    try:
        work()
    except SystemExit as stop:
        return stop.code or 0
    return 0
ended()  # what is compiled is compiled before the fork
print("ready", flush=True)
for line in sys.stdin:
    if line == "begin\\n":
        child = os.fork()
        if child == 0:
            os._exit(ended())
        print(child, flush=True)
    else:
        print(os.waitpid(child, 0)[1], flush=True)
"""
COMMAND = "from bitmix.__main__ import main; os.chdir(folder)\n"
WORK = {
    "convert": (
        "rows.bits",
        COMMAND
        + "sys.argv = ['bitmix', 'convert', 'rows.csv', '-o', 'rows.bits', '--force', '--quiet']\n",
        "main()",
    ),
    "predict": (
        "labels.csv",
        COMMAND
        + "sys.argv = ['bitmix', 'predict', 'model', 'rows.csv', '-o', 'labels.csv', '--force', "
        "'--quiet']\n",
        "main()",
    ),
    "save": (
        "saved.bits",
        "X = BitMatrix.open(folder + '/source.bits', in_memory=True)\n",
        "for _ in range(20): X.save(folder + '/saved.bits')",
    ),
    "fit --checkpoint": (
        "model",
        "from bitmix.em import checkpoint; checkpoint._SECONDS = checkpoint._WORTH = 0\n"
        "X = BitMatrix.open(folder + '/source.bits')\n",
        "TwoRoundEM(3, rounds=12, n_init=4, random_state=0)"
        ".fit(X, checkpoint=folder + '/checkpoint').save(folder + '/model')",
    ),
    "reproduce": (
        "fig6.csv",
        COMMAND
        + "sys.argv = ['bitmix', 'reproduce', 'fig6', '--quick', '--runs', '9', '--out', '.']\n"
        "import contextlib, io\n"
        "from bitmix.experiments import fig6_examples as fig6, runner, tasks\n"
        "fig6.METHODS, fig6.QUICK_EXAMPLES = fig6.METHODS[:1], fig6.QUICK_EXAMPLES[:2]\n"
        "fig6.draw = lambda figure, rows: None\n"  # which takes longer than the runs
        # in the process that is killed, not in workers, which hold nothing and take long to start
        "runner.Workers._run = lambda self, cell: (tasks.run(cell), 0.0)\n",
        "with contextlib.redirect_stdout(io.StringIO()): main()",
    ),
}
STORES = ("checkpoint", "results.sqlite")  # and what SQLite keeps beside it
OLD = b"what was there before"


@dataclass
class Count:
    """What became of the processes of one kind of work."""

    killed: int = 0
    ended: int = 0
    """Before the kill came."""
    old: int = 0
    new: int = 0
    """Which file was there after a kill."""
    left: int = 0
    """Temporary files that were left."""
    wrong: int = 0


def prepare(folder: Path, m: int) -> None:
    """The rows, as text and packed, and a model of them."""
    bits = (np.random.default_rng(0).random((m, 128)) < 0.4).astype(np.uint8)
    X = BitMatrix.from_dense(bits)
    X.save(folder / "source.bits")
    lines = b"\n".join(b",".join(b"01"[b : b + 1] for b in row) for row in bits[: m // 4].tolist())
    (folder / "rows.csv").write_bytes(lines + b"\n")
    TwoRoundEM(3, random_state=0).fit(X).save(folder / "model")


class Workers:
    """A process that has all it needs loaded, and forks one that does the work, when told."""

    def __init__(self, kind: str, folder: Path) -> None:
        code = FORKING.format(before=WORK[kind][1], work=textwrap.indent(WORK[kind][2], " " * 4))
        self._parent = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", code, str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._told() == "ready", kind

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._parent.kill()
        self._parent.communicate()

    def begin(self) -> int:
        """Its process id."""
        return int(self._say("begin"))

    def end(self) -> int:
        """Wait for it. 0, or the signal it died of."""
        return int(self._say("end"))

    def _say(self, word: str) -> str:
        assert self._parent.stdin is not None
        self._parent.stdin.write(word + "\n")
        self._parent.stdin.flush()
        return self._told()

    def _told(self) -> str:
        assert self._parent.stdout is not None
        return self._parent.stdout.readline().strip()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def forget(folder: Path) -> None:
    """Begin anew."""
    for name in STORES:
        for path in folder.glob(f"{name}*"):
            path.unlink()


def stored(folder: Path) -> set[tuple[str, str]]:
    """The runs that `reproduce` has finished, and what they found."""
    path = folder / "results.sqlite"
    if not path.exists():
        return set()
    with contextlib.closing(sqlite3.connect(path)) as store:
        if not store.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return set()  # killed while it was begun
        return set(store.execute("SELECT key, result FROM cells"))


def kill_at_random(kind: str, folder: Path, kills: int, seed: int) -> Count:
    """Kill the work again and again, and look at what is there each time."""
    count, choose = Count(), random.Random(f"{kind} {seed}")
    output, seen = folder / WORK[kind][0], stored(folder)
    with Workers(kind, folder) as workers:
        forget(folder)
        start = time.perf_counter()
        workers.begin()
        assert workers.end() == 0, kind
        want, seconds = digest(output), time.perf_counter() - start
        forget(folder)
        there = {path.name for path in folder.iterdir()}
        while count.killed < kills and count.ended < 20 * kills:
            output.write_bytes(OLD)
            process = workers.begin()
            time.sleep(choose.uniform(0, seconds))
            os.kill(process, signal.SIGKILL)  # no other has its number before `end`
            status = workers.end()
            if status != signal.SIGKILL:
                count.ended += 1
                count.wrong += status != 0 or digest(output) != want
                forget(folder)
                seen = set()
                continue
            count.killed += 1
            is_old, is_new = output.read_bytes() == OLD, digest(output) == want
            count.old += is_old
            count.new += is_new
            count.wrong += not (is_old or is_new)
            count.wrong += not seen <= stored(folder)
            seen = stored(folder)
            for path in [path for path in folder.iterdir() if path.name not in there]:
                if path.name.startswith(STORES):
                    continue
                count.left += 1
                count.wrong += not path.name.startswith(".")
                path.unlink()
        workers.begin()  # what was begun is brought to its end
        count.wrong += workers.end() != 0 or digest(output) != want
    print(
        f"{kind:18}{count.killed:4} killed, {count.ended} ended first; then the old file "
        f"{count.old}, the new one {count.new}; {count.left} temporary files; {count.wrong} wrong"
    )
    return count


def main() -> int:
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    counts = []
    for kind in WORK:
        with tempfile.TemporaryDirectory() as name:
            prepare(Path(name), 40_000)
            counts.append(kill_at_random(kind, Path(name), -(-kills // len(WORK)), os.getpid()))
    wrong = sum(count.wrong for count in counts)
    print(f"{sum(count.killed for count in counts)} kills, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
