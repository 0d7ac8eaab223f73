"""A bar on a terminal, nothing elsewhere."""

import os
import select
import signal
import subprocess
import sys
import time

import pytest

from bitmix.progress import meter, progress

pty = pytest.importorskip("pty")
pytest.importorskip("rich")

SWEEP = ("reproduce", "fig6", "--runs", "2000", "--jobs", "1", "--out", "results")


class OnTerminal:
    """A bitmix command whose standard error is a terminal of its own."""

    def __init__(self, *args, folder):
        ours, theirs = pty.openpty()
        self._shown, self._terminal = "", ours
        env = {**os.environ, "TERM": "xterm"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bitmix", *args], cwd=folder, env=env,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs, text=True,
        )  # fmt: skip
        os.close(theirs)

    def wait_for(self, text, seconds=120):
        """Whether the terminal shows the text in time."""
        end = time.monotonic() + seconds
        while text not in self._shown and time.monotonic() < end:
            if select.select([self._terminal], [], [], 1)[0]:
                try:
                    self._shown += os.read(self._terminal, 1 << 16).decode(errors="replace")
                except OSError:  # the other end is closed
                    break
        return text in self._shown

    def end(self):
        """What went to standard output, and to the terminal."""
        self.wait_for("\0")
        out, _ = self.process.communicate(timeout=60)
        os.close(self._terminal)
        return out, self._shown


def test_a_sweep_shows_how_far_it_is_and_stops_at_ctrl_c(tmp_path):
    sweep = OnTerminal(*SWEEP, folder=tmp_path)
    assert sweep.wait_for("left:")
    assert sweep.wait_for("/")
    sweep.process.send_signal(signal.SIGINT)
    out, shown = sweep.end()
    assert sweep.process.returncode == 130
    assert "left:" not in out
    assert "Traceback" not in shown
    assert not list(tmp_path.glob("results/*.csv"))  # nothing half-drawn


def test_a_bar_is_gone_when_the_work_is_done(tmp_path):
    """The terminal is left with what was printed: the cursor is back, the line of the bar empty."""
    done = OnTerminal("reproduce", "fig6", "--quick", "--runs", "2", "--out", "r", folder=tmp_path)
    out, shown = done.end()
    assert done.process.returncode == 0
    assert "left:" in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")  # the cursor shows again
    assert "left:" not in out


def test_nothing_is_shown_where_nobody_looks(capfd):
    assert list(progress(iter("abc"), "letters")) == ["a", "b", "c"]
    with meter("rows", 10) as tell:
        tell(5, "halfway")
    assert capfd.readouterr() == ("", "")


def test_values_pass_through_a_bar(capfd, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes standard error for a terminal
    assert list(progress(iter("abc"), "letters", total=3)) == ["a", "b", "c"]
    out, shown = capfd.readouterr()
    assert out == ""
    assert "letters" in shown
