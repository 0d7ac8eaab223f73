"""Who computes tasks: the workers of a Dask cluster, or Dask's threads in this process.

Dask itself repeats the tasks of a worker that dies. Left to its callers are a pass whose futures
were lost with the scheduler, which has to be computed again, and a wait that would never end,
because the scheduler is silent or no worker is left.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, wait
from contextlib import contextmanager, suppress
from typing import Any

import dask
from dask.delayed import Delayed
from dask.utils import parse_timedelta

from bitmix.errors import ClusterError
from bitmix.support.progress import is_shown, meter

_POLL_SECONDS = 1.0
_ANSWER_SECONDS = 5.0
_PATIENCE = "5 minutes"


class Workers:
    """The workers of the current client. No other cluster takes over if they are lost."""

    def __init__(self) -> None:
        self._client = _current_client()

    def persist(self, blocks: Sequence[Delayed]) -> list[Delayed]:
        """Have the blocks computed once and kept in the memory of the workers.

        What the workers still have is not computed again.
        """
        if self._client is None:
            return list(dask.persist(*blocks))
        return list(self._client.persist(list(blocks)))

    def compute(self, tasks: Sequence[Delayed]) -> Sequence[Any]:
        """The results of the tasks. Raises a ClusterError if no worker computes them any more."""
        client = self._client
        if client is None:
            return dask.compute(*tasks)
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
            futures = client.compute(list(tasks))
        results = asyncio.run_coroutine_threadsafe(
            client.gather(futures, asynchronous=True), client.loop.asyncio_loop
        )
        somebody_works = self._activity_check()
        try:
            with _progress_bar(client, futures):
                while not wait([results], timeout=_POLL_SECONDS).done:
                    somebody_works()
                return results.result()
        finally:
            results.cancel()

    def wait_for_worker(self) -> None:
        """Return when there is a worker that accepts tasks."""
        somebody_works = self._activity_check()
        while not somebody_works():
            time.sleep(0.1)

    def is_loss(self, error: Exception) -> bool:
        """Whether the error means that something was lost which can be computed again."""
        if self._client is None:
            return False
        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        if isinstance(error, KilledWorker):
            raise ClusterError(
                f"{error.allowed_failures + 1} workers died over one block of rows, most often "
                "because their memory ran out: cut X into smaller blocks, or give each worker more "
                f"memory (the task was {error.task!r})"
            ) from None
        lost = isinstance(error, CancelledError | CommClosedError | TimeoutError)
        return lost or self._client.status != "running"

    def failed_block(self, blocks: Sequence[Delayed]) -> int | None:
        """The number of the first persisted block whose computation raised an error, if known."""
        if self._client is None:
            return None
        from distributed.client import futures_of

        failed = (any(x.status == "error" for x in futures_of(block)) for block in blocks)
        return next((number for number, has_failed in enumerate(failed) if has_failed), None)

    def _activity_check(self) -> Callable[[], bool]:
        """A function that returns whether a worker accepts tasks.

        It raises a ClusterError once none has done so for as long as `bitmix.patience` says.
        """
        patience = parse_timedelta(dask.config.get("bitmix.patience", _PATIENCE))
        last_active = time.monotonic()

        def check() -> bool:
            nonlocal last_active
            reason = self._why_idle()
            if reason is None:
                last_active = time.monotonic()
            elif time.monotonic() - last_active > patience:
                raise ClusterError(
                    f"{reason}, and it has been so for {patience:.0f} seconds: repair the cluster, "
                    "then fit again. Dask's setting bitmix.patience is the time to wait"
                )
            return reason is None

        return check

    def _why_idle(self) -> str | None:
        """Why no worker computes at the moment; None if one does."""
        client = self._client
        if client.status == "connecting":  # Dask tries for a while, then closes the client
            return "the scheduler cannot be reached"
        if client.status != "running":
            raise ClusterError(
                "the Dask scheduler is gone, and the work of its workers with it: start a cluster, "
                "then fit again"
            ) from None
        try:
            identity = client.sync(client.scheduler.identity, callback_timeout=_ANSWER_SECONDS)
        except (OSError, CancelledError):  # TimeoutError is an OSError
            return "the scheduler does not answer"
        states = [worker["status"] for worker in identity["workers"].values()]
        if "running" in states:
            return None
        if "paused" in states:
            return "no worker accepts tasks, as their memory is full"
        return "there is no worker"


def _current_client() -> Any:
    """The client of a cluster, if there is one."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.get_client()
    except ValueError:
        return None


@contextmanager
def _progress_bar(client: Any, futures: Sequence[Any]) -> Iterator[None]:
    """A bar that follows what the scheduler reports."""
    if not is_shown():
        yield
        return
    from distributed.diagnostics.progressbar import ProgressBar

    with meter("percent of a pass", 100) as show:

        class Bar(ProgressBar):  # type: ignore[misc]
            def _draw_bar(self, remaining: int, all: int, **_: Any) -> None:
                show(100 - 100 * remaining // max(1, all), f"of {all:,} tasks")

        async def listen() -> None:
            with suppress(OSError):  # a scheduler that is gone is noticed by those who wait
                await Bar(futures, client.scheduler.address, "100ms", True).listen()

        client.loop.add_callback(listen)
        yield
