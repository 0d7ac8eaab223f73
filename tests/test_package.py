"""The structure of the package: imports, public names, a quick start."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "bitmix"

# One way only: a room may import from a lower floor, or from itself.
FLOORS = [
    {"errors", "system"},
    {"support", "kernels"},
    {"rows", "metrics", "theory", "models"},
    {"em", "features"},
    {"certify", "inference", "groups", "plots", "datasets"},
    {"estimators"},
    {"report"},
    {"cli"},
    {"__main__", "__init__"},
]


def module_of(path: Path) -> str:
    """The dotted name of a source file; a package has the name of its folder."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 2 else parts)


MODULES = {module_of(path): path for path in sorted(SOURCE.rglob("*.py"))}


def imports(path: Path) -> set[str]:
    """Modules of the package that a file imports, wherever in the file."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "bitmix":
            submodules = {f"{node.module}.{alias.name}" for alias in node.names}
            inside = submodules & MODULES.keys()
            names |= inside if len(inside) == len(submodules) else inside | {node.module}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names if alias.name in MODULES}
    return names - {"bitmix"}


def room(module: str) -> str:
    return module.split(".")[1]


def test_there_are_few_floors_and_few_files_beside_the_rooms():
    assert len(FLOORS) <= 9
    assert len(list(SOURCE.glob("*.py"))) <= 8
    assert {room(module) for module in MODULES} == set().union(*FLOORS)


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_one_way(module):
    if module == "bitmix.__init__":  # offers every room, loaded when first used
        return
    floor = {name: number for number, names in enumerate(FLOORS) for name in names}
    here = room(module)
    for other in {room(name) for name in imports(MODULES[module])} - {here}:
        assert floor[other] < floor[here], f"{module} must not import {other}"


def test_no_module_imports_itself_by_way_of_others():
    """Neither at the top of a file nor within a function."""
    graph = {module: imports(path) for module, path in MODULES.items()}
    graph.pop("bitmix.__init__")
    finished: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " → ".join([*path[path.index(module) :], module])
        if module not in finished:
            for other in sorted(graph.get(module, ())):
                visit(other, (*path, module))
            finished.add(module)

    for module in graph:
        visit(module, ())


def test_the_map_in_contributing_is_the_tree():
    text = (SOURCE.parents[1] / "CONTRIBUTING.md").read_text()
    tree = text.split("## The map")[1].split("```")[1]
    named = set(re.findall(r"^  (\w+)(?:/|\.py)", tree, flags=re.M))
    assert named == {room(module) for module in MODULES}
    files = {f"{a}/{b}" for a, b in re.findall(r"^    (\w+)/(\w+)", tree, flags=re.M)}
    assert files <= {module.removeprefix("bitmix.").replace(".", "/") for module in MODULES}


def test_the_targets_that_are_named_exist():
    root = SOURCE.parents[1]
    targets = set(re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(), flags=re.M))
    assert {"test", "test-all", "test-weekly"} <= targets
    for page in (root / "README.md", root / "CONTRIBUTING.md", *(root / "docs").glob("*.rst")):
        named = set(re.findall(r"(?:`|\$ )make ([a-z-]+)", page.read_text()))
        if page.suffix == ".md":
            named |= set(re.findall(r"^    make ([a-z-]+)", page.read_text(), flags=re.M))
        assert named <= targets, page.name


def test_every_tier_is_run():
    """Each marker has a target; what a plain run leaves out is what ``.ci/run`` adds to it."""
    root = SOURCE.parents[1]
    options = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    markers = {text.partition(":")[0] for text in options["markers"]}
    assert markers == {"system", "weekly", "posix"}
    left_out = options["addopts"][options["addopts"].index("-m") + 1]
    assert left_out == "not system and not weekly"
    makefile, ci = (root / "Makefile").read_text(), (root / ".ci" / "run").read_text()
    assert re.search(r"^MARKED := not weekly$", makefile, flags=re.M)
    assert re.search(r"^make test$", ci, flags=re.M)
    assert re.search(r"^make test-all MARKED='system and not weekly'", ci, flags=re.M)


def python(code: str, **env: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **env},
    ).stdout


NEVER = {"numba", "dask", "matplotlib", "PIL", "jinja2", "bitmix.features"}
SKLEARN = {"sklearn", "scipy", "numpy", "pandas", "pyarrow"}  # and what scikit-learn imports itself


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import bitmix", NEVER | SKLEARN),
        ("import bitmix.cli", NEVER | SKLEARN | {"rich"}),
        ("from bitmix import TemplateMixture; TemplateMixture(1).fit([[0, 1]]).sample(3)", NEVER),
    ],
)
def test_import_is_light(code, heavy):
    """For the command line, this is what makes ``bitmix --help`` quick."""
    listing = "import sys, json; print(json.dumps(list(sys.modules)))"
    if "bitmix.cli" in code:
        heavy = heavy - set(json.loads(python(f"import typer; {listing}")))  # old ones import rich
    assert not heavy & set(json.loads(python(f"{code}; {listing}")))


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
