"""Optional libraries and the extras that install them."""

from importlib import import_module

_EXTRA_OF = {
    "typer": "cli", "rich": "cli", "PIL": "images", "matplotlib": "plot", "jinja2": "plot",
    "dask": "dask", "distributed": "dask", "zarr": "dask", "pyarrow": "files",
    "h5py": "cells", "rdkit": "chem",
}  # fmt: skip


def need(library: str) -> None:
    """Raise an error that says how to install the library, if it is missing."""
    try:
        import_module(library)
    except ModuleNotFoundError as missing:
        if missing.name != library:  # it is installed, but one of its own dependencies is missing
            raise
        raise ModuleNotFoundError(advice(library), name=library) from None


def advice(library: str, what: str = "this") -> str:
    """Say what to install for `what`, which needs the library."""
    return f"{what} needs {library}: pip install 'bitmix[{_EXTRA_OF.get(library, 'all')}]'"
