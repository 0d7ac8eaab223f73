"""A model of any kind, by what its file says it is."""

import os
from typing import Any

from bitmix import modelfile
from bitmix.errors import FileFormatError
from bitmix.estimators import ClassicEM, TwoRoundEM
from bitmix.fitted import FittedTemplates
from bitmix.template_mixture import TemplateMixture

_KINDS: dict[Any, type[FittedTemplates]] = {
    "TwoRoundEM": TwoRoundEM,
    "ClassicEM": ClassicEM,
    "TemplateMixture": TemplateMixture,
}


def load_model(path: str | os.PathLike[str]) -> FittedTemplates:
    """A model of any kind, by what its file says it is."""
    header, _ = modelfile.read(path)
    if header.get("class") not in _KINDS:
        raise FileFormatError(f"{path} holds a {header.get('class')!r}, which this bitmix lacks")
    return _KINDS[header["class"]].load(path)
