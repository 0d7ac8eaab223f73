"""Progress bars. The library is silent unless they are switched on.

The command line switches them on with ``with shown():``, an estimator with ``verbose=True``. What
runs inside takes no flag: the switch is a context variable, and a thread or process of its own
starts with it off.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")

_switch: ContextVar[bool] = ContextVar("bitmix progress", default=False)
_drawing = threading.Lock()  # a terminal has room for one bar


@contextmanager
def shown(wanted: bool = True) -> Iterator[None]:
    """Show progress inside the block if `wanted`; otherwise leave the switch as it is."""
    token = _switch.set(bool(wanted) or _switch.get())
    try:
        yield
    finally:
        _switch.reset(token)


@contextmanager
def hidden(wanted: bool = True) -> Iterator[None]:
    """Show no progress inside the block if `wanted`; otherwise leave the switch as it is."""
    token = _switch.set(_switch.get() and not wanted)
    try:
        yield
    finally:
        _switch.reset(token)


def progress(values: Iterable[T], label: str, total: int | None = None) -> Iterator[T]:
    """The values, with a bar on standard error that counts them."""
    with _bar() as console:
        if console is None:
            yield from values
        else:
            from rich.progress import track

            yield from track(values, label, total=total, console=console, transient=True)


@contextmanager
def meter(label: str, total: int) -> Iterator[Callable[[int, str], None]]:
    """A bar on standard error, and a function that sets how much is done and a note beside it.

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
    """The console for a bar, or None if there should be none or another one is drawn already."""
    console = _terminal() if wanted else None
    if console is None or not _drawing.acquire(blocking=False):
        yield None
        return
    try:
        yield console
    finally:
        _drawing.release()


def _terminal() -> Any:
    """A console on standard error if progress is switched on and that is a terminal."""
    if not _switch.get():
        return None
    try:
        from rich.console import Console
    except ModuleNotFoundError:
        return None
    console = Console(stderr=True)
    return console if console.is_terminal else None
