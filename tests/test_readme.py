"""The examples of README and documentation run, and print what they say they print."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import bitmix

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


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


@pytest.mark.parametrize("page", ["index", "first_steps", "images", "choosing", "report", "faq"])
def test_examples_of_the_documentation(page, planted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    y, x = np.mgrid[:60, :60]
    for name, wave in (("flat", y), ("steep", x), ("slanted", x + y)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(6):
            grey = (127 + 120 * np.sin((wave + i) / 5.0)).astype(np.uint8)
            Image.fromarray(grey).save(tmp_path / "photos" / name / f"{i}.png")
    text = (ROOT / "docs" / f"{page}.rst").read_text()
    blocks = re.findall(r"code-block:: python\n\n((?:    .*\n|\n)+)", text)
    assert blocks
    names: dict[str, object] = {"X": planted[0]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in blocks:
            exec(re.sub(r"^    ", "", block, flags=re.MULTILINE), names)


def test_every_public_name_is_in_the_reference():
    listed = set((ROOT / "docs" / "api.rst").read_text().split())
    for module in (bitmix.datasets, bitmix.features, bitmix.plots, bitmix.report, bitmix.theory):
        assert set(module.__all__) <= listed, module.__name__
    own = {name for name in bitmix.__all__ if isinstance(getattr(bitmix, name), type)}
    assert own <= listed
