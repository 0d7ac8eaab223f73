"""Files appear whole or not at all: written under a temporary name, then renamed."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Errors of reads and writes, which do not know the name of their file, are told it."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file to write to; it takes its name when the block ends without an error."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent} to write {target.name} into")
    if target.exists() and not target.is_file():
        raise FileExistsError(f"{target} is no file: give another name for the output")
    # The name is there before the file: whenever Ctrl-C comes, we know what to remove.
    temporary = str(target.with_name(f".{target.name}.{secrets.token_urlsafe(6)}"))
    try:
        with naming(target):
            with open(temporary, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):  # what is told is the first error
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename == temporary:
            error.filename = str(target)  # nobody knows the other name
        raise
