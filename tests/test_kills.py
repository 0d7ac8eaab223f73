"""A slice of `benchmarks/kills.py`."""

import pytest
from conftest import script

kills = script("benchmarks/kills.py")


@pytest.mark.parametrize("kind", kills.WORK)
def test_a_kill_leaves_the_old_file_or_the_new_one(kind, tmp_path):
    kills.prepare(tmp_path, 8000)
    count = kills.kill_at_random(kind, tmp_path, 3, seed=0)
    assert count.killed == 3
    assert count.wrong == 0
    assert count.old + count.new == count.killed


def test_a_torn_file_is_seen(tmp_path, monkeypatch):
    """The judge can fail: work that writes its output in place."""
    before, work = (
        "import time\n",
        (
            "file = open(folder + '/torn', 'wb', buffering=0)\n"
            "for i in range(20): file.write(b'x' * 99); time.sleep(0.02)"
        ),
    )
    monkeypatch.setitem(kills.WORK, "torn", ("torn", before, work))
    assert kills.kill_at_random("torn", tmp_path, 3, seed=0).wrong > 0
