"""What every command shares: options, JSON, where files may be written."""

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
IdColumn = Annotated[
    str | None, typer.Option(help="Column of a table that names the rows: no feature.")
]
LabelColumn = Annotated[
    str | None, typer.Option(help="Column of a table that tells their classes: no feature.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing if all is well.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output if it is there.")]


def print_json(value: Any) -> None:
    typer.echo(json.dumps(_plain(value), ensure_ascii=False, allow_nan=False))


def _plain(value: Any) -> Any:
    """Only what JSON knows: lists for arrays, null for numbers that are not finite."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def distinct(*paths: Path | None) -> None:
    """No file may be read and written, or written twice."""
    seen: dict[Path, Path] = {}
    for path in paths:
        if path is None:
            continue
        if path.resolve() in seen:
            raise ValueError(f"{path} is given twice: give each file a name of its own")
        seen[path.resolve()] = path


def writable(path: Path, force: bool, *endings: str) -> Path:
    """The path, unless its ending is wrong, its folder missing, or something would be lost."""
    if endings and path.suffix.lower() not in endings:
        raise ValueError(f"{path.name} must end in {' or '.join(endings)}")
    if (path.exists() or path.is_symlink()) and not force:
        raise ValueError(f"{path} is there already: give another name, or --force to overwrite it")
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent} to write {path.name} into")
    return path
