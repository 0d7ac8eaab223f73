"""Files appear complete or not at all: they are written under a temporary name, then renamed."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO

from bitmix.system import replace


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Add the name of the file to errors of reads and writes, which do not name it themselves."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


_written: ContextVar[list[Path] | None] = ContextVar("files written", default=None)


@contextmanager
def recording() -> Iterator[list[Path]]:
    """The files that were written completely inside the block."""
    paths: list[Path] = []
    token = _written.set(paths)
    try:
        yield paths
    finally:
        _written.reset(token)


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a binary file for writing; it gets its name if the block ends without an error."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent} to write {target.name} into")
    if target.exists() and not target.is_file():
        raise FileExistsError(f"{target} is not a regular file: give another name for the output")
    # The name is chosen before the file is created, so that it can be removed after Ctrl-C.
    temporary = str(target.with_name(f".{target.name}.{secrets.token_urlsafe(6)}"))
    try:
        with naming(target):
            with open(temporary, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            replace(temporary, target)
            if (written := _written.get()) is not None and target not in written:
                written.append(target)
    except BaseException as error:
        with suppress(OSError):  # the first error is the one to report
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename == temporary:
            error.filename = str(target)  # the temporary name means nothing to the user
        raise
