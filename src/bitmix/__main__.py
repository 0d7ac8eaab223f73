"""``python -m bitmix`` and the ``bitmix`` command."""

import contextlib
import signal
import sys
import warnings
from types import FrameType

from bitmix.extras import advice


def main() -> None:
    _prepare()
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401

        from bitmix.cli import app

        app()
    except ModuleNotFoundError as missing:
        print(f"bitmix: {advice((missing.name or '').split('.')[0])}", file=sys.stderr)
        sys.exit(2)
    except (ValueError, OSError) as error:  # ours: rule, value, remedy. Wrong use ends with code 2
        print(f"bitmix: {error}", file=sys.stderr)
        sys.exit(2)


def _prepare() -> None:
    warnings.showwarning = _note
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):  # replaced by something that is no text file
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    for name in ("SIGTERM", "SIGHUP"):  # end as Ctrl-C does: with nothing half-written
        if hasattr(signal, name):
            with contextlib.suppress(ValueError):  # not in the main thread
                signal.signal(getattr(signal, name), _end)


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _note(message: Warning | str, *_: object, **__: object) -> None:
    print(f"bitmix: note: {message}", file=sys.stderr)


if __name__ == "__main__":
    main()
