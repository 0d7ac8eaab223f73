"""SIGKILL at random moments: afterwards the old file is there, or the complete new one.

    python tests/kills.py [KILLS]      default 200, divided among five kinds of work

A parent process imports and compiles everything, then forks a child for each repetition. The child
is killed at a random moment of the time that the work takes. It may leave one hidden temporary file
behind, which nobody reads. The reproduction of the paper continues where it was killed, and its
store must never lose a run. `test_kills.py` has a few kills of each kind.
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
from typing import NamedTuple, Self

import numpy as np

from bitmix import BitMatrix, TwoRoundEM

ROOT = Path(__file__).parents[1]
PARENT = """
import contextlib, io, os, sys
from bitmix import BitMatrix
os.chdir(sys.argv[1])
{before}
def work():
    with contextlib.redirect_stdout(io.StringIO()):
{work}
def exit_code():
    try:
        work()
    except SystemExit as stop:
        return stop.code or 0
    return 0
exit_code()  # everything is imported and compiled before the fork
print("ready", flush=True)
for line in sys.stdin:
    if line == "begin\\n":
        child = os.fork()
        if child == 0:
            os._exit(exit_code())
        print(child, flush=True)
    else:
        print(os.waitpid(child, 0)[1], flush=True)
"""


class Work(NamedTuple):
    """The file that is written, and the code before the fork and after it."""

    output: str
    before: str
    code: str


def command(output: str, *arguments: str) -> Work:
    """A bitmix command that writes `output`."""
    before = f"from bitmix.__main__ import main\nsys.argv = {['bitmix', *arguments, '--force']!r}"
    return Work(output, before, "main()")


WORK = {
    "convert": command("rows.bits", "convert", "rows.csv", "-o", "rows.bits", "--quiet"),
    "fit": command("fitted", "fit", "rows.csv", "-k", "3", "-o", "fitted"),
    "predict": command("labels.csv", "predict", "model", "rows.csv", "-o", "labels.csv", "--quiet"),
    "save": Work(
        "saved.bits",
        "X = BitMatrix.open('source.bits', in_memory=True)",
        "for _ in range(20): X.save('saved.bits')",
    ),
}
if (ROOT / "reproduction").is_dir():
    WORK["reproduction"] = Work(
        "fig6.csv",
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from reproduction import fig6_examples as fig6, runner, tasks\n"
        "from reproduction.__main__ import run\n"
        "fig6.METHODS, fig6.QUICK_EXAMPLES = fig6.METHODS[:1], fig6.QUICK_EXAMPLES[:2]\n"
        "fig6.draw = lambda figure, rows: None\n"  # drawing would take longer than the runs
        # runs are executed by the process that is killed: workers write nothing, and start slowly
        "runner.Workers._execute = lambda self, run: (tasks.execute(run), 0.0)",
        "run(['fig6', '--quick', '--runs', '9', '--out', '.'])",
    )
STORE = "results.sqlite"  # and the files that SQLite has beside it
OLD = b"what was there before"


@dataclass
class Count:
    """How often each outcome was seen for one kind of work."""

    killed: int = 0
    ended: int = 0
    """The work ended before the kill."""
    old: int = 0
    new: int = 0
    """Which file was there after a kill."""
    temporary: int = 0
    """Temporary files that were left behind."""
    wrong: int = 0


def prepare(folder: Path, m: int) -> None:
    """Write rows, as text and packed, and a model of them."""
    bits = (np.random.default_rng(0).random((m, 128)) < 0.4).astype(np.uint8)
    X = BitMatrix.from_dense(bits)
    X.save(folder / "source.bits")
    lines = b"\n".join(b",".join(b"01"[b : b + 1] for b in row) for row in bits[: m // 4].tolist())
    (folder / "rows.csv").write_bytes(lines + b"\n")
    TwoRoundEM(3, random_state=0).fit(X).save(folder / "model")


class Forker:
    """A parent process that forks a child for the work whenever it is asked to."""

    def __init__(self, work: Work, folder: Path) -> None:
        code = PARENT.format(before=work.before, work=textwrap.indent(work.code, " " * 8))
        self._parent = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", code, str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._answer() == "ready", work

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._parent.kill()
        self._parent.communicate()

    def begin(self) -> int:
        """Fork a child that does the work; its process id."""
        return int(self._ask("begin"))

    def end(self) -> int:
        """Wait for the child; 0, or the signal that ended it."""
        return int(self._ask("end"))

    def _ask(self, word: str) -> str:
        assert self._parent.stdin is not None
        self._parent.stdin.write(word + "\n")
        self._parent.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self._parent.stdout is not None
        return self._parent.stdout.readline().strip()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def delete_store(folder: Path) -> None:
    for path in folder.glob(f"{STORE}*"):
        path.unlink()


def stored_runs(folder: Path) -> set[tuple[str, str]]:
    """The runs of the reproduction that have finished, with their results."""
    path = folder / STORE
    if not path.exists():
        return set()
    with contextlib.closing(sqlite3.connect(path)) as store:
        if not store.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return set()  # killed before the table was created
        return set(store.execute("SELECT key, result FROM runs"))


def kill_at_random(kind: str, folder: Path, kills: int, seed: int) -> Count:
    """Kill the work again and again, and look at the files each time."""
    count, choose = Count(), random.Random(f"{kind} {seed}")
    output, runs = folder / WORK[kind].output, set[tuple[str, str]]()
    with Forker(WORK[kind], folder) as forker:
        delete_store(folder)
        start = time.perf_counter()
        forker.begin()
        assert forker.end() == 0, kind
        expected, seconds = digest(output), time.perf_counter() - start
        delete_store(folder)
        files = {path.name for path in folder.iterdir()}
        while count.killed < kills and count.ended < 20 * kills:
            output.write_bytes(OLD)
            process = forker.begin()
            time.sleep(choose.uniform(0, seconds))
            os.kill(process, signal.SIGKILL)  # its number is not reused before `end`
            status = forker.end()
            if status != signal.SIGKILL:
                count.ended += 1
                count.wrong += status != 0 or digest(output) != expected
                delete_store(folder)
                runs = set()
                continue
            count.killed += 1
            is_old, is_new = output.read_bytes() == OLD, digest(output) == expected
            count.old += is_old
            count.new += is_new
            count.wrong += not (is_old or is_new)
            count.wrong += not runs <= stored_runs(folder)
            runs = stored_runs(folder)
            for path in [path for path in folder.iterdir() if path.name not in files]:
                if path.name.startswith(STORE):
                    continue
                count.temporary += 1
                count.wrong += not path.name.startswith(".")
                path.unlink()
        forker.begin()  # what was interrupted can be completed
        count.wrong += forker.end() != 0 or digest(output) != expected
    print(
        f"{kind:14}{count.killed:4} killed, {count.ended} ended first; the old file {count.old} "
        f"times, the new one {count.new}; {count.temporary} temporary files; {count.wrong} wrong"
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
