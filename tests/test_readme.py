"""The examples of the README run, and print what they say they print."""

import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_examples(tmp_path, monkeypatch, capsys):
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
