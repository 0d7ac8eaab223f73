"""Who computes: the workers of a Dask cluster, or Dask's threads in this process.

A cluster can lose workers, what they held, its memory and its scheduler. Whatever it does, a
computation ends: with its result, repeated where something was lost, or with one error of ours.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, wait
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import dask
from dask.delayed import Delayed
from dask.utils import parse_timedelta

from bitmix.errors import ClusterError, FileFormatError, InputError
from bitmix.progress import meter, on_terminal

T = TypeVar("T")

_ATTEMPTS = 6
_LOOK_SECONDS = 1.0
_ANSWER_SECONDS = 5.0
_PATIENCE = "5 minutes"


class Workers:
    """Those at hand when it is made; no other cluster takes over if they are lost."""

    def __init__(self) -> None:
        self._client = _client()

    def keep(self, blocks: Sequence[Delayed]) -> list[Delayed]:
        """Have them computed, once, and held by the workers."""
        if self._client is None:
            return list(dask.persist(*blocks))
        return list(self._client.persist(list(blocks)))

    def compute(self, tasks: Sequence[Delayed]) -> Sequence[Any]:
        """What the tasks give, brought here."""
        client = self._client
        if client is None:
            found: Sequence[Any] = dask.compute(*tasks)
            return found
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
            futures = client.compute(list(tasks))
        with _shown(client, futures):
            return self._watched(lambda: client.gather(futures))

    def failed(self, blocks: Sequence[Delayed]) -> int | None:
        """The first of the kept blocks whose making raised an error, where that is known."""
        if self._client is None:
            return None
        from distributed.client import futures_of

        erred = (any(x.status == "error" for x in futures_of(block)) for block in blocks)
        return next((number for number, is_so in enumerate(erred) if is_so), None)

    def surely(self, action: Callable[[], T], lost: Callable[[], None]) -> T:
        """The outcome of an action; `lost` is called before it is tried again after a loss."""
        for attempt in range(_ATTEMPTS):
            try:
                if attempt:
                    time.sleep(0.5 * (attempt - 1))
                    self._wait_for_somebody()
                    lost()
                return action()
            except (InputError, FileFormatError, ClusterError):
                raise
            except Exception as error:
                if not self._is_loss(error):
                    raise
                says = short(error)
        raise ClusterError(
            f"workers were lost in each of {_ATTEMPTS} attempts at a pass, the last time with "
            f"{says}: see to the cluster, then fit again"
        )

    def _is_loss(self, error: Exception) -> bool:
        """Whether something was lost that can be computed again. Raises what cannot be mended."""
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

    def _watched(self, call: Callable[[], T]) -> T:
        """The outcome of a call to Dask. Dask waits for ever; we as long as somebody works."""
        outcome: Future[T] = Future()

        def run() -> None:
            try:
                outcome.set_result(call())
            except BaseException as error:
                outcome.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        idle_since = time.monotonic()
        while not wait([outcome], timeout=_LOOK_SECONDS).done:
            if (says := self._idle()) is None:
                idle_since = time.monotonic()
            else:
                _check_patience(says, idle_since)
        return outcome.result()

    def _wait_for_somebody(self) -> None:
        """Until there is a worker that takes on tasks."""
        start = time.monotonic()
        while (says := self._idle()) is not None:
            _check_patience(says, start)
            time.sleep(0.1)

    def _idle(self) -> str | None:
        """Why nothing is done at the moment, None if something is."""
        client = self._client
        if client.status == "connecting":  # Dask tries for a while, then closes the client
            return "the scheduler cannot be reached"
        if client.status != "running":
            raise ClusterError(
                "the Dask scheduler is gone, and the work of its workers with it: start a cluster, "
                "then fit again (fit(X, checkpoint=...) keeps what was done)"
            ) from None
        try:
            told = client.sync(client.scheduler.identity, callback_timeout=_ANSWER_SECONDS)
        except (OSError, CancelledError):  # TimeoutError is an OSError
            return "the scheduler does not answer"
        states = [worker["status"] for worker in told["workers"].values()]
        if "running" in states:
            return None
        if "paused" in states:
            return "no worker takes on tasks, their memory is full"
        return "there is no worker"


def _client() -> Any:
    """The client of a cluster, if there is one."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.get_client()
    except ValueError:
        return None


def _check_patience(says: str, since: float) -> None:
    patience = parse_timedelta(dask.config.get("bitmix.patience", _PATIENCE))
    if time.monotonic() - since > patience:
        raise ClusterError(
            f"{says}, for {patience:.0f} seconds: see to the cluster, then fit again. Dask's "
            "setting bitmix.patience says how long to wait"
        )


def short(error: BaseException) -> str:
    """Its kind and the first line of what it says."""
    return f"{type(error).__name__}: {error}".partition("\n")[0]


@contextmanager
def _shown(client: Any, futures: Sequence[Any]) -> Iterator[None]:
    """A bar on a terminal, drawn as the scheduler tells how far it is."""
    if not on_terminal():
        yield
        return
    from distributed.diagnostics.progressbar import ProgressBar

    with meter("percent of a pass", 100) as tick:

        class Bar(ProgressBar):  # type: ignore[misc]
            def _draw_bar(self, remaining: int, all: int, **_: Any) -> None:
                tick(100 - 100 * remaining // max(1, all), f"of {all:,} tasks")

        async def listen() -> None:
            with suppress(OSError):  # who is gone tells nothing; those who wait will notice
                await Bar(futures, client.scheduler.address, "100ms", True).listen()

        client.loop.add_callback(listen)
        yield
