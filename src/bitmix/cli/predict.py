"""``bitmix predict``."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from bitmix.cli.data import is_images, table_for
from bitmix.cli.labels import ENDINGS, writing
from bitmix.cli.output import Force, IdColumn, Json, Quiet, distinct, print_json, writable


def predict(
    model: Annotated[Path, typer.Argument(help="A model written by bitmix fit.")],
    data: Annotated[Path, typer.Argument(help="Rows, in any file that bitmix fit reads, or -.")],
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="A .csv, .tsv, .parquet or .npy; - prints CSV."),
    ] = None,
    id_column: IdColumn = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write the template of each row, and how probable it is; in a stream, whatever the size.

    Examples:  bitmix predict my.model new.csv -o new.labels.csv  |  bitmix predict my.model x.bits
    """
    import numpy as np

    from bitmix.models import load_model
    from bitmix.rows.packed import BitMatrix

    fitted = load_model(model)
    if is_images(data):
        raise ValueError(f"{data} holds images: bitmix sketch {data} -o {data.name}.bits first")
    table = table_for(fitted, data, id_column)
    if output is None:
        output = "-" if str(data) == "-" else f"{data.name.split('.')[0]}.labels.csv"
    target = None if output == "-" else Path(output)
    if target is not None:
        writable(target, force, *ENDINGS)
        distinct(model, data, target)
    name = (id_column or fitted.id_column_ or "id") if table.has_ids else None
    members = np.zeros(len(fitted.weights_), dtype=np.int64)
    rows = 0
    with writing(target, name) as write:
        for piece in table.pieces(quiet=quiet or target is None):
            p = fitted.predict_proba(BitMatrix(piece.words, table.n_columns))
            labels = p.argmax(axis=1)
            write(piece.ids or range(rows, rows + len(labels)), labels, p.max(axis=1))
            members += np.bincount(labels, minlength=len(members))
            rows += len(labels)
    if target is None:
        sys.stdout.flush()
        return
    if as_json:
        print_json({"rows": rows, "members": members, "output": str(target)})
    elif not quiet:
        counts = ", ".join(f"{count:,}" for count in members)
        typer.echo(f"{rows:,} rows into {target}; rows of each template: {counts}")
