"""A few kills of each kind; ``python tests/kills.py`` has hundreds."""

import pytest
from kills import WORK, Work, kill_at_random, prepare

pytestmark = [pytest.mark.system, pytest.mark.posix]


@pytest.mark.parametrize("kind", WORK)
def test_a_kill_leaves_the_old_file_or_the_new_one(kind, tmp_path):
    prepare(tmp_path, 8000)
    count = kill_at_random(kind, tmp_path, 3, seed=0)
    assert count.killed == 3
    assert count.wrong == 0
    assert count.old + count.new == count.killed


def test_a_half_written_file_is_detected(tmp_path, monkeypatch):
    """Work that writes its output in place must be counted as wrong."""
    write = (
        "file = open('torn', 'wb', buffering=0)\n"
        "for i in range(20): file.write(b'x' * 99); time.sleep(0.02)"
    )
    monkeypatch.setitem(WORK, "torn", Work("torn", "import time", write))
    assert kill_at_random("torn", tmp_path, 3, seed=0).wrong > 0
