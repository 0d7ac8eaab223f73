"""Progress bars and status lines. The library is silent unless they are switched on.

The command line switches them on with ``with shown():``, an estimator with ``verbose=True``. The
switch is a context variable, so no function needs a flag; in a new thread or process it is off.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")

_switch: ContextVar[bool] = ContextVar("bitmix progress", default=False)
_drawing = threading.Lock()  # a terminal shows one bar at a time

QUIET_SECONDS, LOG_SECONDS, TERMINAL_SECONDS = 2.0, 10.0, 0.5
"""Seconds before the first status line, and between status lines in a log and on a terminal."""
_doing: list[str] = []  # current tasks, the outermost first
_hidden: list[None] = []  # one entry per block that hides progress


@contextmanager
def shown() -> Iterator[None]:
    """Show progress inside the block."""
    token = _switch.set(True)
    try:
        yield
    finally:
        _switch.reset(token)


@contextmanager
def hidden(wanted: bool = True) -> Iterator[None]:
    """Show no progress inside the block if `wanted`; otherwise leave the switch as it is."""
    token = _switch.set(_switch.get() and not wanted)
    if wanted:
        _hidden.append(None)
    try:
        yield
    finally:
        _switch.reset(token)
        if wanted:
            _hidden.pop()


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Name the task inside the block, for `heartbeat` to show."""
    _doing.append(what)
    try:
        yield
    finally:
        _doing.remove(what)


@contextmanager
def heartbeat(what: str) -> Iterator[None]:
    """Show the current task and the time it has taken while the block runs.

    On a terminal this is one line, which a progress bar replaces; in a log, a line every 10 s.
    """
    if not _switch.get():
        yield
        return
    on_terminal, stop, start = _terminal() is not None, threading.Event(), time.monotonic()
    beating = threading.Thread(target=_beat, args=(on_terminal, stop, start), daemon=True)
    with doing(what):
        beating.start()
        try:
            yield
        finally:
            stop.set()
            beating.join()


def _beat(on_terminal: bool, stop: threading.Event, start: float) -> None:
    stream, written = sys.stderr, False
    wait = QUIET_SECONDS if on_terminal else LOG_SECONDS
    while not stop.wait(wait):
        wait = TERMINAL_SECONDS if on_terminal else LOG_SECONDS
        if _hidden:
            continue
        text = f"{': '.join(_doing[-2:])}, {time.monotonic() - start:.0f} s"
        if not on_terminal:
            print(f"bitmix: {text}", file=stream, flush=True)
        elif _drawing.acquire(blocking=False):
            written = True
            stream.write(f"\r\x1b[2K{text[:78]}\r")
            stream.flush()
            _drawing.release()
    if written:
        stream.write("\r\x1b[2K")
        stream.flush()


def progress(values: Iterable[T], label: str, total: int | None = None) -> Iterator[T]:
    """Yield the values, with a bar on standard error that counts them."""
    with _bar() as console:
        if console is None:
            for number, value in enumerate(values, 1):
                with doing(f"{label} {number}{'' if total is None else f' of {total}'}"):
                    yield value
        else:
            from rich.progress import track

            yield from track(values, label, total=total, console=console, transient=True)


@contextmanager
def meter(label: str, total: int) -> Iterator[Callable[[int, str], None]]:
    """Show a bar on standard error; the function sets how much is done and a note beside it.

    There is no bar if `total` is 0.
    """
    with _bar(total > 0) as console:
        if console is None:
            yield lambda done, note: None
            return
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"), TimeElapsedColumn(), TextColumn("left:"),
            TimeRemainingColumn(),
        )  # fmt: skip
        with Progress(*columns, console=console, transient=True, speed_estimate_period=300) as bar:
            task = bar.add_task(label, total=total, note="")
            yield lambda done, note: bar.update(task, completed=done, note=note)


def is_shown() -> bool:
    """Whether progress is switched on and standard error is a terminal."""
    return _terminal() is not None


@contextmanager
def _bar(wanted: bool = True) -> Iterator[Any]:
    """The console for a bar, or None if none is wanted or another bar is already shown."""
    console = _terminal() if wanted else None
    if console is None or not _drawing.acquire(blocking=False):
        yield None
        return
    try:
        yield console
    finally:
        _drawing.release()


def _terminal() -> Any:
    """A console on standard error if that is a terminal and progress is switched on."""
    if not _switch.get():
        return None
    try:
        from rich.console import Console
    except ModuleNotFoundError:
        return None
    console = Console(stderr=True)
    return console if console.is_terminal else None
