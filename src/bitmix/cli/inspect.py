"""``bitmix inspect``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bitmix.cli.options import Json
from bitmix.cli.output import print_json
from bitmix.cli.summary import (
    items_of,
    items_table,
    noise_line,
    starts_line,
    summarize_model,
    template_table,
)

MAX_NAMES_SHOWN = 8


def inspect(
    model: Annotated[Path, typer.Argument(help="A model saved by bitmix fit.")],
    as_json: Json = False,
) -> None:
    """Show the templates, weights, noise and settings of a model.

    \b
    Examples:
      bitmix inspect my.model
      bitmix inspect my.model --json
    """
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
        more = f", … ({len(names):,} in all)" if len(names) > MAX_NAMES_SHOWN else ""
        console.print(f"columns: {', '.join(names[:MAX_NAMES_SHOWN])}{more}")
    for role in ("id_column", "label_column"):
        if summary[role] is not None:
            console.print(f"{role.replace('_', ' ')}: {summary[role]}")
    given = {name: value for name, value in summary["parameters"].items() if value is not None}
    console.print("parameters: " + ", ".join(f"{name}={value}" for name, value in given.items()))
