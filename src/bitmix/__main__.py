"""``python -m bitmix`` and the ``bitmix`` command."""

import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from bitmix.errors import CodesWarning
from bitmix.support.atomic import recording
from bitmix.support.extras import advice
from bitmix.support.progress import shown
from bitmix.system import end_on_signals, print_anything

_OPTIONS = {
    r"(id|label|weight|smiles)_column=": r"--\1-column ", "header=False": "--no-header",
    "header=True": "--header", "filled=True": "--filled", "one_values=": "--ones ",
    "skip_errors=True": "--skip-errors", "skip_errors=": "--skip-errors",
    r"(columns|drop|items|missing|binarize|sep|encoding|packed|layer)=": r"--\1 ",
}  # fmt: skip
"""Parameters of the library, and the options of the command line in their place."""
_STOPPED = 130  # by Ctrl-C, which typer passes on as this exit code


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
    written: list[Path] = []
    try:
        with shown(), recording() as written:
            yield
    except ModuleNotFoundError as missing:
        print(f"bitmix: {advice((missing.name or '').split('.')[0])}", file=sys.stderr)
        sys.exit(2)
    except (ValueError, OSError) as error:  # all errors of bitmix are of these types
        print(f"bitmix: {_with_options(error)}", file=sys.stderr)
        sys.exit(2)
    except (KeyboardInterrupt, SystemExit) as ended:
        if isinstance(ended, SystemExit) and ended.code != _STOPPED:
            raise
        done = ", ".join(map(str, written))
        print(
            f"\nstopped; {f'written: {done}' if done else 'nothing was written'}", file=sys.stderr
        )
        sys.exit(_STOPPED)


def _prepare() -> None:
    warnings.showwarning = _print_warning
    print_anything(sys.stdout, sys.stderr)
    end_on_signals(_exit)  # as Ctrl-C does, so that temporary files are removed


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _print_warning(message: Warning | str, *_: object, **__: object) -> None:
    if isinstance(message, CodesWarning):
        return  # the commands that learn codes print them with the rows
    print(f"bitmix: note: {_with_options(message)}", file=sys.stderr)


def _with_options(message: object) -> str:
    """The message with options of the command line in place of parameters of the library."""
    text = str(message)
    for parameter, option in _OPTIONS.items():
        text = re.sub(rf"\b{parameter}", option, text)
    return text


if __name__ == "__main__":
    main()
