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


def writable(path: Path, force: bool, *endings: str) -> Path:
    """The path, unless its ending is wrong, its folder missing, or something would be lost."""
    if endings and path.suffix.lower() not in endings:
        raise ValueError(f"{path.name} must end in {' or '.join(endings)}")
    if path.exists() and not force:
        raise ValueError(f"{path} is there already: give another name, or --force to overwrite it")
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent} to write {path.name} into")
    return path
