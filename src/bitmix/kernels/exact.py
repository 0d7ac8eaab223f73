"""Sums of whole numbers by floating-point matrix products that never round.

A float64 holds every whole number up to 2^53. While all products and sums stay below that, a matrix
product is exact in whatever order, on however many threads, the linear algebra library adds.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bitmix.kernels.bits import Words, unpack
from bitmix.kernels.fixed import Ints

_LIMB = 32
_FLOATS = 1 << 19  # cells of a tile: 4 MB


def tiles(words: Words, n_columns: int) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Some columns at a time as floats, and where they start: never all of a block of rows."""
    width = max(1, _FLOATS // (64 * max(1, len(words))))
    for start in range(0, words.shape[1], width):
        some = min(64 * width, n_columns - 64 * start)
        yield 64 * start, unpack(words[:, start : start + width], some).astype(np.float64)


def product(whole: Ints, bits: NDArray[np.float64]) -> Ints:
    """whole @ bits for 0/1 bits, in limbs of 32 binary digits; at most 2^20 terms a sum."""
    if bits.shape[0] > 1 << 20:
        half = bits.shape[0] // 2
        return product(whole[:, :half], bits[:half]) + product(whole[:, half:], bits[half:])
    if not whole.size or max(-int(whole.min()), int(whole.max())) <= 1 << _LIMB:
        return (whole.astype(np.float64) @ bits).astype(np.int64)
    low = whole & ((1 << _LIMB) - 1)
    high = whole >> _LIMB
    found: Ints = (product(high, bits) << _LIMB) + product(low, bits)
    return found
