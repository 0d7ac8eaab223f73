"""``bitmix fit``."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from bitmix.cli.output import Force, IdColumn, Json, LabelColumn, print_json, writable
from bitmix.cli.sketch import CellSize, Orientations, Skip, Threshold, sketches, skipped

MOST_COMPONENTS = 20
MOST_NOISES = 100  # noise levels to print; of more, their mean


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
        typer.Argument(help="Images in a folder, or .csv .tsv .parquet .arrow .fps .npy .zarr …"),
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
    sheet: Annotated[Path | None, typer.Option(help="Draw the clusters of images.")] = None,
    cell_size: CellSize = 6,
    orientations: Orientations = 16,
    threshold: Threshold = None,
    skip_errors: Skip = False,
    id_column: IdColumn = None,
    label_column: LabelColumn = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Find k templates in rows of bits, or in a folder of images.

    Examples:  bitmix fit photos -k 3 --sheet sheet.png  |  bitmix fit rows.csv -k auto -o my.model
    """
    wanted = _components(k)
    for path, endings in ((output, ()), (sheet, (".png", ".svg"))):
        if path is not None:
            writable(path, force, *endings)
    import numpy as np

    from bitmix.rows.files import ending, open_table

    if data.is_dir() and ending(data) is None:
        if id_column is not None or label_column is not None:
            raise ValueError("images have no columns: leave out --id-column and --label-column")
        folder, transformer, rows = sketches(data, cell_size, orientations, threshold, skip_errors)
        images = [folder[i] for i in transformer.kept_]
        truth = folder.labels and [folder.labels[i] for i in transformer.kept_]
        names, classes = None, "sub-folders"
    else:
        if sheet is not None:
            raise ValueError("--sheet draws clusters of images: give a folder of images")
        table = open_table(data, id_column=id_column, label_column=label_column)
        rows, _, truth = table.read_all()
        names = None if table.names is None else np.array(table.names, dtype=object)
        classes, transformer, images = f"column {label_column!r}", None, []
    if wanted is None:
        wanted = _chosen(rows, str(noise_model), starts, seed)
    model = _estimator(method, wanted, str(noise_model), rounds, starts, seed).fit(rows)
    labels = model.predict(rows)
    answer = _answer(model, rows, labels, truth)
    if transformer is not None:
        answer["skipped"] = len(transformer.skipped_)
    if sheet is not None and transformer is not None:
        from bitmix.plots import save_sheet

        save_sheet(sheet, images, labels, model.means_, transformer.geometry_, truth)
    if output is not None:
        if names is not None:
            model.feature_names_in_ = names
        model.save(output)
    if as_json:
        print_json(answer)
    else:
        _show(answer, output, sheet, data if transformer is None else None, classes)
        if transformer is not None and transformer.skipped_:
            typer.echo(skipped(transformer).strip())


def _components(text: str) -> int | None:
    """A number, or None for auto."""
    if text == "auto":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"-k must be a whole number from 1, or auto, got {text!r}")
    return int(text)


def _chosen(rows: Any, noise_model: str, starts: int, seed: int) -> int:
    from bitmix.select import select_components

    most = min(MOST_COMPONENTS, rows.shape[0])
    found = select_components(
        rows, range(1, most + 1), noise_model=noise_model, n_init=starts, random_state=seed
    )
    if found.n_components == MOST_COMPONENTS:
        note = f"bitmix: note: {MOST_COMPONENTS} templates are the most that -k auto tries"
        typer.echo(note, err=True)
    return found.n_components


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


def _answer(model: Any, rows: Any, labels: Any, truth: list[str] | None) -> dict[str, Any]:
    import numpy as np

    from bitmix.metrics import conditional_entropy, conditional_purity

    noise = np.asarray(model.noise_)
    answer = {
        "rows": rows.shape[0],
        "columns": rows.shape[1],
        "n_components": model.n_components,
        "weights": model.weights_,
        "bits_set": model.templates_.sum(axis=1),
        "members": [int((labels == i).sum()) for i in range(model.n_components)],
        "noise": model.noise_ if noise.size <= MOST_NOISES else float(noise.mean()),
        "log_likelihood": model.score(rows) * rows.shape[0],
    }
    for name in ("n_agreeing", "n_starts", "round_one_rows"):
        if hasattr(model, f"{name}_"):
            answer[name] = getattr(model, f"{name}_")
    if truth:
        answer["purity"] = conditional_purity(truth, labels)
        answer["entropy"] = conditional_entropy(truth, labels)
    return answer


def _show(
    answer: dict[str, Any], output: Path | None, sheet: Path | None, data: Path | None, classes: str
) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.print(f"{answer['rows']:,} rows, {answer['columns']:,} columns")
    table = Table("template", "weight", "rows", "bits set")
    for i, weight in enumerate(answer["weights"]):
        table.add_row(
            str(i), f"{weight:.3f}", str(answer["members"][i]), str(answer["bits_set"][i])
        )
    console.print(table)
    noise = answer["noise"]
    levels = [noise] if isinstance(noise, float) else list(noise)
    console.print(f"noise {', '.join(f'{level:.3g}' for level in levels)}")
    if "n_agreeing" in answer:
        sample = answer["round_one_rows"]
        seen = f", which saw {sample:,} random rows" if sample < answer["rows"] else ""
        console.print(f"reached by {answer['n_agreeing']} of {answer['n_starts']} starts{seen}")
    if "purity" in answer:
        console.print(
            f"purity {answer['purity']:.4f}, entropy {answer['entropy']:.4f} against {classes}"
        )
    for path, what in ((output, "model"), (sheet, "sheet")):
        if path is not None:
            console.print(f"{what} in {path}")
    if output is not None and data is not None:
        console.print(f"next: bitmix certify {output} {data}")
