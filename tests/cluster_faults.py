"""Faults of a Dask cluster: the bits of the fit left alone, or one clear error, and never a wait.

    python tests/cluster_faults.py [REPETITIONS]

By default workers are killed 20 times in each round; every other fault comes a tenth as often.

The scheduler and each worker is a process of its own. A fault strikes at a random moment of one
pass over the rows, which is slowed down so that there is time for it.
"""

import contextlib
import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Self

import dask
import dask.array as da
import distributed
import numpy as np

from bitmix import BitMatrix, TwoRoundEM
from bitmix.datasets import make_templates, sample_mixture
from bitmix.errors import ClusterError, InputError
from bitmix.rows.cluster import ClusterRows

M, N, BLOCKS, ROUNDS = 6000, 200, 6, 3
SLOW = 0.15  # seconds more for each block of the pass that is struck
CONNECT = 30  # seconds in which Dask must reach a scheduler, as is its default
PATIENCE = 60  # seconds without anybody who works; 300 if not set
SHORT = 4  # the same, where nobody will
MARGIN = 30  # seconds beside them in which an error must come
SERVING = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    port, memory = sys.argv[1:]
    with LocalCluster(n_workers=2, threads_per_worker=1, scheduler_port=int(port),
                      memory_limit=memory, dashboard_address=None, silence_logs=50) as cluster:
        print(cluster.scheduler_address, flush=True)
        for line in sys.stdin:
            cluster.scale(int(line))
"""


class Cluster:
    """Two workers and their scheduler, apart from this process, and a client of them."""

    def __init__(self, memory: str = "1GB", connect: int = CONNECT, **settings: str) -> None:
        # a LocalCluster sends away what took the place of a lost worker, 15 seconds later
        settings["DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT"] = "1 hour"
        self._memory, self._environment = memory, {**os.environ, **settings}
        self._serve("0")
        self.client = distributed.Client(self.address, timeout=connect)

    def _serve(self, port: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVING, port, self._memory], env=self._environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        assert self.address, "no cluster"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
        with contextlib.suppress(Exception):  # there is nobody to take leave of
            self.client.close(timeout=1)

    def wait_for_workers(self) -> None:
        """Until both are known; Dask's own way does not count those that are paused at once."""
        end = time.monotonic() + 180
        while self.client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.workers)) < 2:
            assert time.monotonic() < end, "no workers"
            time.sleep(0.1)

    def kill_workers(self, count: int) -> None:
        for pid in sorted(self.client.run(os.getpid).values())[:count]:
            os.kill(pid, signal.SIGKILL)

    def stop_scheduler(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def restart(self) -> None:
        """The scheduler dies; another starts at its address."""
        self.process.kill()
        self.process.communicate()
        self._serve(self.address.rpartition(":")[2])

    def send_workers_away(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("0\n")
        self.process.stdin.flush()


class Struck(ClusterRows):
    """Rows on which something happens at a random moment of a pass."""

    passes, at, in_time = 0, 0, False
    strike: Callable[[], None]

    def fold(self, start: Any, **options: Any) -> Any:
        self.passes += 1
        if self.passes != self.at:
            return super().fold(start, **options)
        seconds, over = SLOW, threading.Event()

        def slow_start() -> Any:  # called once for each block
            time.sleep(seconds)
            return start()

        def strike() -> None:
            self.in_time = not over.is_set()
            self.strike()

        after = random.uniform(0.05, SLOW * BLOCKS / 2)  # two workers share the blocks
        thread = threading.Timer(after, strike)
        thread.start()
        try:
            return super().fold(slow_start, **options)
        finally:
            over.set()
            thread.join()


@dataclass(frozen=True)
class Fault:
    """What happens, and how a fit has to end: with `says` in an error, or with the right bits."""

    strike: Callable[[Cluster], None] | None = None
    share: int = 10
    """A part of the repetitions is enough, because each takes long."""
    says: str = ""
    poison: Callable[[Any], Any] | None = None
    """Done to one block of the rows."""
    memory: str = "1GB"
    connect: int = CONNECT
    patience: int = PATIENCE
    settings: dict[str, str] = field(default_factory=dict)


FAULTS = {
    "a worker is killed": Fault(lambda cluster: cluster.kill_workers(1), share=1),
    "all workers are killed": Fault(lambda cluster: cluster.kill_workers(2)),
    "the scheduler dies, another takes its place": Fault(lambda cluster: cluster.restart()),
    "the scheduler dies": Fault(
        lambda cluster: cluster.process.kill(), says="scheduler is gone", connect=SHORT
    ),
    "the scheduler falls silent": Fault(
        lambda cluster: cluster.stop_scheduler(), says="scheduler does not answer", patience=SHORT
    ),
    "the workers leave": Fault(
        lambda cluster: cluster.send_workers_away(), says="there is no worker", patience=SHORT
    ),
    "a block raises": Fault(
        poison=lambda block: 1 // 0, says="block 3 of X could not be computed: ZeroDivisionError"
    ),
    "a block holds a 2": Fault(poison=lambda block: 2 * block, says="got 2 at row 30"),
    "a block lacks a column": Fault(
        poison=lambda block: block[:, 1:], says="block 3 of X should have 1,000 rows and 200 col"
    ),
    "a block lacks a row": Fault(
        poison=lambda block: block[1:], says="block 3 of X should have 1,000 rows and 200 col"
    ),
    "a block is no array": Fault(poison=lambda block: "text", says="200 columns, but has str"),
    "a block ends its worker": Fault(
        poison=lambda block: os._exit(1), says="4 workers died over one block"
    ),
    "a block is too large for a worker": Fault(
        poison=lambda block: (np.ones(1 << 28, dtype=np.uint8), time.sleep(60), block)[2],
        says="4 workers died over one block", memory="300MB",
    ),
    "workers have no memory left": Fault(
        says="no worker accepts tasks, as their memory is full",
        patience=SHORT,
        settings={
            "DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE": "0.01",
            "DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE": "False",
        },
    ),
}  # fmt: skip


@cache
def rows() -> BitMatrix:
    truth = make_templates(3, N, separation=0.3, random_state=0)
    return sample_mixture(truth, [0.5, 0.3, 0.2], 0.1, M, random_state=1)[0]


def fitted(X: Any) -> TwoRoundEM:
    return TwoRoundEM(3, rounds=ROUNDS, n_seeds=40, random_state=0).fit(X)


@cache
def wanted() -> tuple[bytes, ...]:
    return bits(fitted(rows()))


def bits(model: TwoRoundEM) -> tuple[bytes, ...]:
    likelihoods = np.array([entry.log_likelihood for entry in model.history_])
    return tuple(x.tobytes() for x in (model.means_, model.weights_, likelihoods))


def outcome(fault: Fault, cluster: Cluster, at: int) -> str:
    """How a fit ends on which a fault strikes in pass `at`; "too late" where the pass was over."""
    lazy = da.from_array(rows().to_dense(), chunks=(M // BLOCKS, N))
    if fault.poison is not None:
        poison = fault.poison

        def one(block: Any, block_info: Any = None) -> Any:
            return poison(block) if block_info[0]["chunk-location"][0] == 3 else block

        lazy = lazy.map_blocks(one, dtype=np.uint8, meta=np.empty((0, N), dtype=np.uint8))
    X = Struck.of(lazy)
    if fault.strike is not None:
        strike = fault.strike
        X.at, X.strike = at, lambda: strike(cluster)
    start = time.monotonic()
    try:
        with dask.config.set({"bitmix.patience": fault.patience}):
            found = "right bits" if bits(fitted(X)) == wanted() else "OTHER BITS"
    except (InputError, ClusterError) as error:
        found = "clear error" if fault.says and fault.says in str(error) else f"ERROR {error}"
    except Exception as error:
        found = f"RAW ERROR {type(error).__name__}: {error}"
    if time.monotonic() - start > fault.patience + fault.connect + MARGIN:
        return "TOO LATE AN END"
    if fault.strike is not None and not X.in_time:
        return "too late"
    return found


def struck(name: str, at: int, repetitions: int) -> Counter[str]:
    """How fits ended; a cluster that outlives its fault serves again."""
    fault, ends, cluster = FAULTS[name], Counter[str](), None
    with contextlib.ExitStack() as open_clusters:
        while ends.total() - ends["too late"] < repetitions and ends["too late"] < 99:
            if cluster is None or (fault.strike and fault.says):
                open_clusters.close()
                cluster = open_clusters.enter_context(
                    Cluster(fault.memory, fault.connect, **fault.settings)
                )
            cluster.wait_for_workers()
            ends[outcome(fault, cluster, at)] += 1
    del ends["too late"]
    return ends


def right(name: str) -> str:
    """How its fits have to end."""
    return "clear error" if FAULTS[name].says else "right bits"


def main() -> int:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    logging.disable()  # Dask tells of every fault at length
    wrong = total = 0
    for name, fault in FAULTS.items():
        for at in range(1, ROUNDS + 1) if fault.strike else [0]:
            start = time.monotonic()
            ends = struck(name, at, -(-repetitions // fault.share))
            total += ends.total()
            wrong += ends.total() - ends[right(name)]
            where = f"{name}, round {at}" if at else name
            told = ", ".join(f"{count} {end}" for end, count in ends.items())
            print(f"{where:54}{told} ({time.monotonic() - start:.0f} s)", flush=True)
    print(f"{total} faults, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
