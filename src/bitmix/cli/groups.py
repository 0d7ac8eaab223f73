"""``bitmix groups``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bitmix.cli.data import Reading, open_like_fit
from bitmix.cli.options import Force, Json, Quiet
from bitmix.cli.output import check_distinct, check_writable, print_json

_TOP = 5  # columns named per group
_SHOWN, _WIDTH = 20, 200  # numbers of groups, and of characters per cell, that are printed


def groups(
    model: Annotated[Path, typer.Argument(help="A model saved by bitmix fit.")],
    data: Annotated[
        Path, typer.Argument(help="Rows in any format that bitmix fit reads; - is standard input.")
    ],
    reading: Reading,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A .csv or .tsv file.")
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Describe each group: size, representative, distinctive columns.

    The representative is the row with the least mean distance from the rows of its group: by
    Tanimoto distance if at most a tenth of the cells are 1, otherwise by the number of cells that
    differ.

    \b
    Examples:
      bitmix groups my.model rows.csv -o groups.csv
    """
    import csv
    import io

    from bitmix.estimators.load import load_model
    from bitmix.support.atomic import atomic_write

    fitted = load_model(model)
    check_writable(output, force, ".csv", ".tsv")
    check_distinct(model, data, output)
    records = describe(fitted, open_like_fit(fitted, model, data, reading).load())
    if output is not None:
        with atomic_write(output) as file:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="")
            separator = "," if output.suffix.lower() == ".csv" else "\t"
            lines = csv.writer(text, delimiter=separator, lineterminator="\n")
            lines.writerow(records[0])
            for record in records:
                lines.writerow([_text(value) for value in record.values()])
            text.detach()
    if as_json:
        print_json({"groups": records, "output": None if output is None else str(output)})
    elif not quiet:
        _show(records)
        if output is not None:
            typer.echo(f"{len(records):,} groups written to {output}")


def describe(model: Any, loaded: Any) -> list[dict[str, Any]]:
    """What `bitmix groups` writes about each group."""
    from bitmix.em.predict import tally
    from bitmix.groups.medoids import SPARSE
    from bitmix.metrics import isim_of_counts
    from bitmix.report.facts import RowValues, groups_of

    rows = loaded.rows
    counts, values = tally(rows, model.mixture_), RowValues.of(rows, model)
    found = model.medoids(rows, ids=loaded.ids)
    names = found.ids or [str(row) if row >= 0 else "" for row in found.rows.tolist()]
    sparse, similar = counts.density <= SPARSE, isim_of_counts(counts.ones, counts.sizes)
    records = []
    for group in groups_of(model, counts, values, getattr(model, "feature_names_in_", None)):
        i = group.index
        record = {
            "group": i, "size": group.size, "weight": group.weight,
            "representative": names[i], f"mean_{found.metric}_distance": found.distances[i],
        }  # fmt: skip
        if sparse:
            record["mean_tanimoto"] = similar[i]
        record["clear"] = group.clear if group.size and len(names) > 1 else None
        record["sets_apart"] = "; ".join(
            f"{f.name} {f.share:.3g} (others {f.other_share:.3g})" for f in group.features[:_TOP]
        )
        records.append(record)
    return records


def _text(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.6g}" if value == value else ""
    return "" if value is None else value


def _show(records: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*(name.replace("_", " ") for name in records[0]))
    for record in records[:_SHOWN]:
        table.add_row(
            *(f"{v:.3f}" if isinstance(v, float) else "" if v is None else str(v)[:_WIDTH]
              for v in record.values())
        )  # fmt: skip
    console = Console(highlight=False, markup=False)
    console.print(table)
    if len(records) > _SHOWN:
        console.print(f"{len(records) - _SHOWN:,} more groups: write them with -o groups.csv")
