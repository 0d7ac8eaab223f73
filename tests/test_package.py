"""The house rules: imports go one way, start-up is quick, the command line behaves."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "bitmix"

# One way only: a module may import from a lower floor, or from its own room.
FLOORS = [
    {"errors", "atomic", "theory"},
    {"kernels"},
    {"checks"},
    {"mixture", "rows", "features", "metrics", "modelfile", "randomness"},
    {"em", "datasets", "model_checks"},
    {"certify"},
    {"estimators", "select"},
    {"plots"},
    {"letters", "experiments", "report"},
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
    import os

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
    assert "every template exact" in result.stdout
    assert "What to try next" in result.stdout


def test_demo_prints_json():
    answer = json.loads(bitmix_command("demo", "--json", "--seed", "3").stdout)
    assert answer["wrong_bits"] == [0] * 5
    assert answer["n_components"] == 5
    assert sum(answer["weights"]) == pytest.approx(1)


def test_demo_survives_few_rows():
    result = bitmix_command("demo", "--rows", "6")
    assert result.returncode == 0
    assert "bitmix: note: 6 rows are few" in result.stderr


def test_version_and_help():
    import bitmix

    assert bitmix_command("--version").stdout == f"bitmix {bitmix.__version__}\n"
    assert "demo" in bitmix_command("--help").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["demo", "--rows", "3"], "Invalid value for '--rows'"),
        (["demo", "--noise", "0.7"], "Invalid value for '--noise'"),
        (["demo", "--seed", "-1"], "Invalid value for '--seed'"),
        (["demo", "--colour"], "No such option"),
        (["dance"], "No such command"),
    ],
)
def test_wrong_use_is_one_line_and_code_2(arguments, words):
    result = bitmix_command(*arguments)
    assert result.returncode == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr
