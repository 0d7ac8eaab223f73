"""The command line: ``python -m benchmarks.peers``, from the root of a clone."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.comparison import draw, grid, measure_all, table
from benchmarks.peers.methods import METHODS
from bitmix.__main__ import command_line
from bitmix.plots import saved_figure
from bitmix.support.atomic import atomic_write

DESCRIPTION = """
Time and memory of a fit on this machine, beside other packages. Peers take part where they are
installed: pip install 'bitmix[peers]'.
"""


def main() -> None:
    with command_line():
        run(sys.argv[1:])


def run(arguments: Sequence[str]) -> None:
    """Carry out the command with these arguments."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=DESCRIPTION)
    parser.add_argument("--quick", action="store_true", help="two small sizes only")
    parser.add_argument(
        "--rows", type=int, default=1_000_000, help="the largest number of rows (%(default)s)"
    )
    parser.add_argument(
        "--method", action="append", choices=[method.name for method in METHODS], metavar="NAME",
        help="only this method; the option can be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--limit", type=float, default=120.0,
        help="leave out peers that would take more seconds than this (%(default)s)",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers to this file")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw a plot into this .png, .svg or .pdf file"
    )
    args = parser.parse_args(arguments)
    for path in (args.json, args.plot):
        if path is not None and not path.parent.is_dir():
            parser.error(f"there is no folder {path.parent} to write {path.name} into")
    if args.plot is not None and args.plot.suffix.lower() not in (".png", ".svg", ".pdf"):
        parser.error(f"--plot must end in .png, .svg or .pdf, got {args.plot.name}")
    sizes = grid(args.quick, args.rows)
    if not sizes:
        parser.error(f"--rows must be at least 10,000, got {args.rows:,}")
    result = measure_all(sizes, limit=args.limit, only=args.method or ())
    for line in table(result):
        print(line)
    if args.json is not None:
        with atomic_write(args.json) as file:
            file.write(result.to_json().encode() + b"\n")
    if args.plot is not None:
        with saved_figure(args.plot, (6.4, 4.8)) as figure:
            draw(result, figure)


if __name__ == "__main__":
    main()
