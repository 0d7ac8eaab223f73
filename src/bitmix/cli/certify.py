"""``bitmix certify``."""

from pathlib import Path
from typing import Annotated

import typer

from bitmix.cli.data import Reading
from bitmix.cli.options import Json, Quiet
from bitmix.cli.output import print_json


def certify(
    model: Annotated[Path, typer.Argument(help="A model saved by bitmix fit.")],
    data: Annotated[Path, typer.Argument(help="The rows of the fit, in any format, or -.")],
    reading: Reading,
    alpha: Annotated[
        float, typer.Option(help="Largest probability of a wrong certificate, in (0, 1).")
    ] = 0.05,
    check: Annotated[bool, typer.Option("--check", help="Exit with code 1 if not issued.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Certify that the templates of a fit are exactly right.

    Prints what was checked and, if the certificate is not issued, what would help.

    \b
    Examples:
      bitmix certify my.model rows.bits
      bitmix certify my.model rows.csv --check
    """
    from bitmix.estimators.load import load_model

    fitted = load_model(model)
    rows = reading.open_for(fitted, data).read()
    certificate = fitted.certify(rows, alpha)
    if as_json:
        print_json(certificate.to_dict())
    elif not quiet:
        typer.echo(str(certificate))
    if check and not certificate.issued:
        raise typer.Exit(1)
