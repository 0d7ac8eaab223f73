"""``bitmix convert``."""

import time
from pathlib import Path
from typing import Annotated

import typer

from bitmix.cli.output import Force, IdColumn, Json, LabelColumn, Quiet, print_json, writable


def convert(
    table: Annotated[
        Path, typer.Argument(metavar="IN", help=".csv .tsv .parquet .arrow .fps .npy .npz .zarr …")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="By default IN with the ending .bits.")
    ] = None,
    id_column: IdColumn = None,
    label_column: LabelColumn = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Pack a table of 0 and 1 into bits, a block at a time: fits read it from disk.

    Examples:  bitmix convert rows.csv -o rows.bits  |  bitmix convert t.parquet --id-column name
    """
    import numpy as np

    from bitmix.rows import bitfile
    from bitmix.rows.files import ending, open_table

    source = open_table(table, id_column=id_column, label_column=label_column)
    if output is None:
        output = table.with_name(table.name[: -len(ending(table) or "")] + ".bits")
    if output.exists() and output.samefile(table):
        raise ValueError(f"{output} is the table itself: give another name for the output")
    writable(output, force, ".bits")
    start, ones = time.perf_counter(), 0
    with bitfile.writing(output, source.n_columns, source.names, source.about) as writer:
        for piece in source.pieces(quiet=quiet):
            writer.append(piece.words)
            ones += int(np.bitwise_count(piece.words).sum(dtype=np.int64))
    seconds = time.perf_counter() - start
    rows, columns, size = writer.rows, source.n_columns, output.stat().st_size
    rate = source.size / 1e6 / seconds
    density = ones / (rows * columns)
    if as_json:
        print_json({
            "rows": rows, "columns": columns, "density": density, "bytes": size,
            "megabytes_per_second": rate, "output": str(output),
        })  # fmt: skip
    elif not quiet:
        typer.echo(
            f"{rows:,} rows, {columns:,} columns, density {density:.3f}, {size:,} bytes "
            f"({rate:,.0f} MB/s), into {output}"
        )
