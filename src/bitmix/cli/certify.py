"""``bitmix certify``."""

from pathlib import Path
from typing import Annotated

import typer

from bitmix.cli.data import table_for
from bitmix.cli.output import Json, print_json


def certify(
    model: Annotated[Path, typer.Argument(help="A model written by model.save.")],
    data: Annotated[Path, typer.Argument(help="Its rows, in any file that bitmix fit reads.")],
    alpha: Annotated[
        float, typer.Option(help="Largest probability of a wrong certificate, in (0, 1).")
    ] = 0.05,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 if not issued.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing: for --check.")] = False,
    as_json: Json = False,
) -> None:
    """Say whether the templates of a fit are exactly the true ones, with an honest error rate.

    Examples:  bitmix certify my.model rows.bits  |  bitmix certify my.model rows.csv --check
    """
    from bitmix.certify import certify_fit
    from bitmix.models import load_model

    fitted = load_model(model)
    rows = table_for(fitted, data, None).read()
    certificate = certify_fit(rows, fitted.templates_, alpha)
    if as_json:
        print_json(certificate.to_dict())
    elif not quiet:
        typer.echo(str(certificate))
    if check and not certificate.issued:
        raise typer.Exit(1)
