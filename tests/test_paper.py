"""The folder `paper`: what we say we found is what the stored results hold."""

import re
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("reproduction", reason="a source package does not hold it")

from paper import compare
from reproduction.artefacts import ARTEFACTS
from reproduction.tables import printed

PAPER = Path(__file__).parents[1] / "paper"
EXPECTED = tomllib.loads((PAPER / "expected.toml").read_text(encoding="utf-8"))
CLAIMS = [
    (name, claim) for name in ARTEFACTS for claim in EXPECTED[name]["claims"] if "from" in claim
]


def test_the_page_is_written_from_what_was_found():
    assert (PAPER / "README.md").read_text(encoding="utf-8") == compare.page()


def test_every_figure_and_table_is_there():
    assert [name for name in EXPECTED if name not in ("run", "oddities")] == list(ARTEFACTS)
    for name in ARTEFACTS:
        entry = EXPECTED[name]
        assert entry["command"].startswith(f"python -m reproduction {name}")
        assert entry["claims"]
        assert all(claim.get("why", entry.get("why")) for claim in entry["claims"])
        assert (PAPER / "results" / f"{name}.csv").is_file()
    page = (PAPER / "README.md").read_text(encoding="utf-8")
    for linked in re.findall(r"\]\((results/[^)]+)\)", page):
        assert (PAPER / linked).is_file(), linked


@pytest.mark.parametrize(("name", "claim"), CLAIMS, ids=lambda value: str(value)[:40])
def test_numbers_are_those_of_the_results(name, claim):
    found = compare.looked_up(claim)
    assert claim["ours"] == pytest.approx(found, rel=1e-3, abs=5e-5), claim["says"]


def test_the_papers_tables_are_quoted_right():
    for table, methods in printed().items():
        for claim in EXPECTED[table]["claims"]:
            method, _, measure = claim["says"].partition(": ")
            if method in methods and measure in ("purity", "entropy"):
                mean, std = methods[method][measure], methods[method][f"{measure}_std"]
                assert claim["paper"] == f"{mean:.4f} ± {std:.4f}"


def test_no_photograph_is_committed():
    """Of the figures that show images, only those of the digits."""
    assert not list((PAPER / "results").glob("fig[278].*g"))
