"""The command line: parse, call, print."""

import json
from typing import Annotated

import typer

app = typer.Typer(
    name="bitmix",
    help="Learn prototypes from wide binary data: mixtures of Bernoulli templates.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


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


@app.command()
def demo(
    rows: Annotated[int, typer.Option(min=5, help="How many rows to sample.")] = 1000,
    noise: Annotated[
        float, typer.Option(min=0, max=0.5, help="Probability that a bit is flipped.")
    ] = 0.2,
    seed: Annotated[int, typer.Option(min=0, help="Fixes every random choice.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Hide five letters in noise and find them again. Needs no file.

    Examples:  bitmix demo   |   bitmix demo --noise 0.3 --rows 2000
    """
    from rich.console import Console

    from bitmix import demo as planted

    result = planted.run(rows, noise, seed)
    if as_json:
        model = result.model
        typer.echo(
            json.dumps(
                {
                    "n_components": model.n_components,
                    "n_seeds": model.n_seeds_,
                    "weights": model.weights_[result.match].tolist(),
                    "noise": model.noise_,
                    "wrong_bits": result.wrong_bits,
                    "seconds": result.seconds,
                }
            )
        )
    else:
        planted.show(result, Console())
