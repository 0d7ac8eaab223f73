"""``bitmix demo``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bitmix.cli.output import Force, Json, print_json, writable


def demo(
    rows: Annotated[int, typer.Option(min=5, help="How many rows to sample.")] = 1000,
    noise: Annotated[
        float, typer.Option(min=0, max=0.5, help="Probability that a bit is flipped.")
    ] = 0.2,
    seed: Annotated[int, typer.Option(min=0, help="Fixes every random choice.")] = 0,
    picture: Annotated[
        Path | None, typer.Option(help="Draw rows and templates into this PNG or SVG.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Hide two dogs in noise and find them again. Needs no file.

    Examples:  bitmix demo  |  bitmix demo --noise 0.2 --rows 2000 --picture demo.png
    """
    from rich.console import Console

    from bitmix import kennel

    target = None if picture is None else writable(picture, force, ".png", ".svg")
    result = kennel.run(rows, noise, seed)
    if target is not None:
        _draw(result, target)
    if as_json:
        print_json(result.to_dict())
    else:
        kennel.show(result, Console())


def _draw(demo: Any, path: Path) -> None:
    """Four rows above, the templates found below, as in the paper's Figure 5."""
    from bitmix.features import Alphabet
    from bitmix.plots import plot_template, saved_figure

    with saved_figure(path, (8, 4.4)) as figure:
        above, below = figure.subfigures(2, 1)  # type: ignore[misc]
        above.suptitle(f"rows, {demo.noise:g} of their bits flipped", fontsize=10)
        below.suptitle("templates found", fontsize=10)
        for ax, row in zip(above.subplots(1, 4), demo.rows[:4], strict=True):
            plot_template(ax, row, Alphabet())
        for ax, template in zip(below.subplots(1, 4)[1:3], demo.found, strict=True):
            plot_template(ax, template, Alphabet())
        for ax in below.axes[::3]:
            ax.axis("off")
