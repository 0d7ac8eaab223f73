"""``bitmix fit``."""

from contextlib import nullcontext
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from bitmix.cli import answer as answers
from bitmix.cli.data import Data, cluster, is_images, read_file, read_images, read_on_cluster
from bitmix.cli.output import (
    Force,
    IdColumn,
    Json,
    LabelColumn,
    Quiet,
    distinct,
    print_json,
    writable,
)
from bitmix.cli.sketch import CellSize, Orientations, Skip, Threshold, skipped

MOST_COMPONENTS = 20


class Method(StrEnum):
    template = "template"
    two_round = "two-round"
    classic = "classic"


class NoiseModel(StrEnum):
    shared = "shared"
    component = "component"
    feature = "feature"
    cell = "cell"


def fit(
    data: Annotated[
        Path,
        typer.Argument(
            help="Images in a folder, .bits .csv .tsv .parquet .fps .npy .npz .zarr …; - is CSV."
        ),
    ],
    k: Annotated[str, typer.Option("-k", help="How many templates, or auto.")],
    method: Annotated[Method, typer.Option(help="Which estimator.")] = Method.template,
    noise_model: Annotated[
        NoiseModel, typer.Option(help="template: what has a noise level of its own.")
    ] = NoiseModel.shared,
    rounds: Annotated[int, typer.Option(min=2, help="two-round, classic: EM steps.")] = 10,
    starts: Annotated[int, typer.Option(min=1, help="Keep the likeliest of so many starts.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Fixes every random choice.")] = 0,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Save the model.")] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page to read and pass on, .html.")
    ] = None,
    sheet: Annotated[Path | None, typer.Option(help="Draw the clusters of images.")] = None,
    id_column: IdColumn = None,
    label_column: LabelColumn = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Keep every pass here; call again to go on after a kill.")
    ] = None,
    on: Annotated[
        str | None, typer.Option("--cluster", help="Fit on Dask: local, or tcp://host:port.")
    ] = None,
    certificate: Annotated[bool, typer.Option(help="Certify the templates.")] = True,
    cell_size: CellSize = 6,
    orientations: Orientations = 16,
    threshold: Threshold = None,
    skip_errors: Skip = False,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Find k templates in rows of bits, or in a folder of images.

    Examples:  bitmix fit photos -k 3 --sheet sheet.png  |  bitmix fit rows.csv -k auto -o my.model
    """
    wanted = _components(k)
    for path, endings in ((output, ()), (report, (".html",)), (sheet, (".png", ".svg"))):
        if path is not None:
            writable(path, force, *endings)
    distinct(data, output, report, sheet, checkpoint)
    for path, library in ((report, "jinja2"), (sheet, "matplotlib")):
        if path is not None:
            import_module(library)  # what is missing is told before the work, not after it
    with nullcontext() if on is None else cluster(on):
        if is_images(data):
            if id_column is not None or label_column is not None or on is not None:
                raise ValueError("images have no columns and need no cluster: leave the option out")
            found = read_images(data, cell_size, orientations, threshold, skip_errors)
        elif sheet is not None:
            raise ValueError("--sheet draws clusters of images: give a folder of images")
        else:
            read = read_file if on is None else read_on_cluster
            found = read(data, id_column, label_column)
        selection = None
        if wanted is None:
            selection = _selected(found.rows, str(noise_model), starts, seed)
            wanted = selection.n_components
        model = _estimator(method, wanted, str(noise_model), rounds, starts, seed)
        model.fit(found.rows, checkpoint=checkpoint)
        model.id_column_, model.label_column_ = id_column, label_column
        if output is not None:
            model.save(output)  # first of all: what follows may fail
        certified = answers.certified(model, found) if certificate else None
        answer = answers.about(model, found, certified)
        if report is not None:
            _report(report, model, found, data, selection, certified or False)
    if sheet is not None:
        from bitmix.plots import save_sheet

        geometry, labels = found.transformer.geometry_, model.predict(found.rows)
        save_sheet(sheet, found.images, labels, model.means_, geometry, found.truth)
    if as_json:
        print_json(answer)
    elif not quiet:
        files = {"model": output, "report": report, "sheet": sheet}
        again = None if found.transformer is not None or str(data) == "-" else data
        answers.show(answer, files, again, found.classes)
        if found.transformer is not None and found.transformer.skipped_:
            typer.echo(skipped(found.transformer).strip())


def _report(
    path: Path, model: Any, found: Data, data: Path, selection: Any, certificate: Any
) -> None:
    from bitmix import report

    report.write(
        model, found.rows, path, selection=selection, labels=found.truth, ids=found.ids,
        geometry=getattr(found.transformer, "geometry_", None), certificate=certificate,
        source=data.name,
    )  # fmt: skip


def _components(text: str) -> int | None:
    """A number, or None for auto."""
    if text == "auto":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"-k must be a whole number from 1, or auto, got {text!r}")
    return int(text)


def _selected(rows: Any, noise_model: str, starts: int, seed: int) -> Any:
    from bitmix.select import select_components

    most = min(MOST_COMPONENTS, rows.shape[0])
    found = select_components(
        rows, range(1, most + 1), noise_model=noise_model, n_init=starts, random_state=seed
    )
    if found.n_components == MOST_COMPONENTS:
        note = f"bitmix: note: {MOST_COMPONENTS} templates are the most that -k auto tries"
        typer.echo(note, err=True)
    return found


def _estimator(
    method: Method, k: int, noise_model: str, rounds: int, starts: int, seed: int
) -> Any:
    from bitmix.estimators import ClassicEM, TwoRoundEM
    from bitmix.template_mixture import TemplateMixture

    if method is Method.template:
        return TemplateMixture(k, noise_model=noise_model, n_init=starts, random_state=seed)
    if method is Method.classic:
        return ClassicEM(k, max_iter=rounds, n_init=starts, random_state=seed)
    return TwoRoundEM(k, rounds=rounds, n_init=starts, random_state=seed)
