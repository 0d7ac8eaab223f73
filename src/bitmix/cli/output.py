"""What every command shares: options, JSON, where files may be written."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output if it is there.")]


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, default=_plain))


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's."""
    return value.tolist()


def writable(path: Path, force: bool) -> Path:
    """The path, unless something would be overwritten or there is no folder for it."""
    if path.exists() and not force:
        raise ValueError(f"{path} is there already: give another name, or --force to overwrite it")
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent} to write {path.name} into")
    return path
