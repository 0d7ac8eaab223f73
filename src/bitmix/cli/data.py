"""Read rows from a file, standard input or a folder of images, or on a cluster."""

import csv
import logging
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from bitmix.cli.sketch import Sketching

BitOrder = StrEnum("BitOrder", ["big", "little"])
TextFormat = StrEnum("TextFormat", ["csv", "tsv", "fps"])


@dataclass(frozen=True)
class Reading:
    """How a table is read: the options of every command that reads one."""

    columns: Annotated[
        str | None, typer.Option(help="Features: names, ranges (A:F) or patterns (q*).")
    ] = None
    drop: Annotated[str | None, typer.Option(help="Columns to leave out, given likewise.")] = None
    id_column: Annotated[str | None, typer.Option(help="Column with the names of the rows.")] = None
    label_column: Annotated[
        list[str] | None, typer.Option(help="Column with known classes. Can be repeated.")
    ] = None
    weight_column: Annotated[
        str | None, typer.Option(help="Column that says how many times each row counts.")
    ] = None
    ones: Annotated[
        str | None, typer.Option(help="Values to read as 1 (yes,2); others in the column are 0.")
    ] = None
    items: Annotated[
        str | None, typer.Option(help="Columns that are items with several values.")
    ] = None
    missing: Annotated[
        str | None, typer.Option(help="Values that mean missing (-9,?); NA and blank always do.")
    ] = None
    filled: Annotated[
        bool, typer.Option("--filled", help="Read a blank cell as 0 and any other as 1.")
    ] = False
    binarize: Annotated[
        float | None, typer.Option(help="Read numbers above this as 1, all others as 0.")
    ] = None
    sep: Annotated[
        str | None, typer.Option(help="Separator of a text file. Default: detected.")
    ] = None
    header: Annotated[
        bool | None, typer.Option(help="Whether the first line of a text file has column names.")
    ] = None
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of a text file if not UTF-8, such as latin-1.")
    ] = None
    transpose: Annotated[
        bool, typer.Option("--transpose", help="The table has features in its rows.")
    ] = False
    packed: Annotated[
        BitOrder | None, typer.Option(help="The table holds packed bytes in this bit order.")
    ] = None
    layer: Annotated[str | None, typer.Option(help="Layer of an .h5ad file. Default: X.")] = None
    pairs: Annotated[
        bool,
        typer.Option("--pairs", help="Each line of a text file gives the row and column of a 1."),
    ] = False
    smiles_column: Annotated[
        str | None, typer.Option(help="Column of SMILES, to turn into fingerprints (RDKit).")
    ] = None
    skip_errors: Annotated[
        bool,
        typer.Option("--skip-errors", help="Leave out images or molecules that cannot be read."),
    ] = False
    format: Annotated[
        TextFormat, typer.Option(help="Format of standard input (if the file is -).")
    ] = TextFormat.csv

    def open(self, path: Path, **of_model: Any) -> Any:
        """The table in a file or on standard input."""
        from bitmix.rows.files import open_stream, open_table

        options = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "format"}
        options["one_values"] = _split(options.pop("ones"))
        options["missing"] = _split(self.missing)
        options["packed"] = None if self.packed is None else str(self.packed)
        options["sep"] = _SEPARATORS.get(self.sep or "", self.sep)
        options["transpose"] = self.transpose or None
        options |= of_model
        if str(path) == "-":
            return open_stream(sys.stdin.buffer, str(self.format), **options)
        return open_table(path, **options)

    def open_for(self, model: Any, path: Path) -> Any:
        """A table with the columns and codes of a model, and its id column if the table has it."""
        from bitmix.errors import InputError
        from bitmix.rows.codes import Codes

        codes = model.codes_ or Codes()
        columns = codes.names or getattr(model, "feature_names_in_", None)
        of_model = {"columns": None if columns is None else tuple(columns), "codes": codes}
        if self.columns is not None or self.ones is not None or self.items is not None:
            raise ValueError("the model sets --columns, --ones and --items: leave them out")
        if self.id_column is None and model.id_column_ is not None and str(path) != "-":
            try:
                return self.open(path, **of_model, id_column=model.id_column_)
            except InputError:
                pass  # other tables need neither ids nor column names
        return self.open(path, **of_model)


FILE_OPTIONS = (
    "id_column", "sep", "header", "encoding", "transpose", "layer", "pairs", "smiles_column",
    "skip_errors",
)  # fmt: skip
"""Options that describe a file and are not kept in the model."""
_SEPARATORS = {"tab": "\t", "\\t": "\t", "blank": " ", "comma": ",", "semicolon": ";"}


def _split(text: str | None) -> tuple[str, ...]:
    """The values of a comma-separated list."""
    return () if text is None else tuple(next(csv.reader([text], skipinitialspace=True)))


@dataclass(frozen=True)
class Dataset:
    """The rows of a fit, and what is known about them."""

    rows: Any
    ids: list[str] | None = None
    classes: Mapping[str, list[str]] = field(default_factory=dict)
    """The known classes of the rows, for each source: a column, or the sub-folders."""
    table: Any = None
    """The table that the rows were read from."""
    smiles: list[str] | None = None
    """The molecule of each row."""
    images: Sequence[Any] = ()
    transformer: Any = None
    """The fitted `GaborSketch` that turned the images into rows."""

    @property
    def geometry(self) -> Any:
        """The geometry of the sketches, if the rows are sketches or the file says so."""
        if self.transformer is not None:
            return self.transformer.geometry_
        if self.table is None or "sketch" not in self.table.about:
            return None
        from bitmix.features import GaborGeometry

        geometry = GaborGeometry.from_dict(self.table.about["sketch"])
        fits = geometry is not None and geometry.n_features == self.rows.shape[1]
        return geometry if fits else None


def is_image_folder(path: Path) -> bool:
    """Whether the path is a folder, but not one that is a table itself, such as a Zarr folder."""
    from bitmix.rows.files import ending

    return path.is_dir() and ending(path) is None


def read_images(path: Path, sketching: Sketching) -> Dataset:
    """Sketches of the images in a folder; the names of sub-folders are their classes."""
    folder, transformer, rows = sketching.transform(path)
    classes = {}
    if folder.labels:
        classes["sub-folders"] = [folder.labels[i] for i in transformer.kept_]
    images = [folder[i] for i in transformer.kept_]
    return Dataset(rows, None, classes, images=images, transformer=transformer)


def read_table(path: Path, reading: Reading) -> Dataset:
    """A table in memory; the rows of a packed file stay on disk."""
    table = reading.open(path)
    loaded = table.load()
    classes = {f"column {name!r}": labels for name, labels in loaded.labels.items()}
    smiles = loaded.smiles
    if smiles is None and ".fps" in path.suffixes:
        smiles = loaded.ids  # these may be SMILES; the report checks
    return Dataset(loaded.rows, loaded.ids, classes, table, smiles)


def open_like_fit(fitted: Any, model: Path, path: Path, reading: Reading) -> Any:
    """The table in a file as a model reads it; its rows must be made as those of the fit."""
    if is_image_folder(path):
        raise ValueError(
            f"{path} is a folder of images: turn it into bits first, "
            f"bitmix sketch {path} -o {path.name}.bits"
        )
    table = reading.open_for(fitted, path)
    _check_columns(fitted, model, table, path)
    return table


def _check_columns(fitted: Any, model: Path, table: Any, path: Path) -> None:
    """Check that the rows of a file were made in the same way as those of the fit."""
    if table.codes is not None or table.wishes is None or table.names is None:
        n, expected = table.n_columns, fitted.n_features_in_
        if n != expected:
            raise ValueError(
                f"{path} has {n:,} columns, but {model} was fitted on {expected:,}: give rows that "
                "were made in the same way"
            )
    kind, made = fitted.fingerprint_type_, table.about.get("type")
    fingerprint = None if fitted.codes_ is None else fitted.codes_.fingerprint
    same = kind is None or kind == made
    if fingerprint is not None and made is not None:
        kind = f"Morgan fingerprints, radius {fingerprint.radius}, {fingerprint.bits} bits"
        same = _is_morgan(made, fingerprint)
    if made is not None and not same:
        raise ValueError(
            f"{path} has fingerprints of type {made!r}, but {model} was fitted on {kind!r}: make "
            "them in the same way"
        )


def _is_morgan(kind: str, fingerprint: Any) -> bool:
    """Whether a type as chemfp writes it, RDKit-Morgan/2 radius=2 fpSize=2048 useFeatures=0 …,
    may be this fingerprint.
    """
    expected = {"radius": fingerprint.radius, "fpSize": fingerprint.bits, "useFeatures": 0}
    said = {name: int(value) for name, value in re.findall(r"\b(\w+)=(\d+)\b", kind)}
    return "morgan" in kind.lower() and all(
        said.get(name, value) == value for name, value in expected.items()
    )


def read_on_cluster(path: Path, reading: Reading) -> Dataset:
    """Rows that the workers read themselves from storage that all of them can reach."""
    from bitmix.rows.cluster import ClusterRows
    from bitmix.rows.files import ending

    kind = ending(path)
    if kind not in (".bits", ".zarr", ".parquet"):
        raise ValueError(
            f"a cluster reads .bits, .zarr and .parquet files, got {path}: "
            "convert it with bitmix convert"
        )
    table = reading.open(path)  # for its checks of the columns
    if table.codes is not None and kind != ".bits":
        raise ValueError(
            f"a cluster reads cells of 0 and 1, but {path} needs codes: convert it with bitmix "
            "convert"
        )
    if kind == ".bits":
        return Dataset(ClusterRows.of_file(path))
    if kind == ".zarr":
        import dask.array

        return Dataset(ClusterRows.of(dask.array.from_zarr(str(path)), missing=True))
    if table.names is None:
        raise ValueError(
            f"a cluster reads Parquet files with one column per bit, but {path} has packed bytes: "
            "convert it with bitmix convert"
        )
    import dask.dataframe

    frame = dask.dataframe.read_parquet(path)
    classes = {
        f"column {name!r}": list(map(str, frame[name].compute()))
        for name in table.roles.label_names
    }
    weight = table.roles.weight_name
    weights = None if weight is None else frame[weight]
    rows = ClusterRows.of(frame[list(table.names)], missing=True, sample_weight=weights)
    return Dataset(rows, None, classes, table)


@contextmanager
def connect(address: str) -> Iterator[None]:
    """Run the block on Dask workers of this machine ("local") or of a scheduler."""
    from distributed import Client, LocalCluster

    if address != "local" and "://" not in address:
        raise ValueError(
            f"--cluster must be local or an address such as tcp://host:8786, got {address}"
        )
    with ExitStack() as stack:
        scheduler: Any = address
        if address == "local":
            scheduler = stack.enter_context(
                LocalCluster(
                    threads_per_worker=1,
                    dashboard_address=":0",
                    silence_logs=logging.CRITICAL,
                    env={"BITMIX_KEEP_MEMORY": "1"},
                )
            )
        try:
            stack.enter_context(Client(scheduler, timeout="10s"))
        except OSError as error:
            raise ValueError(f"there is no scheduler at {address}: {error}") from None
        try:
            yield
        except (ValueError, OSError, ModuleNotFoundError):
            raise
        except Exception as error:
            raise ValueError(f"the fit failed on a worker: {error}") from None
