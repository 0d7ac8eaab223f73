"""What the components of a mixture are called, on the command line and in a report."""

from typing import Any, NamedTuple

from bitmix.errors import InputError


class Words(NamedTuple):
    """The singular and the plural."""

    one: str
    many: str


WORDS = {many: Words(one, many) for one, many in (
    ("class", "classes"), ("group", "groups"), ("template", "templates"),
)}  # fmt: skip


def words_for(model: Any, wanted: str | None = None, otherwise: str = "templates") -> Words:
    """The words for `wanted`; if it is None, classes for a model with a probability per cell."""
    if wanted is None:
        wanted = "classes" if getattr(model, "noise_model_", "") == "cell" else otherwise
    if wanted not in WORDS:
        raise InputError(f"words must be one of {', '.join(WORDS)}, got {wanted!r}")
    return WORDS[wanted]
