"""``bitmix reproduce``."""

import time
from pathlib import Path
from typing import Annotated

import typer

from bitmix.cli.output import Json, print_json


def reproduce(
    name: Annotated[str, typer.Argument(help="fig1 … fig8, table1 … table3, all, or list.")],
    runs: Annotated[
        int | None, typer.Option(min=1, help="Runs a point; by default 100 (quick: 15).")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer points and runs.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for files and stored runs.")] = Path(
        "reproduction"
    ),
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Worker processes; by default one a core.")
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="A folder of class folders; by default digits stand in.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another number, other runs.")] = 0,
    export: Annotated[
        Path | None, typer.Option(help="All stored runs into this .csv or .parquet.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a figure or table of the paper again, from runs that are kept.

    Interrupt it as you like: called again, it goes on where it was.

    Examples:  bitmix reproduce all --quick  |  bitmix reproduce table1 --images photos --out paper
    """
    from bitmix import experiments

    if name == "list":
        for artefact in experiments.ARTEFACTS.values():
            note = "  (--images)" if artefact.needs_images else ""
            typer.echo(f"{artefact.name:<8}{artefact.title}{note}")
        return
    start, made = time.monotonic(), []
    try:
        for artefact, paths in experiments.reproduce(
            name, out, runs=runs, quick=quick, jobs=jobs, images=images, seed=seed, export=export
        ):
            seconds, start = time.monotonic() - start, time.monotonic()
            endings = " ".join(path.suffix for path in paths)
            made.append({"name": artefact.name, "files": list(map(str, paths)), "seconds": seconds})
            if not as_json:
                typer.echo(f"{artefact.name:<8}{out / artefact.name} {endings}  {seconds:.1f} s")
        if as_json:
            print_json({"made": made})
        elif images is None and (name == "all" or experiments.ARTEFACTS[name].needs_images):
            typer.echo("digits of scikit-learn stood in for images: give --images for your own")
    except experiments.CellError as error:
        typer.echo(f"bitmix: {error}", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        typer.echo(f"\nstopped; finished runs are kept in {out}: run again to go on", err=True)
        raise typer.Exit(130) from None
