"""The arithmetic: integers in, integers out, the same bits from either back end.

`reference` is the definition, in NumPy; `compiled` is its numba twin. ``BITMIX_KERNELS`` chooses
(``reference`` or ``compiled``); by default small problems start in NumPy, as loading numba takes
half a second, and what is large or goes on is compiled, where numba is installed.
``BITMIX_NUM_THREADS`` sets how many threads share the blocks. Neither changes a result.
"""

import ctypes
import importlib
import importlib.util
import os
from functools import cache
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import InputError
from bitmix.kernels.bits import Words
from bitmix.kernels.fixed import Ints, Tables


class Kernels(Protocol):
    """What either back end offers; `reference` says what each one means."""

    def hamming(self, words: Words, templates: Words) -> Ints: ...

    def set_bits(self, words: Words) -> tuple[Ints, Any]: ...

    def event_scores(self, starts: Ints, cells: Any, const: Ints, table: Ints) -> Ints: ...

    def event_pass(
        self, starts: Ints, cells: Any, weights: Ints | None, const: Ints, table: Ints, bits: int,
        tables: Tables, mass: Ints, sums: Ints,
    ) -> tuple[int, int, int]: ...  # fmt: skip

    def popcount_scores(
        self, words: Words, templates: Words, const: Ints, per_one: Ints, per_match: Ints
    ) -> Ints: ...

    def popcount_pass(
        self, words: Words, templates: Words, const: Ints, per_one: Ints, per_match: Ints,
        bits: int, tables: Tables, mass: Ints, sums: Ints,
    ) -> tuple[int, int, int]: ...  # fmt: skip

    def posteriors(self, scores: Ints, bits: int, tables: Tables) -> tuple[Ints, Ints, Ints]: ...

    def logs(self, values: NDArray[np.float64], tables: Tables) -> Ints: ...

    def owned_sums(self, words: Words, owner: Ints, k: int, n_columns: int) -> Ints: ...

    def disagreement(self, values: Ints) -> Ints: ...

    def merged_likelihoods(
        self, ones: NDArray[np.float64], cells: NDArray[np.float64], i: int,
        others: NDArray[np.intp], tables: Tables,
    ) -> Ints: ...  # fmt: skip

    def column_sums(self, words: Words, shares: Ints, n_columns: int) -> Ints: ...

    def add_column_sums(self, words: Words, shares: Ints, out: Ints) -> None: ...


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h
_SMALL_WORDS = 10**6 // 64
_RENT_WORDS = 1 << 21  # words given to NumPy before numba would have paid for its loading
_rented = 0


def backend(data: NDArray[Any] | None = None) -> Kernels:
    """The back end to use for these rows or numbers, or for who knows how many."""
    global _rented
    name = os.environ.get("BITMIX_KERNELS", "")
    if not name and _rented < _RENT_WORDS:
        work = _RENT_WORDS if data is None else data.size
        _rented += work if work <= _SMALL_WORDS else _RENT_WORDS
        name = "reference" if _rented < _RENT_WORDS else ""
    return _load(name)


@cache
def _load(name: str) -> Kernels:
    if not name:
        name = "compiled" if importlib.util.find_spec("numba") else "reference"
    if name not in ("reference", "compiled"):
        raise InputError(
            f"BITMIX_KERNELS must be 'reference' or 'compiled', got {name!r}: "
            "unset it to let bitmix choose"
        )
    _keep_freed_memory()
    return cast(Kernels, importlib.import_module(f"bitmix.kernels.{name}"))


def _keep_freed_memory() -> None:
    """Let the C library reuse freed arrays instead of returning their pages after every step.

    Without this a quarter of a small fit goes into page faults, and four fifths of a large one on
    a Dask worker, whose environment has glibc return everything at once. The thresholds are those
    glibc comes to by itself, in other environments, once an array of 16 MB was freed.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another C library
        return
    mallopt(_M_MMAP_THRESHOLD, 1 << 24)
    mallopt(_M_TRIM_THRESHOLD, 1 << 25)


def num_threads() -> int:
    """Threads that share the blocks of a pass: ``BITMIX_NUM_THREADS``, or the cores we may use."""
    text = os.environ.get("BITMIX_NUM_THREADS", "")
    if not text:
        return _cores()
    if not text.isdecimal() or int(text) < 1:
        raise InputError(
            f"BITMIX_NUM_THREADS must be a whole number from 1, got {text!r}: "
            "unset it to use every core"
        )
    return int(text)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
