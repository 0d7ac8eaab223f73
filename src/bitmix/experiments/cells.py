"""A cell: one run of one method at one setting with one seed, and what identifies it."""

import hashlib
import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from bitmix import __version__

T = TypeVar("T")
Result = Mapping[str, Any]
"""What a cell found: a few numbers, as JSON keeps them."""

Sweep = Generator[Sequence["Cell"], Sequence[Result], T]
"""Asks for cells, is sent their results in the same order, and so on; returns its finding.

What it asks for next may depend on results, never on the order in which they came in: so a sweep
that was killed and run again asks for the same cells and ends with the same finding.
"""


@dataclass(frozen=True, eq=False)
class Cell:
    """One unit of work; the same `key` means the same result."""

    task: str
    """Which function of `tasks` does it."""
    setting: Mapping[str, Any]
    method: Mapping[str, Any]
    seed: int
    inputs: str = ""
    """A file the task reads; the setting holds its digest, so its place is not in the key."""

    @property
    def identity(self) -> dict[str, Any]:
        """All that the result depends on, the version of the package included."""
        return {
            "version": __version__,
            "task": self.task,
            "setting": dict(self.setting),
            "method": dict(self.method),
            "seed": self.seed,
        }

    @cached_property
    def key(self) -> str:
        return hashlib.sha256(canonical(self.identity).encode()).hexdigest()


def canonical(value: Any) -> str:
    """JSON with one spelling."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def ask(cells: Sequence[Cell]) -> Sweep[Sequence[Result]]:
    """The sweep that asks once and returns what it was told."""
    return (yield cells)
