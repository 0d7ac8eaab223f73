"""What is published says the same everywhere: versions, addresses, numbers of the article."""

import csv
import re
import shutil
import statistics
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import release

import bitmix
from bitmix import TemplateMixture, TwoRoundEM
from bitmix.features import GaborSketch
from bitmix.support import pages

ROOT = Path(__file__).parents[1]
PAPER = (ROOT / "joss" / "paper.md").read_text("utf-8")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_there_is_one_version():
    assert release.version() == bitmix.__version__
    assert set(release.other_versions().values()) == {bitmix.__version__}
    assert PYPROJECT["project"]["dynamic"] == ["version"]


def test_the_release_check_sees_what_is_missing(monkeypatch):
    texts = {
        name: release.text(name)
        for name in (
            "CITATION.cff", "CHANGELOG.md", "recipe/recipe.yaml", "pyproject.toml",
            "src/bitmix/__init__.py",
        )
    }  # fmt: skip
    here = bitmix.__version__
    ready = texts | {
        "CHANGELOG.md": re.sub(
            rf"^## \[{here}\].*$", f"## [{here}] - 2026-12-01", texts["CHANGELOG.md"], flags=re.M
        ),
        "pyproject.toml": texts["pyproject.toml"].replace("owner.invalid", "example.org"),
    }
    monkeypatch.setattr(release, "text", lambda name: ready[name])
    assert release.missing(f"v{here}") == []
    assert len(release.missing("v9.9.9")) == 1
    ready["CITATION.cff"] = ready["CITATION.cff"].replace(f"version: {here}", "version: 0.0.1")
    assert "CITATION.cff is of version 0.0.1" in release.missing()[0]
    ready["pyproject.toml"] = texts["pyproject.toml"]
    assert len(release.missing()) == 1 + len(PYPROJECT["project"]["urls"])


def test_placeholders_stand_in_one_place():
    if shutil.which("git") is None:
        pytest.skip("git is missing")
    command = ["git", "grep", "-l", "owner.invalid"]
    files = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if files.returncode > 1:
        pytest.skip("this is not a clone")
    assert set(files.stdout.split()) <= {"pyproject.toml", "tests/test_release.py"}


def test_a_notebook_links_to_the_page_of_an_estimator(monkeypatch):
    """The page is one that the reference makes; without an address there is no link."""
    listed = (ROOT / "docs" / "api.rst").read_text("utf-8").split()
    for model in (TemplateMixture(), TwoRoundEM(), GaborSketch()):
        monkeypatch.setattr(pages, "address", lambda: "")
        assert model._get_doc_link() == ""
        monkeypatch.setattr(pages, "address", lambda: "https://example.org/stable/")
        link = model._get_doc_link()
        name = type(model).__name__
        module = "bitmix.features" if name == "GaborSketch" else "bitmix"
        assert link == f"https://example.org/stable/api/generated/{module}.{name}.html"
        assert name in listed
        assert link in model._repr_html_()


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://owner.invalid/bitmix/stable/", ""),
        ("https://example.org/b", "https://example.org/b/"),
    ],
)
def test_the_address_is_that_of_the_installed_package(url, address, monkeypatch):
    class Installed:
        def get_all(self, name):
            return ["Homepage, https://example.org/", f"Documentation, {url}"]

    monkeypatch.setattr(pages.metadata, "metadata", lambda name: Installed())
    assert pages.address.__wrapped__() == address

    def not_installed(name):
        raise pages.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(pages.metadata, "metadata", not_installed)
    assert pages.address.__wrapped__() == ""


def test_every_job_is_a_target_and_every_action_is_pinned():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.M))
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert len(workflows) == 3
    for path in workflows:
        text = path.read_text("utf-8")
        named = set(re.findall(r"run: make ([a-z-]+)", text))
        named |= {name for row in re.findall(r"target: \[(.*)\]", text) for name in row.split(", ")}
        assert named
        assert named <= targets, path.name
        for action, comment in re.findall(r"uses: \S+@(\S+)( #.*)?", text):
            assert re.fullmatch(r"[0-9a-f]{40}", action) or "owner" in comment, path.name


def test_the_article_is_of_the_length_that_the_journal_wants():
    body = PAPER.split("---", 2)[2].split("# References")[0]
    assert 750 <= len(body.split()) <= 1000
    cited = set(re.findall(r"@(\w+)", body))
    assert cited == set(re.findall(r"^@\w+\{(\w+),", (ROOT / "joss/paper.bib").read_text(), re.M))
    for picture in re.findall(r"\]\((\S+\.png)\)", body):
        assert (ROOT / "joss" / picture).is_file()


def rows(name):
    with (ROOT / "benchmarks" / "results" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_numbers_of_the_article_are_those_of_the_benchmarks():
    text = " ".join(PAPER.split())
    real = {(r["table"], int(r["k"]), r["method"]): r for r in rows("real")}
    cell, plain = "TemplateMixture, cell", "plain EM, 5 starts"
    for table, k, digits in (("molecules10", 200, 1), ("webkb", 10, 2)):
        for method in (cell, plain):
            found = real[table, k, method]
            assert f"{float(found['seconds']):.{digits}f}" in text
            assert f"{float(found['log_likelihood']):.1f}".replace("-", "−") in text
    ratios = [
        float(real[table, k, "TemplateMixture"]["seconds"]) / float(r["seconds"])
        for (table, k, method), r in real.items()
        if method == cell
    ]
    assert [round(2 * value) / 2 for value in (min(ratios), max(ratios))] == [1, 8]
    tables = rows("tables")
    for method in ("KMeans(n_init=3)", "plain EM", "noise_model='auto'"):
        names = sorted({row["table"] for row in tables})
        means = [
            statistics.fmean(
                float(row["nmi"]) for row in tables if (row["table"], row["method"]) == (t, method)
            )
            for t in names
        ]
        assert len(names) == 7
        assert f"{statistics.fmean(means):.3f}".removeprefix("0") in text
    seconds = {(row["rows"], row["method"]): float(row["seconds"]) for row in rows("ratios")}
    assert f"{seconds['1000000', 'TemplateMixture']:.2f} s" in text
    assert f"{seconds['200000', 'KMeans(n_init=1)']:.0f} s" in text


def test_links_that_lead_nowhere_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        "<a href='b.html#x'>1</a><a href='b.html#y'>2</a><a href='c.html'>3</a><p id='z'>"
        "<a href='#z'>4</a><a href='https://example.org/'>5</a>"
    )
    (tmp_path / "b.html").write_text("<p id='x'>")
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "links.py", tmp_path], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "a.html: b.html#y leads nowhere", "a.html: c.html leads nowhere",
    ]  # fmt: skip
    (tmp_path / "a.html").write_text("<a href='b.html#x'>1</a>")
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "links.py", tmp_path], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "all links within 2 pages lead somewhere\n")
