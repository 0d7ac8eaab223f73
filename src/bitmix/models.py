"""A model of any kind, by what its file says it is."""

import os

from bitmix import modelfile
from bitmix.errors import FileFormatError
from bitmix.estimators import ClassicEM, TwoRoundEM
from bitmix.fitted import FittedTemplates
from bitmix.template_mixture import TemplateMixture

_KINDS: dict[str, type[FittedTemplates]] = {
    "TwoRoundEM": TwoRoundEM,
    "ClassicEM": ClassicEM,
    "TemplateMixture": TemplateMixture,
}


def load_model(path: str | os.PathLike[str]) -> FittedTemplates:
    """A model of any kind, by what its file says it is."""
    header, _ = modelfile.read(path)
    kind = header.get("class")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise FileFormatError(f"{path} holds a {kind!r}, which this bitmix lacks")
    return _KINDS[kind].load(path)
