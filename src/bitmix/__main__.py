"""``python -m bitmix`` and the ``bitmix`` command."""

import contextlib
import re
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from bitmix.support.extras import advice
from bitmix.support.progress import shown


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; by default with the arguments of the process."""
    with command_line():
        import rich  # noqa: F401
        import typer  # noqa: F401

        from bitmix.cli import app

        app(arguments)


@contextmanager
def command_line() -> Iterator[None]:
    """Print errors and warnings in one line each; bad input and wrong use exit with code 2.

    Progress is shown, as it is on every command line.
    """
    _prepare()
    try:
        with shown():
            yield
    except ModuleNotFoundError as missing:
        print(f"bitmix: {advice((missing.name or '').split('.')[0])}", file=sys.stderr)
        sys.exit(2)
    except (ValueError, OSError) as error:  # all errors of bitmix are of these types
        print(f"bitmix: {_with_options(error)}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        sys.exit(130)


def _prepare() -> None:
    warnings.showwarning = _print_warning
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):  # replaced by something that is not a text file
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    for name in ("SIGTERM", "SIGHUP"):  # end as Ctrl-C does, so that temporary files are removed
        if hasattr(signal, name):
            with contextlib.suppress(ValueError):  # not in the main thread
                signal.signal(getattr(signal, name), _exit)


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _print_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"bitmix: note: {_with_options(message)}", file=sys.stderr)


def _with_options(message: object) -> str:
    """The message with options of the command line in place of parameters of the library."""
    return re.sub(r"\b(id|label)_column=", r"--\1-column ", str(message))


if __name__ == "__main__":
    main()
