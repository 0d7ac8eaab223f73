"""Runs sweeps: cells go to worker processes, results into the store, one by one.

The parent alone writes. Kill it at any moment: what is stored stays, the workers end by themselves,
and the next run asks only for what is missing.
"""

import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict
from typing import Any, Self

from bitmix.experiments.cells import Cell, Result, Sweep, canonical
from bitmix.experiments.store import Store
from bitmix.progress import meter

_ONE_THREAD = (
    "BITMIX_NUM_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
)  # fmt: skip


class CellError(RuntimeError):
    """A cell that failed, or a worker that ended."""


def run(sweeps: Sequence[Sweep[Any]], store: Store, jobs: int, label: str) -> list[Any]:
    """What each sweep returns, from stored results where there are some."""
    with Workers(jobs) as workers, meter(label, len(sweeps)) as tick:
        desk = _Desk(sweeps, store)
        running: dict[Future[tuple[Result, float]], Cell] = {}
        while True:
            while len(running) < 2 * jobs and (cell := desk.next_cell()) is not None:
                running[workers.submit(cell)] = cell
            tick(len(desk.findings), f"{desk.done:,} runs")
            if not running:
                return [desk.findings[i] for i in range(len(sweeps))]
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in sorted(done, key=_failed):  # what succeeded is kept before one raises
                cell, (result, seconds) = running.pop(future), future.result()
                store.put(cell, result, seconds)
                desk.deliver(cell, result)


def _failed(future: Future[Any]) -> bool:
    return future.exception() is not None


class _Desk:
    """Which cell is wanted next, and by whom. Sweeps are opened in order, when work runs short."""

    def __init__(self, sweeps: Sequence[Sweep[Any]], store: Store) -> None:
        self._sweeps, self._store = sweeps, store
        self._unopened = deque(range(len(sweeps)))
        self._queue: deque[Cell] = deque()
        self._waiting: dict[str, list[int]] = {}  # key of a cell not known yet → sweeps
        self._asked: dict[int, Sequence[Cell]] = {}
        self._known: dict[int, dict[str, Result]] = {}
        self._missing: dict[int, int] = {}
        self.findings: dict[int, Any] = {}
        self.done = 0

    def next_cell(self) -> Cell | None:
        while not self._queue and self._unopened:
            self._advance(self._unopened.popleft(), None)
        return self._queue.popleft() if self._queue else None

    def deliver(self, cell: Cell, result: Result) -> None:
        self.done += 1
        for number in self._waiting.pop(cell.key):
            self._known[number][cell.key] = result
            self._missing[number] -= 1
            if not self._missing[number]:
                self._advance(number, self._results(number))

    def _results(self, number: int) -> list[Result]:
        return [self._known[number][cell.key] for cell in self._asked[number]]

    def _advance(self, number: int, results: Sequence[Result] | None) -> None:
        """Let a sweep go on until it asks for something that is not known."""
        sweep = self._sweeps[number]
        while True:
            try:
                cells = next(sweep) if results is None else sweep.send(results)
            except StopIteration as end:
                self.findings[number] = end.value
                return
            self._look_up(number, cells)
            if self._missing[number]:
                return
            results = self._results(number)

    def _look_up(self, number: int, cells: Sequence[Cell]) -> None:
        """Take what is stored, queue the rest."""
        self._asked[number], self._known[number] = cells, {}
        for key, cell in {cell.key: cell for cell in cells}.items():
            if (result := self._store.get(cell)) is not None:
                self._known[number][key] = result
            elif key in self._waiting:
                self._waiting[key].append(number)
            else:
                self._waiting[key] = [number]
                self._queue.append(cell)
        self._missing[number] = len({cell.key for cell in cells}) - len(self._known[number])


class Workers:
    """Worker processes, one a thread of this process, started when first needed."""

    def __init__(self, jobs: int) -> None:
        self._pool = ThreadPoolExecutor(jobs)
        self._mine = threading.local()
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen[str]] = []
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
            for process in self._processes:
                process.kill()  # it holds nothing
        self._pool.shutdown(cancel_futures=True)
        for process in self._processes:
            process.communicate()

    def submit(self, cell: Cell) -> "Future[tuple[Result, float]]":
        return self._pool.submit(self._run, cell)

    def _run(self, cell: Cell) -> tuple[Result, float]:
        process = self._process()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(canonical(asdict(cell)) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except (BrokenPipeError, ValueError):
            line = ""
        if not line:
            raise CellError(
                f"a worker ended (exit code {process.wait()}) at {_name(cell)}: "
                "is there memory enough? Finished cells are kept; run again to go on"
            )
        answer = json.loads(line)
        if "error" in answer:
            raise CellError(f"{answer['error']}, at {_name(cell)}")
        return answer["result"], answer["seconds"]

    def _process(self) -> "subprocess.Popen[str]":
        if not hasattr(self._mine, "process"):
            with self._lock:
                if self._closed:
                    raise CellError("the workers have been sent home")
                self._mine.process = subprocess.Popen(
                    [sys.executable, "-m", "bitmix.experiments.worker"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    encoding="utf-8",
                    env={**os.environ, **dict.fromkeys(_ONE_THREAD, "1")},
                    start_new_session=True,  # Ctrl-C is the parent's to handle
                )
                self._processes.append(self._mine.process)
        process: subprocess.Popen[str] = self._mine.process
        return process


def _name(cell: Cell) -> str:
    return canonical({"setting": cell.setting, "method": cell.method, "seed": cell.seed})
