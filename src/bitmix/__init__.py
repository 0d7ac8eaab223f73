"""Groups and their prototypes in binary data: mixtures of Bernoulli templates.

After Barbu, Wu & Wu, "Learning Mixtures of Bernoulli Templates by Two-Round EM with Performance
Guarantee", Electronic Journal of Statistics 8 (2014). Names are loaded when first used, so that
``import bitmix`` is quick.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bitmix import datasets as datasets
    from bitmix import errors as errors
    from bitmix import features as features
    from bitmix import metrics as metrics
    from bitmix import plots as plots
    from bitmix import report as report
    from bitmix import theory as theory
    from bitmix.certify.fit import certify_fit as certify_fit
    from bitmix.estimators.paper import ClassicEM as ClassicEM
    from bitmix.estimators.paper import TwoRoundEM as TwoRoundEM
    from bitmix.estimators.select import select_components as select_components
    from bitmix.estimators.template import TemplateMixture as TemplateMixture
    from bitmix.rows.packed import BitMatrix as BitMatrix

__version__ = "0.1.0"

_HOME = {
    "BitMatrix": "bitmix.rows.packed",
    "ClassicEM": "bitmix.estimators.paper",
    "certify_fit": "bitmix.certify.fit",
    "select_components": "bitmix.estimators.select",
    "TemplateMixture": "bitmix.estimators.template",
    "TwoRoundEM": "bitmix.estimators.paper",
}
_MODULES = ("datasets", "errors", "features", "metrics", "plots", "report", "theory")

__all__ = [
    "BitMatrix",
    "ClassicEM",
    "TemplateMixture",
    "TwoRoundEM",
    "__version__",
    "certify_fit",
    "datasets",
    "errors",
    "features",
    "metrics",
    "plots",
    "report",
    "select_components",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"bitmix.{name}")
    raise AttributeError(f"module 'bitmix' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
