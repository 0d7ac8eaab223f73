"""Reading rows: from a file, from standard input, from a folder of images, or on a cluster."""

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from bitmix.cli.sketch import Sketching


class TextFormat(StrEnum):
    csv = "csv"
    tsv = "tsv"
    fps = "fps"


@dataclass(frozen=True)
class Reading:
    """How a table is read: the options of every command that reads one."""

    id_column: Annotated[
        str | None, typer.Option(help="Column with the names of the rows; not a feature.")
    ] = None
    label_column: Annotated[
        str | None, typer.Option(help="Column with the known class of each row; not a feature.")
    ] = None
    format: Annotated[
        TextFormat, typer.Option(help="Format of standard input, which is read if the file is -.")
    ] = TextFormat.csv

    def open(self, path: Path, columns: Sequence[str] | None = None) -> Any:
        """The table in a file or on standard input; `columns` are its features, by default all."""
        from bitmix.rows.files import open_stream, open_table

        roles: dict[str, Any] = {"id_column": self.id_column, "label_column": self.label_column}
        if str(path) == "-":
            return open_stream(sys.stdin.buffer, str(self.format), columns=columns, **roles)
        return open_table(path, columns=columns, **roles)

    def open_for(self, model: Any, path: Path) -> Any:
        """A table with the columns of a model, and its id column if the table has it."""
        from bitmix.errors import InputError

        columns = getattr(model, "feature_names_in_", None)
        if self.id_column is None and model.id_column_ is not None and str(path) != "-":
            try:
                return replace(self, id_column=model.id_column_).open(path, columns)
            except InputError:
                pass  # other tables need not have ids, or names of columns at all
        return self.open(path, columns)


@dataclass(frozen=True)
class Dataset:
    """The rows of a fit, and what is known about them."""

    rows: Any
    ids: list[str] | None = None
    classes: list[str] | None = None
    """The known class of each row."""
    classes_from: str = ""
    """Where the classes come from, for messages."""
    images: Sequence[Any] = ()
    transformer: Any = None
    """The fitted `GaborSketch` that turned the images into rows."""


def is_image_folder(path: Path) -> bool:
    """Whether the path is a folder that is not a table itself, as a Zarr folder is."""
    from bitmix.rows.files import ending

    return path.is_dir() and ending(path) is None


def read_images(path: Path, sketching: Sketching) -> Dataset:
    """Sketches of the images in a folder; the names of sub-folders are their classes."""
    folder, transformer, rows = sketching.transform(path)
    classes = folder.labels and [folder.labels[i] for i in transformer.kept_]
    images = [folder[i] for i in transformer.kept_]
    return Dataset(rows, None, classes, "sub-folders", images, transformer)


def read_table(path: Path, reading: Reading) -> Dataset:
    """A table in memory; the rows of a packed file stay on disk."""
    rows, ids, labels = reading.open(path).read_all()
    return Dataset(rows, ids, labels, f"column {reading.label_column!r}")


def read_on_cluster(path: Path, reading: Reading) -> Dataset:
    """Rows that the workers read themselves, from storage that all of them can reach."""
    from bitmix.rows.cluster import ClusterRows
    from bitmix.rows.files import ending

    kind = ending(path)
    if kind not in (".bits", ".zarr", ".parquet"):
        raise ValueError(
            f"a cluster reads .bits, .zarr and .parquet files, got {path}: "
            "convert it with bitmix convert"
        )
    table = reading.open(path)  # for its checks of the columns
    if kind == ".bits":
        return Dataset(ClusterRows.of_file(path))
    if kind == ".zarr":
        import dask.array

        return Dataset(ClusterRows.of(dask.array.from_zarr(str(path))))
    if table.names is None:
        raise ValueError(
            f"a cluster reads Parquet files with one column per bit, {path} has packed bytes: "
            "convert it with bitmix convert"
        )
    import dask.dataframe

    frame, label = dask.dataframe.read_parquet(path), reading.label_column
    classes = None if label is None else list(map(str, frame[label].compute()))
    rows = ClusterRows.of(frame[list(table.names)])
    return Dataset(rows, None, classes, f"column {label!r}")


@contextmanager
def connect(address: str) -> Iterator[None]:
    """Run the block on Dask workers: of this machine ("local"), or of a scheduler."""
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
