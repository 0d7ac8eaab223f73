"""The arithmetic: integers in, integers out, the same bits from either back end.

`reference` is the definition, in NumPy; `compiled` is its numba twin. ``BITMIX_KERNELS`` chooses
(``reference`` or ``compiled``). By default a process starts with NumPy, as loading numba takes
nearly half a second, and goes over to numba, if it is installed, once NumPy has worked that long.
``BITMIX_NUM_THREADS`` sets how many threads share the blocks of a pass. Neither changes a result.
"""

import importlib
import importlib.util
import os
from functools import cache
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import InputError
from bitmix.kernels.bits import Words
from bitmix.kernels.fixed import Ints
from bitmix.system import keep_freed_memory

Floats = NDArray[np.float64]


class Kernels(Protocol):
    """What either back end offers; `reference` says what each one means."""

    def hamming(self, words: Words, templates: Words) -> Ints: ...

    def set_bits(self, words: Words) -> tuple[Ints, Any]: ...

    def event_scores(self, starts: Ints, cells: Any, const: Ints, table: Ints) -> Ints: ...

    def screen(self, const: Ints, table: Ints, k: int, bits: int) -> Any: ...

    def event_pass(
        self, starts: Ints, cells: Any, weights: Ints | None, const: Ints, table: Ints, screen: Any,
        bits: int, mass: Ints, sums: Ints, whole: Ints | None = None,
    ) -> tuple[int, int, int]: ...  # fmt: skip

    def add_whole(self, whole: Ints, const: Ints, table: Ints, mass: Ints, sums: Ints) -> int: ...

    def popcount_scores(
        self, words: Words, templates: Words, const: Ints, per_one: Ints, per_match: Ints
    ) -> Ints: ...

    def popcount_pass(
        self, words: Words, templates: Words, const: Ints, per_one: Ints, per_match: Ints,
        bits: int, mass: Ints, sums: Ints,
    ) -> tuple[int, int, int]: ...  # fmt: skip

    def posteriors(self, scores: Ints, bits: int) -> tuple[Ints, Ints, Ints]: ...

    def logs(self, values: Floats) -> Ints: ...

    def cell_lines(
        self, p: Floats, base: NDArray[np.bool_], bits: int, lines: Ints
    ) -> Ints: ...  # fmt: skip

    def mean_line(self, lines: Ints, base: NDArray[np.bool_], rates: Ints) -> Ints: ...

    def owned_scores(self, words: Words, owner: Ints, base: Words, planes: Words) -> Ints: ...

    def owned_sums(self, words: Words, owner: Ints, k: int, n_columns: int) -> Ints: ...

    def disagreement(self, values: Ints, firsts: Ints, seconds: Ints, shift: Ints) -> Ints: ...

    def merged_likelihoods(
        self, ones: Floats, cells: Floats, firsts: Ints, seconds: Ints
    ) -> Ints: ...

    def path_squares(self, first: Floats, second: Floats, third: Floats) -> tuple[int, int]: ...

    def path_further(
        self, first: Floats, second: Floats, third: Floats, alpha: float
    ) -> Floats: ...

    def column_sums(self, words: Words, shares: Ints, n_columns: int) -> Ints: ...

    def add_column_sums(self, words: Words, shares: Ints, out: Ints) -> None: ...


_LOADING_SECONDS = 0.3
_numpy_seconds = 0.0  # spent by this process, as estimated


def backend(seconds: float = 0.0) -> Kernels:
    """The back end for a call that would take NumPy about this many seconds."""
    global _numpy_seconds
    name = os.environ.get("BITMIX_KERNELS", "")
    if not name:
        _numpy_seconds += seconds
        name = "reference" if _numpy_seconds < _LOADING_SECONDS else ""
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
    if os.environ.get("BITMIX_KEEP_MEMORY"):
        keep_freed_memory()
    return cast(Kernels, importlib.import_module(f"bitmix.kernels.{name}"))
