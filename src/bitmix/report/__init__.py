"""The self-contained HTML report of a fit: one file, no network, light and dark, printable."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bitmix import checks
from bitmix.atomic import atomic_write
from bitmix.certify import FitCertificate
from bitmix.errors import InputError
from bitmix.fitted import FittedTemplates
from bitmix.report import page
from bitmix.report.facts import gather
from bitmix.rows import Rows
from bitmix.rows.packed import BitMatrix
from bitmix.rows.protocol import is_lazy
from bitmix.select import Selection

__all__ = ["write"]


def write(
    model: FittedTemplates,
    X: Any,
    path: str | os.PathLike[str],
    *,
    selection: Selection | None = None,
    labels: Sequence[Any] | None = None,
    ids: Sequence[Any] | None = None,
    geometry: Any = None,
    certificate: FitCertificate | bool | None = None,
    title: str | None = None,
    source: str | os.PathLike[str] | None = None,
    alpha: float = 0.05,
    force: bool = True,
) -> None:
    """Write a report of a fitted model on the rows of X: one HTML file that needs nothing else.

    Parameters
    ----------
    model : TemplateMixture, TwoRoundEM or ClassicEM
        Fitted.
    X : as in ``model.predict``
        The rows to report on, as a rule those of the fit.
    path : path
        The file appears whole or not at all.
    selection : Selection, optional
        What `select_components` gave, where it chose the number of templates.
    labels : sequence, optional
        A class for each row, known beforehand, to be set against the groups.
    ids : sequence, optional
        A name for each row. By default the index of a pandas table, where it has one of its own.
    geometry : optional
        How to draw a template: ``geometry_`` of a `GaborSketch`, an `Alphabet`, or
        (rows, columns) of an image. By default the most telling columns where they have names, and
        otherwise a map of the bits, nearly square.
    certificate : FitCertificate or False, optional
        One that is at hand; False for none. By default it is made here, where one can be.
    title, source : str, optional
        The heading, and where the rows came from.
    alpha : float, default=0.05
        Level of the certificate that is made here.
    force : bool, default=True
        False refuses to replace a file.

    Examples
    --------
    >>> import tempfile
    >>> from bitmix import TemplateMixture, report
    >>> from bitmix.datasets import make_templates, sample_mixture
    >>> truth = make_templates(3, 200, separation=0.4, random_state=0)
    >>> X, labels = sample_mixture(truth, [0.5, 0.3, 0.2], noise=0.1, m=300, random_state=0)
    >>> model = TemplateMixture(3, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report.write(model, X, f"{folder}/report.html", labels=labels)
    """
    if not force and Path(path).exists():
        raise FileExistsError(f"{path} exists: give another name, or force=True to replace it")
    if not isinstance(model, FittedTemplates):
        raise InputError(f"model must be a fitted estimator of bitmix, got {type(model).__name__}")
    if not isinstance(selection, Selection | None):
        raise InputError("selection must be what select_components gave")
    alpha = checks.between(alpha, "alpha", 0, 1)
    rows = _rows(model, X)
    m = rows.shape[0]
    names = getattr(model, "feature_names_in_", None)
    if names is None and hasattr(geometry, "feature_names"):
        names = geometry.feature_names()
    facts = gather(
        model,
        rows,
        names=names,
        ids=_one_a_row(_index_of(X) if ids is None else ids, "ids", m),
        labels=_one_a_row(labels, "labels", m),
        certificate=certificate,
        alpha=alpha,
    )
    written = page.render(
        facts, model, selection=selection, geometry=geometry, title=title,
        source=None if source is None else os.fspath(source),
    )  # fmt: skip
    with atomic_write(path) as file:
        file.write(written.encode("utf-8", "replace"))


def _rows(model: FittedTemplates, X: Any) -> Rows:
    """Packed rows; that packed bits carry no column names is not worth a warning here."""
    with warnings.catch_warnings():
        if isinstance(X, BitMatrix):
            warnings.filterwarnings("ignore", "X does not have valid feature names")
        return model._rows(X)


def _one_a_row(values: Any, name: str, m: int) -> Sequence[Any] | None:
    if values is None:
        return None
    found: list[Any] = values.tolist() if isinstance(values, np.ndarray) else list(values)
    if len(found) != m:
        raise InputError(f"{name} must be {m} values, one a row, got {len(found)}")
    return found


def _index_of(X: Any) -> Any:
    """The row names of a pandas table, unless they are only numbers from 0."""
    index = getattr(X, "index", None)
    if index is None or callable(index) or is_lazy(X) or len(index) != len(X):
        return None
    return None if list(index[:2]) == [0, 1][: len(index)] else index
