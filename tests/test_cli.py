"""The commands on files: fit, predict, inspect, certify."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from bitmix import BitMatrix, TemplateMixture
from bitmix.datasets import make_templates, sample_mixture
from bitmix.models import load_model


def bitmix(*arguments, **kwargs):
    return subprocess.run(
        [sys.executable, "-m", "bitmix", *map(str, arguments)],
        capture_output=True, text=True, check=False, **kwargs,
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A planted table with ids and labels, and a model of it."""
    here = tmp_path_factory.mktemp("tables")
    truth = make_templates(3, 300, separation=0.4, random_state=0)
    X, labels = sample_mixture(truth, [0.5, 0.3, 0.2], 0.05, 600, random_state=0)
    table = pd.DataFrame(X.to_dense(), columns=[f"gene {i}" for i in range(300)])
    table.insert(0, "who", [f"Ann, {i}" for i in range(600)])
    table["kind"] = [f"class {label}" for label in labels]
    table.to_csv(here / "rows.csv", index=False)
    table.to_parquet(here / "rows.parquet", row_group_size=100)
    table.drop(columns=["who", "kind"]).iloc[:, ::-1].to_csv(here / "turned.csv", index=False)
    X.save(here / "rows.bits")
    columns = ("--id-column", "who", "--label-column", "kind")
    done = bitmix("fit", here / "rows.csv", "-k", "3", *columns, "-o", here / "my.model")
    assert done.returncode == 0, done.stderr
    (here / "told.txt").write_text(done.stdout)
    return here


def test_fit_tells_all_that_matters(folder):
    told = " ".join((folder / "told.txt").read_text().split())
    for text in (
        "600 rows, 300 columns, density 0.48", "3 templates", "noise 0.05", "bits set",
        "purity 1.0000", "against column 'kind'", "certificate: issued at α = 0.05",
        "model in", "next: bitmix predict",
    ):  # fmt: skip
        assert text in told


def test_a_model_keeps_the_names_of_columns(folder):
    model = load_model(folder / "my.model")
    assert (model.id_column_, model.label_column_) == ("who", "kind")
    assert model.feature_names_in_.tolist() == [f"gene {i}" for i in range(300)]
    told = bitmix("inspect", folder / "my.model").stdout
    for text in ("TemplateMixture, 300 columns", "id column: who", "gene 0", "noise_model=shared"):
        assert text in told
    answer = json.loads(bitmix("inspect", folder / "my.model", "--json").stdout)
    assert answer["weights"] == model.weights_.tolist()
    assert answer["templates"] == model.templates_.tolist()
    assert answer["noise"] == model.noise_


@pytest.mark.parametrize("data", ["rows.csv", "rows.parquet", "rows.bits", "turned.csv"])
@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".npy"])
def test_predict_streams_labels(folder, tmp_path, data, ending):
    model, rows = load_model(folder / "my.model"), BitMatrix.open(folder / "rows.bits")
    target = tmp_path / f"labels{ending}"
    done = bitmix("predict", folder / "my.model", folder / data, "-o", target)
    assert done.returncode == 0, done.stderr
    assert "600 rows into" in done.stdout
    want = model.predict(rows)
    if ending == ".npy":
        assert np.array_equal(np.load(target), want)
        return
    read = pd.read_parquet if ending == ".parquet" else pd.read_csv
    got = read(target, **({"sep": "\t"} if ending == ".tsv" else {}))
    assert np.array_equal(got["label"], want)
    assert np.allclose(got["probability"], model.predict_proba(rows).max(axis=1), rtol=1e-5)
    if data in ("rows.csv", "rows.parquet"):
        assert got["who"].tolist() == [f"Ann, {i}" for i in range(600)]
    else:
        assert got["row"].tolist() == list(range(600))


def test_predict_in_a_pipe_and_by_default(folder, tmp_path):
    printed = bitmix("predict", folder / "my.model", folder / "rows.csv", "-o", "-").stdout
    lines = printed.splitlines()
    assert lines[:2] == ["who,label,probability", '"Ann, 0",0,1']
    assert len(lines) == 601
    done = bitmix("predict", folder / "my.model", folder / "rows.bits", "--json", cwd=tmp_path)
    answer = json.loads(done.stdout)
    assert answer["output"] == "rows.labels.csv"
    assert sum(answer["members"]) == answer["rows"] == 600
    again = bitmix("predict", folder / "my.model", folder / "rows.bits", cwd=tmp_path)
    assert again.returncode == 2
    assert "--force" in again.stderr
    quiet = ("predict", folder / "my.model", folder / "rows.bits", "--force", "--quiet")
    assert bitmix(*quiet, cwd=tmp_path).stdout == ""


def test_tables_come_through_a_pipe(folder, tmp_path):
    text = (folder / "rows.csv").read_text()
    columns = ("--id-column", "who", "--label-column", "kind")
    done = bitmix("fit", "-", "-k", "3", *columns, "-o", tmp_path / "m", input=text)
    assert done.returncode == 0, done.stderr
    assert load_model(tmp_path / "m").means_.tobytes() == (
        load_model(folder / "my.model").means_.tobytes()
    )
    printed = bitmix("predict", tmp_path / "m", "-", "--id-column", "who", input=text).stdout
    assert printed == bitmix("predict", tmp_path / "m", folder / "rows.csv", "-o", "-").stdout


def test_predict_refuses_what_does_not_fit(folder, tmp_path):
    short = pd.read_csv(folder / "rows.csv").drop(columns="gene 7")
    short.to_csv(tmp_path / "short.csv", index=False)
    for arguments, text in [
        ((folder / "my.model", tmp_path / "short.csv"), "no column 'gene 7'"),
        ((folder / "my.model", folder / "rows.csv", "-o", "labels.txt"), "must end in .csv"),
        ((folder / "rows.csv", folder / "rows.csv"), "not a bitmix model"),
        ((folder / "my.model", folder / "none.csv"), "there is no file"),
    ]:
        done = bitmix("predict", *arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert text in done.stderr
        assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["short.csv"]


def test_certify_may_be_quiet(folder):
    arguments = ("certify", folder / "my.model", folder / "rows.csv", "--check")
    assert bitmix(*arguments).stdout.startswith("Certificate ISSUED")
    done = bitmix(*arguments, "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_row_that_is_wrong_leaves_no_labels(folder, tmp_path):
    lines = (folder / "rows.csv").read_text().splitlines()
    lines[400] = lines[400].replace(",1,", ",x,", 1)
    (tmp_path / "bad.csv").write_text("\n".join(lines))
    done = bitmix("predict", folder / "my.model", tmp_path / "bad.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert "line 401" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["bad.csv"]


@pytest.mark.parametrize("data", ["rows.bits", "rows.parquet"])
def test_fit_on_a_cluster_is_the_fit_here(folder, tmp_path, data):
    columns = ("--id-column", "who", "--label-column", "kind") if data != "rows.bits" else ()
    models = []
    for number, options in enumerate([(), ("--cluster", "local")]):
        models.append(tmp_path / f"{number}.model")
        arguments = ("fit", folder / data, "-k", "3", "-o", models[-1], *columns, *options)
        done = bitmix(*arguments)
        assert done.returncode == 0, done.stderr
    here, there = map(TemplateMixture.load, models)
    assert here.means_.tobytes() == there.means_.tobytes()


def test_fit_writes_a_report(folder, tmp_path):
    columns = ("--id-column", "who", "--label-column", "kind")
    for data, options in [("rows.csv", columns), ("rows.bits", ("--cluster", "local"))]:
        page = tmp_path / f"{data}.html"
        done = bitmix("fit", folder / data, "-k", "3", "--report", page, *options)
        assert done.returncode == 0
        assert done.stderr == ""
        assert "report in" in done.stdout
        assert "3 groups" in page.read_text()
    again = bitmix("fit", folder / "rows.bits", "-k", "3", "--report", page)
    assert again.returncode == 2
    assert "--force" in again.stderr


def test_no_file_is_overwritten_by_mistake(folder, tmp_path):
    before = (folder / "rows.bits").read_bytes()
    for arguments in [
        ("fit", folder / "rows.bits", "-k", "2", "-o", folder / "rows.bits", "--force"),
        ("fit", folder / "rows.bits", "-k", "2", "-o", "x.html", "--report", "x.html"),
        ("fit", folder / "rows.bits", "-k", "2", "-o", "x", "--checkpoint", "x"),
        ("predict", folder / "my.model", folder / "rows.csv", "-o", folder / "rows.csv", "--force"),
    ]:
        done = bitmix(*arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert "is given twice" in done.stderr
    assert (folder / "rows.bits").read_bytes() == before
    assert not list(tmp_path.iterdir())
    done = bitmix("fit", folder / "rows.bits", "-k", "2", "-o", "/dev/null", "--force")
    assert done.returncode == 2
    assert "is no file" in done.stderr


def test_a_report_that_fails_does_not_take_the_model_along(folder, tmp_path):
    for trouble, told, left in [
        ("sys.modules['jinja2'] = None", "this needs jinja2: pip install 'bitmix[plot]'", []),
        ("bitmix.report.write = full", "[Errno 28] No space left", ["m"]),
    ]:
        code = (
            "import sys, bitmix.report\n"
            "def full(*a, **k): raise OSError(28, 'No space left')\n"
            f"{trouble}\nfrom bitmix.__main__ import main\n"
            f"sys.argv = ['bitmix', 'fit', {str(folder / 'rows.bits')!r}, '-k', '3', '-o', 'm', "
            "'--report', 'r.html']\nmain()"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
        )
        assert done.returncode == 2
        assert done.stderr == f"bitmix: {told}\n"
        assert [path.name for path in tmp_path.iterdir()] == left


def test_small_tables_with_a_noise_level_for_each_cell(tmp_path):
    table = pd.DataFrame({"[/b]": ["x", "y"] * 60, "a": [0, 1] * 60, "b": [1, 0] * 60})
    table.to_csv(tmp_path / "t.csv", index=False)
    options = ("--noise-model", "cell", "--label-column", "[/b]")
    done = bitmix("fit", tmp_path / "t.csv", "-k", "2", *options)
    assert done.returncode == 0, done.stderr
    assert "against column '[/b]'" in done.stdout


def test_answers_are_printed_in_any_encoding(folder):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = bitmix("fit", folder / "rows.bits", "-k", "3", env=environment)
    assert done.returncode == 0, done.stderr
    assert "certificate: issued at ? = 0.05" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_command_that_is_ended_leaves_nothing(tmp_path, number):
    process = subprocess.Popen(
        [sys.executable, "-m", "bitmix", "convert", "-", "-o", str(tmp_path / "o.bits")],
        stdin=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    process.stdin.write(b"a,b\n" + b"0,1\n" * 600_000)
    process.stdin.flush()
    for _ in range(200):
        if list(tmp_path.iterdir()):
            break
        time.sleep(0.05)
    assert list(tmp_path.iterdir())
    process.send_signal(number)
    process.communicate()
    assert process.returncode == 128 + number
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["row", "label", "probability"])
def test_ids_may_have_any_name(tmp_path, name):
    table = pd.DataFrame({name: ["m0", "m1"] * 60, "a": [0, 1] * 60, "b": [1, 0] * 60})
    table.to_csv(tmp_path / "t.csv", index=False)
    columns = ("--id-column", name)
    assert bitmix("fit", tmp_path / "t.csv", "-k", "2", *columns, "-o", tmp_path / "m").stderr == ""
    target = tmp_path / "o.parquet"
    assert bitmix("predict", tmp_path / "m", tmp_path / "t.csv", "-o", target).returncode == 0
    found = pd.read_parquet(target)
    assert found.columns.tolist() == ["row" if name == "row" else "id", "label", "probability"]
    assert found.iloc[:, 0].tolist() == ["m0", "m1"] * 60


def test_a_cluster_looks_at_columns_as_we_do(folder, tmp_path):
    pd.DataFrame({"label": [0, 1] * 60, "a": [0, 1] * 60, "b": [1, 0] * 60}).to_parquet(
        tmp_path / "t.parquet"
    )
    arguments = ("fit", tmp_path / "t.parquet", "-k", "2", "--cluster", "local")
    assert "column 'label'" in bitmix(*arguments).stderr
    told = bitmix(*arguments, "--label-column", "label").stdout
    assert "purity 1.0000" in told
    wrong = bitmix("fit", folder / "rows.bits", "-k", "2", "--id-column", "x", "--cluster", "local")
    assert wrong.returncode == 2
    assert "'x'" in wrong.stderr or "--id-column x" in wrong.stderr


@pytest.mark.parametrize(("options", "text"), [
    (("rows.csv", "--cluster", "local"), "workers read .bits, .zarr and .parquet"),
    (("rows.bits", "--cluster", "here"), "must be local or an address"),
    (("rows.bits", "--checkpoint", "my.model"), "not a bitmix checkpoint"),
    (("rows.bits", "--sheet", "x.png"), "give a folder of images"),
])  # fmt: skip
def test_wrong_use_of_fit_ends_with_code_2(folder, options, text):
    done = bitmix("fit", *options, "-k", "3", cwd=folder)
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_fit_goes_on_from_a_checkpoint(folder, tmp_path):
    arguments = ("fit", folder / "rows.bits", "-k", "3", "--checkpoint", tmp_path / "c", "--json")
    first, second = bitmix(*arguments), bitmix(*arguments)
    assert json.loads(first.stdout) == json.loads(second.stdout)
    other = bitmix("fit", folder / "rows.bits", "-k", "4", "--checkpoint", tmp_path / "c")
    assert other.returncode == 2
    assert "checkpoint of another fit: its n_components was '3', now '4'" in other.stderr
