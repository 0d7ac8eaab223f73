"""Options that several commands share, each declared once.

A command may take a frozen dataclass whose fields are options, such as `cli.data.Reading`: `expand`
gives the command one option per field, because Typer itself supports only flat lists of parameters.
"""

import functools
import inspect
import shlex
from collections.abc import Callable, Collection
from dataclasses import fields, is_dataclass
from typing import Annotated, Any

import typer

from bitmix.support.progress import heartbeat, hidden

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing output files.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of every random choice.")]


def as_text(group: Any, names: Collection[str] | None = None) -> str:
    """The options that differ from their defaults, as on a command line, each after a space."""
    words: list[str] = []
    for field in fields(group):
        value, option = getattr(group, field.name), f"--{field.name.replace('_', '-')}"
        if value == field.default or (names is not None and field.name not in names):
            continue
        if isinstance(value, bool):
            words.append(option if value else f"--no{option[1:]}")
        else:
            for each in value if isinstance(value, list) else [value]:
                words += [option, shlex.quote(str(each))]
    return "".join(f" {word}" for word in words)


def expand(command: Callable[..., None]) -> Callable[..., None]:
    """The same command with one option per field in place of each dataclass parameter."""
    signature = inspect.signature(command)
    groups: dict[str, Any] = {
        parameter.name: parameter.annotation
        for parameter in signature.parameters.values()
        if is_dataclass(parameter.annotation)
    }
    by_name: dict[str, inspect.Parameter] = {}
    for parameter in signature.parameters.values():
        group = groups.get(parameter.name)
        own = [parameter] if group is None else inspect.signature(group).parameters.values()
        for each in own:  # an option in two groups appears once, with the help of the first
            by_name.setdefault(each.name, each)
    flat = list(by_name.values())

    @functools.wraps(command)
    def run(**options: Any) -> None:
        arguments = {name: options[name] for name in signature.parameters if name not in groups}
        for name, group in groups.items():
            arguments[name] = group(**{field.name: options[field.name] for field in fields(group)})
        with hidden(bool(options.get("quiet"))), heartbeat(command.__name__):
            command(**arguments)

    run.__signature__ = signature.replace(parameters=flat)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return run
