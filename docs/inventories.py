"""Inventories of other projects, for links to their pages; building the pages needs no network.

``inventories/*.txt`` list the names that our pages use, one per line. They are written in the
format that intersphinx reads.
"""

import zlib
from pathlib import Path

HERE = Path(__file__).parent
PAGES = {
    "numpy": "https://numpy.org/doc/stable/",
    "scipy": "https://docs.scipy.org/doc/scipy/",
    "sklearn": "https://scikit-learn.org/stable/",
}


def mapping() -> dict[str, tuple[str, str]]:
    """What `intersphinx_mapping` is set to: the address and the inventory of each project."""
    folder = HERE / "_build" / "inventories"
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for project, pages in PAGES.items():
        target = folder / f"{project}.inv"
        target.write_bytes(_inventory(project, _names(project)))
        found[project] = (pages, str(target))
    return found


def _names(project: str) -> list[list[str]]:
    lines = (HERE / "inventories" / f"{project}.txt").read_text("utf-8").splitlines()
    return [line.split() for line in lines if line and not line.startswith("#")]


def _inventory(project: str, names: list[list[str]]) -> bytes:
    head = f"# Sphinx inventory version 2\n# Project: {project}\n# Version: stable\n"
    head += "# The remainder of this file is compressed using zlib.\n"
    lines = "".join(f"{name} {role} 1 {page} -\n" for name, role, page in names)
    return head.encode() + zlib.compress(lines.encode())
