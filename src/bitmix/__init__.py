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
    from bitmix.estimators.blrt import blrt as blrt
    from bitmix.estimators.hold_out import hold_out as hold_out
    from bitmix.estimators.paper import ClassicEM as ClassicEM
    from bitmix.estimators.paper import TwoRoundEM as TwoRoundEM
    from bitmix.estimators.select import select_components as select_components
    from bitmix.estimators.template import TemplateMixture as TemplateMixture
    from bitmix.estimators.tree import TemplateTree as TemplateTree
    from bitmix.inference.bootstrap import bootstrap as bootstrap
    from bitmix.inference.information import analytic_standard_errors as analytic_standard_errors
    from bitmix.inference.item_table import item_probabilities as item_probabilities
    from bitmix.inference.relate import relate as relate
    from bitmix.inference.residuals import bivariate_residuals as bivariate_residuals
    from bitmix.inference.statistics import fit_statistics as fit_statistics
    from bitmix.rows.packed import BitMatrix as BitMatrix

__version__ = "0.2.0"

_HOME = {
    "BitMatrix": "bitmix.rows.packed",
    "ClassicEM": "bitmix.estimators.paper",
    "TemplateMixture": "bitmix.estimators.template",
    "TemplateTree": "bitmix.estimators.tree",
    "TwoRoundEM": "bitmix.estimators.paper",
    "analytic_standard_errors": "bitmix.inference.information",
    "bivariate_residuals": "bitmix.inference.residuals",
    "blrt": "bitmix.estimators.blrt",
    "bootstrap": "bitmix.inference.bootstrap",
    "certify_fit": "bitmix.certify.fit",
    "fit_statistics": "bitmix.inference.statistics",
    "hold_out": "bitmix.estimators.hold_out",
    "item_probabilities": "bitmix.inference.item_table",
    "relate": "bitmix.inference.relate",
    "select_components": "bitmix.estimators.select",
}
_MODULES = ("datasets", "errors", "features", "metrics", "plots", "report", "theory")

__all__ = [
    "BitMatrix",
    "ClassicEM",
    "TemplateMixture",
    "TemplateTree",
    "TwoRoundEM",
    "__version__",
    "analytic_standard_errors",
    "bivariate_residuals",
    "blrt",
    "bootstrap",
    "certify_fit",
    "datasets",
    "errors",
    "features",
    "fit_statistics",
    "hold_out",
    "item_probabilities",
    "metrics",
    "plots",
    "relate",
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
