"""Rules for parameters, each with an error that gives the rule, the value and the remedy."""

import operator
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from bitmix.errors import InputError
from bitmix.kernels.fixed import MAX_COMPONENTS, MAX_ROWS

T = TypeVar("T")


def optional(check: Callable[..., T], value: Any, *args: Any, **kwargs: Any) -> T | None:
    """None stays None; anything else must pass the check."""
    return None if value is None else check(value, *args, **kwargs)


def whole(value: Any, name: str, *, least: int) -> int:
    """A whole number from `least`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{name} must be a whole number, got {value!r}") from None
    if number < least:
        raise InputError(f"{name} must be at least {least}, got {number}")
    return number


def between(value: Any, name: str, low: float, high: float) -> float:
    """A number strictly between `low` and `high`."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number, got {value!r}") from None
    if not low < number < high:
        raise InputError(f"{name} must lie strictly between {low:g} and {high:g}, got {value!r}")
    return number


def components(value: Any, m: int) -> int:
    """k, at most one template a row, and no more rows than the integer sums have room for."""
    k = whole(value, "n_components", least=1)
    if m > MAX_ROWS or k > MAX_COMPONENTS:
        raise InputError(
            f"at most {MAX_ROWS:,} rows and {MAX_COMPONENTS:,} components fit the integer sums, "
            f"got {m:,} and {k:,}"
        )
    if k > m:
        raise InputError(
            f"n_components must be at most the number of rows, n_samples={m}, got {k}: "
            "ask for fewer components or bring more rows"
        )
    return k


def noise(value: Any) -> float:
    """q in (0, ½)."""
    return between(value, "noise", 0, 0.5)


def weight(value: Any, k: int) -> float:
    """w_min: k weights of at least that much must fit into 1."""
    number = between(value, "min_weight", 0, 1.0000001)
    if number * k > 1 + 1e-9:
        raise InputError(
            f"min_weight must be at most 1/n_components = {1 / k:g}, got {value!r}: "
            "the weights sum to 1"
        )
    return number


def seed(random_state: Any) -> int:
    """One number that fixes every random choice; a fresh one where none is given."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(1 << 32))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(1 << 32, dtype=np.uint64))
    return whole(random_state, "random_state", least=0)
