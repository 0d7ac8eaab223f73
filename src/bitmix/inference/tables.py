"""Tables of results: as a DataFrame, as records, and as Markdown, LaTeX or CSV text."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bitmix.errors import InputError

_NOTHING = "–"
_LATEX = str.maketrans({
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--",
    "−": "$-$", "²": "$^2$", "χ": r"$\chi$", "<": r"$<$", ">": r"$>$",
})  # fmt: skip


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    name: str
    """The key of a record, and the heading in CSV."""
    heading: str
    """The printed heading."""
    spec: str = ""
    """How a number is printed, as in ``format(number, spec)``; text is printed as it is."""
    ends: tuple[str, ...] = ()
    """The keys of the ends of an interval, which is printed after the number."""

    def cell(self, record: dict[str, Any]) -> str:
        """The value of a record as text."""
        if not self.ends:
            return self.shown(record[self.name])
        low, high = (self.shown(record[end]) for end in self.ends)
        return f"{self.shown(record[self.name])} [{low}, {high}]"

    def shown(self, value: Any) -> str:
        """A value as text; a dash if there is none."""
        if is_nothing(value):
            return _NOTHING
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, str):
            return value
        return format(value, self.spec).replace("-", "−")


@dataclass(frozen=True)
class Table:
    """Columns, and one record per line."""

    columns: tuple[Column, ...]
    records: tuple[dict[str, Any], ...]

    @property
    def names(self) -> list[str]:
        """The names of all columns, with the ends of intervals after their numbers."""
        return [name for column in self.columns for name in (column.name, *column.ends)]

    def frame(self) -> Any:
        """A pandas DataFrame, or a list of dictionaries if pandas is not installed."""
        records = [{name: record[name] for name in self.names} for record in self.records]
        try:
            import pandas
        except ModuleNotFoundError:
            return records
        return pandas.DataFrame(records, columns=self.names)

    def text(self, format: str) -> str:
        """The table as "markdown", "latex" or "csv"."""
        writers = {"markdown": self.to_markdown, "latex": self.to_latex, "csv": self.to_csv}
        if format not in writers:
            raise InputError(f"format must be one of {', '.join(writers)}, got {format!r}")
        return writers[format]()

    def lines(self) -> list[list[str]]:
        """The cells as text."""
        return [[c.cell(record) for c in self.columns] for record in self.records]

    def to_markdown(self) -> str:
        """A Markdown table."""
        aligned = ["---:" if self._is_number(c) else "---" for c in self.columns]
        head = [c.heading for c in self.columns]
        lines = [[cell.replace("|", r"\|") for cell in line] for line in (head, *self.lines())]
        return "".join(f"| {' | '.join(line)} |\n" for line in (lines[0], aligned, *lines[1:]))

    def to_latex(self) -> str:
        """A LaTeX tabular with the rules of booktabs."""
        aligned = "".join("r" if self._is_number(column) else "l" for column in self.columns)

        def line(cells: Sequence[str]) -> str:
            return " & ".join(cell.translate(_LATEX) for cell in cells) + r" \\"

        parts = [rf"\begin{{tabular}}{{{aligned}}}", r"\toprule"]
        parts += [line([column.heading for column in self.columns]), r"\midrule"]
        parts += [line(cells) for cells in self.lines()]
        return "\n".join([*parts, r"\bottomrule", r"\end{tabular}"]) + "\n"

    def to_csv(self) -> str:
        """CSV text; numbers have all their digits, and missing values are empty."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.names)
        for record in self.records:
            writer.writerow([_plain(record[name]) for name in self.names])
        return text.getvalue()

    def _is_number(self, column: Column) -> bool:
        values = [record[column.name] for record in self.records]
        return not any(isinstance(value, str) for value in values)


def is_nothing(value: Any) -> bool:
    """Whether there is no value: None or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _plain(value: Any) -> Any:
    if is_nothing(value):
        return ""
    return repr(value) if isinstance(value, float) else value
