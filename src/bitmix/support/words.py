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


def words_for(
    model: Any, wanted: str | None = None, otherwise: str = "templates", *, drawn: bool = False
) -> Words:
    """The words for `wanted`. If it is None, groups if rows are `drawn`, as molecules and images
    are, or were fitted by levels, and otherwise classes if each has a probability per cell.
    """
    if wanted is None and (drawn or getattr(model, "tree_", None) is not None):
        wanted = "groups"
    if wanted is None:
        wanted = "classes" if getattr(model, "noise_model_", "") == "cell" else otherwise
    if wanted not in WORDS:
        raise InputError(f"words must be one of {', '.join(WORDS)}, got {wanted!r}")
    return WORDS[wanted]
