"""``bitmix sketch``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from bitmix.cli.options import Force, Json, Quiet
from bitmix.cli.output import check_writable, print_json

MAX_SKIPPED_SHOWN = 5


@dataclass(frozen=True)
class Sketching:
    """How images become bits."""

    cell_size: Annotated[int, typer.Option(min=1, help="Images: side of a cell in pixels.")] = 6
    orientations: Annotated[
        int, typer.Option(min=2, help="Images: number of orientations over 180°.")
    ] = 16
    threshold: Annotated[
        float | None,
        typer.Option(help="Images: smallest response that sets a bit. Default: the top 2.5 %."),
    ] = None
    skip_errors: Annotated[
        bool, typer.Option("--skip-errors", help="Images: leave out files that cannot be read.")
    ] = False

    def transform(self, folder: Path) -> tuple[Any, Any, Any]:
        """The images of a folder, the fitted transformer, and the sketches as packed rows."""
        from bitmix.features import GaborSketch, load_image_folder

        images = load_image_folder(folder)
        transformer = GaborSketch(
            cell_size=self.cell_size,
            n_orientations=self.orientations,
            threshold=self.threshold,
            on_error="skip" if self.skip_errors else "raise",
        ).fit()
        return images, transformer, transformer.transform(images)


def sketch(
    images: Annotated[Path, typer.Argument(help="A folder of images, or of folders of images.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File of packed bits, one row per image.")
    ],
    sketching: Sketching,
    preview: Annotated[
        Path | None, typer.Option(help="Draw images beside their sketches (.png, .svg).")
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Turn images into packed bits: one bit per cell and orientation.

    \b
    Examples:
      bitmix sketch photos -o photos.bits
      bitmix sketch photos -o photos.bits --preview preview.png
    """
    check_writable(output, force)
    check_writable(preview, force, ".png", ".svg")
    found, transformer, rows = sketching.transform(images)
    if preview is not None:
        from bitmix.plots import save_sketches

        save_sketches(preview, [found[i] for i in transformer.kept_], rows, transformer.geometry_)
    rows.save(output, {"sketch": vars(transformer.geometry_)})  # needed to draw sketches
    if as_json:
        print_json({
            "images": len(rows), "skipped": len(transformer.skipped_), "columns": rows.shape[1],
            "density": rows.density, "output": str(output),
        })  # fmt: skip
    elif not quiet:
        typer.echo(
            f"{len(rows):,} images, {rows.shape[1]:,} bits each, density {rows.density:.3f}, "
            f"written to {output}"
        )
        print_skipped(transformer)


def print_skipped(transformer: Any) -> None:
    """Print one line for each of the first files that were left out."""
    for _, reason in transformer.skipped_[:MAX_SKIPPED_SHOWN]:
        typer.echo(f"skipped: {reason}")
    more = len(transformer.skipped_) - MAX_SKIPPED_SHOWN
    if more > 0:
        typer.echo(f"and {more} more")
