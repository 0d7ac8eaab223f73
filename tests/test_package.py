"""The house rules: imports go one way, start-up is quick, the command line behaves."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from PIL import Image

from bitmix import BitMatrix, TemplateMixture, TwoRoundEM
from bitmix.datasets import make_templates, sample_mixture

SOURCE = Path(__file__).parents[1] / "src" / "bitmix"

# One way only: a module may import from a lower floor, or from its own room.
FLOORS = [
    {"errors", "extras", "atomic", "progress", "theory"},
    {"kernels"},
    {"checks"},
    {"mixture", "rows", "metrics", "modelfile", "randomness"},
    {"noisy"},
    {"features"},
    {"em", "datasets", "model_checks"},
    {"certify"},
    {"fitted"},
    {"by_pieces"},
    {"estimators", "template_mixture"},
    {"models", "select"},
    {"plots"},
    {"kennel", "experiments", "report", "bench"},
    {"cli"},
    {"__main__", "__init__"},
]


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def imports(path: Path) -> set[str]:
    """Rooms of the package that a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "bitmix":
            if node.module == "bitmix":
                found |= {alias.name for alias in node.names if not alias.name.startswith("__")}
            else:
                found.add(room(node.module))
        elif isinstance(node, ast.Import):
            found |= {room(a.name) for a in node.names if a.name.split(".")[0] == "bitmix"}
    return found


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE))
)
def test_imports_go_one_way(path):
    floor = {name: number for number, names in enumerate(FLOORS) for name in names}
    here = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    assert here in floor, f"give {here} a floor in FLOORS"
    for other in imports(path) - {here}:
        assert floor[other] < floor[here], f"{here} must not import {other}"


def python(code: str, **env: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **env},
    ).stdout


def test_import_is_light():
    heavy = {"numba", "dask", "matplotlib", "sklearn", "scipy", "pandas"}
    loaded = json.loads(python("import bitmix, sys, json; print(json.dumps(list(sys.modules)))"))
    assert not heavy & set(loaded)


def test_fitting_needs_no_numba_with_the_reference_kernels():
    code = (
        "import sys, bitmix; sys.modules['numba'] = None\n"
        "m = bitmix.TwoRoundEM(2, n_seeds=30, random_state=0).fit([[0] * 9, [1] * 9] * 60)\n"
        "print(m.templates_.tolist())"
    )
    assert python(code, BITMIX_KERNELS="reference") == f"{[[0] * 9, [1] * 9]}\n"


def test_public_names():
    import bitmix

    for name in bitmix.__all__:
        assert getattr(bitmix, name) is not None
    assert set(dir(bitmix)) == set(bitmix.__all__)
    with pytest.raises(AttributeError, match="nothing_here"):
        bitmix.nothing_here  # noqa: B018


def bitmix_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bitmix", *arguments], capture_output=True, text=True, check=False
    )


def test_demo_recovers_every_template():
    result = bitmix_command("demo")
    assert result.returncode == 0
    assert "Every template exact" in result.stdout
    assert "What to try next" in result.stdout


def test_demo_prints_json():
    answer = json.loads(bitmix_command("demo", "--json", "--seed", "3").stdout)
    assert answer["wrong_bits"] == [0, 0]
    assert answer["n_components"] == 2
    assert sum(answer["weights"]) == pytest.approx(1)


def test_demo_survives_few_rows():
    result = bitmix_command("demo", "--rows", "6")
    assert result.returncode == 0
    assert "bitmix: note: 6 rows are few" in result.stderr


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("rows.csv", b"a,b\n0,1\n0\n", "rows.csv must hold 0 and 1"),
        ("rows.csv", b"a,b\n0,x\n", "rows.csv must hold 0 and 1"),
        ("rows.npy", b"\x93NUMPY", "not a NumPy array"),
        ("rows.npz", b"PK", "not a sparse matrix"),
        ("rows.bits", b"BITMIX", "not a packed bitmix file"),
        ("rows.doc", b"", "must be one of .bits"),
    ],
)
def test_bad_files_are_named(files, tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    result = bitmix_command("certify", str(files / "plain.model"), str(tmp_path / name))
    assert result.returncode == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_version_and_help():
    import bitmix

    assert bitmix_command("--version").stdout == f"bitmix {bitmix.__version__}\n"
    assert "demo" in bitmix_command("--help").stdout


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A model and its rows in every format."""
    folder = tmp_path_factory.mktemp("files")
    truth = make_templates(3, 300, separation=0.5, random_state=0)
    rows, _ = sample_mixture(truth, [0.5, 0.3, 0.2], 0.1, 600, 0)
    bits = rows.to_dense()
    table = pd.DataFrame(bits).add_prefix("bit ")
    TwoRoundEM(3, random_state=0).fit(table).save(folder / "named.model")
    TwoRoundEM(3, random_state=0).fit(rows).save(folder / "plain.model")
    rows.save(folder / "rows.bits")
    np.save(folder / "rows.npy", bits)
    scipy.sparse.save_npz(folder / "rows.npz", scipy.sparse.csr_matrix(bits))
    table.to_csv(folder / "rows.csv", index=False)
    table.iloc[:, ::-1].assign(id=range(len(bits))).to_csv(folder / "other.csv", index=False)
    pd.DataFrame(bits).to_csv(folder / "bare.tsv", index=False, header=False, sep="\t")
    return folder


@pytest.mark.parametrize("data", ["rows.bits", "rows.npy", "rows.npz", "rows.csv", "bare.tsv"])
def test_certify_reads_every_format(files, data):
    model = "plain.model" if data != "rows.csv" else "named.model"
    result = bitmix_command("certify", str(files / model), str(files / data), "--json")
    answer = json.loads(result.stdout)
    assert result.returncode == 0
    assert answer["issued"] is True
    assert answer["evidence"]["m"] == 600


def test_certify_picks_columns_by_name(files):
    result = bitmix_command("certify", str(files / "named.model"), str(files / "other.csv"))
    assert "Certificate ISSUED" in result.stdout


def test_certify_check_tells_by_its_exit_code(files):
    arguments = ("certify", str(files / "plain.model"), str(files / "rows.bits"), "--check")
    assert bitmix_command(*arguments).returncode == 0
    refused = bitmix_command(*arguments, "--alpha", "1e-14")
    assert refused.returncode == 1
    assert "NOT ISSUED" in refused.stdout


def test_plan_prints_theorem_certificate_and_limit():
    result = bitmix_command("plan", "--n", "2000", "--q", "0.01", "--k", "2", "--w-min", "0.5")
    assert result.returncode == 0
    for words in ("Theorem 1 (corrected) does not hold", "Certificate holds", "✗", "✓", "Limit"):
        assert words in result.stdout


def test_plan_solves_and_prints_json():
    result = bitmix_command("plan", "--q", "0.1", "--solve-for", "n", "--json")
    answer = json.loads(result.stdout)
    assert answer["least_n_by_theorem"]["value"] == 5193
    assert answer["least_n_by_certificate"]["value"] <= 45
    assert answer["certificate"]["holds"] is True
    assert set(answer["guarantee"]["conditions"]) == {"1", "2", "3", "4", "C1", "C2", "C3"}
    assert {"label_error", "recovery_uniform", "recovery_masks"} < set(answer["limit"])


def test_json_has_no_infinity():
    result = bitmix_command("plan", "--n", "2000", "--q", "0.3", "--k", "3", "--json")
    answer = json.loads(result.stdout, parse_constant=pytest.fail)
    assert answer["guarantee"]["failure_probability"] is None


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("domain.png", ["--solve-for", "n"]), ("domain.svg", ["--n", "200", "--solve-for", "c"])],
)
def test_plan_draws_the_domain(tmp_path, name, arguments):
    path = tmp_path / name
    assert bitmix_command("plan", "--q", "0.1", *arguments, "--plot", str(path)).returncode == 0
    assert path.read_bytes()[:5] in (b"\x89PNG\r", b"<?xml")
    again = bitmix_command("plan", "--q", "0.1", *arguments, "--plot", str(path))
    assert again.returncode == 2
    assert "--force" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["demo", "--rows", "3"], "Invalid value for '--rows'"),
        (["demo", "--noise", "0.7"], "Invalid value for '--noise'"),
        (["demo", "--seed", "-1"], "Invalid value for '--seed'"),
        (["demo", "--colour"], "No such option"),
        (["dance"], "No such command"),
        (["plan", "--q", "0.7", "--n", "10"], "q must lie in (0, 0.5), got 0.7"),
        (["plan", "--q", "0.1"], "give --n"),
        (["plan", "--q", "0.1", "--n", "10", "--k", "1"], "k must be at least 2"),
        (["plan", "--q", "0.1", "--n", "10", "--plot", "no/such.png"], "no folder"),
        (["plan", "--q", "0.1", "--n", "10", "--plot", "x.pdf"], "must end in .png or .svg"),
        (["certify", "absent.model", "absent.csv"], "absent.model"),
        (["certify", __file__, __file__], "not a bitmix model"),
    ],
)
def test_wrong_use_is_one_line_and_code_2(arguments, words):
    result = bitmix_command(*arguments)
    assert result.returncode == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Two classes of eight small images."""
    folder = tmp_path_factory.mktemp("images")
    y, x = np.mgrid[:60, :60]
    for name, wave in (("flat", y), ("steep", x)):
        (folder / name).mkdir()
        for i in range(8):
            grey = 127 + 120 * np.sin((wave + i) / 5.0)
            Image.fromarray(grey.astype(np.uint8)).save(folder / name / f"{i}.png")
    return folder


def test_sketch_and_preview(images, tmp_path):
    bits, preview = tmp_path / "out.bits", tmp_path / "preview.png"
    arguments = ["sketch", str(images), "-o", str(bits), "--preview", str(preview), "--json"]
    answer = json.loads(bitmix_command(*arguments).stdout)
    assert answer["images"] == 16
    assert BitMatrix.open(bits).shape == (16, 6400)
    assert preview.read_bytes().startswith(b"\x89PNG")
    assert bitmix_command(*arguments).returncode == 2  # not without --force
    assert bitmix_command(*arguments, "--force", "--cell-size", "5").returncode == 0
    assert BitMatrix.open(bits).shape == (16, 24 * 24 * 16)


def test_fit_of_images_prints_purity_and_draws_a_sheet(images, tmp_path):
    sheet, model = tmp_path / "sheet.png", tmp_path / "my.model"
    result = bitmix_command("fit", str(images), "-k", "2", "--sheet", str(sheet), "-o", str(model))
    assert result.returncode == 0
    assert "purity 1.0000, entropy 0.0000" in result.stdout
    assert sheet.read_bytes().startswith(b"\x89PNG")
    assert TemplateMixture.load(model).templates_.shape == (2, 6400)


@pytest.mark.parametrize(
    "options",
    [("3", "--method", "two-round"), ("3", "--method", "classic"), ("3",), ("auto",),
     ("3", "--noise-model", "component")],
)  # fmt: skip
def test_fit_of_a_table(files, tmp_path, options):
    model = tmp_path / "my.model"
    result = bitmix_command(
        "fit", str(files / "rows.bits"), "-k", *options, "-o", str(model), "--json"
    )
    answer = json.loads(result.stdout)
    assert answer["n_components"] == 3
    assert sum(answer["members"]) == 600
    assert "purity" not in answer
    certified = bitmix_command("certify", str(model), str(files / "rows.bits"), "--check")
    assert certified.returncode == 0


def test_fit_says_what_k_may_be(files):
    for k in ("0", "three", "-1"):
        result = bitmix_command("fit", str(files / "rows.bits"), "-k", k)
        assert result.returncode == 2
        assert "auto" in result.stderr


def test_broken_images_end_with_code_2_and_no_output(images, tmp_path):
    folder = tmp_path / "broken"
    shutil.copytree(images, folder)
    (folder / "flat" / "bad.png").write_text("no image")
    out = tmp_path / "out.bits"
    result = bitmix_command("sketch", str(folder), "-o", str(out))
    assert result.returncode == 2
    assert "bad.png" in result.stderr
    assert "Traceback" not in result.stderr
    assert not out.exists()
    skipped = bitmix_command("sketch", str(folder), "-o", str(out), "--skip-errors")
    assert skipped.returncode == 0
    assert "skipped" in skipped.stdout
    assert (
        bitmix_command("fit", str(files_of(images)), "-k", "2", "--sheet", "x.png").returncode == 2
    )


def files_of(images):
    """Some file that is not a folder of images."""
    return next(images.rglob("*.png"))


def test_demo_draws_a_picture(tmp_path):
    path = tmp_path / "demo.png"
    assert bitmix_command("demo", "--picture", str(path)).returncode == 0
    assert path.read_bytes().startswith(b"\x89PNG")


def test_fit_keeps_column_names_so_that_certify_finds_them(files, tmp_path):
    model = tmp_path / "my.model"
    assert (
        bitmix_command("fit", str(files / "rows.csv"), "-k", "3", "-o", str(model)).returncode == 0
    )
    assert TemplateMixture.load(model).feature_names_in_[0] == "bit 0"
    turned = bitmix_command("certify", str(model), str(files / "other.csv"), "--check")
    assert turned.returncode == 0
    assert turned.stderr == ""


def test_fit_counts_what_it_skips(images, tmp_path):
    folder = tmp_path / "some"
    shutil.copytree(images, folder)
    (folder / "flat" / "bad.png").write_text("no image")
    arguments = ("fit", str(folder), "-k", "2", "--skip-errors")
    assert json.loads(bitmix_command(*arguments, "--json").stdout)["skipped"] == 1
    assert "bad.png" in bitmix_command(*arguments).stdout


@pytest.mark.parametrize("library", ["PIL", "matplotlib"])
def test_a_missing_extra_is_named_and_nothing_is_written(images, tmp_path, library):
    code = (
        f"import sys; sys.modules[{library!r}] = None\n"
        f"sys.argv = ['bitmix', 'fit', {str(images)!r}, '-k', '2']\n"
        "sys.argv += ['-o', 'my.model', '--sheet', 's.png']\n"
        "from bitmix.__main__ import main; main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert result.returncode == 2
    assert f"needs {library}" in result.stderr
    assert "pip install" in result.stderr
    assert list(tmp_path.iterdir()) == []
