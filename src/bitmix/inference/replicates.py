"""Replicates: the same computation on many random tables, in parallel threads."""

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bitmix.kernels.threads import available, run_in_threads
from bitmix.rows.packed import BitMatrix
from bitmix.support.progress import meter

R = TypeVar("R")


def for_each(numbers: Sequence[int], function: Callable[[int], R], label: str = "") -> list[R]:
    """The results of the function for these numbers, in order; with a bar if there is a label.

    The function must not depend on the order of the calls: each replicate has its own random
    stream.
    """
    results: dict[int, R] = {}
    waiting, lock, stop = iter(numbers), threading.Lock(), threading.Event()

    def work() -> None:
        while not stop.is_set():
            with lock:
                number = next(waiting, None)
            if number is None:
                return
            results[number] = function(number)
            update(len(results), "")

    with meter(label, len(numbers) if label else 0) as update:
        run_in_threads(work, max(1, min(available(), len(numbers))), stop)
    return [results[number] for number in numbers]


def resampled(rows: BitMatrix, rng: np.random.Generator) -> BitMatrix:
    """Draw as many people with replacement: the same packed rows with other weights.

    Whole weights are numbers of people. With other weights, rows are drawn and keep their weights.
    """
    m, one = len(rows), rows.layout.weight_one
    if one > 1:
        return rows.weighted(rng.multinomial(m, np.full(m, 1 / m)) * rows.weights)
    people = rows.weights
    return rows.weighted(rng.multinomial(int(people.sum()), people / people.sum()))


def known_words(rows: BitMatrix, rng: np.random.Generator, n: int) -> NDArray[np.uint64] | None:
    """Draw which cells n people answered from the patterns of the rows; None if none is missing."""
    if not rows.layout.missing:
        return None
    drawn = rng.choice(len(rows), size=n, p=rows.weights / rows.weights.sum())
    known = rows.layout.known(rows.subset(drawn).words, rows.shape[1])
    assert known is not None
    return known
