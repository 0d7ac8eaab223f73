"""A model of any kind, by what its file says it is."""

import os

from bitmix.errors import FileFormatError
from bitmix.estimators.base import FittedTemplates
from bitmix.estimators.paper import ClassicEM, TwoRoundEM
from bitmix.estimators.template import TemplateMixture
from bitmix.estimators.tree import TemplateTree
from bitmix.models import file as modelfile

_KINDS: dict[str, type[FittedTemplates]] = {
    "TwoRoundEM": TwoRoundEM,
    "ClassicEM": ClassicEM,
    "TemplateMixture": TemplateMixture,
    "TemplateTree": TemplateTree,
}


def load_model(path: str | os.PathLike[str]) -> FittedTemplates:
    """A model of any kind, by what its file says it is."""
    header, _ = modelfile.read(path)
    kind = header.get("class")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise FileFormatError(f"{path} holds a {kind!r}, which this bitmix lacks")
    return _KINDS[kind].load(path)
