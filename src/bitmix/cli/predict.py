"""``bitmix predict``."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from bitmix.cli.data import Reading, is_image_folder
from bitmix.cli.labels import ENDINGS, open_writer
from bitmix.cli.options import Force, Json, Quiet
from bitmix.cli.output import check_distinct, check_writable, print_json


def predict(
    model: Annotated[Path, typer.Argument(help="A model saved by bitmix fit.")],
    data: Annotated[Path, typer.Argument(help="Rows, in any format that bitmix fit reads, or -.")],
    reading: Reading,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="A .csv, .tsv, .parquet or .npy file; - prints CSV."),
    ] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Write the probability of every template.")
    ] = False,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write the most likely template of each row and its probability.

    Rows are read and labels written block by block, so neither needs to fit into memory.

    \b
    Examples:
      bitmix predict my.model rows.bits
      bitmix predict my.model new.csv -o new.labels.csv --proba
    """
    import numpy as np

    from bitmix.estimators.load import load_model
    from bitmix.support.progress import hidden

    fitted = load_model(model)
    if is_image_folder(data):
        raise ValueError(
            f"{data} is a folder of images: turn it into bits first, "
            f"bitmix sketch {data} -o {data.name}.bits"
        )
    table = reading.open_for(fitted, data)
    if output is None:
        output = "-" if str(data) == "-" else f"{data.name.split('.')[0]}.labels.csv"
    target = None if output == "-" else Path(output)
    if target is not None:
        check_writable(target, force, *ENDINGS)
        check_distinct(model, data, target)
        if proba and target.suffix.lower() == ".npy":
            raise ValueError(f"--proba needs a file with columns, got {target.name}: use .csv")
    id_name = (table.roles.id_name or "id") if table.has_ids else None
    members = np.zeros(len(fitted.weights_), dtype=np.int64)
    rows = 0
    n_columns = len(members) if proba else 0
    with hidden(quiet or target is None), open_writer(target, id_name, n_columns) as write:
        for chunk in table.chunks():
            probabilities = fitted.predict_proba(chunk.rows(table.n_columns))
            labels = probabilities.argmax(axis=1)
            ids = chunk.ids or range(rows, rows + len(labels))
            write(ids, labels, probabilities if proba else probabilities.max(axis=1)[:, None])
            members += np.bincount(labels, minlength=len(members))
            rows += len(labels)
    if target is None:
        sys.stdout.flush()
    elif as_json:
        print_json({"rows": rows, "members": members, "output": str(target)})
    elif not quiet:
        counts = ", ".join(f"{count:,}" for count in members)
        typer.echo(f"labels of {rows:,} rows written to {target}; rows per template: {counts}")
