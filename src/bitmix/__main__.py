"""``python -m bitmix`` and the ``bitmix`` command."""

import sys
import warnings


def main() -> None:
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ModuleNotFoundError as missing:
        print(
            f"bitmix: the command line needs {missing.name}: pip install 'bitmix[cli]'",
            file=sys.stderr,
        )
        sys.exit(2)
    from bitmix.cli import app

    warnings.showwarning = _note
    try:
        app()
    except ModuleNotFoundError as missing:
        print(
            f"bitmix: this needs {missing.name}: pip install 'bitmix[images,plot]'", file=sys.stderr
        )
        sys.exit(2)
    except (ValueError, OSError) as error:  # ours: rule, value, remedy. Wrong use ends with code 2
        print(f"bitmix: {error}", file=sys.stderr)
        sys.exit(2)


def _note(message: Warning | str, *_: object, **__: object) -> None:
    print(f"bitmix: note: {message}", file=sys.stderr)


if __name__ == "__main__":
    main()
