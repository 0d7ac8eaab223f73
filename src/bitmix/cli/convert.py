"""``bitmix convert``."""

import time
from pathlib import Path
from typing import Annotated

import typer

from bitmix.cli.data import Reading
from bitmix.cli.options import Force, Json, Quiet
from bitmix.cli.output import check_writable, print_json


def convert(
    table: Annotated[
        Path,
        typer.Argument(
            metavar="IN", help="A table: .csv .tsv .parquet .fps .npy .zarr …; - is standard input."
        ),
    ],
    reading: Reading,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Default: IN with the ending .bits.")
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Pack a table of 0 and 1 into a .bits file.

    The table is read block by block, so it need not fit into memory. Fits read the packed file
    directly from disk.

    \b
    Examples:
      bitmix convert rows.csv --id-column name
      bitmix convert - -o rows.bits < rows.csv
    """
    from bitmix.rows.packed import BitMatrix

    output = _output_path(table) if output is None else output
    if output.exists() and table.exists() and output.samefile(table):
        raise ValueError(f"{output} is the input: give another name for the output")
    check_writable(output, force, ".bits")
    source = reading.open(table)
    start = time.perf_counter()
    source.save(output)
    seconds = time.perf_counter() - start
    written = BitMatrix.open(output)
    (rows, columns), size, density = written.shape, output.stat().st_size, written.density
    rate = source.size / 1e6 / seconds if source.size else None
    if as_json:
        print_json({
            "rows": rows, "columns": columns, "density": density, "bytes": size,
            "megabytes_per_second": rate, "output": str(output),
        })  # fmt: skip
    elif not quiet:
        speed = f" ({rate:,.0f} MB/s)" if rate else ""
        typer.echo(
            f"{rows:,} rows, {columns:,} columns, density {density:.3f}, "
            f"{size:,} bytes{speed}, written to {output}"
        )
        for line in [] if written.codes is None else written.codes.describe():
            typer.echo(line)


def _output_path(table: Path) -> Path:
    """The name of the table with the ending .bits."""
    from bitmix.rows.files import ending

    if str(table) == "-":
        raise ValueError("standard input has no name: give -o OUT.bits")
    stem = table.name[: len(table.name) - len(ending(table) or "")]
    return table.with_name(f"{stem}.bits")
