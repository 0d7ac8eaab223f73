"""Libraries that only a part of the package needs, and the extras that bring them."""

from importlib import import_module

_EXTRA_OF = {
    "typer": "cli", "rich": "cli", "PIL": "images", "matplotlib": "plot", "jinja2": "plot",
    "dask": "dask", "distributed": "dask", "zarr": "dask", "pyarrow": "files",
}  # fmt: skip


def need(library: str) -> None:
    """Where a library is missing, an error that says how to install it."""
    try:
        import_module(library)
    except ModuleNotFoundError as missing:
        if missing.name != library:  # it is there, but lacks something itself
            raise
        raise ModuleNotFoundError(advice(library), name=library) from None


def advice(library: str) -> str:
    return f"this needs {library}: pip install 'bitmix[{_EXTRA_OF.get(library, 'all')}]'"
