"""The commands: what they print, the files they read and write, and their exit codes."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import typer
from command import bitmix
from hostile import scenario
from PIL import Image

from bitmix import (
    BitMatrix,
    ClassicEM,
    TemplateMixture,
    TemplateTree,
    TwoRoundEM,
    __version__,
    select_components,
)
from bitmix.cli.options import expand
from bitmix.datasets import make_templates, sample_mixture
from bitmix.estimators.load import load_model
from bitmix.features import GaborGeometry
from bitmix.metrics import conditional_purity

COLUMNS = ("--id-column", "who", "--label-column", "kind")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A planted table with ids and labels in several formats, and a model of it."""
    here = tmp_path_factory.mktemp("tables")
    truth = make_templates(3, 300, separation=0.5, random_state=0)
    X, labels = sample_mixture(truth, [0.5, 0.3, 0.2], 0.1, 600, random_state=0)
    bits = X.to_dense()
    table = pd.DataFrame(bits, columns=[f"gene {i}" for i in range(300)])
    features_reversed = table.iloc[:, ::-1]
    features_reversed.to_csv(here / "reversed.csv", index=False)
    table.insert(0, "who", [f"Ann, {i}" for i in range(600)])
    table["kind"] = [f"class {label}" for label in labels]
    table.to_csv(here / "rows.csv", index=False)
    table.to_parquet(here / "rows.parquet", row_group_size=100)
    X.save(here / "rows.bits")
    np.save(here / "rows.npy", bits)
    scipy.sparse.save_npz(here / "rows.npz", scipy.sparse.csr_matrix(bits))
    pd.DataFrame(bits).to_csv(here / "unnamed.tsv", index=False, header=False, sep="\t")
    done = bitmix("fit", here / "rows.csv", "-k", "3", *COLUMNS, "-o", here / "my.model")
    assert done.returncode == 0, done.stderr
    (here / "printed.txt").write_text(done.stdout)
    return here


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Two classes of eight small images."""
    here = tmp_path_factory.mktemp("images")
    y, x = np.mgrid[:60, :60]
    for name, wave in (("flat", y), ("steep", x)):
        (here / name).mkdir()
        for i in range(8):
            grey = 127 + 120 * np.sin((wave + i) / 5.0)
            Image.fromarray(grey.astype(np.uint8)).save(here / name / f"{i}.png")
    return here


# Options


@dataclass(frozen=True)
class Sizes:
    width: Annotated[int, typer.Option(min=1)] = 3
    height: Annotated[int, typer.Option("--tall", "-t")] = 4


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["a"], ("a", Sizes(), False)),
        (["a", "--width", "5", "--flag"], ("a", Sizes(5), True)),
        (["-t", "9", "a"], ("a", Sizes(3, 9), False)),
    ],
)
def test_a_dataclass_of_options_is_one_option_per_field(arguments, expected):
    calls = []

    def command(name: str, sizes: Sizes, flag: Annotated[bool, typer.Option("--flag")] = False):
        calls.append((name, sizes, flag))

    app = typer.Typer()
    app.command()(expand(command))
    app(arguments, standalone_mode=False)
    assert calls == [expected]


def test_version_and_help():
    assert bitmix("--version").stdout == f"bitmix {__version__}\n"
    listed = bitmix("--help").stdout
    names = re.findall(r"^  (\w+) ", listed.split("Commands:")[1], flags=re.M)
    assert names == [
        "demo", "fit", "predict", "groups", "inspect", "certify", "convert", "sketch", "plan",
    ]  # fmt: skip
    assert "..." not in listed.split("Commands:")[1]  # every command is described in one line
    for name in names:
        assert "Examples:\n    bitmix " + name in bitmix(name, "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--rows", "3"], "Invalid value for '--rows'"),
        (["demo", "--noise", "0.7"], "Invalid value for '--noise'"),
        (["demo", "--seed", "-1"], "Invalid value for '--seed'"),
        (["demo", "--colour"], "No such option"),
        (["dance"], "No such command"),
        (["plan", "--q", "0.7", "--n", "10"], "0.5"),
        (["plan", "--q", "0.1"], "--n, the number of columns, is needed"),
        (["plan", "--q", "0.1", "--n", "10", "--k", "1"], "k must be at least 2"),
        (["plan", "--q", "0.1", "--n", "10", "--plot", "no/such.png"], "there is no folder no"),
        (["plan", "--q", "0.1", "--n", "10", "--plot", "x.pdf"], "must end in .png or .svg"),
        (["certify", "absent.model", "absent.csv"], "absent.model"),
        (["certify", __file__, __file__], "not a bitmix model"),
        (["fit", "rows.bits", "-k", "0"], "a range such as 2-5, or auto, got '0'"),
        (["fit", "rows.bits", "-k", "three"], "or auto, got 'three'"),
        (["fit", "rows.bits", "-k", "-1"], "or auto, got '-1'"),
        (["fit", "rows.bits", "-k", "3-2"], "or auto, got '3-2'"),
        (["fit", "rows.bits", "-k", "2-"], "or auto, got '2-'"),
        (["fit", "rows.bits", "-k", "1-2", "--method", "classic"], "needs one number of templates"),
        (["fit", "rows.bits", "-k", "auto", "--method", "two-round"], "needs one number"),
        (["fit", "rows.bits", "-k", "2", "--prior", "-1"], "Invalid value for '--prior'"),
        (["fit", "rows.csv", "-k", "3", "--cluster", "here"], "must be local or an address"),
        (["fit", "rows.bits", "-k", "3", "--sheet", "x.png"], "needs a folder of images"),
        (["fit", "rows.bits", "-k", "3", "--id-column", "who"], "who"),
        (["fit", "rows.bits", "-k", "3", "-o", "no/such"], "there is no folder no"),
        (["predict", "my.model", "rows.csv", "-o", "labels.txt"], "must end in .csv"),
        (["predict", "rows.csv", "rows.csv"], "not a bitmix model"),
        (["predict", "my.model", "none.csv"], "none.csv"),
        (["convert", "-"], "-o OUT.bits"),
    ],
)
def test_wrong_use_is_one_line_and_code_2(folder, arguments, message):
    before = sorted(folder.iterdir())
    done = bitmix(*arguments, cwd=folder)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""
    if done.stderr.startswith("bitmix:"):
        assert done.stderr.count("\n") == 1
    assert sorted(folder.iterdir()) == before


def test_no_file_is_overwritten_by_mistake(folder, tmp_path):
    rows, table, model = folder / "rows.bits", folder / "rows.csv", folder / "my.model"
    before = {path: path.read_bytes() for path in (rows, table, model)}
    for arguments in [
        ("fit", rows, "-k", "2", "-o", rows, "--force"),
        ("fit", rows, "-k", "2", "-o", "x.html", "--report", "x.html"),
        ("predict", model, table, "-o", table, "--force"),
    ]:
        done = bitmix(*arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert "is given twice" in done.stderr
    for arguments in [
        ("fit", rows, "-k", "2", "-o", model),
        ("predict", model, rows, "-o", table),
        ("convert", table, "-o", rows),
    ]:
        done = bitmix(*arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert "--force" in done.stderr
    assert {path: path.read_bytes() for path in before} == before
    assert not list(tmp_path.iterdir())
    assert bitmix("fit", rows, "-k", "2", "-o", os.devnull, "--force").returncode == 2


# fit and inspect


def test_fit_prints_what_matters(folder):
    printed = " ".join((folder / "printed.txt").read_text().split())
    for text in (
        "600 rows, 300 columns, density 0.", "3 templates", "noise 0.1", "bits set",
        "noise model shared, the simplest that predicts held-out rows as well as the best",
        "3 of 3 finished starts agree on this fit",
        "purity 1.0000, entropy 0.0000 against column 'kind'", "certificate: issued at α = 0.05",
        "model written to", "next: bitmix predict",
    ):  # fmt: skip
        assert text in printed


def test_the_json_of_a_fit_agrees_with_the_model(folder):
    arguments = ("fit", folder / "rows.csv", "-k", "3", *COLUMNS)
    summary = json.loads(bitmix(*arguments, "--json").stdout)
    model, X = load_model(folder / "my.model"), BitMatrix.open(folder / "rows.bits")
    kinds = pd.read_csv(folder / "rows.csv")["kind"]
    labels = model.predict(X)
    assert (summary["rows"], summary["columns"], summary["n_components"]) == (600, 300, 3)
    assert summary["weights"] == model.weights_.tolist()
    assert summary["noise"] == model.noise_
    assert summary["noise_model"] == model.noise_model_ == "shared"
    assert summary["noise_model_scores"] == model.noise_model_scores_
    assert summary["objective"] == model.objective_
    assert summary["bits_set"] == model.templates_.sum(axis=1).tolist()
    assert summary["members"] == np.bincount(labels).tolist()
    assert summary["density"] == pytest.approx(X.density)
    assert summary["log_likelihood"] == pytest.approx(model.score_samples(X).sum())
    assert summary["purity"] == conditional_purity(kinds, labels)
    certificate = summary["certificate"]
    assert (certificate["issued"], certificate["alpha"], certificate["why_not"]) == (True, 0.05, [])
    assert (certificate["verdict"], certificate["objections"]) == ("issued", [])
    assert np.array(certificate["mask"]).shape == model.templates_.shape
    assert "certificate" not in json.loads(bitmix(*arguments, "--no-certificate", "--json").stdout)


def test_a_model_keeps_the_names_of_columns(folder):
    model = load_model(folder / "my.model")
    assert (model.id_column_, model.label_column_) == ("who", "kind")
    assert model.feature_names_in_.tolist() == [f"gene {i}" for i in range(300)]
    printed = bitmix("inspect", folder / "my.model").stdout
    for text in ("TemplateMixture, 300 columns", "id column: who", "gene 0", "noise_model=auto"):
        assert text in printed
    summary = json.loads(bitmix("inspect", folder / "my.model", "--json").stdout)
    assert summary["weights"] == model.weights_.tolist()
    assert summary["templates"] == model.templates_.tolist()
    assert summary["noise"] == model.noise_


@pytest.mark.parametrize(
    ("options", "estimator"),
    [
        (["--method", "two-round"], TwoRoundEM(3, rounds=10, n_init=5, random_state=0)),
        (["--method", "classic"], ClassicEM(3, max_iter=10, n_init=5, random_state=0)),
        ([], TemplateMixture(3, random_state=0)),  # defaults are the same
        (["--starts", "2", "--seed", "5"], TemplateMixture(3, n_init=2, random_state=5)),
        (["--noise-model", "cell"], TemplateMixture(3, noise_model="cell", random_state=0)),
        (
            ["--prior", "0", "--tol", "1e-3", "--max-iter", "9", "--max-rows-search", "400"],
            TemplateMixture(
                3, prior=0.0, tol=1e-3, max_iter=9, max_rows_search=400, random_state=0
            ),
        ),
    ],
)
def test_fit_is_the_fit_of_the_estimator(folder, tmp_path, options, estimator):
    path = tmp_path / "my.model"
    done = bitmix("fit", folder / "rows.bits", "-k", "3", "-o", path, "--quiet", *options)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    model = load_model(path)
    assert model.get_params() == estimator.get_params()
    expected = estimator.fit(BitMatrix.open(folder / "rows.bits"))
    assert model.means_.tobytes() == expected.means_.tobytes()


@pytest.mark.parametrize(
    ("k", "k_range"), [("auto", None), ("2-4", range(2, 5)), ("1-3", range(1, 4))]
)
def test_fit_chooses_the_number_of_templates(folder, tmp_path, k, k_range):
    """The model that is saved is the one that was chosen, and not another fit with as many."""
    path, rows = tmp_path / "my.model", BitMatrix.open(folder / "rows.bits")
    done = bitmix("fit", folder / "rows.bits", "-k", k, "-o", path, "--json")
    assert done.returncode == 0, done.stderr
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        selection = select_components(rows, k_range, TemplateMixture(random_state=0))
    assert json.loads(done.stdout)["n_components"] == selection.n_components == 3
    model = load_model(path)
    assert model.means_.tobytes() == selection.model.means_.tobytes()
    assert model.objective_ == selection.model.objective_
    notes = [f"bitmix: note: {warning.message}\n" for warning in raised]
    assert done.stderr == "".join(notes)
    assert ("3 is the largest number that was tried" in done.stderr) == (k == "1-3")


def test_a_large_fit_says_that_it_searched_in_a_sample(tmp_path):
    truth = make_templates(2, 40, separation=0.4, random_state=0)
    sample_mixture(truth, [0.5, 0.5], 0.05, 9000, random_state=0)[0].save(tmp_path / "rows.bits")
    printed = bitmix("fit", tmp_path / "rows.bits", "-k", "2", "--no-certificate").stdout
    assert "searched in 4,096 random rows, then fitted to all rows" in printed


@pytest.mark.parametrize("method", ["template", "classic"])
def test_a_fit_that_cannot_be_certified_says_why(folder, tmp_path, method):
    arguments = ("fit", folder / "rows.bits", "-k", "2", "--method", method)
    done = bitmix(*arguments, "--report", tmp_path / "r.html")
    assert done.returncode == 0
    found = r"certificate: (not issued|issued at .*?, but .*?) \((.*?)\)"
    reason = re.search(found, done.stdout, flags=re.S)
    assert reason is not None
    assert len(reason[2]) > 20
    done = bitmix(*arguments[:4], "--noise-model", "cell", "--report", tmp_path / "cell.html")
    assert "A certificate assumes one noise level" in " ".join(done.stdout.split())
    assert "A certificate assumes one noise level" in (tmp_path / "cell.html").read_text()


def test_fit_writes_a_report(folder, tmp_path):
    page = tmp_path / "rows.html"
    done = bitmix("fit", folder / "rows.csv", "-k", "3", "--report", page, *COLUMNS)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"report written to {page}" in done.stdout.replace("\n", "")
    text = page.read_text()
    assert "3 groups in rows.csv" in text
    assert "class 2" in text
    assert "Ann, " in text


@pytest.mark.parametrize("failure", ["library", "disk"])
def test_a_report_that_fails_leaves_the_model(folder, tmp_path, monkeypatch, failure):
    def no_space(*_, **__):
        raise OSError(28, "No space left on device", "r.html")

    if failure == "library":
        monkeypatch.setitem(sys.modules, "jinja2", None)
    else:
        monkeypatch.setattr("bitmix.report.write", no_space)
    done = bitmix(
        "fit", folder / "rows.bits", "-k", "3", "-o", "m", "--report", "r.html", cwd=tmp_path
    )
    assert done.returncode == 2
    files = [path.name for path in tmp_path.iterdir()]
    if failure == "library":
        assert done.stderr == "bitmix: this needs jinja2: pip install 'bitmix[plot]'\n"
        assert files == []
    else:
        assert done.stderr == "bitmix: [Errno 28] No space left on device: 'r.html'\n"
        assert files == ["m"]


def test_names_may_look_like_markup_and_cells_have_noise_levels(tmp_path):
    table = pd.DataFrame({"[/b]": ["x", "y"] * 60, "a": [0, 1] * 60, "b": [1, 0] * 60})
    table.to_csv(tmp_path / "t.csv", index=False)
    options = ("--noise-model", "cell", "--label-column", "[/b]")
    done = bitmix("fit", tmp_path / "t.csv", "-k", "2", *options)
    assert done.returncode == 0, done.stderr
    assert "against column '[/b]'" in done.stdout


def test_text_is_printed_in_any_encoding(folder):
    done = bitmix("fit", folder / "rows.bits", "-k", "3", encoding="ascii")
    assert done.returncode == 0, done.stderr
    assert "certificate: issued at ? = 0.05" in done.stdout


# predict and certify


@pytest.mark.parametrize("data", ["rows.csv", "rows.parquet", "rows.bits", "reversed.csv"])
@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".npy"])
def test_predict_writes_labels(folder, tmp_path, data, ending):
    model, rows = load_model(folder / "my.model"), BitMatrix.open(folder / "rows.bits")
    target = tmp_path / f"labels{ending}"
    done = bitmix("predict", folder / "my.model", folder / data, "-o", target)
    assert done.returncode == 0, done.stderr
    assert "labels of 600 rows written to" in done.stdout
    expected = model.predict(rows)
    if ending == ".npy":
        assert np.array_equal(np.load(target), expected)
        return
    read = pd.read_parquet if ending == ".parquet" else pd.read_csv
    written = read(target, **({"sep": "\t"} if ending == ".tsv" else {}))
    assert np.array_equal(written["label"], expected)
    assert np.allclose(written["probability"], model.predict_proba(rows).max(axis=1), rtol=1e-5)
    assert np.allclose(written["log_likelihood"], model.score_samples(rows), rtol=1e-5)
    assert np.allclose(written["p_value"], model.unlikeness(rows), rtol=1e-5)
    second = np.argsort(model.predict_proba(rows), axis=1)[:, -2]
    sure = np.sort(model.predict_proba(rows), axis=1)[:, -2] > 0
    assert np.array_equal(written["runner_up"][sure], second[sure])
    if data in ("rows.csv", "rows.parquet"):
        assert written["who"].tolist() == [f"Ann, {i}" for i in range(600)]
    else:
        assert written["row"].tolist() == list(range(600))


def test_predict_prints_or_chooses_a_name(folder, tmp_path):
    lines = bitmix("predict", folder / "my.model", folder / "rows.csv", "-o", "-").stdout
    lines = lines.splitlines()
    assert lines[0] == ("who,label,probability,runner_up,log_likelihood,p_value,representative")
    assert lines[1].startswith('"Ann, 0",0,1,')
    assert len(lines) == 601
    arguments = ("predict", folder / "my.model", folder / "rows.bits")
    summary = json.loads(bitmix(*arguments, "--json", cwd=tmp_path).stdout)
    assert summary["output"] == "rows.labels.csv"
    assert sum(summary["members"]) == summary["rows"] == 600
    assert "--force" in bitmix(*arguments, cwd=tmp_path).stderr
    assert bitmix(*arguments, "--force", "--quiet", cwd=tmp_path).stdout == ""


def test_tables_come_through_standard_input(folder, tmp_path):
    text = (folder / "rows.csv").read_text()
    done = bitmix("fit", "-", "-k", "3", *COLUMNS, "-o", tmp_path / "m", input=text)
    assert done.returncode == 0, done.stderr
    expected = load_model(folder / "my.model").means_
    assert load_model(tmp_path / "m").means_.tobytes() == expected.tobytes()
    printed = bitmix("predict", tmp_path / "m", "-", "--id-column", "who", input=text).stdout
    assert printed == bitmix("predict", tmp_path / "m", folder / "rows.csv", "-o", "-").stdout
    unnamed = (folder / "unnamed.tsv").read_text()
    done = bitmix("predict", tmp_path / "m", "-", "--format", "tsv", input=unnamed)
    assert done.stdout.count("\n") == 601


def test_a_row_that_cannot_be_read_leaves_no_labels(folder, tmp_path):
    lines = (folder / "rows.csv").read_text().splitlines()
    lines[400] = lines[400].replace(",1,", ",x,", 1)
    (tmp_path / "bad.csv").write_text("\n".join(lines))
    done = bitmix("predict", folder / "my.model", tmp_path / "bad.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert "401" in done.stderr
    pd.read_csv(folder / "rows.csv").drop(columns="gene 7").to_csv(tmp_path / "short.csv")
    done = bitmix("predict", folder / "my.model", tmp_path / "short.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert "'gene 7'" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.csv", "short.csv"]


@pytest.mark.parametrize("name", ["row", "label", "probability"])
def test_ids_may_have_any_name(tmp_path, name):
    table = pd.DataFrame({name: ["m0", "m1"] * 60, "a": [0, 1] * 60, "b": [1, 0] * 60})
    table.to_csv(tmp_path / "t.csv", index=False)
    columns = ("--id-column", name)
    assert bitmix("fit", tmp_path / "t.csv", "-k", "2", *columns, "-o", tmp_path / "m").stderr == ""
    target = tmp_path / "o.parquet"
    assert bitmix("predict", tmp_path / "m", tmp_path / "t.csv", "-o", target).returncode == 0
    written = pd.read_parquet(target)
    first = "row" if name == "row" else "id"
    assert written.columns.tolist()[:3] == [first, "label", "probability"]
    assert written.iloc[:, 0].tolist() == ["m0", "m1"] * 60


FORMATS = ["rows.csv", "rows.parquet", "rows.bits", "rows.npy", "rows.npz", "unnamed.tsv"]


@pytest.mark.parametrize("data", [*FORMATS, "reversed.csv"])
def test_certify_reads_every_format(folder, data):
    done = bitmix("certify", folder / "my.model", folder / data, "--json")
    certificate = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert certificate["issued"] is True
    assert certificate["evidence"]["m"] == 600


def test_certify_says_no_by_its_exit_code(folder):
    arguments = ("certify", folder / "my.model", folder / "rows.bits", "--check")
    done = bitmix(*arguments)
    assert done.returncode == 0
    assert done.stdout.startswith("Certificate ISSUED")
    done = bitmix(*arguments, "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    least = json.loads(bitmix(*arguments, "--json").stdout)["least_alpha"]
    assert bitmix(*arguments, "--alpha", 1.1 * least).returncode == 0
    refused = bitmix(*arguments, "--alpha", 0.9 * least)
    assert refused.returncode == 1
    assert "NOT ISSUED" in refused.stdout


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.csv", b"a,b\n0,1\n0\n"),
        ("rows.csv", b"a,b\n0,x\n"),
        ("rows.npy", b"\x93NUMPY"),
        ("rows.npz", b"PK"),
        ("rows.bits", b"BITMIX"),
        ("rows.doc", b""),
    ],
)
def test_bad_files_are_named(folder, tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    done = bitmix("certify", folder / "my.model", tmp_path / name)
    assert done.returncode == 2
    assert done.stderr.startswith("bitmix: ")
    assert name in done.stderr


# demo and plan


def test_demo_finds_both_dogs():
    done = bitmix("demo")
    assert done.returncode == 0
    assert "Every template is exact" in done.stdout
    assert "What to try next" in done.stdout
    summary = json.loads(bitmix("demo", "--json", "--seed", "3").stdout)
    assert summary["wrong_bits"] == [0, 0]
    assert summary["n_components"] == 2
    assert sum(summary["weights"]) == pytest.approx(1)


def test_demo_with_few_rows_counts_its_errors():
    done = bitmix("demo", "--rows", "6", "--json")
    assert done.returncode == 0
    assert "bitmix: note: 6 rows are few" in done.stderr
    wrong = sum(json.loads(done.stdout)["wrong_bits"])
    assert wrong > 0
    assert f"{wrong} template bits are wrong" in bitmix("demo", "--rows", "6").stdout


def test_plan_prints_theorem_certificate_and_limits():
    done = bitmix("plan", "--n", "2000", "--q", "0.01", "--k", "2", "--w-min", "0.5")
    assert done.returncode == 0
    for text in ("does not hold at n = 2,000, m = 300", "Exact recovery certified", "✗", "✓"):
        assert text in done.stdout
    assert "Limits for any method" in done.stdout


def test_plan_solves_and_prints_json():
    results = json.loads(bitmix("plan", "--q", "0.1", "--solve-for", "n", "--json").stdout)
    assert results["least_n_by_theorem"]["value"] == 5193
    assert results["certificate"]["n"] == results["least_n_by_certificate"]["value"] <= 45
    assert results["certificate"]["holds"] is True
    assert {"1", "2", "3", "4"} < set(results["guarantee"]["conditions"])
    assert {"label_error", "recovery_uniform", "recovery_masks"} < set(results["limit"])


def test_json_has_no_infinity():
    done = bitmix("plan", "--n", "2000", "--q", "0.3", "--k", "3", "--json")
    results = json.loads(done.stdout, parse_constant=pytest.fail)
    assert results["guarantee"]["failure_probability"] is None


def test_plan_draws_the_domain(tmp_path, monkeypatch):
    drawn = []

    def save_domain(path, **settings):
        drawn.append(settings)
        path.write_bytes(b"")

    monkeypatch.setattr("bitmix.plots.save_domain", save_domain)
    path = tmp_path / "domain.png"
    command = ("plan", "--q", "0.1", "--n", "200", "--m", "50", "--k", "3", "--plot", path)
    assert f"plot written to {path}" in bitmix(*command).stdout.replace("\n", "")
    assert "--force" in bitmix(*command).stderr
    assert bitmix(*command, "--solve-for", "c", "--force").returncode == 0
    for settings, over in zip(drawn, ("m", "w_min"), strict=True):
        assert settings == {
            "over": over, "q": 0.1, "n": 200, "m": 50, "k": 3, "c": 2 / 3, "w_min": 1 / 3,
            "delta": 0.1, "epsilon": 0.1, "reading": "corrected", "pruning": "l1",
        }  # fmt: skip


# Images


def test_sketches_in_a_file_are_drawn_as_strokes(images, tmp_path):
    assert bitmix("sketch", images, "-o", tmp_path / "s.bits").returncode == 0
    options = ("-k", "2", "--report", tmp_path / "r.html", "--force")
    done = bitmix("fit", tmp_path / "s.bits", *options)
    assert done.returncode == 0, done.stderr
    assert 'class="strokes"' in (tmp_path / "r.html").read_text(encoding="utf-8")
    good = {"rows": 2, "columns": 3, "n_orientations": 4, "cell_size": 6, "shape": [12, 18],
            "tolerant": False}  # fmt: skip
    assert GaborGeometry.from_dict(good).n_features == 24
    for bad in ({}, "x", {**good, "rows": -1}, {**good, "shape": 3}, {**good, "more": 1}):
        assert GaborGeometry.from_dict(bad) is None


def test_sketch_and_preview(images, tmp_path):
    bits, preview = tmp_path / "out.bits", tmp_path / "preview.png"
    arguments = ["sketch", images, "-o", bits, "--preview", preview, "--json"]
    summary = json.loads(bitmix(*arguments).stdout)
    assert summary["images"] == 16
    assert BitMatrix.open(bits).shape == (16, 6400)
    assert preview.read_bytes().startswith(b"\x89PNG")
    assert bitmix(*arguments).returncode == 2  # not without --force
    assert bitmix(*arguments, "--force", "--cell-size", "5").returncode == 0
    assert BitMatrix.open(bits).shape == (16, 24 * 24 * 16)


def test_fit_of_images_prints_purity_and_draws_a_sheet(images, tmp_path):
    sheet, model = tmp_path / "sheet.png", tmp_path / "my.model"
    done = bitmix("fit", images, "-k", "2", "--sheet", sheet, "-o", model)
    assert done.returncode == 0
    assert "purity 1.0000, entropy 0.0000 against sub-folders" in done.stdout
    assert sheet.read_bytes().startswith(b"\x89PNG")
    assert TemplateMixture.load(model).templates_.shape == (2, 6400)
    done = bitmix("fit", images, "-k", "2", "--id-column", "x")
    assert done.returncode == 2
    assert "folder of images" in done.stderr
    done = bitmix("predict", model, images)
    assert done.returncode == 2
    assert "bitmix sketch" in done.stderr


def test_images_that_cannot_be_read(images, tmp_path):
    folder, out = tmp_path / "some", tmp_path / "out.bits"
    shutil.copytree(images, folder)
    (folder / "flat" / "bad.png").write_text("no image")
    done = bitmix("sketch", folder, "-o", out)
    assert done.returncode == 2
    assert "bad.png" in done.stderr
    assert not out.exists()
    done = bitmix("sketch", folder, "-o", out, "--skip-errors")
    assert done.returncode == 0
    assert "skipped: " in done.stdout
    arguments = ("fit", folder, "-k", "2", "--skip-errors")
    assert json.loads(bitmix(*arguments, "--json").stdout)["skipped"] == 1
    assert "bad.png" in bitmix(*arguments).stdout


@pytest.mark.parametrize("library", ["PIL", "matplotlib"])
def test_a_missing_extra_is_named_and_nothing_is_written(images, tmp_path, monkeypatch, library):
    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    done = bitmix("fit", images, "-k", "2", "-o", "m", "--sheet", "s.png", cwd=tmp_path)
    assert done.returncode == 2
    assert f"needs {library}: pip install" in done.stderr
    assert list(tmp_path.iterdir()) == []


# On a cluster


@pytest.mark.system
@pytest.mark.parametrize("data", ["rows.bits", "rows.parquet"])
def test_fit_on_a_cluster_is_the_fit_here(folder, tmp_path, data):
    columns = COLUMNS if data != "rows.bits" else ()
    models = []
    for number, options in enumerate([(), ("--cluster", "local", "--report", tmp_path / "r.html")]):
        models.append(tmp_path / f"{number}.model")
        done = bitmix("fit", folder / data, "-k", "3", "-o", models[-1], *columns, *options)
        assert done.returncode == 0, done.stderr
    here, there = map(TemplateMixture.load, models)
    assert here.means_.tobytes() == there.means_.tobytes()
    assert "3 groups" in (tmp_path / "r.html").read_text()


@pytest.mark.system
def test_a_cluster_checks_columns_as_a_file_does(folder, tmp_path):
    pd.DataFrame({"label": [0, 1] * 60, "a": [0, 1] * 60, "b": [1, 0] * 60}).to_parquet(
        tmp_path / "t.parquet"
    )
    arguments = ("fit", tmp_path / "t.parquet", "-k", "2", "--cluster", "local")
    assert "column 'label'" in bitmix(*arguments).stderr
    assert "purity 1.0000" in bitmix(*arguments, "--label-column", "label").stdout
    wrong = bitmix("fit", folder / "rows.csv", "-k", "2", "--cluster", "local")
    assert wrong.returncode == 2
    assert "a cluster reads .bits, .zarr and .parquet files" in wrong.stderr


# As processes of their own


def process(*arguments, **options):
    return subprocess.Popen([sys.executable, "-m", "bitmix", *map(str, arguments)], **options)


def test_the_command_exits_with_its_code():
    with process("--version", stdout=subprocess.PIPE) as command:
        assert command.stdout.read().decode() == f"bitmix {__version__}\n"
    assert command.returncode == 0
    with process("plan", "--q", "7", "--n", "9", stderr=subprocess.PIPE) as command:
        assert command.stderr.read().decode().startswith("bitmix: q must ")
    assert command.returncode == 2


def test_a_reader_that_stops_early_is_no_error(folder):
    arguments = ("predict", folder / "my.model", folder / "rows.csv", "-o", "-")
    with process(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as command:
        command.stdout.close()
        said = re.sub(rb"bitmix: predict, \d+ s\n", b"", command.stderr.read())  # a slow machine
        assert said == b""


@pytest.mark.posix
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        pytest.param(signal.SIGTERM, marks=pytest.mark.system),
        pytest.param(getattr(signal, "SIGHUP", 1), marks=pytest.mark.system),
    ],
)
def test_a_command_that_is_stopped_leaves_nothing(tmp_path, number):
    rows, tmp_path = tmp_path / "rows.csv", tmp_path / "out"
    tmp_path.mkdir()
    rows.write_bytes(b"a,b\n" + b"0.0,1.0\n" * 8_000_000)  # some seconds of work
    command = process("convert", rows, "-o", tmp_path / "o.bits", stderr=subprocess.PIPE)
    for _ in range(1000):
        if list(tmp_path.iterdir()):
            break
        time.sleep(0.01)
    assert list(tmp_path.iterdir())
    command.send_signal(number)
    _, said = command.communicate()
    assert command.returncode == 128 + number
    assert not list(tmp_path.iterdir())
    if number == signal.SIGINT:
        assert b"stopped; nothing was written" in said


def test_fit_by_levels_is_the_estimator(folder, tmp_path):
    path = tmp_path / "tree.model"
    done = bitmix(
        "fit", folder / "rows.bits", "-k", "12", "--method", "tree", "-o", path, "--quiet"
    )
    assert done.returncode == 0, done.stderr
    expected = TemplateTree(12, random_state=0).fit(BitMatrix.open(folder / "rows.bits"))
    model = load_model(path)
    assert model.means_.tobytes() == expected.means_.tobytes()
    assert np.array_equal(model.tree_.merges, expected.tree_.merges)


def test_many_groups_are_printed_in_few_lines(folder):
    fit = ("fit", folder / "rows.bits", "-k", "23", "--method", "tree", "--noise-model", "cell")
    done = bitmix(*fit, "--no-certificate")
    assert done.returncode == 0, done.stderr
    assert "23 groups" in done.stdout
    assert re.findall(r"^│ (\d+) ", done.stdout, re.M) == [str(i) for i in range(20)]
    assert "3 more: bitmix groups lists them" in done.stdout
    assert "there was one start" in done.stdout
    assert len(json.loads(bitmix(*fit, "--no-certificate", "--json").stdout)["weights"]) == 23


def test_fit_until_a_rule_holds(folder):
    done = bitmix("fit", folder / "rows.bits", "--until", "size=40", "--json", "--no-certificate")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["n_components"] > 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "give the number of templates"),
        (("-k", "3", "--until", "size=50"), "give the number of templates"),
        (("--until", "jaccard=.5"), "until must be one of tanimoto=…, size=…, got 'jaccard=.5'"),
        (("--until", "tanimoto=2"), "tanimoto"),
        (("--until", "size=9", "--method", "classic"), "--until needs --method tree"),
        (("-k", "3", "--time-limit", "9"), "--time-limit needs -k auto"),
        (("-k", "3", "--rounds", "3"), "--rounds does not apply to --method template"),
        (("-k", "3", "--method", "tree", "--n-init", "9"), "--n-init does not apply to --method t"),
        (("-k", "3", "--method", "tree", "--background"), "--background does not apply"),
        (("-k", "3", "--method", "classic", "--noise-model", "cell"), "--noise-model does not"),
        (("--until", "size=9", "--tol", "1"), "--tol does not apply to --until"),
    ],
)
def test_options_that_make_no_sense_together_are_refused(folder, options, message):
    done = bitmix("fit", folder / "rows.bits", *options)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


# trust


def test_objections_are_in_every_headline(tmp_path):
    """A hidden template of 10 % of the rows: issued, but nothing says that templates are right."""
    X, _, _ = scenario("hidden 6, .10", 3)
    BitMatrix.from_dense(X).save(tmp_path / "x.bits")
    arguments = ("fit", tmp_path / "x.bits", "-k", "2", "--noise-model", "shared")
    done = bitmix(*arguments, "-o", tmp_path / "x.model", "--report", tmp_path / "x.html")
    printed = " ".join(done.stdout.split())
    assert "issued at α = 0.05, but a check of its conditions objects" in printed
    assert "every template is exact" not in printed
    page = (tmp_path / "x.html").read_text()
    assert "A certificate was issued, but" in page
    assert "exactly right, bit for bit" not in page
    certify = ("certify", tmp_path / "x.model", tmp_path / "x.bits")
    told = bitmix(*certify, "--check")
    assert told.returncode == 1
    assert told.stdout.startswith("Certificate ISSUED, BUT CHECKS OBJECT")
    assert bitmix(*certify).returncode == 0
    assert json.loads(bitmix(*certify, "--json").stdout)["verdict"] == "issued, but checks object"


def test_rows_can_be_held_out(folder, tmp_path):
    arguments = ("fit", folder / "rows.bits", "-k", "3", "--hold-out", "0.3")
    done = bitmix(*arguments, "--report", tmp_path / "r.html")
    assert done.returncode == 0, done.stderr
    printed = " ".join(done.stdout.split())
    assert "of the bits are certified by 180 held-out rows" in printed
    assert "Two independent fits to 200 rows each give the same label" in printed
    assert "What held-out rows say" in (tmp_path / "r.html").read_text()
    held_out = json.loads(bitmix(*arguments, "--json").stdout)["held_out"]
    assert np.array(held_out["bits"]["mask"]).shape == (3, 300)
    assert held_out["agreement"]["lower"] > 0.5
    wrong = bitmix("fit", folder / "rows.bits", "-k", "3", "--hold-out", "1.5")
    assert wrong.returncode == 2
    cell = bitmix("fit", folder / "rows.bits", "-k", "3", "--noise-model", "cell")
    assert "--hold-out 0.3" in cell.stdout


def test_certify_by_held_out_rows(folder):
    done = bitmix(
        "certify", folder / "my.model", folder / "rows.bits", "--method", "held-out", "--votes",
        "common", "--json",
    )  # fmt: skip
    certificate = json.loads(done.stdout)
    assert (certificate["method"], certificate["votes"]) == ("held-out", "common")
    assert certificate["issued"]
    assert np.array(certificate["mask"]).all()


def test_plan_simulates_the_estimator():
    done = bitmix("plan", "--q", "0.1", "--n", "12", "--m", "100", "--json")
    simulation = json.loads(done.stdout)["simulation"]
    assert simulation["estimator"] == "TwoRoundEM"
    none = bitmix("plan", "--q", "0.1", "--n", "12", "--m", "100", "--estimator", "none", "--json")
    assert "simulation" not in json.loads(none.stdout)
    assert bitmix("plan", "--q", "0.1", "--n", "12", "--seeds", "many").returncode == 2
