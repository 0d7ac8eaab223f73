"""The header of an array in NumPy's file format."""

import math
from typing import IO, Any

import numpy as np

_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_npy_header(file: IO[bytes], size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return the shape of an array, whether it is in Fortran order, and its type.

    Anything but a plain array of at most `size` bytes raises a ValueError before memory is
    allocated.
    """
    version = np.lib.format.read_magic(file)
    if version not in _READERS:
        raise ValueError(f"version {version} of the format is for tables of mixed types")
    shape, fortran_order, dtype = _READERS[version](file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are never loaded")
    if not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError(f"it claims the shape {shape}")
    if math.prod(shape) * dtype.itemsize > size:
        raise ValueError(f"it claims {dtype} of shape {shape}, but has {size:,} bytes")
    return shape, fortran_order, dtype
