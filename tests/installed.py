"""What a new user does with a distribution: install it into an empty environment, and use it.

    python tests/installed.py CONSTRAINTS dist/bitmix-*.whl dist/bitmix-*.tar.gz

Each distribution is installed without extras, where the README's first example must run and
`bitmix` must say what to install, and then with the command line, where `bitmix demo` and a fit of
a CSV file must run. What is too old is refused by the installer: NumPy, scikit-learn, and the
Python that OLD_PYTHON names, if it is set. `make check-dist` runs this.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAX_WHEEL = 500_000  # bytes
SCRIPTS = "Scripts" if os.name == "nt" else "bin"


def readme_example() -> str:
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.S)[0]


def run(*command: object, cwd: Path, code: int | None = 0) -> str:
    """What the command printed; with `code=None` it must fail."""
    outside = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=outside, text=True, encoding="utf-8",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    if done.returncode == 0 if code is None else done.returncode != code:
        sys.exit(f"{command}\nended with code {done.returncode}:\n{done.stdout}")
    return done.stdout


def check(distribution: Path, constraints: Path, folder: Path) -> None:
    venv.create(folder / "venv", with_pip=True)
    python, command = (folder / "venv" / SCRIPTS / name for name in ("python", "bitmix"))
    pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "-q")
    install = (*pip, "-c", constraints)

    run(*install, distribution, cwd=folder)
    version = distribution.name.split("-")[1].removesuffix(".tar.gz")
    home = run(python, "-c", "import bitmix; print(bitmix.__file__)", cwd=folder).strip()
    assert Path(home).is_relative_to(folder), f"{home} is not what was installed"
    said = run(command, "demo", cwd=folder, code=2)
    assert "pip install 'bitmix[cli]'" in said, said
    print(f"  without extras, `bitmix` says: {said.strip()}")
    said = run(python, "-c", readme_example(), cwd=folder)
    assert "True" in said, said
    print("  README's first example runs")

    run(*install, f"{distribution}[cli,plot]", cwd=folder)
    start = time.perf_counter()
    said = run(command, "demo", cwd=folder)
    assert "Every template is exact." in said, said
    print(f"  `bitmix demo` finds its templates in {time.perf_counter() - start:.1f} s")
    lines = ["a,b,c,d,e,f", *["1,1,1,0,0,0", "0,0,0,1,1,1"] * 30]
    (folder / "my rows.csv").write_text("\n".join(lines))
    run(command, "fit", "my rows.csv", "-k", "2", "--report", "my.html", cwd=folder)
    print(f"  own CSV to report: {(folder / 'my.html').stat().st_size:,} bytes of HTML")

    for old in ("numpy<2", "scikit-learn<1.6"):
        said = run(*pip, "--dry-run", distribution, old, cwd=folder, code=None)
        assert f"bitmix=={version} and {old}" in said, said
    print("  an old NumPy or scikit-learn is refused")
    if old_python := os.environ.get("OLD_PYTHON"):
        run(old_python, "-m", "venv", folder / "old", cwd=folder)
        old = (folder / "old" / SCRIPTS / "python", "-m", "pip", "install", "--no-deps")
        said = run(*old, distribution, cwd=folder, code=None)
        assert "requires a different Python" in said, said
        print(f"  {old_python} is refused")
    if distribution.suffix == ".whl":
        size = distribution.stat().st_size
        assert size < MAX_WHEEL, f"{distribution.name} has {size:,} bytes"
        print(f"  {size:,} bytes")


if __name__ == "__main__":
    constraints, *distributions = (Path(name).resolve() for name in sys.argv[1:])
    assert distributions, __doc__
    for distribution in distributions:
        print(distribution.name)
        with tempfile.TemporaryDirectory() as folder:
            check(distribution, constraints, Path(folder))
