"""``bitmix inspect``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bitmix.cli.data import Reading, read_table
from bitmix.cli.options import Json
from bitmix.cli.output import print_json
from bitmix.cli.summary import (
    items_of,
    items_table,
    listed,
    noise_line,
    reading_lines,
    starts_line,
    summarize_model,
    summarize_rows,
    template_table,
)


def inspect(
    path: Annotated[
        Path, typer.Argument(help="A model saved by bitmix fit, or a table; - is standard input.")
    ],
    reading: Reading,
    as_json: Json = False,
) -> None:
    """Show what a model holds, or how a table is read.

    \b
    Examples:
      bitmix inspect my.model
      bitmix inspect rows.csv --drop age --missing -9
    """
    from bitmix.models.file import is_model
    from bitmix.rows.files import ending

    if str(path) == "-" or (ending(path) is not None and not is_model(path)):
        _inspect_table(path, reading, as_json)
        return
    if reading != Reading():
        raise ValueError(f"{path} is a model: leave out the options for tables")
    _inspect_model(path, as_json)


def _inspect_table(path: Path, reading: Reading, as_json: bool) -> None:
    data = read_table(path, reading)
    m, n = data.rows.shape
    summary = {
        "rows": m, "columns": n, "density": data.rows.density, **summarize_rows(data),
        "feature_names": data.rows.feature_names, "about": dict(data.table.about),
    }  # fmt: skip
    if as_json:
        print_json(summary)
        return
    typer.echo(f"{m:,} rows, {n:,} columns, density {summary['density']:.3f}")
    for line in reading_lines(summary):
        typer.echo(line)
    if data.rows.feature_names is not None:
        typer.echo(f"columns: {listed(data.rows.feature_names)}")


def _inspect_model(model: Path, as_json: bool) -> None:
    from bitmix.estimators.load import load_model

    fitted = load_model(model)
    summary: dict[str, Any] = {
        "estimator": type(fitted).__name__,
        **summarize_model(fitted),
        **items_of(fitted, None, None),
        "seed": fitted.seed_,
        "parameters": {k: v for k, v in fitted.get_params().items() if k != "init"},
        "rounds": len(fitted.history_),
        "feature_names": getattr(fitted, "feature_names_in_", None),
        "id_column": fitted.id_column_,
        "label_column": fitted.label_column_,
        "read_as": [] if fitted.codes_ is None else fitted.codes_.describe(),
    }
    if as_json:
        print_json({**summary, "templates": fitted.templates_})
    else:
        _show(summary)


def _show(summary: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(f"{summary['estimator']}, {summary['columns']:,} columns")
    console.print(template_table(summary), soft_wrap=False)
    if summary.get("noise_model") == "cell":
        console.print(items_table(summary), soft_wrap=False)
    else:
        console.print(noise_line(summary))
    console.print(f"{summary['rounds']} EM steps, seed {summary['seed']}")
    if "n_agreeing" in summary:
        console.print(starts_line(summary))
    names = summary["feature_names"]
    if names is not None:
        console.print(f"columns: {listed(names)}")
    for line in summary["read_as"]:
        console.print(line)
    for role in ("id_column", "label_column"):
        if summary[role] is not None:
            console.print(f"{role.replace('_', ' ')}: {summary[role]}")
    given = {name: value for name, value in summary["parameters"].items() if value is not None}
    console.print("parameters: " + ", ".join(f"{name}={value}" for name, value in given.items()))
