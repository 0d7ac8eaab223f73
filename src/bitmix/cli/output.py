"""Print JSON, and check the files to be written."""

import json
import math
from pathlib import Path
from typing import Any

import typer

from bitmix.system import same_name


def print_json(value: Any) -> None:
    """Print one JSON object, with arrays as lists and non-finite numbers as null."""
    typer.echo(json.dumps(_to_json(value), ensure_ascii=False, allow_nan=False))


def _to_json(value: Any) -> Any:
    if hasattr(value, "records"):
        value = list(value.records)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _to_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_distinct(*paths: Path | None) -> None:
    """Check that no file is both read and written, or written twice."""
    seen: set[str] = set()
    for path in paths:
        if path is None:
            continue
        if same_name(path) in seen:
            raise ValueError(f"{path} is given twice: use a different name for each file")
        seen.add(same_name(path))


def check_writable(path: Path | None, force: bool, *endings: str) -> None:
    """Check the ending and the folder, and that no file is overwritten without --force."""
    if path is None:
        return
    if endings and path.suffix.lower() not in endings:
        raise ValueError(f"{path.name} must end in {' or '.join(endings)}")
    if (path.exists() or path.is_symlink()) and not force:
        raise ValueError(f"{path} already exists: give another name, or --force to overwrite it")
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent} to write {path.name} into")
