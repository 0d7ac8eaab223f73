"""A run is one method at one setting with one seed; a sweep asks for runs."""

import hashlib
import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from bitmix import __version__

T = TypeVar("T")
Result = Mapping[str, Any]
"""The outcome of a run: a few numbers that JSON can hold."""

Sweep = Generator[Sequence["Run"], Sequence[Result], T]
"""Yields runs, is sent their results in the same order, and returns its conclusion.

The runs it asks for next may depend on results, but never on the order in which results arrive.
So a sweep that is started again after a kill asks for the same runs and returns the same.
"""


@dataclass(frozen=True, eq=False)
class Run:
    """One unit of work. Runs with the same `key` have the same result."""

    task: str
    """The name of the function in `tasks` that executes it."""
    setting: Mapping[str, Any]
    method: Mapping[str, Any]
    seed: int
    inputs: str = ""
    """A file that the task reads. Its digest is part of the setting, its path not of the key."""

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that the result depends on, including the version of bitmix."""
        return {
            "version": __version__,
            "task": self.task,
            "setting": dict(self.setting),
            "method": dict(self.method),
            "seed": self.seed,
        }

    @cached_property
    def key(self) -> str:
        return hashlib.sha256(canonical_json(self.identity).encode()).hexdigest()

    def __str__(self) -> str:
        return canonical_json({"setting": self.setting, "method": self.method, "seed": self.seed})


def canonical_json(value: Any) -> str:
    """JSON in which equal values have equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def ask(runs: Sequence[Run]) -> Sweep[Sequence[Result]]:
    """A sweep that asks once and returns the results."""
    return (yield runs)
