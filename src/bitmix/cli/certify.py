"""``bitmix certify``."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bitmix.cli.data import Reading
from bitmix.cli.options import Json, Quiet
from bitmix.cli.output import print_json


class Method(StrEnum):
    all_pairs = "all-pairs"
    held_out = "held-out"
    both = "both"


class Votes(StrEnum):
    fair = "fair"
    common = "common"


def certify(
    model: Annotated[Path, typer.Argument(help="A model saved by bitmix fit.")],
    data: Annotated[
        Path, typer.Argument(help="The rows of the fit, in any format; - is standard input.")
    ],
    reading: Reading,
    alpha: Annotated[
        float, typer.Option(help="Largest probability of a wrong certificate, in (0, 1).")
    ] = 0.05,
    method: Annotated[
        Method,
        typer.Option(help="Compare all pairs of rows, use held-out rows, or both with α/2."),
    ] = Method.all_pairs,
    votes: Annotated[
        Votes, typer.Option(help="Test majorities against fair coins or the common noise level.")
    ] = Votes.fair,
    check: Annotated[
        bool,
        typer.Option("--check", help="Exit with 1 if no certificate is issued or a check objects."),
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Certify that the templates of a fit are exactly right.

    Prints what was checked and, if the certificate is not issued, what would help. If it is issued
    but a check objects to one of its conditions, the templates may be wrong.

    \b
    Examples:
      bitmix certify my.model rows.bits
      bitmix certify my.model rows.csv --method held-out --check
    """
    from bitmix.estimators.load import load_model

    fitted = load_model(model)
    rows = reading.open_for(fitted, data).read()
    certificate = fitted.certify(rows, alpha, method=method.value, votes=votes.value)
    if as_json:
        print_json(certificate.to_dict())
    elif not quiet:
        typer.echo(str(certificate))
    if check and not certificate.holds:
        raise typer.Exit(1)
