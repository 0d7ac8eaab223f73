"""Writes README.md: the paper's values beside ours, from expected.toml and results/*.csv.

Run it after the results change: ``python paper/compare.py``. A test holds README.md to it.
"""

import csv
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
INTRODUCTION = """# The paper, reproduced

Barbu, Wu & Wu, "Learning Mixtures of Bernoulli Templates by Two-Round EM with Performance
Guarantee", Electronic Journal of Statistics 8 (2014): every figure and table, the paper's values,
ours, and why they differ. *Open* means that we do not know.

All results come from one command, {runs} runs a point, seed {seed}, {time} on {machine}:

    {command}

The photographs are not in this repository (most state no licence), so the pictures of Figures 2, 7
and 8 below show the digits that stand in without `--images`; tables and numbers are from the
photographs. `results/` holds the CSV files; this page is written from `expected.toml`, and a test
compares its numbers with the CSV files.
"""


def main() -> None:
    (HERE / "README.md").write_text(page(), encoding="utf-8")


def page() -> str:
    """The whole page."""
    expected = tomllib.loads((HERE / "expected.toml").read_text(encoding="utf-8"))
    parts = [INTRODUCTION.format(**expected.pop("run"))]
    oddities = expected.pop("oddities")
    parts += [section(name, entry) for name, entry in expected.items()]
    parts.append("## Oddities of the paper\n\nRecorded, not tuned to.\n")
    parts.append("\n".join(f"- {oddity}" for oddity in oddities["list"]) + "\n")
    return "\n".join(parts)


def section(name: str, entry: dict[str, Any]) -> str:
    """One figure or table."""
    picture = entry.get("picture", f"results/{name}.png")
    lines = [
        f"## {entry['title']}", "",
        f"`{entry['command']}`, {entry['time']}. [CSV](results/{name}.csv)"
        + (f", [table](results/{name}.md)" if name.startswith("table") else ""), "",
        f"![{entry['title']}]({picture})", "",
        "| | paper | ours | difference |", "|---|---|---|---|",
    ]  # fmt: skip
    for claim in entry["claims"]:
        lines.append(
            f"| {claim['says']} | {claim['paper']} | {shown(claim['ours'])} | {claim['why']} |"
        )
    return "\n".join(lines) + "\n"


def shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def looked_up(claim: dict[str, Any]) -> float:
    """The number a claim says it is from: one row of a CSV file, one column."""
    place = claim["from"]
    with open(HERE / "results" / place["file"], newline="", encoding="utf-8") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if all(row[column] == str(value) for column, value in place["where"].items())
        ]
    if len(rows) != 1:
        raise LookupError(f"{place} names {len(rows)} rows")
    return float(rows[0][place["column"]])


if __name__ == "__main__":
    main()
