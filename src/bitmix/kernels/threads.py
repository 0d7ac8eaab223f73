"""The threads that share the blocks of a pass. Starting one costs as much as a short pass does, so
they are kept for the next.
"""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

from bitmix.errors import InputError
from bitmix.system import after_fork, cores

R = TypeVar("R")

_this_thread = threading.local()


def num_threads() -> int:
    """Threads that share the blocks of a pass: ``BITMIX_NUM_THREADS``, or the cores we may use."""
    text = os.environ.get("BITMIX_NUM_THREADS", "")
    if not text:
        return cores()
    if not text.isdecimal() or int(text) < 1:
        raise InputError(
            f"BITMIX_NUM_THREADS must be a whole number from 1, got {text!r}: "
            "unset it to use every core"
        )
    return int(text)


def available() -> int:
    """The number of threads a pass may use.

    It is one for a pass within a pass, which would otherwise wait for the threads it runs in.
    """
    return 1 if getattr(_this_thread, "in_pass", False) else num_threads()


def run_in_threads(function: Callable[[], R], threads: int, stop: threading.Event) -> list[R]:
    """The results of this many calls of the function, side by side, one of them in this thread.

    After an error or Ctrl-C, `stop` is set, on which the function should return soon.
    """
    if threads == 1:
        return [function()]
    futures: list[Future[R]] = []
    try:
        for _ in range(threads - 1):
            futures.append(_pool(num_threads()).submit(function))
        with one_thread():
            first = function()
        return [first, *(future.result() for future in futures)]
    except BaseException:
        stop.set()
        wait(futures)
        raise


@cache
def _pool(number: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(number, thread_name_prefix="bitmix", initializer=_mark)


@contextmanager
def one_thread() -> Iterator[None]:
    """Within the block, passes run in the calling thread alone, as other passes run beside it."""
    before = getattr(_this_thread, "in_pass", False)
    _this_thread.in_pass = True
    try:
        yield
    finally:
        _this_thread.in_pass = before


def _mark() -> None:
    _this_thread.in_pass = True


after_fork(_pool.cache_clear)  # a child process has none of its parent's threads
