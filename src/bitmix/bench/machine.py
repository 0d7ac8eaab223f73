"""What the machine can do at best: exclusive or and popcount in cache, and reading memory."""

import os
import platform
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bitmix.kernels import backend, num_threads, reference
from bitmix.rows.threads import pool as thread_pool


def rates() -> dict[str, float]:
    """Bytes a second, all threads together: the bare loop, ours on rows and seeds, one read."""
    rng = np.random.default_rng(0)
    threads = num_threads()
    small = rng.integers(1 << 62, size=(512, 32)).astype(np.uint64)
    seeds = rng.integers(1 << 62, size=(212, 32)).astype(np.uint64)
    large = rng.integers(1 << 62, size=(1 << 20, 32)).astype(np.uint64)
    work = small.nbytes * len(seeds)
    bare = _bare()
    return {
        "popcount": threads * work / _least(threads, lambda: bare(small, seeds)),
        "distances": threads * work / _least(threads, lambda: backend().hamming(small, seeds)),
        "read": large.nbytes / _read(large, threads),
    }


def _bare() -> Callable[..., Any]:
    """The bare loop: rows in cache against seeds, one sum, nothing stored; NumPy's if need be."""
    try:
        from numba import njit
    except ModuleNotFoundError:
        return reference.hamming

    from bitmix.kernels.compiled import _popcount

    @njit("int64(uint64[:, ::1], uint64[:, ::1])", nogil=True)  # type: ignore[untyped-decorator]
    def bare(words: Any, seeds: Any) -> int:
        total = 0
        for row in range(words.shape[0]):
            for i in range(seeds.shape[0]):
                for w in range(words.shape[1]):
                    total += _popcount(words[row, w] ^ seeds[i, w])
        return total

    return bare  # type: ignore[no-any-return]


def _least(threads: int, function: Callable[[], Any]) -> float:
    """Least time of several calls, one in each thread at once."""
    pool, times = thread_pool(), []
    for _ in range(15):
        start = time.perf_counter()
        for future in [pool.submit(function) for _ in range(threads)]:
            future.result()
        times.append(time.perf_counter() - start)
    return min(times)


def _read(words: Any, threads: int) -> float:
    parts = np.array_split(words, threads)
    pool, times = thread_pool(), []
    for _ in range(7):
        start = time.perf_counter()
        for future in [pool.submit(np.bitwise_xor.reduce, part, axis=None) for part in parts]:
            future.result()
        times.append(time.perf_counter() - start)
    return min(times)


def described() -> str:
    """The processor and how many of its cores we may use."""
    try:
        with open("/proc/cpuinfo") as file:
            name = next(line.split(":")[1].strip() for line in file if "model name" in line)
    except (OSError, StopIteration):
        name = platform.processor()
    return f"{num_threads()} of {os.cpu_count()} cores, {name}"
