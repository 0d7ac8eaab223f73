"""Threads that share the blocks of a pass. They are kept: starting one costs as much as a pass."""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache


@cache
def threads_of(number: int) -> ThreadPoolExecutor:
    """So many threads. What they run must not wait for others of them."""
    return ThreadPoolExecutor(number, thread_name_prefix="bitmix")


if hasattr(os, "register_at_fork"):  # a child process has none of its parent's threads
    os.register_at_fork(after_in_child=threads_of.cache_clear)
