"""Results as lines of a CSV file, so that a benchmark goes on where it was stopped."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class ResultsFile:
    """A CSV file with a header, to which lines are appended."""

    def __init__(self, path: Path, header: Sequence[str]) -> None:
        self.path, self.header = path, header

    def rows(self) -> list[dict[str, str]]:
        if not self.path.exists():
            return []
        with self.path.open(newline="") as file:
            return list(csv.DictReader(file))

    def append(self, *values: Any) -> None:
        lines = [values] if self.path.exists() else [self.header, values]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", newline="") as file:
            csv.writer(file).writerows(lines)
