"""How far one fit walks: the functions and files of the package that a reader would go through.

Counts the distinct code objects of bitmix that run in the second fit of a process, with the NumPy
kernels, for a 600 × 200 array.

    python benchmarks/walk.py [--list]
"""

import os
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ["BITMIX_KERNELS"] = "reference"
os.environ["BITMIX_NUM_THREADS"] = "1"

import bitmix
from bitmix import ClassicEM, TemplateMixture, TwoRoundEM
from bitmix.datasets import make_templates, sample_mixture

SOURCE = str(Path(bitmix.__file__).parent)


def walk(fit: Any) -> tuple[set[tuple[str, str, int]], int]:
    """The functions that run, and how often the reading order changes from file to file."""
    seen: dict[tuple[str, str, int], None] = {}

    def profile(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(SOURCE):
            seen[code.co_filename, code.co_qualname, code.co_firstlineno] = None

    fit()
    sys.setprofile(profile)
    try:
        fit()
    finally:
        sys.setprofile(None)
    files = [file for file, _, _ in seen]
    changes = sum(a != b for a, b in pairwise(files))
    return set(seen), changes


def main() -> None:
    truth = make_templates(3, 200, separation=0.3, random_state=0)
    X = sample_mixture(truth, [0.5, 0.3, 0.2], 0.1, 600, 1)[0].to_dense()
    models = {
        "TemplateMixture(3, noise_model='shared')": TemplateMixture(
            3, noise_model="shared", random_state=0
        ),
        "TwoRoundEM(3)": TwoRoundEM(3, random_state=0),
        "ClassicEM(3)": ClassicEM(3, random_state=0),
    }
    for name, model in models.items():
        functions, changes = walk(lambda model=model: model.fit(X))
        files = Counter(Path(file).relative_to(SOURCE).as_posix() for file, _, _ in functions)
        counts = f"{len(functions)} functions in {len(files)} files"
        print(f"{name}: {counts}, {changes} changes of file")
        if "--list" in sys.argv:
            for file in sorted(files):
                here = sorted((line, f) for path, f, line in functions if path.endswith(file))
                print(f"  {file} ({files[file]}):", ", ".join(f for _, f in here))


if __name__ == "__main__":
    main()
