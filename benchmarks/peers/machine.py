"""The speed of the machine: exclusive or and popcount in cache, and reading memory."""

import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from bitmix.kernels import backend, reference
from bitmix.kernels.threads import num_threads


def rates() -> dict[str, float]:
    """Bytes per second of all threads together: the bare loop, our kernel, and one read."""
    rng = np.random.default_rng(0)
    threads = num_threads()
    rows = rng.integers(1 << 62, size=(512, 32)).astype(np.uint64)
    seeds = rng.integers(1 << 62, size=(212, 32)).astype(np.uint64)
    large = rng.integers(1 << 62, size=(1 << 20, 32)).astype(np.uint64)
    parts = [(part,) for part in np.array_split(large, threads)]
    work = threads * rows.nbytes * len(seeds)
    return {
        "popcount": work / _least_seconds(bare_loop(), [(rows, seeds)] * threads),
        "distances": work / _least_seconds(backend().hamming, [(rows, seeds)] * threads),
        "read": large.nbytes
        / _least_seconds(lambda part: np.bitwise_xor.reduce(part, None), parts),
    }


def bare_loop() -> Callable[..., Any]:
    """A function that sums all Hamming distances of rows and seeds and stores none of them."""
    try:
        from numba import njit
    except ModuleNotFoundError:
        return lambda words, seeds: reference.hamming(words, seeds).sum()

    from bitmix.kernels.compiled import _popcount

    @njit("int64(uint64[:, ::1], uint64[:, ::1])", nogil=True)  # type: ignore[untyped-decorator]
    def bare(words: Any, seeds: Any) -> int:
        total = 0
        for row in range(words.shape[0]):
            for i in range(seeds.shape[0]):
                for w in range(words.shape[1]):
                    total += _popcount(words[row, w] ^ seeds[i, w])
        return total

    return bare


def _least_seconds(function: Callable[..., Any], calls: list[tuple[Any, ...]]) -> float:
    """The least time of fifteen repetitions of some calls at once, one per thread."""
    times = []
    with ThreadPoolExecutor(len(calls)) as pool:
        for _ in range(15):
            start = time.perf_counter()
            for future in [pool.submit(function, *arguments) for arguments in calls]:
                future.result()
            times.append(time.perf_counter() - start)
    return min(times)


def described() -> str:
    """The processor, and how many of its cores are used."""
    try:
        with open("/proc/cpuinfo") as file:
            name = next(line.split(":")[1].strip() for line in file if "model name" in line)
    except (OSError, StopIteration):
        name = platform.processor()
    return f"{num_threads()} of {os.cpu_count()} cores, {name}"
