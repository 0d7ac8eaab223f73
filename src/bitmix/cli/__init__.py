"""The command line: parse, call, print. One command a file; heavy imports wait for the call."""

from typing import Annotated

import typer

from bitmix.cli.bench import bench
from bitmix.cli.certify import certify
from bitmix.cli.convert import convert
from bitmix.cli.demo import demo
from bitmix.cli.fit import fit
from bitmix.cli.inspect import inspect
from bitmix.cli.plan import plan
from bitmix.cli.predict import predict
from bitmix.cli.reproduce import reproduce
from bitmix.cli.sketch import sketch

app = typer.Typer(
    name="bitmix",
    help="Learn prototypes from wide binary data: mixtures of Bernoulli templates.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for _command in (
    demo,
    fit,
    predict,
    inspect,
    certify,
    convert,
    sketch,
    plan,
    reproduce,
    bench,
):
    app.command()(_command)


def _version(wanted: bool) -> None:
    if wanted:
        from bitmix import __version__

        typer.echo(f"bitmix {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Learn prototypes from wide binary data: mixtures of Bernoulli templates."""
