"""``bitmix inspect``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bitmix.cli.answer import noise_line, of_model, templates
from bitmix.cli.output import Json, print_json

MOST_NAMES = 8


def inspect(
    model: Annotated[Path, typer.Argument(help="A model written by bitmix fit.")],
    as_json: Json = False,
) -> None:
    """Say what is in a model: templates, weights, noise, and how it was fitted.

    Examples:  bitmix inspect my.model  |  bitmix inspect my.model --json
    """
    from bitmix.models import load_model

    fitted = load_model(model)
    names = getattr(fitted, "feature_names_in_", None)
    answer: dict[str, Any] = {
        "estimator": type(fitted).__name__,
        **of_model(fitted),
        "seed": fitted.seed_,
        "parameters": {k: v for k, v in fitted.get_params().items() if k != "init"},
        "rounds": len(fitted.history_),
        "feature_names": names,
        "id_column": fitted.id_column_,
        "label_column": fitted.label_column_,
    }
    if as_json:
        print_json({**answer, "templates": fitted.templates_})
    else:
        _show(answer)


def _show(answer: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(f"{answer['estimator']}, {answer['columns']:,} columns")
    console.print(templates(answer), soft_wrap=False)
    console.print(noise_line(answer))
    console.print(f"{answer['rounds']} EM steps, seed {answer['seed']}")
    if "n_agreeing" in answer:
        console.print(f"reached by {answer['n_agreeing']} of {answer['n_starts']} starts")
    names = answer["feature_names"]
    if names is not None:
        more = f", … ({len(names):,} in all)" if len(names) > MOST_NAMES else ""
        console.print(f"columns: {', '.join(names[:MOST_NAMES])}{more}")
    for name in ("id_column", "label_column"):
        if answer[name] is not None:
            console.print(f"{name.replace('_', ' ')}: {answer[name]}")
    given = {name: value for name, value in answer["parameters"].items() if value is not None}
    console.print("parameters: " + ", ".join(f"{name}={value}" for name, value in given.items()))
