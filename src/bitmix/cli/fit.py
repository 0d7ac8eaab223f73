"""``bitmix fit``."""

from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from bitmix.cli import summary as summaries
from bitmix.cli.data import (
    FILE_OPTIONS,
    Dataset,
    Reading,
    connect,
    is_image_folder,
    read_images,
    read_on_cluster,
    read_table,
)
from bitmix.cli.options import Force, Json, Quiet, Seed, as_text
from bitmix.cli.output import check_distinct, check_writable, print_json
from bitmix.cli.sketch import Sketching, print_skipped
from bitmix.support.progress import doing


class Method(StrEnum):
    template = "template"
    tree = "tree"
    two_round = "two-round"
    classic = "classic"


_PARAMETERS = {
    Method.template: ("method", "seed", "noise_model", "prior", "tol", "max_iter",
                      "max_rows_search", "background", "n_init"),
    Method.tree: ("method", "seed", "noise_model", "prior"),
    Method.two_round: ("method", "seed", "rounds", "n_init"),
    Method.classic: ("method", "seed", "rounds", "n_init"),
}  # fmt: skip
"""The options of a search that each method has."""


Words = StrEnum("Words", ["classes", "groups", "templates"])
NoiseModel = StrEnum("NoiseModel", ["auto", "shared", "updown", "component", "feature", "cell"])


@dataclass(frozen=True)
class Number:
    """The number of groups, or how to choose it."""

    k: Annotated[
        str | None, typer.Option("-k", help="Number of templates, a range (2-5), or auto.")
    ] = None
    until: Annotated[
        str | None,
        typer.Option(help="Instead of -k: split groups until tanimoto=.35 or size=50."),
    ] = None
    time_limit: Annotated[
        float | None,
        typer.Option(min=0, help="-k auto: seconds after which no larger number is tried."),
    ] = None

    def check(self, method: "Method") -> range | None:
        """The numbers of templates to try; None if there is no range."""
        if (self.k is None) == (self.until is None):
            raise ValueError("give the number of templates (-k 3 or -k auto) or --until size=50")
        if self.until is not None:
            from bitmix.estimators.until import Rule

            Rule.parse(self.until)
            if method not in (Method.template, Method.tree):
                raise ValueError(f"--until needs --method tree, got {method}")
        k_range = None if self.k is None else _parse_components(self.k)
        if self.time_limit is not None and (self.k is None or k_range is not None):
            raise ValueError("--time-limit needs -k auto")
        return k_range

    def as_text(self) -> str:
        return f" -k {self.k}" if self.until is None else f" --until {self.until}"


@dataclass(frozen=True)
class Search:
    """The estimator and its parameters."""

    method: Annotated[Method, typer.Option(help="The estimator.")] = Method.template
    noise_model: Annotated[
        NoiseModel,
        typer.Option(help="template: which cells share a flip rate; auto compares all models."),
    ] = NoiseModel.auto
    prior: Annotated[
        float, typer.Option(min=0, help="template: strength of the prior in rows; 0 is none.")
    ] = 0.1
    tol: Annotated[
        float,
        typer.Option(min=0, help="template: stop this close to the optimum (nats per row)."),
    ] = 1e-7
    max_iter: Annotated[int, typer.Option(min=1, help="template: largest number of EM steps.")] = (
        10_000
    )
    max_rows_search: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="template: search in a random sample of this many rows. "
            "Default: 8 per seed, at least 4,096; a table of up to twice as many is used whole.",
        ),
    ] = None
    background: Annotated[
        bool,
        typer.Option("--background", help="template: add a component for rows that fit no group."),
    ] = False
    rounds: Annotated[
        int, typer.Option(min=2, help="two-round and classic: number of EM steps.")
    ] = 10
    n_init: Annotated[
        int | None,
        typer.Option(
            "--n-init", "--starts", min=1, help="Largest number of starts.", show_default="5 to 20"
        ),
    ] = None
    seed: Seed = 0

    def check(self, *, by_rule: bool) -> None:
        """Refuse options that the estimator does not have. With a rule, it is the tree."""
        method = Method.tree if by_rule else self.method
        for each in fields(self):
            if each.name not in _PARAMETERS[method] and getattr(self, each.name) != each.default:
                way = "--until" if by_rule else f"--method {method}"
                raise ValueError(
                    f"--{each.name.replace('_', '-')} does not apply to {way}: leave it out"
                )

    def estimator(self, n_components: int) -> Any:
        """The unfitted estimator."""
        from bitmix.estimators.paper import ClassicEM, TwoRoundEM
        from bitmix.estimators.template import TemplateMixture

        common: dict[str, Any] = {"n_init": self.n_init or 5, "random_state": self.seed}
        if self.method is Method.template:
            common["n_init"] = self.n_init
            return TemplateMixture(
                n_components, noise_model=str(self.noise_model), prior=self.prior, tol=self.tol,
                max_iter=self.max_iter, max_rows_search=self.max_rows_search,
                background=self.background, **common,
            )  # fmt: skip
        if self.method is Method.tree:
            return self.tree(n_components)
        if self.method is Method.classic:
            return ClassicEM(n_components, max_iter=self.rounds, **common)
        return TwoRoundEM(n_components, rounds=self.rounds, **common)

    def tree(self, n_components: int) -> Any:
        """The unfitted estimator for many components."""
        from bitmix.estimators.tree import TemplateTree

        return TemplateTree(
            n_components, noise_model=str(self.noise_model), prior=self.prior,
            random_state=self.seed,
        )  # fmt: skip

    def select(self, rows: Any, k_range: range | None, blrt: int, time_limit: float | None) -> Any:
        """Choose the number of templates."""
        from bitmix.estimators.select import select_components

        if self.method is not Method.template:
            raise ValueError(f"--method {self.method} needs one number of templates, such as -k 3")
        return select_components(rows, k_range, self.estimator(1), blrt=blrt, time_limit=time_limit)


@dataclass(frozen=True)
class Inference:
    """What is computed about a fit for a publication."""

    table: Annotated[
        bool, typer.Option("--table", help="Print fit statistics for each number of templates.")
    ] = False
    blrt: Annotated[
        int, typer.Option(min=0, help="Replicates of the test of k against k - 1, such as 99.")
    ] = 0
    bootstrap: Annotated[
        int, typer.Option(min=0, help="Replicates for standard errors and intervals, such as 200.")
    ] = 0
    hold_out: Annotated[
        float,
        typer.Option(
            min=0,
            max=0.99,
            help="Fraction of rows to hold out to certify bits, such as 0.3.",
        ),
    ] = 0.0
    words: Annotated[
        Words | None,
        typer.Option(help="What to call components. Default: depends on the noise model."),
    ] = None

    def check(self, k_range: range | None, method: Method) -> None:
        """Refuse options that make no sense for this fit."""
        one = k_range is not None and len(k_range) == 1
        if self.table and one:
            raise ValueError("--table compares numbers of templates: give a range, such as -k 1-6")
        if self.blrt and one:
            raise ValueError("--blrt compares numbers of templates: give a range, such as -k 1-6")
        if self.bootstrap and method is not Method.template:
            raise ValueError(f"--bootstrap needs --method template, got {method}")

    def errors(self, model: Any, rows: Any) -> Any:
        """Standard errors of the fit: bootstrapped if requested, otherwise those that are quick."""
        from bitmix.inference.bootstrap import bootstrap
        from bitmix.inference.item_table import quick_errors

        if self.bootstrap:
            return bootstrap(model, rows, self.bootstrap)
        return quick_errors(model, rows)


@dataclass(frozen=True)
class Outputs:
    """The files that a fit writes."""

    output: Annotated[Path | None, typer.Option("--output", "-o", help="Save the model.")] = None
    report: Annotated[Path | None, typer.Option(help="Write a report (.html).")] = None
    sheet: Annotated[Path | None, typer.Option(help="Images: draw the clusters (.png, .svg).")] = (
        None
    )
    image_shape: Annotated[
        str | None, typer.Option(help="Draw rows as images of this size, such as 28x28.")
    ] = None
    force: Force = False

    def geometry(self, n_columns: int) -> tuple[int, int] | None:
        """Height and width of the images, if rows are images."""
        if self.image_shape is None:
            return None
        sides = self.image_shape.lower().split("x")
        if len(sides) != 2 or not all(side.isdecimal() for side in sides):
            raise ValueError(
                f"--image-shape must be rows x columns, such as 28x28, got {self.image_shape!r}"
            )
        height, width = map(int, sides)
        if height * width != n_columns:
            raise ValueError(
                f"--image-shape {self.image_shape} has {height * width:,} cells, but rows have "
                f"{n_columns:,} columns"
            )
        return height, width

    def check(self, data: Path) -> None:
        """Check, before the fit, that all outputs can be written."""
        if self.image_shape is not None and self.report is None:
            raise ValueError("--image-shape is for the report: give --report as well")
        check_writable(self.output, self.force)
        check_writable(self.report, self.force, ".html")
        check_writable(self.sheet, self.force, ".png", ".svg")
        check_distinct(data, self.output, self.report, self.sheet)
        for path, library in ((self.report, "jinja2"), (self.sheet, "matplotlib")):
            if path is not None:
                import_module(library)

    def show(self) -> None:
        """Print which files were written."""
        for what, path in (("model", self.output), ("report", self.report), ("sheet", self.sheet)):
            if path is not None:
                typer.echo(f"{what} written to {path}")


def fit(
    data: Annotated[
        Path,
        typer.Argument(
            help="A table (.bits .csv .tsv .parquet .fps .npy .npz .zarr …, or -) or image folder."
        ),
    ],
    number: Number,
    search: Search,
    inference: Inference,
    outputs: Outputs,
    reading: Reading,
    sketching: Sketching,
    cluster: Annotated[
        str | None, typer.Option(help="Fit on Dask workers: local, or tcp://host:port.")
    ] = None,
    certificate: Annotated[bool, typer.Option(help="Certify the templates.")] = True,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Find k templates in a table of 0 and 1, or in a folder of images.

    \b
    Examples:
      bitmix fit rows.csv -k auto -o my.model --report rows.html
      bitmix fit survey.csv -k 1-6 --noise-model cell --prior 0 --table --blrt 99
      bitmix fit photos -k 3 --sheet sheet.png
      bitmix fit molecules.fps -k 1000 --method tree --report molecules.html
      bitmix fit molecules.fps --until tanimoto=.35
    """
    k_range = number.check(search.method)
    search.check(by_rule=number.until is not None)
    inference.check(k_range, search.method)
    outputs.check(data)
    if inference.hold_out and cluster is not None:
        raise ValueError("--hold-out fits parts of the rows on this machine: leave out --cluster")
    with nullcontext() if cluster is None else connect(cluster):
        with doing(f"reading {data.name}"):
            dataset = _read(data, reading, sketching, outputs, on_cluster=cluster is not None)
        geometry = outputs.geometry(dataset.rows.shape[1]) or dataset.geometry
        selection = None
        if number.until is not None:
            model = _fit_until(dataset.rows, number.until, search)
        elif k_range is None or len(k_range) > 1:
            selection = search.select(dataset.rows, k_range, inference.blrt, number.time_limit)
            model = selection.model
        else:
            assert k_range is not None
            _note_time(dataset.rows, k_range[0], search)
            with doing(f"{k_range[0]} templates in {dataset.rows.shape[0]:,} rows"):
                model = search.estimator(k_range[0]).fit(dataset.rows)
        if dataset.table is not None:
            roles = dataset.table.roles
            model.id_column_ = roles.id_name
            model.label_column_ = ",".join(roles.label_names) or None
            model.fingerprint_type_ = dataset.table.about.get("type")
        if outputs.output is not None:
            try:
                with doing("representatives"):
                    _describe_groups(model, dataset)
            finally:
                model.save(outputs.output)  # a fit that took long outlives a later step that fails
        errors = inference.errors(model, dataset.rows)
        drawn = dataset.smiles is not None or geometry is not None
        summary = summaries.summarize_fit(model, dataset, errors, inference.words, drawn=drawn)
        if selection is not None:
            from bitmix.estimators.select import enumeration_table

            summary["candidates"] = enumeration_table(selection.candidates)
        issued: Any = False
        if certificate:
            from bitmix.report.facts import certify_if_possible

            with doing("certificate"):
                issued, reason = certify_if_possible(model, dataset.rows)
            summary["certificate"] = summaries.summarize_certificate(issued, reason)
        held_out = None
        if inference.hold_out:
            from bitmix.estimators.hold_out import hold_out

            held_out = hold_out(model, dataset.rows, inference.hold_out, random_state=search.seed)
            summary["held_out"] = summaries.summarize_held_out(held_out)
        if outputs.report is not None:
            from bitmix import report

            with doing("report"):
                report.write(
                    model, dataset.rows, outputs.report, selection=selection,
                    labels=next(iter(dataset.classes.values()), None), ids=dataset.ids,
                    smiles=dataset.smiles,
                    geometry=geometry,
                    certificate=issued, source=data.name, errors=errors, held_out=held_out,
                    words=inference.words,
                )  # fmt: skip
        if outputs.sheet is not None:
            _draw_sheet(outputs.sheet, model, dataset)
    if as_json:
        print_json(summary)
    elif not quiet:
        if inference.table:
            typer.echo(selection.table("markdown"))  # type: ignore[union-attr]
        summaries.print_fit(summary)
        outputs.show()
        if dataset.transformer is not None:
            print_skipped(dataset.transformer)
        elif str(data) != "-":
            again = f"{number.as_text()}{as_text(search)}{as_text(reading)}"
            offer = not (inference.hold_out or summary.get("certificate", {}).get("holds"))
            summaries.print_next(
                outputs.output, data, model, again, as_text(reading, FILE_OPTIONS), offer=offer
            )


def _parse_components(text: str) -> range | None:
    """The numbers of templates to try; None for auto."""
    if text == "auto":
        return None
    first, dash, last = text.partition("-")
    ends = [int(end) if end.isdecimal() else 0 for end in (first, last if dash else first)]
    if not 1 <= ends[0] <= ends[1]:
        raise ValueError(
            f"-k must be a whole number from 1, a range such as 2-5, or auto, got {text!r}"
        )
    return range(ends[0], ends[1] + 1)


def _fit_until(rows: Any, rule: str, search: Search) -> Any:
    """Split groups until a rule holds, and return the mixture."""
    from bitmix.estimators.until import fit_until

    found = fit_until(rows, rule, search.tree(1))
    if found.n_broken:
        typer.echo(
            f"bitmix: note: {found.n_broken} of {found.model.n_components} groups do not meet "
            f"{rule}, because their rows cannot be told apart",
            err=True,
        )
    return found.model


def _note_time(rows: Any, k: int, search: Search) -> None:
    """Note that there is a quicker way to fit many templates."""
    from bitmix.estimators.tree import TREE_FROM, estimated_seconds

    if search.method is Method.template and k >= TREE_FROM:
        flat, tree = estimated_seconds(rows.shape[0], rows.shape[1], k, search.n_init or 5)
        typer.echo(
            f"bitmix: note: {k} templates are searched all at once, which takes about {flat:.0f} s "
            f"or more; --method tree takes about {tree:.0f} s",
            err=True,
        )


def _read(
    path: Path, reading: Reading, sketching: Sketching, outputs: Outputs, *, on_cluster: bool
) -> Dataset:
    if is_image_folder(path):
        if replace(reading, skip_errors=False) != Reading() or on_cluster:
            raise ValueError(
                f"{path} is a folder of images: leave out --cluster and the options for tables"
            )
        return read_images(path, sketching)
    if outputs.sheet is not None:
        raise ValueError(f"--sheet needs a folder of images, got {path}")
    if given := as_text(replace(sketching, skip_errors=False)):
        raise ValueError(
            f"{given.split()[0]} is for folders of images, but {path} is a table: leave it out"
        )
    return read_on_cluster(path, reading) if on_cluster else read_table(path, reading)


def _describe_groups(model: Any, dataset: Dataset) -> None:
    """Store in the model what `bitmix predict` reports besides labels."""
    from bitmix.groups.unlike import MIN_ROWS

    rows = dataset.rows
    if rows.remote:
        return
    found = model.medoids(rows)
    ids = dataset.ids or range(rows.shape[0])
    model.representatives_ = tuple(str(ids[i]) if i >= 0 else "" for i in found.rows.tolist())
    if hasattr(model, "settings_like_fit") and rows.shape[0] >= MIN_ROWS:
        model.calibrate(rows)


def _draw_sheet(path: Path, model: Any, dataset: Dataset) -> None:
    from bitmix.plots import save_sheet

    labels, geometry = model.predict(dataset.rows), dataset.transformer.geometry_
    save_sheet(
        path, dataset.images, labels, model.means_, geometry, dataset.classes.get("sub-folders")
    )
