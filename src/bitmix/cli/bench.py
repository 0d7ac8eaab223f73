"""``bitmix bench``."""

from pathlib import Path
from typing import Annotated

import typer


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Two small sizes only.")] = False,
    rows: Annotated[int, typer.Option(min=10_000, help="The most rows to try.")] = 1_000_000,
    method: Annotated[
        list[str] | None, typer.Option(help="Only this one; may be given several times.")
    ] = None,
    limit: Annotated[
        float, typer.Option(min=1, help="Leave out what would take more seconds than this.")
    ] = 120.0,
    json: Annotated[Path | None, typer.Option(help="Write all numbers here.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Write a plot here, .png, .svg or .pdf.")
    ] = None,
) -> None:
    """Time and memory of a fit beside what people use now, on this machine.

    Peers take part where they are installed: pip install 'bitmix[peers]'.

    Examples:  bitmix bench --quick  |  bitmix bench --rows 10000000 --json bench.json
    """
    from bitmix.atomic import atomic_write
    from bitmix.bench import run as bench_run
    from bitmix.errors import InputError
    from bitmix.plots import saved_figure

    for path in (json, plot):
        if path is not None and not path.parent.is_dir():
            raise InputError(f"there is no folder {path.parent} to write {path.name} into")
    if plot is not None and plot.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"--plot must end in .png, .svg or .pdf, got {plot.name}")
    try:
        result = bench_run.run(bench_run.grid(quick, rows), limit=limit, only=method or ())
    except KeyboardInterrupt:
        typer.echo("\nstopped", err=True)
        raise typer.Exit(130) from None
    for line in bench_run.table(result):
        typer.echo(line)
    if json is not None:
        with atomic_write(json) as file:
            file.write(result.to_json().encode() + b"\n")
    if plot is not None:
        with saved_figure(plot, (6.4, 4.8)) as figure:
            bench_run.draw(result, figure)
