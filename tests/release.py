"""Whether this version can be released: ``python tests/release.py [TAG]`` lists what is missing.

The version stands in ``src/bitmix/__init__.py``; the tag, CHANGELOG, CITATION and the recipe must
agree with it, and the addresses in ``pyproject.toml`` must no longer be placeholders.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def text(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def version() -> str:
    return re.findall(r'^__version__ = "(.*)"$', text("src/bitmix/__init__.py"), flags=re.M)[0]


def other_versions() -> dict[str, str]:
    """The version as other files have it."""
    found = {
        "CITATION.cff": re.findall(r"^version: (\S+)$", text("CITATION.cff"), flags=re.M),
        "recipe/recipe.yaml": re.findall(
            r'^  version: "(.*)"$', text("recipe/recipe.yaml"), flags=re.M
        ),
        "CHANGELOG.md": re.findall(r"^## \[(\d.*)\]", text("CHANGELOG.md"), flags=re.M),
    }
    return {name: versions[0] if versions else "none" for name, versions in found.items()}


def missing(tag: str = "") -> list[str]:
    """What keeps this version from being released."""
    here = version()
    found = [
        f"{name} is of version {other}, the package of {here}"
        for name, other in other_versions().items()
        if other != here
    ]
    if tag and tag != f"v{here}":
        found.append(f"the tag is {tag}, the version {here}")
    if not re.search(
        rf"^## \[{re.escape(here)}\] - \d{{4}}-\d\d-\d\d$", text("CHANGELOG.md"), re.M
    ):
        found.append(f"CHANGELOG.md has no day for {here}: write ## [{here}] - YYYY-MM-DD")
    urls = tomllib.loads(text("pyproject.toml"))["project"]["urls"]
    found += [
        f"pyproject.toml: the address of {name} is a placeholder: {url}"
        for name, url in urls.items()
        if ".invalid/" in url
    ]
    return found


if __name__ == "__main__":
    reasons = missing(*sys.argv[1:2])
    print("\n".join(reasons) or f"bitmix {version()} can be released")
    sys.exit(1 if reasons else 0)
