"""``bitmix predict``."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from bitmix.cli.data import Reading, open_like_fit
from bitmix.cli.labels import ENDINGS, open_writer
from bitmix.cli.options import Force, Json, Quiet
from bitmix.cli.output import check_distinct, check_writable, print_json


def predict(
    model: Annotated[Path, typer.Argument(help="A model saved by bitmix fit.")],
    data: Annotated[
        Path, typer.Argument(help="Rows in any format that bitmix fit reads; - is standard input.")
    ],
    reading: Reading,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="A .csv, .tsv, .parquet or .npy file; - prints CSV."),
    ] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Write the probability of every template.")
    ] = False,
    reject: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Label rows -1 that fit no group, by a test at this level, such as .01.",
        ),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write the group of each row and how well the row fits it.

    The columns after the label are its probability, the second most likely template, the
    log-likelihood of the row, a p-value that is small if the row fits no group, and the
    representative of the group. Rows are read and labels written block by block, so neither need
    fit into memory.

    \b
    Examples:
      bitmix predict my.model rows.bits --reject .01
      bitmix predict my.model new.csv -o new.labels.csv --proba
    """
    import numpy as np

    from bitmix.em.predict import row_values
    from bitmix.estimators.load import load_model
    from bitmix.support.progress import hidden

    fitted = load_model(model)
    table = open_like_fit(fitted, model, data, reading)
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
    rows = n_rejected = 0
    columns: dict[str, type] = {f"probability_{i}": float for i in range(len(members))}
    if not proba:
        columns = {"probability": float, "runner_up": int, "log_likelihood": float,
                   "p_value": float}  # fmt: skip
        if fitted.representatives_ is not None:
            columns["representative"] = str
    if fitted.calibration_ is None and (reject is not None or not proba):
        fitted.calibration_ = fitted.calibration_of_model()
    with hidden(quiet or target is None), open_writer(target, id_name, columns) as write:
        for chunk in table.chunks():
            part = chunk.rows(table.n_columns)
            probabilities = fitted.predict_proba(part)
            labels = fitted.without_background(probabilities.argmax(axis=1))
            values: list[Any] = list(probabilities.T)
            p_values: Any = None if proba and reject is None else fitted.unlikeness(part)
            rejected = labels < 0
            if reject is not None:
                rejected |= p_values <= reject
            if not proba:
                about = row_values(fitted.rows_like_fit(part), fitted.mixture_).T
                values = [probabilities.max(axis=1), about[4].astype(np.int64), about[2], p_values]
                if fitted.representatives_ is not None:
                    values.append([
                        "" if none else fitted.representatives_[i]
                        for i, none in zip(labels.tolist(), rejected.tolist(), strict=True)
                    ])  # fmt: skip
            ids = chunk.ids or range(rows, rows + len(labels))
            write(ids, np.where(rejected, -1, labels), values)
            members += np.bincount(labels[~rejected], minlength=len(members))
            rows, n_rejected = rows + len(labels), n_rejected + int(rejected.sum())
    if target is None:
        sys.stdout.flush()
    elif as_json:
        summary = {"rows": rows, "members": members, "output": str(target)}
        print_json(summary if reject is None else {**summary, "rejected": n_rejected})
    elif not quiet:
        counts = ", ".join(f"{count:,}" for count in members)
        level = "" if reject is None else f" at level {reject:g}"
        none = f"; unlike all{level}: {n_rejected:,}" if level or n_rejected else ""
        typer.echo(
            f"labels of {rows:,} rows written to {target}; rows per template: {counts}{none}"
        )
