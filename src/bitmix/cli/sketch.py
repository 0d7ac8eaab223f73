"""``bitmix sketch``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bitmix.cli.output import Force, Json, Quiet, print_json, writable

CellSize = Annotated[int, typer.Option(min=1, help="Side of a cell in pixels.")]
Orientations = Annotated[int, typer.Option(min=2, help="Orientations over 180°.")]
Threshold = Annotated[
    float | None, typer.Option(help="Least response; by default the strongest 2.5 %.")
]
Skip = Annotated[bool, typer.Option("--skip-errors", help="Leave out files that cannot be read.")]


def sketch(
    images: Annotated[Path, typer.Argument(help="A folder of images, or of folders of images.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Packed bits, a row an image.")],
    cell_size: CellSize = 6,
    orientations: Orientations = 16,
    threshold: Threshold = None,
    preview: Annotated[Path | None, typer.Option(help="Draw images beside sketches.")] = None,
    skip_errors: Skip = False,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Turn images into packed bits: one for each cell and orientation.

    Examples:  bitmix sketch photos -o p.bits  |  bitmix sketch photos -o p.bits --preview p.png
    """
    writable(output, force)
    if preview is not None:
        writable(preview, force, ".png", ".svg")
    folder, transformer, rows = sketches(images, cell_size, orientations, threshold, skip_errors)
    if preview is not None:
        from bitmix.plots import save_sketches

        save_sketches(preview, [folder[i] for i in transformer.kept_], rows, transformer.geometry_)
    rows.save(output)
    answer = {
        "images": len(rows), "skipped": len(transformer.skipped_), "columns": rows.shape[1],
        "density": rows.density, "output": str(output),
    }  # fmt: skip
    if as_json:
        print_json(answer)
    elif not quiet:
        typer.echo(
            f"{len(rows):,} images, {rows.shape[1]:,} bits each, density {rows.density:.3f}, "
            f"into {output}" + skipped(transformer)
        )


def sketches(
    path: Path, cell_size: int, orientations: int, threshold: float | None, skip_errors: bool
) -> tuple[Any, Any, Any]:
    """The folder, the transformer after its work, and the packed rows."""
    from bitmix.features import GaborSketch, load_image_folder

    folder = load_image_folder(path)
    transformer = GaborSketch(
        cell_size=cell_size,
        n_orientations=orientations,
        threshold=threshold,
        on_error="skip" if skip_errors else "raise",
    ).fit()
    return folder, transformer, transformer.transform(folder)


def skipped(transformer: Any) -> str:
    """A line for each of the first files left out."""
    lines = [f"\nskipped: {reason}" for _, reason in transformer.skipped_[:5]]
    more = len(transformer.skipped_) - len(lines)
    return "".join(lines) + (f"\nand {more} more" if more > 0 else "")
