"""Progress is shown on a terminal, and only if it is switched on."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from bitmix import (
    ClassicEM,
    TemplateMixture,
    TwoRoundEM,
    bivariate_residuals,
    blrt,
    bootstrap,
    select_components,
)
from bitmix.__main__ import command_line
from bitmix.errors import ColumnWarning
from bitmix.rows.files import open_table
from bitmix.support import progress as progress_module
from bitmix.support.atomic import atomic_write
from bitmix.support.progress import _switch as progress_switch
from bitmix.support.progress import doing, heartbeat, hidden, meter, progress, shown

pty = pytest.importorskip("pty")
pytest.importorskip("rich")

ROOT = Path(__file__).parents[1]


class OnTerminal:
    """The reproduction of Figure 6, with a terminal of its own as standard error."""

    def __init__(self, *args):
        pytest.importorskip("reproduction", reason="a source package does not hold it")
        ours, theirs = pty.openpty()
        self._shown, self._terminal = "", ours
        env = {**os.environ, "TERM": "xterm"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "reproduction", "fig6", *map(str, args)], cwd=ROOT, env=env,
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


@pytest.mark.system
def test_a_sweep_shows_how_far_it_is_and_stops_at_ctrl_c(tmp_path):
    sweep = OnTerminal("--runs", "2000", "--jobs", "1", "--out", tmp_path)
    assert sweep.wait_for("left:")
    assert sweep.wait_for("/")
    sweep.process.send_signal(signal.SIGINT)
    out, shown = sweep.end()
    assert sweep.process.returncode == 130
    assert "left:" not in out
    assert "Traceback" not in shown
    assert not list(tmp_path.glob("*.csv"))  # nothing half-drawn


@pytest.mark.system
def test_a_bar_is_gone_when_the_work_is_done(tmp_path):
    """The terminal is left with what was printed: the cursor is back, the line of the bar empty."""
    done = OnTerminal("--quick", "--runs", "2", "--out", tmp_path)
    out, shown = done.end()
    assert done.process.returncode == 0
    assert "left:" in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")  # the cursor shows again
    assert "left:" not in out


def test_nothing_is_shown_where_nobody_looks(capfd):
    with shown():
        assert list(progress(iter("abc"), "letters")) == ["a", "b", "c"]
        with meter("rows", 10) as show:
            show(5, "halfway")
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def terminal(monkeypatch):
    """rich takes standard error for a terminal, and every pass is long enough for a bar."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    for limit in ("_LONG_WORK", "_BLOCK_WORK"):
        monkeypatch.setattr(f"bitmix.rows.packed.{limit}", 1)
    monkeypatch.setattr("bitmix.rows.files.table._LARGE", 1)


def test_values_pass_through_a_bar(capfd, terminal):
    with shown():
        assert list(progress(iter("abc"), "letters", total=3)) == ["a", "b", "c"]
    out, bars = capfd.readouterr()
    assert out == ""
    assert "letters" in bars


def test_one_bar_is_drawn_at_a_time(capfd, terminal):
    """rich refuses a second one."""
    with shown(), meter("outer", 2) as show:
        assert list(progress("ab", "inner")) == ["a", "b"]
        show(2, "")
    with shown(), meter("next", 1) as show:
        show(1, "")
    bars = capfd.readouterr().err
    assert "outer" in bars
    assert "inner" not in bars
    assert "next" in bars


def test_the_switch_is_put_back():
    for _ in range(2):
        with shown():
            assert progress_switch.get()
            with hidden():
                assert not progress_switch.get()
                with shown():
                    assert progress_switch.get()
            with hidden(False), ThreadPoolExecutor(1) as pool:
                assert progress_switch.get()
                assert not pool.submit(progress_switch.get).result()
        assert not progress_switch.get()


FITS = {
    "TwoRoundEM": lambda X, **more: TwoRoundEM(2, n_seeds=9, random_state=0, **more).fit(X),
    "ClassicEM": lambda X, **more: ClassicEM(2, max_iter=3, random_state=0, **more).fit(X),
    "ClassicEM from init": lambda X, **more: ClassicEM(2, init=X[:2], **more).fit(X),
    "TemplateMixture": lambda X, **more: TemplateMixture(2, random_state=0, **more).fit(X),
    "select_components": lambda X, **more: select_components(
        X, range(1, 5), TemplateMixture(random_state=0, **more)
    ),
    "stability": lambda X, **more: select_components(
        X, [1, 2], TemplateMixture(n_init=1, random_state=0, **more), criterion="stability"
    ),
}


@pytest.mark.parametrize("name", FITS)
def test_a_fit_is_silent_unless_it_is_verbose(name, capfd, terminal, planted):
    X = planted[0][:100].to_dense()
    FITS[name](X)
    assert capfd.readouterr() == ("", "")
    FITS[name](X, verbose=True)
    out, bars = capfd.readouterr()
    assert out == ""
    assert "rows" in bars or "templates" in bars
    FITS[name](X)
    assert capfd.readouterr() == ("", "")


def test_replicates_are_counted_on_the_command_line(capfd, terminal):
    X = np.random.default_rng(0).integers(2, size=(60, 4))
    model = TemplateMixture(2, noise_model="cell", random_state=0).fit(X)
    bars = {
        "bootstrap": lambda: bootstrap(model, X, n=4),
        "2 classes against 1": lambda: blrt(X, 2, n=4),
        "residuals": lambda: bivariate_residuals(model, X, n=4),
    }
    for label, work in bars.items():
        with contextlib.suppress(ValueError):  # components of coins may not be matched
            work()
        assert capfd.readouterr() == ("", "")
        with shown(), contextlib.suppress(ValueError):
            work()
        assert label in capfd.readouterr().err


def test_reading_is_silent_but_on_the_command_line(capfd, terminal, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"0,1\n" * 600_000)
    with pytest.warns(ColumnWarning):
        table = open_table(path)
    assert len(table.read()) == 600_000
    assert capfd.readouterr() == ("", "")
    with shown():
        table.read()
    assert "reading rows.csv" in capfd.readouterr().err


def test_verbose_is_kept_in_a_model(tmp_path):
    model = TemplateMixture(1, verbose=True, random_state=0).fit(np.zeros((3, 4)))
    model.save(tmp_path / "m")
    assert TemplateMixture.load(tmp_path / "m").verbose is True


@pytest.fixture
def quick_beats(monkeypatch):
    for name in ("QUIET_SECONDS", "LOG_SECONDS", "TERMINAL_SECONDS"):
        monkeypatch.setattr(progress_module, name, 0.05)


def test_a_log_says_what_is_being_done(capfd, quick_beats):
    with shown(), heartbeat("fit"), doing("3 templates in 10 rows"):
        time.sleep(0.3)
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) >= 2
    assert lines[0] == "bitmix: fit: 3 templates in 10 rows, 0 s"
    with shown(), heartbeat("fit"):
        for _ in progress([1, 2], "starts", total=2):
            time.sleep(0.2)
    assert "bitmix: fit: starts 2 of 2, 0 s" in capfd.readouterr().err


def test_a_terminal_shows_one_line_which_is_gone_at_the_end(capfd, terminal, quick_beats):
    with shown(), heartbeat("fit"):
        time.sleep(0.3)
    shown_text = capfd.readouterr().err
    assert "\r\x1b[2Kfit, 0 s\r" in shown_text
    assert shown_text.endswith("\r\x1b[2K")
    assert "\n" not in shown_text


def test_nothing_is_said_if_it_is_not_wanted_or_over_soon(capfd, quick_beats, monkeypatch):
    with heartbeat("fit"):
        time.sleep(0.2)
    with shown(), heartbeat("fit"), hidden():
        time.sleep(0.2)
    with shown(), hidden(), heartbeat("fit"):
        time.sleep(0.2)
    monkeypatch.setattr(progress_module, "LOG_SECONDS", 10.0)
    with shown(), heartbeat("fit"):
        time.sleep(0.2)
    assert capfd.readouterr().err == ""


def stop_after_writing(names):
    with mock.patch("bitmix.__main__._prepare"), command_line():
        for name in names:
            with atomic_write(name) as file:
                file.write(b"x")
        raise KeyboardInterrupt


def test_a_command_that_is_stopped_says_what_it_has_written(capfd, tmp_path):
    for names, said in (((), "nothing was written"), (("a", "b", "a"), "written: a, b")):
        with chdir(tmp_path), pytest.raises(SystemExit, match="130"):
            stop_after_writing(names)
        assert f"stopped; {said}" in capfd.readouterr().err
