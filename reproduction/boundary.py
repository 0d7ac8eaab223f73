"""Where success begins: bisection, with no more runs per point than its verdict needs."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from reproduction.runs import Run, Sweep

TARGET = 0.9
EARLY_ERROR = 0.01
"""The largest probability of an early success at a point whose rate is below the target."""
CONFIDENCE = 0.95
_LOOKS = (0.12, 0.25, 0.65, 1.0)
"""The fractions of the runs after which the verdict is looked at."""
_EARLIEST_SUCCESS = 0.65


@dataclass(frozen=True)
class Point:
    """The runs at one value of the grid."""

    value: float
    successes: int
    runs: int


@dataclass(frozen=True)
class Boundary:
    """The least value that succeeds, and the two points next to the boundary."""

    value: float | None
    """None if no value of the grid succeeds."""
    below: Point | None
    """The largest value that was seen to fail, None if the least value of the grid succeeds."""
    at: Point | None
    low: float | None
    high: float | None
    """With 95 % confidence the rate is below the target at `low` and above it at `high`. If success
    grows along the grid, the boundary lies between them. Both are None if the runs contradict each
    other, and either one if they do not suffice to say."""

    def row(self, name: str) -> dict[str, Any]:
        """The boundary as columns of a table."""
        row: dict[str, Any] = {
            name: self.value, f"{name}_low": self.low, f"{name}_high": self.high,
        }  # fmt: skip
        for place, point in (("below", self.below), ("at", self.at)):
            if point is not None:
                row[f"successes_{place}"], row[f"runs_{place}"] = point.successes, point.runs
        return row


def geometric(least: int, most: int, step: float) -> list[int]:
    """Integers from `least` to `most`, a relative `step` apart where that is more than one."""
    count = math.ceil(math.log(most / least) / step)
    return sorted({round(value) for value in np.geomspace(least, most, count).tolist()})


def boundary(
    grid: Sequence[float], run_at: Callable[[float, int], Run], runs: int, first_seed: int
) -> Sweep[Boundary]:
    """The least value of a grid with 90 % success, assuming that success grows along the grid.

    A value succeeds if 90 % of its `runs` do. Runs stop as soon as that is settled, and after the
    first 65 % if all of these succeeded (provided that this has a probability of at most 1 % at a
    rate below 90 %).
    """
    verdicts: dict[int, tuple[bool, Point]] = {}
    low, high = -1, len(grid)
    while high - low > 1:
        middle = (low + high) // 2
        verdicts[middle] = yield from verdict(grid[middle], run_at, runs, first_seed)
        low, high = (low, middle) if verdicts[middle][0] else (middle, high)
    # Each point was looked at several times: the error is divided among all looks at all points.
    # All points use the same seeds. This only helps where the success of a run grows along the
    # grid, as a false verdict anywhere is then one at the points next to the boundary.
    error = (1 - CONFIDENCE) / (len(_LOOKS) * math.ceil(math.log2(len(grid) + 1)))
    points = [point for _, (_, point) in sorted(verdicts.items())]
    below = max((point.value for point in points if _surely_below(point, error)), default=None)
    above = min((point.value for point in points if _surely_above(point, error)), default=None)
    if below is not None and above is not None and below > above:
        below = above = None
    return Boundary(
        grid[high] if high < len(grid) else None,
        verdicts[low][1] if low >= 0 else None,
        verdicts[high][1] if high < len(grid) else None,
        below,
        above,
    )


def verdict(
    value: float, run_at: Callable[[float, int], Run], runs: int, first_seed: int
) -> Sweep[tuple[bool, Point]]:
    """Whether 90 % of the runs succeed at one value, and how many did."""
    needed = math.ceil(TARGET * runs - 1e-9)
    done = successes = 0
    for look in _LOOKS:
        upto = math.ceil(look * runs)
        results = yield [run_at(value, first_seed + number) for number in range(done, upto)]
        successes += sum(result["recovered"] for result in results)
        done = upto
        point = Point(value, successes, done)
        early = look >= _EARLIEST_SUCCESS and successes == done and TARGET**done <= EARLY_ERROR
        if successes >= needed or early:
            return True, point
        if done - successes > runs - needed:
            return False, point
    raise AssertionError("the last look settles the verdict")


def _surely_below(point: Point, error: float) -> bool:
    """Whether so few successes have at most the probability `error` at the target."""
    return bool(stats.binom.cdf(point.successes, point.runs, TARGET) <= error)


def _surely_above(point: Point, error: float) -> bool:
    """Whether so many successes have at most the probability `error` at the target."""
    return bool(stats.binom.sf(point.successes - 1, point.runs, TARGET) <= error)


def binomial_interval(successes: int, runs: int, confidence: float = 0.95) -> tuple[float, float]:
    """The exact interval of Clopper and Pearson for a rate.

    >>> low, high = binomial_interval(90, 100)
    >>> round(low, 3), round(high, 3)
    (0.824, 0.951)
    """
    tail = (1 - confidence) / 2
    low = stats.beta.ppf(tail, successes, runs - successes + 1) if successes else 0.0
    high = stats.beta.ppf(1 - tail, successes + 1, runs - successes) if successes < runs else 1.0
    return float(low), float(high)
