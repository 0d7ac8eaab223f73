"""The command line: ``python -m reproduction NAME``, from the root of a clone."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bitmix.__main__ import command_line
from reproduction.artefacts import ARTEFACTS, reproduce
from reproduction.runner import RunError

DESCRIPTION = """
Make a figure or table of the paper again. Every run is stored: interrupt the command whenever you
like, and give the same command again to continue.
"""
EXAMPLES = """
examples:
  python -m reproduction list
  python -m reproduction all --quick
  python -m reproduction table1 --images photos --out results
"""


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    command = argparse.ArgumentParser(
        prog="python -m reproduction",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("name", help="fig1 … fig8, table1 … table3, all, or list")
    command.add_argument(
        "--runs", type=int, metavar="N", help="runs per point (default: 100, or 15 with --quick)"
    )
    command.add_argument(
        "--quick", action="store_true", help="compute fewer points with fewer runs"
    )
    command.add_argument(
        "--out", type=Path, metavar="DIR", default=Path("build/reproduction"),
        help="folder for the files and the stored runs (default: %(default)s)",
    )  # fmt: skip
    command.add_argument(
        "--jobs", type=int, metavar="N", help="worker processes (default: one per core)"
    )
    command.add_argument(
        "--images", type=Path, metavar="FOLDER",
        help="a folder with one sub-folder per class (default: scikit-learn's digits)",
    )  # fmt: skip
    command.add_argument(
        "--seed", type=int, metavar="N", default=0,
        help="different seeds give different random samples (default: %(default)s)",
    )  # fmt: skip
    command.add_argument(
        "--export", type=Path, metavar="FILE",
        help="write all stored runs to this .csv or .parquet file",
    )  # fmt: skip
    command.add_argument("--json", action="store_true", help="print one JSON object")
    return command


def main() -> None:
    with command_line():
        run(sys.argv[1:])


def run(arguments: Sequence[str]) -> None:
    """Carry out the command with these arguments."""
    options = parser().parse_args(arguments)
    if options.name == "list":
        for artefact in ARTEFACTS.values():
            note = "  (--images)" if artefact.needs_images else ""
            print(f"{artefact.name:<8}{artefact.title}{note}")
        return
    try:
        make(options)
    except RunError as error:
        print(f"bitmix: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print(
            f"\nstopped; finished runs are stored in {options.out}: give the same command again "
            "to continue",
            file=sys.stderr,
        )
        sys.exit(130)


def make(options: argparse.Namespace) -> None:
    """Make what was asked for, and print one line per figure or table."""
    start, made, digits_used = time.monotonic(), [], False
    for artefact, paths in reproduce(
        options.name, options.out, runs=options.runs, quick=options.quick, jobs=options.jobs,
        images=options.images, seed=options.seed, export=options.export,
    ):  # fmt: skip
        seconds, start = time.monotonic() - start, time.monotonic()
        digits_used |= artefact.needs_images and options.images is None
        made.append({"name": artefact.name, "files": list(map(str, paths)), "seconds": seconds})
        if not options.json:
            endings = " ".join(path.suffix for path in paths)
            path = options.out / artefact.name
            print(f"{artefact.name:<8}{path} {endings}  {seconds:.1f} s", flush=True)
    if options.json:
        print(json.dumps({"made": made}))
    elif digits_used:
        print("The images are scikit-learn's digits; --images FOLDER takes your own.")


if __name__ == "__main__":
    main()
