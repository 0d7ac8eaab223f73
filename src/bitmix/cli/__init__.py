"""The command line. Each command has its own file, which parses, calls and prints.

Libraries other than typer are imported when a command runs, so that ``bitmix --help`` is quick.
"""

from typing import Annotated

import typer

from bitmix.cli.certify import certify
from bitmix.cli.convert import convert
from bitmix.cli.demo import demo
from bitmix.cli.fit import fit
from bitmix.cli.groups import groups
from bitmix.cli.inspect import inspect
from bitmix.cli.options import expand
from bitmix.cli.plan import plan
from bitmix.cli.predict import predict
from bitmix.cli.sketch import sketch

app = typer.Typer(
    name="bitmix",
    help="Find prototypes in wide tables of 0 and 1: mixtures of Bernoulli templates.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for _command in (demo, fit, predict, groups, inspect, certify, convert, sketch, plan):
    app.command()(expand(_command))


def _print_version(wanted: bool) -> None:
    if wanted:
        from bitmix import __version__

        typer.echo(f"bitmix {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show version."),
    ] = False,
) -> None:
    """Find prototypes in wide tables of 0 and 1: mixtures of Bernoulli templates."""
