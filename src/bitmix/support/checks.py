"""Checks of parameters. Each error gives the rule, the value that broke it and the remedy."""

import math
import operator
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bitmix.errors import InputError

T = TypeVar("T")


def optional(check: Callable[..., T], value: Any, *args: Any, **kwargs: Any) -> T | None:
    """Return None for None, and check any other value."""
    return None if value is None else check(value, *args, **kwargs)


def whole(value: Any, name: str, *, least: int, most: float = math.inf, remedy: str = "") -> int:
    """Check for a whole number from `least` to `most`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{name} must be a whole number, got {value!r}") from None
    if number < least:
        raise InputError(f"{name} must be at least {least}, got {number}{_then(remedy)}")
    if number > most:
        raise InputError(f"{name} must be at most {most:,}, got {number}{_then(remedy)}")
    return number


def between(
    value: Any, name: str, low: float, high: float, *, closed: bool = False, remedy: str = ""
) -> float:
    """Check for a number strictly between `low` and `high`; `closed` also allows `high`."""
    number = _number(value, name)
    if not (low < number < high or (closed and number == high)):
        rule = (
            f"above {low:g} and at most {high:g}"
            if closed
            else f"strictly between {low:g} and {high:g}"
        )
        raise InputError(f"{name} must lie {rule}, got {value!r}{_then(remedy)}")
    return number


def not_negative(value: Any, name: str, *, most: float = math.inf) -> float:
    """Check for a finite number from 0 to `most`."""
    number = _number(value, name)
    if not 0 <= number < math.inf:
        raise InputError(f"{name} must be a finite number that is at least 0, got {value!r}")
    if number > most:
        raise InputError(f"{name} must be at most {most:,}, got {value!r}")
    return number


def _number(value: Any, name: str) -> float:
    array = isinstance(value, np.ndarray) and value.ndim > 0  # NumPy < 2.4 converts arrays of one
    if isinstance(value, str) or array:
        raise InputError(f"{name} must be a number, got {value!r}")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be a number, got {value!r}") from None


def weights(value: Any, k: int, *, least: float = 0.0) -> NDArray[np.float64]:
    """Check for k weights w_i with sum 1, none of them below `least`."""
    try:
        given = np.asarray(value)
    except ValueError:  # rows of different lengths
        given = np.array(None)
    if given.dtype.kind not in "biuf" or given.shape != (k,):
        raise InputError(f"weights must be {k} numbers, one per template, got {value!r}")
    w = given.astype(np.float64)
    if not np.all(w >= least):
        raise InputError(f"weights must be at least {least:g}, got {value!r}")
    if abs(w.sum() - 1) > 1e-9:
        raise InputError(f"weights must sum to 1, got {value!r} with sum {w.sum():g}")
    return w


def row_of(values: Any, n: int) -> NDArray[np.float64]:
    """Check for one row of n numbers."""
    row = np.asarray(values, dtype=np.float64).reshape(-1)
    if row.size != n:
        raise InputError(f"a row must have {n} bits, got {row.size}")
    return row


def noise(value: Any) -> float:
    """Check the noise level q, in (0, ½)."""
    return between(value, "noise", 0, 0.5, remedy="leave it None to have it estimated")


def seeds(value: Any, k: int) -> int:
    """Check the number of seeds l: at least one per template."""
    l = whole(value, "n_seeds", least=1)
    if l < k:
        raise InputError(
            f"n_seeds must be at least n_components = {k}, got {l}: leave it None for the paper's "
            "number"
        )
    return l


def weight(value: Any, k: int) -> float:
    """Check w_min: k weights of at least this size must not sum to more than 1."""
    number = between(value, "min_weight", 0, 1, closed=True)
    if number * k > 1 + 1e-9:
        raise InputError(
            f"min_weight must be at most 1/n_components = {1 / k:g}, got {value!r}: "
            "the weights sum to 1"
        )
    return number


def _then(remedy: str) -> str:
    return f": {remedy}" if remedy else ""
