"""README and documentation: examples run, and numbers are those that the benchmarks printed."""

import csv
import re
import statistics
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from command import bitmix as run_bitmix
from PIL import Image

import bitmix
import bitmix.cli

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def page(name):
    return (ROOT / "docs" / f"{name}.rst").read_text()


def python_blocks(name):
    blocks = re.findall(r"code-block:: python\n\n((?:    .*\n|\n)+)", page(name))
    return [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in blocks]


def test_readme_examples(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    printed = capsys.readouterr().out.splitlines()
    promised = re.findall(r"^print\(.*\)\s+# (.*)$", "\n".join(blocks), flags=re.MULTILINE)
    assert promised
    for line in promised:
        assert line in printed


@pytest.mark.parametrize(
    "name",
    [
        "index",
        "first_steps",
        "images",
        "choosing",
        "report",
        "faq",
        "paper_in_code",
        "paper_numbers",
    ],
)
def test_examples_of_the_documentation(name, planted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    y, x = np.mgrid[:60, :60]
    for folder, wave in (("flat", y), ("steep", x), ("slanted", x + y)):
        (tmp_path / "photos" / folder).mkdir(parents=True)
        for i in range(6):
            grey = (127 + 120 * np.sin((wave + i) / 5.0)).astype(np.uint8)
            Image.fromarray(grey).save(tmp_path / "photos" / folder / f"{i}.png")
    blocks = python_blocks(name)
    assert blocks
    names: dict[str, object] = {"X": planted[0]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in blocks:
            exec(block, names)


def test_the_commands_of_the_first_steps_print_what_the_page_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(python_blocks("first_steps")[0], {})
    console = re.findall(r"code-block:: console\n\n((?:    .*\n)+)", page("first_steps"))
    commands = [
        command
        for block in console[1:]  # the first installs
        for command in re.split(r"^    \$ ", block, flags=re.MULTILINE)[1:]
        if command.startswith("bitmix ")
    ]
    assert len(commands) == 4
    for command in commands:
        line, *shown = command.replace("\n    ", "\n").strip().split("\n")
        done = run_bitmix(*line.split()[1:])
        assert (done.returncode, done.stderr) == (0, "")
        printed = [line.rstrip() for line in done.stdout.strip().split("\n")]
        assert not shown or printed == shown


# Numbers. The benchmarks store what they print as benchmarks/results/NAME.csv.


def results(name):
    """The stored results of a benchmark; none if it has not been run for this version."""
    path = ROOT / "benchmarks" / "results" / f"{name}.csv"
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def table_row(*cells):
    """A line of a table in README."""
    return re.sub(" +", " ", f"| {' | '.join(cells)} |")


def test_seconds_are_those_of_the_benchmark():
    """Without results there is no table."""
    seconds = {
        (int(row["rows"]), row["method"]): float(row["seconds"]) for row in results("ratios")
    }
    assert ("| rows | `TemplateMixture` |" in README) == bool(seconds)
    methods = list(dict.fromkeys(method for _, method in seconds))
    for m in sorted({m for m, _ in seconds}):
        times = [seconds.get((m, method)) for method in methods]
        cells = [
            "–" if time is None else f"{time:.{0 if time >= 10 else 1 if time >= 1 else 2}f}"
            for time in times
        ]
        assert table_row(f"{m:,}", *cells) in README


def test_scores_of_real_tables_are_those_of_the_benchmark():
    """Means over the seeds of the normalised mutual information with the classes."""
    values = defaultdict(list)
    for row in results("tables"):
        values[row["table"], row["method"]].append(float(row["nmi"]))
    for (table, method), nmi in values.items():
        if method in ("KMeans(n_init=3)", "plain EM", "noise_model='auto'"):
            mean = f"{statistics.fmean(nmi):.3f}".removeprefix("0")
            assert mean in page("choosing"), (table, method)


def test_numbers_of_surveys_are_those_of_the_benchmark():
    sums = defaultdict(lambda: [0.0, 0])
    for row in results("lca"):
        pair = sums[row["part"], row["measure"]]
        pair[0] += float(row["total"])
        pair[1] += int(row["of"])
    text = " ".join(page("paper_numbers").split())
    if ("blrt-size", "rejected") in sums:
        rejected, of = sums["blrt-size", "rejected"]
        assert f"{rejected:.0f} of {of} surveys are rejected, {100 * rejected / of:.1f} %" in text
    for method in ("bch", "ml"):
        if ("relate", f"{method} held") in sums:
            held, of = sums["relate", f"{method} held"]
            share = f"{100 * held / of:.1f} %"
            said = (f"{share} of the means with {method.upper()}", f"{share} with {method.upper()}")
            assert any(each in text for each in said)
    lines = " ".join(page("search").split())
    for (part, measure), (total, of) in sums.items():
        if part == "starts" and measure.endswith(", default"):
            table = measure.removesuffix(", default")
            plain, _ = sums[part, f"{table}, 5 starts of plain EM"]
            assert f"* - {table} - {total:.0f} of {of} - {plain:.0f} of {of}" in lines


def test_certificates_were_counted_as_the_documentation_prints():
    fits, wrong, issued, issued_wrong = re.search(
        r"all +(\d+) +(\d+) +(\d+) +(\d+)", page("certificates")
    ).groups()
    text = " ".join(README.split())
    assert f"In {int(fits):,} simulated fits, {wrong} of them wrong, {issued} certificates" in text
    assert issued_wrong == "0"
    assert "none of them was wrong" in text


@pytest.mark.parametrize("name", ["README", "index", "first_steps", "faq"])
def test_large_fits_are_said_to_search_in_a_sample(name):
    text = " ".join((README if name == "README" else page(name)).split())
    assert re.search(r"sample", text)
    assert re.search(r"(over|through) all rows", text)
    if name != "index":
        assert "4,096 rows" in text


def test_files_that_are_named_exist():
    """``em/seeds.py`` is a file of the package, ``benchmarks/trust.py`` one of the repository."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.rst"))):
        for name in re.findall(r"`([\w/]+\.py)\b", page.read_text()):
            places = (ROOT / name, ROOT / "src" / "bitmix" / name)
            assert any(place.exists() for place in places), f"{page.name} names {name}"


def test_every_public_name_is_in_the_reference():
    listed = set(page("api").split())
    for module in (bitmix.datasets, bitmix.features, bitmix.plots, bitmix.report, bitmix.theory):
        assert set(module.__all__) <= listed, module.__name__
    own = {name for name in bitmix.__all__ if isinstance(getattr(bitmix, name), type)}
    assert own <= listed


def test_false_alarms_are_those_of_the_benchmark():
    """Weighted by rows; areas are means over classes and seeds."""
    page = re.sub(r"\s+", " ", (ROOT / "docs" / "groups.rst").read_text(encoding="utf-8"))
    rows = results("unlike")
    for table in dict.fromkeys(row["table"] for row in rows):
        mine = [row for row in rows if row["table"] == table]
        n = [int(row["held_out"]) for row in mine]
        alarms = [
            100 * np.average([float(row[f"at_{level}"]) for row in mine], weights=n)
            for level in ("0.01", "0.05")
        ]
        areas = [np.mean([float(row[name]) for row in mine]) for name in ("auc", "auc_tanimoto")]
        cells = [f"{a:.1f} %" for a in alarms] + [f"{a:.3f}".removeprefix("0") for a in areas]
        assert f"* - {table} - {' - '.join(cells)}" in page
