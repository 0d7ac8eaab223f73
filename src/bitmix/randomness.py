"""Random streams. One seed serves many purposes; no two of them share a stream."""

from typing import Any, Literal

import numpy as np

from bitmix import checks

Purpose = Literal["seeds", "templates", "rows", "certificate", "sample"]
_NUMBER: dict[Purpose, int] = {"seeds": 1, "templates": 2, "rows": 3, "certificate": 4, "sample": 5}


def seed_of(random_state: Any) -> int:
    """One number that fixes every random choice; a fresh one where none is given."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(1 << 32))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(1 << 32, dtype=np.uint64))
    return checks.whole(random_state, "random_state", least=0)


def stream(seed: int, purpose: Purpose, start: int = 0) -> np.random.Generator:
    """The generator for one purpose and start."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_NUMBER[purpose], start)))
