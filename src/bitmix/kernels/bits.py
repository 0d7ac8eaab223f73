"""Bits to 64-bit words and back. Column s is bit s mod 64 of word s // 64; padding bits are zero.

NumPy's own packing is compiled already, so both back ends share this file.
"""

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
"""Packed rows, shape (rows, words)."""

WORD = np.dtype("<u8")


def words_for(n_columns: int) -> int:
    """How many 64-bit words hold a row of `n_columns` bits."""
    return -(-n_columns // 64)


def pack(bits: NDArray[np.bool_] | NDArray[np.uint8]) -> Words:
    """Pack rows of 0/1 into words."""
    rows, columns = bits.shape
    packed = np.packbits(bits, axis=1, bitorder="little")
    padded = np.zeros((rows, 8 * words_for(columns)), dtype=np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view(WORD)


def unpack(words: Words, n_columns: int) -> NDArray[np.uint8]:
    """The rows as 0/1 bytes, shape (rows, n_columns)."""
    octets = np.ascontiguousarray(words).view(np.uint8)
    return np.unpackbits(octets, axis=1, count=n_columns, bitorder="little")


def padding_is_zero(words: Words, n_columns: int) -> bool:
    """Whether the bits past the last column are all zero, as every kernel assumes."""
    used = n_columns % 64
    return used == 0 or not np.any(words[:, -1] >> np.uint64(used))
