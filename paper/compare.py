"""Writes README.md, the paper's values beside ours: ``python paper/compare.py``.

Run it after expected.toml has changed. Tests compare README.md with the text that this program
writes, and the numbers of expected.toml with the files in results/.
"""

import csv
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
INTRODUCTION = """# The paper, reproduced

Barbu, Wu & Wu, "Learning Mixtures of Bernoulli Templates by Two-Round EM with Performance
Guarantee", Electronic Journal of Statistics 8 (2014). For every figure and table this page has the
paper's values, ours, and the reason for the difference; *open* means that we do not know it.

All results come from one command, with {runs} runs per point and seed {seed}:

    {command}

It took {time}.

The photographs are not in this repository, as most of them state no licence. The pictures of
Figures 2, 7 and 8 below therefore show scikit-learn's digits, which are used without `--images`.
All tables and numbers are from the photographs. `results/` holds the CSV files. `compare.py` writes
this page from `expected.toml`, and a test compares its numbers with the CSV files.
"""


def main() -> None:
    (HERE / "README.md").write_text(page(), encoding="utf-8")


def page() -> str:
    """The text of README.md."""
    expected = tomllib.loads((HERE / "expected.toml").read_text(encoding="utf-8"))
    parts = [INTRODUCTION.format(**expected.pop("run"))]
    oddities = expected.pop("oddities")
    parts += [section(name, entry) for name, entry in expected.items()]
    parts.append("## Oddities of the paper\n\nOur results are not tuned to them.\n")
    parts.append("\n".join(f"- {oddity}" for oddity in oddities["list"]) + "\n")
    return "\n".join(parts)


def section(name: str, entry: dict[str, Any]) -> str:
    """The section of one figure or table."""
    picture = entry.get("picture", f"results/{name}.png")
    lines = [
        f"## {entry['title']}", "",
        f"`{entry['command']}`, {entry['time']}. [CSV](results/{name}.csv)"
        + (f", [table](results/{name}.md)" if name.startswith("table") else ""), "",
        f"![{entry['title']}]({picture})", "",
    ]  # fmt: skip
    if "why" in entry:
        lines += [f"Unless the table gives another reason for a difference: {entry['why']}.", ""]
    lines += ["| | paper | ours | difference |", "|---|---|---|---|"]
    for claim in entry["claims"]:
        values = (claim["says"], claim["paper"], shown(claim["ours"]), claim.get("why", ""))
        lines.append(f"| {' | '.join(values)} |")
    return "\n".join(lines) + "\n"


def shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def looked_up(claim: dict[str, Any]) -> float:
    """The number in the row and column of the CSV file that a claim is from."""
    place = claim["from"]
    with open(HERE / "results" / place["file"], newline="", encoding="utf-8") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if all(row[column] == str(value) for column, value in place["where"].items())
        ]
    if len(rows) != 1:
        raise LookupError(f"{place} must name one row, but names {len(rows)}")
    return float(rows[0][place["column"]])


if __name__ == "__main__":
    main()
