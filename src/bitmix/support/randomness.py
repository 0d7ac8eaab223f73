"""Random streams: one seed, and an independent stream for each purpose."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bitmix.support import checks

Purpose = Literal[
    "seeds", "templates", "rows", "certificate", "sample", "folds", "bootstrap", "simulation",
    "calibration",
]  # fmt: skip
_NUMBER: dict[Purpose, int] = {
    "seeds": 1, "templates": 2, "rows": 3, "certificate": 4, "sample": 5, "folds": 6,
    "bootstrap": 7, "simulation": 8, "calibration": 9,
}  # fmt: skip


def seed_of(random_state: Any) -> int:
    """Return the seed of all random choices; a new one is drawn if `random_state` is None."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(1 << 32))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(1 << 32, dtype=np.uint64))
    return checks.whole(random_state, "random_state", least=0)


def stream(seed: int, purpose: Purpose, start: int = 0) -> np.random.Generator:
    """The generator for one purpose and start number."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_NUMBER[purpose], start)))


def draw_without_replacement(m: int, l: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw l of m row numbers without replacement; a smaller l gives a prefix of a larger one."""
    drawn = rng.integers(np.arange(l), m)
    moved: dict[int, int] = {}  # a Fisher–Yates shuffle of 0 … m-1, only moved entries
    out = np.empty(l, dtype=np.int64)
    for i, j in enumerate(drawn.tolist()):
        out[i] = moved.get(j, j)
        moved[j] = moved.get(i, i)
    return out


def draw_by_weight(
    weights: NDArray[np.int64], l: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Draw l rows without replacement from the table in which each row is repeated by weight."""
    ends = np.cumsum(weights)
    total = int(ends[-1])
    drawn = draw_without_replacement(total, min(l, total), rng)
    return np.searchsorted(ends, drawn, side="right")
