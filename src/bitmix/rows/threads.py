"""The threads that share the blocks of a pass. Starting one costs as much as a short pass does, so
they are kept for the next.
"""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache

from bitmix.kernels import num_threads

_this_thread = threading.local()


def available() -> int:
    """The number of threads a pass may use.

    It is one for a pass within a pass, which would otherwise wait for the threads it runs in.
    """
    return 1 if getattr(_this_thread, "in_pass", False) else num_threads()


def pool() -> ThreadPoolExecutor:
    """The threads."""
    return _pool(num_threads())


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


if hasattr(os, "register_at_fork"):  # a child process has none of its parent's threads
    os.register_at_fork(after_in_child=_pool.cache_clear)
