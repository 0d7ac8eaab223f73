"""Progress on a terminal, nothing elsewhere."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


def progress(values: Iterable[T], label: str, total: int | None = None) -> Iterator[T]:
    """The values, with a bar on standard error if that is a terminal."""
    console = _terminal()
    if console is None:
        yield from values
        return
    from rich.progress import track

    yield from track(values, label, total=total, console=console, transient=True)


@contextmanager
def meter(label: str, total: int) -> Iterator[Callable[[int, str], None]]:
    """A bar to be told how far things are and what to say beside it, with the time left.

    None where there is nothing to do.
    """
    console = _terminal() if total else None
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


def on_terminal() -> bool:
    """Whether anybody would see a bar."""
    return _terminal() is not None


def _terminal() -> Any:
    """A console on standard error if that is a terminal and rich is there."""
    try:
        from rich.console import Console
    except ModuleNotFoundError:
        return None
    console = Console(stderr=True)
    return console if console.is_terminal else None
