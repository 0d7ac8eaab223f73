"""Threads that share the blocks of a pass. They are kept: starting one costs as much as a pass."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

from bitmix.kernels import num_threads

T = TypeVar("T")
R = TypeVar("R")
_here = threading.local()


def available() -> int:
    """Threads a pass may use: one within a pass, whose own threads it must not wait for."""
    return 1 if getattr(_here, "busy", False) else num_threads()


def pool() -> ThreadPoolExecutor:
    """The threads."""
    return _pool(num_threads())


@cache
def _pool(number: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(number, thread_name_prefix="bitmix", initializer=_mark)


def each(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """What the function gives for each item: side by side, every pass within by its own thread.

    For items that take many small passes, which several threads would share with little gain.
    """
    if available() == 1 or len(items) < 2:
        return [function(item) for item in items]
    futures = [pool().submit(function, item) for item in items]
    try:
        return [future.result() for future in futures]
    finally:
        for future in futures:
            future.cancel()


@contextmanager
def one_thread() -> Iterator[None]:
    """A pass within is run by the thread that asks for it: others run beside it already."""
    before = getattr(_here, "busy", False)
    _here.busy = True
    try:
        yield
    finally:
        _here.busy = before


def _mark() -> None:
    _here.busy = True


if hasattr(os, "register_at_fork"):  # a child process has none of its parent's threads
    os.register_at_fork(after_in_child=_pool.cache_clear)
