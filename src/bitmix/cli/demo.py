"""``bitmix demo``."""

from typing import Annotated

import typer

from bitmix.cli.output import Json, print_json


def demo(
    rows: Annotated[int, typer.Option(min=5, help="How many rows to sample.")] = 1000,
    noise: Annotated[
        float, typer.Option(min=0, max=0.5, help="Probability that a bit is flipped.")
    ] = 0.2,
    seed: Annotated[int, typer.Option(min=0, help="Fixes every random choice.")] = 0,
    as_json: Json = False,
) -> None:
    """Hide five letters in noise and find them again. Needs no file.

    Examples:  bitmix demo  |  bitmix demo --noise 0.3 --rows 2000
    """
    from rich.console import Console

    from bitmix import letters

    result = letters.run(rows, noise, seed)
    if as_json:
        print_json(result.to_dict())
    else:
        letters.show(result, Console())
