"""What the commands read: a folder of images or a file of rows, here or on a cluster."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bitmix.cli.sketch import sketches


@dataclass(frozen=True)
class Data:
    """Rows, and what came with them."""

    rows: Any
    ids: list[str] | None = None
    truth: list[str] | None = None
    """The class of each row, if that is known."""
    classes: str = ""
    """Who says so."""
    images: list[Any] = field(default_factory=list)
    transformer: Any = None
    """What turned images into bits."""


def read_images(path: Path, *settings: Any) -> Data:
    """A folder of images as sketches."""
    folder, transformer, rows = sketches(path, *settings)
    truth = folder.labels and [folder.labels[i] for i in transformer.kept_]
    images = [folder[i] for i in transformer.kept_]
    return Data(rows, None, truth, "sub-folders", images, transformer)


def read_file(path: Path, id_column: str | None, label_column: str | None) -> Data:
    """A file of rows; a packed one stays where it is."""
    table = opened(path, id_column=id_column, label_column=label_column)
    rows, ids, labels = table.read_all()
    return Data(rows, ids, labels, f"column {label_column!r}")


def opened(path: Path, **columns: Any) -> Any:
    """A file of rows, or a CSV that comes through standard input."""
    from bitmix.rows.files import open_stream, open_table

    if str(path) == "-":
        return open_stream(sys.stdin.buffer, "csv", **columns)
    return open_table(path, **columns)


def is_images(path: Path) -> bool:
    from bitmix.rows.files import ending

    return path.is_dir() and ending(path) is None


@contextmanager
def cluster(address: str) -> Iterator[None]:
    """Workers: of this machine, or those of a scheduler. What fails on one is told in a line."""
    try:
        with _cluster(address):
            yield
    except (ValueError, OSError, ModuleNotFoundError):
        raise
    except Exception as error:
        raise ValueError(f"a worker could not do its part: {error}") from None


@contextmanager
def _cluster(address: str) -> Iterator[None]:
    from distributed import Client, LocalCluster

    if address == "local":
        with (
            LocalCluster(
                threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
            ) as workers,
            Client(workers),
        ):
            yield
        return
    if "://" not in address:
        raise ValueError(f"--cluster must be local or an address as tcp://host:8786, got {address}")
    try:
        client = Client(address, timeout="10s")
    except (OSError, TimeoutError) as error:
        raise ValueError(f"no scheduler answers at {address}: {error}") from None
    with client:
        yield


def read_on_cluster(path: Path, id_column: str | None, label_column: str | None) -> Data:
    """Rows that the workers read for themselves, from storage all of them see."""
    from bitmix.rows.cluster import ClusterRows
    from bitmix.rows.files import ending

    kind = ending(path)
    if kind in (".bits", ".zarr", ".parquet"):  # the same checks as here: what is a feature
        table = opened(path, id_column=id_column, label_column=label_column)
    if kind == ".bits":
        return Data(ClusterRows.of_file(path))
    if kind == ".zarr":
        import dask.array

        return Data(ClusterRows.of_array(dask.array.from_zarr(str(path))))
    if kind == ".parquet" and table.names is not None:
        import dask.dataframe

        whole = dask.dataframe.read_parquet(path)
        rows = ClusterRows.of_array(whole[list(table.names)])
        truth = None if label_column is None else list(map(str, whole[label_column].compute()))
        return Data(rows, None, truth, f"column {label_column!r}")
    raise ValueError(
        f"workers read .bits, .zarr and .parquet, got {path}: bitmix convert it to .bits first"
    )


def table_for(model: Any, path: Path, id_column: str | None) -> Any:
    """A file with the columns of a model, and its ids if it has a column for them."""
    from bitmix.errors import InputError

    columns = getattr(model, "feature_names_in_", None)
    if id_column is None and model.id_column_ is not None and str(path) != "-":
        try:
            return opened(path, columns=columns, id_column=model.id_column_)
        except InputError:
            pass  # other rows need not have ids, or names at all
    return opened(path, columns=columns, id_column=id_column)
