"""What differs between operating systems, and what each of them does instead.

Nothing else in the package asks which system it runs on. Each function has a branch for a system
without what Linux has; `tests/test_system.py` takes both.
"""

import contextlib
import ctypes
import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_REPLACE_SECONDS = 1.0  # a virus scanner or an indexer lets go of a new file by then
_WAIT_SECONDS = 0.05
_IGNORES_CASE = ("win32", "darwin")  # as their disks are formatted by default
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h


def cores() -> int:
    """The cores this process may use; all of them where the system does not say."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def after_fork(function: Callable[[], object]) -> None:
    """Call the function in every child that is forked; where nothing forks, never."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


def open_to_read(path: Path) -> int:
    """A handle of the file, of whose bytes Windows would otherwise translate some."""
    return os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))


def read_at(handle: int, octets: memoryview, position: int, lock: threading.Lock) -> int:
    """Read bytes of an open file from `position` on, in any number of threads; how many."""
    if hasattr(os, "preadv"):
        return os.preadv(handle, [octets], position)
    with lock:  # Windows reads only from where the file is
        os.lseek(handle, position, os.SEEK_SET)
        data = os.read(handle, len(octets))
    octets[: len(data)] = data
    return len(data)


def fetch_ahead(handle: int, position: int, size: int) -> None:
    """Ask the system, if it can be asked, to fetch these bytes while others are worked on."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(handle, position, size, os.POSIX_FADV_WILLNEED)


def replace(temporary: str, target: Path) -> None:
    """Give a finished file its name, in one step, whatever had that name before.

    Windows refuses while any program has the old file open, if only for a moment.
    """
    if sys.platform != "win32":
        os.replace(temporary, target)
        return
    end = time.monotonic() + _REPLACE_SECONDS
    while True:
        try:
            os.replace(temporary, target)
            return
        except PermissionError:
            if time.monotonic() > end:
                raise PermissionError(
                    errno.EACCES,
                    "the file is open, here or in another program: close it or give another name",
                    str(target),
                ) from None
        time.sleep(_WAIT_SECONDS)


def same_name(path: Path) -> str:
    """A text that is equal for two paths of one file, with links followed; it need not exist."""
    text = str(path.resolve())
    return text.casefold() if sys.platform in _IGNORES_CASE else text


def end_on_signals(handler: Callable[[int, Any], object]) -> None:
    """Call the handler when the system asks the process to end, by whatever signals it has."""
    for name in ("SIGTERM", "SIGHUP", "SIGBREAK"):
        if hasattr(signal, name):
            with contextlib.suppress(ValueError):  # not in the main thread
                signal.signal(getattr(signal, name), handler)


def print_anything(*streams: Any) -> None:
    """Print a question mark for what the console's character set lacks, instead of failing."""
    for stream in streams:
        with contextlib.suppress(AttributeError):  # replaced by something that is not a text file
            stream.reconfigure(errors="replace")


def keep_freed_memory() -> None:
    """Let glibc reuse freed arrays instead of returning their pages after every step.

    This is for processes of our own, such as Dask workers, whose environment has glibc return
    everything at once: four fifths of a fit would go into page faults. The thresholds are those
    glibc comes to by itself, in other environments, once an array of 16 MB was freed.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another C library
        return
    mallopt(_M_MMAP_THRESHOLD, 1 << 24)
    mallopt(_M_TRIM_THRESHOLD, 1 << 25)
