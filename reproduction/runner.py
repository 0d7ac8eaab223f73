"""Sweeps are driven here: worker processes execute runs, and every result is stored at once.

Only this process writes. If it is killed, the stored results remain, the workers end by themselves,
and the next call executes the missing runs only.
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
from pathlib import Path
from typing import Any, Self

from bitmix.support.progress import meter
from reproduction.runs import Result, Run, Sweep, canonical_json
from reproduction.store import Store

_ROOT = Path(__file__).parents[1]
_ONE_THREAD = (
    "BITMIX_NUM_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
)  # fmt: skip


class RunError(RuntimeError):
    """A run failed, or the worker process that executed it ended."""


def run_sweeps(sweeps: Sequence[Sweep[Any]], store: Store, jobs: int, label: str) -> list[Any]:
    """What each sweep returns; runs with a stored result are not executed again."""
    with Workers(jobs) as workers, meter(label, len(sweeps)) as show_progress:
        schedule = _Schedule(sweeps, store)
        submitted: dict[Future[tuple[Result, float]], Run] = {}
        while True:
            while len(submitted) < 2 * jobs and (run := schedule.next_run()) is not None:
                submitted[workers.submit(run)] = run
            show_progress(len(schedule.returned), f"{schedule.n_executed:,} runs")
            if not submitted:
                return [schedule.returned[i] for i in range(len(sweeps))]
            done, _ = wait(submitted, return_when=FIRST_COMPLETED)
            for future in sorted(done, key=_failed):  # store all results before an error is raised
                run = submitted.pop(future)
                result, seconds = future.result()
                store.put(run, result, seconds)
                schedule.deliver(run, result)


def _failed(future: Future[Any]) -> bool:
    return future.exception() is not None


class _Schedule:
    """Which run comes next, and which sweeps wait for it.

    Sweeps are started in order, each only when no runs of earlier ones are left to hand out.
    """

    def __init__(self, sweeps: Sequence[Sweep[Any]], store: Store) -> None:
        self._sweeps, self._store = sweeps, store
        self._not_started = deque(range(len(sweeps)))
        self._queue: deque[Run] = deque()
        self._results: dict[str, Result] = {}  # by the key of a run
        self._waiting: dict[str, list[int]] = {}  # key of a run without a result → sweeps
        self._asked: dict[int, Sequence[Run]] = {}
        self._missing: dict[int, set[str]] = {}
        self.returned: dict[int, Any] = {}
        self.n_executed = 0

    def next_run(self) -> Run | None:
        while not self._queue and self._not_started:
            self._advance(self._not_started.popleft(), None)
        return self._queue.popleft() if self._queue else None

    def deliver(self, run: Run, result: Result) -> None:
        """Hand the result of a run to the sweeps that wait for it."""
        self.n_executed += 1
        self._results[run.key] = result
        for number in self._waiting.pop(run.key):
            self._missing[number].remove(run.key)
            if not self._missing[number]:
                self._advance(number, self._answer(number))

    def _answer(self, number: int) -> list[Result]:
        return [self._results[run.key] for run in self._asked[number]]

    def _advance(self, number: int, results: list[Result] | None) -> None:
        """Send results to a sweep until it returns or asks for a run that has no result yet."""
        while True:
            try:
                runs = self._sweeps[number].send(results)  # type: ignore[arg-type]  # None: start
            except StopIteration as end:
                self.returned[number] = end.value
                return
            self._request(number, runs)
            if self._missing[number]:
                return
            results = self._answer(number)

    def _request(self, number: int, runs: Sequence[Run]) -> None:
        """Look up the results of runs that a sweep asks for, and queue the runs without one."""
        self._asked[number], self._missing[number] = runs, set()
        for key, run in {run.key: run for run in runs}.items():
            if key in self._results:
                continue
            stored = self._store.get(run)
            if stored is not None:
                self._results[key] = stored
                continue
            self._missing[number].add(key)
            if key not in self._waiting:
                self._waiting[key] = []
                self._queue.append(run)
            self._waiting[key].append(number)


class Workers:
    """Worker processes, one per thread of a pool, each started when it is first needed."""

    def __init__(self, jobs: int) -> None:
        self._pool = ThreadPoolExecutor(jobs)
        self._local = threading.local()
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen[str]] = []
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
            for process in self._processes:
                process.kill()  # it has no files open for writing
        self._pool.shutdown(cancel_futures=True)
        for process in self._processes:
            process.communicate()

    def submit(self, run: Run) -> "Future[tuple[Result, float]]":
        """Execute a run; the future holds its result and the seconds it took."""
        return self._pool.submit(self._execute, run)

    def _execute(self, run: Run) -> tuple[Result, float]:
        if not hasattr(self._local, "process"):
            self._local.process = self._start()
        process = self._local.process
        try:
            process.stdin.write(canonical_json(asdict(run)) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except (BrokenPipeError, ValueError):
            line = ""
        if not line:
            raise RunError(
                f"a worker process ended (exit code {process.wait()}) during the run {run}: "
                "is there enough memory? Finished runs are stored; give the same command again "
                "to continue"
            )
        answer = json.loads(line)
        if "error" in answer:
            raise RunError(f"{answer['error']}, in the run {run}")
        return answer["result"], answer["seconds"]

    def _start(self) -> "subprocess.Popen[str]":
        with self._lock:
            if self._closed:
                raise RunError("the pool of worker processes is closed")
            python_path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
            process = subprocess.Popen(
                # -P: whatever lies in the working directory is not imported
                [sys.executable, "-P", "-m", "reproduction.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                env={
                    **os.environ,
                    **dict.fromkeys(_ONE_THREAD, "1"),
                    "PYTHONPATH": python_path,
                },
                start_new_session=True,  # only this process handles Ctrl-C
            )
            self._processes.append(process)
            return process
