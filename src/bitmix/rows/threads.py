"""Threads that share the blocks of a pass. They are kept: starting one costs as much as a pass."""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache

from bitmix.kernels import num_threads

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
