"""Progress on a terminal, nothing elsewhere."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def progress(values: Iterable[T], label: str, total: int | None = None) -> Iterator[T]:
    """The values, with a bar on standard error if that is a terminal."""
    try:
        from rich.console import Console
        from rich.progress import track
    except ModuleNotFoundError:
        yield from values
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield from values
        return
    yield from track(values, label, total=total, console=console, transient=True)
