"""``bitmix convert``."""

import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bitmix.cli.output import Force, IdColumn, Json, LabelColumn, Quiet, print_json, writable


class Kind(StrEnum):
    csv = "csv"
    tsv = "tsv"
    fps = "fps"


def convert(
    table: Annotated[
        Path,
        typer.Argument(metavar="IN", help=".csv .tsv .parquet .fps .npy .zarr …, or -."),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="By default IN with the ending .bits.")
    ] = None,
    kind: Annotated[
        Kind, typer.Option("--format", help="What comes through standard input, if IN is -.")
    ] = Kind.csv,
    id_column: IdColumn = None,
    label_column: LabelColumn = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Pack a table of 0 and 1 into bits, a block at a time: fits read it from disk.

    Examples:  bitmix convert rows.csv --id-column name  |  bitmix convert - -o o.bits < rows.csv
    """
    import numpy as np

    from bitmix.rows import bitfile
    from bitmix.rows.files import open_stream, open_table

    output = _output(table, output)
    writable(output, force, ".bits")
    apart = {"id_column": id_column, "label_column": label_column}
    if str(table) == "-":
        source = open_stream(sys.stdin.buffer, str(kind), **apart)
    else:
        source = open_table(table, **apart)
    start, ones = time.perf_counter(), 0
    with bitfile.writing(output, source.n_columns, source.names, source.about) as writer:
        for piece in source.pieces(quiet=quiet):
            writer.append(piece.words)
            ones += int(np.bitwise_count(piece.words).sum(dtype=np.int64))
    seconds = time.perf_counter() - start
    rows, columns, size = writer.rows, source.n_columns, output.stat().st_size
    rate = source.size / 1e6 / seconds if source.size else None
    density = ones / (rows * columns)
    if as_json:
        print_json({
            "rows": rows, "columns": columns, "density": density, "bytes": size,
            "megabytes_per_second": rate, "output": str(output),
        })  # fmt: skip
    elif not quiet:
        typer.echo(
            f"{rows:,} rows, {columns:,} columns, density {density:.3f}, {size:,} bytes"
            + (f" ({rate:,.0f} MB/s)" if rate else "")
            + f", into {output}"
        )


def _output(table: Path, output: Path | None) -> Path:
    """Where the bits go: by default beside the table, never over it."""
    from bitmix.rows.files import ending

    if output is None:
        if str(table) == "-":
            raise ValueError("give -o OUT.bits: standard input has no name")
        kept = len(table.name) - len(ending(table) or "")
        output = table.with_name(table.name[:kept] + ".bits")
    if output.exists() and table.exists() and output.samefile(table):
        raise ValueError(f"{output} is the table itself: give another name for the output")
    return output
