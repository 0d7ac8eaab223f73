"""The report of a fit: one HTML file that needs no network and no other file."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bitmix.certify.fit import FitCertificate
from bitmix.errors import InputError
from bitmix.estimators.base import FittedTemplates
from bitmix.estimators.hold_out import HeldOutRows
from bitmix.estimators.select import Selection
from bitmix.inference.bootstrap import Bootstrap
from bitmix.inference.information import AnalyticErrors
from bitmix.report import page
from bitmix.report.facts import gather
from bitmix.report.molecules import Molecules, molecules_of
from bitmix.report.paper import paper_of
from bitmix.rows import Rows, as_rows
from bitmix.rows.packed import BitMatrix
from bitmix.support import checks
from bitmix.support.atomic import atomic_write
from bitmix.support.words import words_for

__all__ = ["write"]


def write(
    model: FittedTemplates,
    X: Any,
    path: str | os.PathLike[str],
    *,
    selection: Selection | None = None,
    labels: Sequence[Any] | None = None,
    ids: Sequence[Any] | None = None,
    smiles: Sequence[str] | None = None,
    geometry: Any = None,
    certificate: FitCertificate | bool | None = None,
    title: str | None = None,
    source: str | os.PathLike[str] | None = None,
    errors: Bootstrap | AnalyticErrors | None = None,
    sample_weight: Any = None,
    words: str | None = None,
    alpha: float = 0.05,
    held_out: HeldOutRows | None = None,
    force: bool = True,
) -> None:
    """Write an HTML report of a fitted model and the rows of X, in one self-contained file.

    Parameters
    ----------
    model : TemplateMixture, TwoRoundEM or ClassicEM
        Fitted.
    X : as in ``model.predict``
        The rows to report on, usually those of the fit.
    path : path
        The file to write. It is replaced as a whole, or left as it was if something fails.
    selection : Selection, optional
        The result of `select_components`, if it chose the number of templates.
    labels : sequence, optional
        The known class of each row, to compare with the groups.
    ids : sequence, optional
        A name for each row. The default is the index of a pandas table, unless it only counts rows.
    smiles : sequence of str, optional
        The molecule of each row. Groups are then shown by molecules: the representative, the
        scaffolds, and the fragments of the bits that set a group apart. Needs RDKit.
    geometry : optional
        How to draw a template: ``geometry_`` of a `GaborSketch`, an `Alphabet`, or (rows, columns)
        of an image. By default named columns are listed, those that distinguish a group first, and
        columns without names are drawn as a nearly square map of bits.
    certificate : FitCertificate or bool, optional
        A certificate that was computed before, or False for none. By default it is computed here if
        the noise model and the rows allow one.
    title : str, optional
        The heading.
    source : str, optional
        Where the rows come from.
    errors : optional
        The result of `bitmix.bootstrap` or `bitmix.analytic_standard_errors`, for intervals. By
        default analytic ones are computed if there is a probability per cell.
    sample_weight : array-like, shape (m,), optional
        How often each row counts: whole numbers, at most 100,000 in all.
    words : {"classes", "groups", "templates"}, optional
        What to call the components. By default classes if each has probabilities, and groups
        otherwise, and for molecules, images and fits by levels.
    alpha : float, default=0.05
        The level of the certificate that is computed here.
    held_out : HeldOutRows, optional
        The result of `bitmix.hold_out`: bits of the groups that held-out rows certify, and how well
        independent fits agree.
    force : bool, default=True
        Whether to replace an existing file.

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
        raise InputError("selection must be a result of select_components")
    alpha = checks.between(alpha, "alpha", 0, 1)
    drawn = smiles is not None or geometry is not None
    named = words_for(model, words, "groups", drawn=drawn)
    with warnings.catch_warnings():
        if isinstance(X, BitMatrix):  # packed rows have no names of columns, which is no mistake
            warnings.filterwarnings("ignore", "X does not have valid feature names")
        rows = model.rows_like_fit(X)
    ids = _index_of(X) if ids is None else ids
    labels, ids, smiles = (
        _one_per_row(values, name, rows.shape[0])
        for values, name in ((labels, "labels"), (ids, "ids"), (smiles, "smiles"))
    )
    if sample_weight is not None or rows.layout.weight_one:
        rows, labels, ids, smiles = _repeated(rows, sample_weight, labels, ids, smiles)
    names = getattr(model, "feature_names_in_", None)
    if names is None and hasattr(geometry, "feature_names"):
        names = geometry.feature_names()
    facts = gather(
        model,
        rows,
        names=names,
        ids=ids,
        labels=labels,
        certificate=certificate,
        alpha=alpha,
        held_out=held_out,
    )
    molecules: tuple[Molecules, ...] = ()
    if smiles is not None and facts.medoids is not None:
        fingerprint = None if model.codes_ is None else model.codes_.fingerprint
        molecules = molecules_of(
            smiles, rows, facts.labels, facts.medoids.rows, facts.groups, fingerprint
        )
    written = page.render(
        facts, model, paper_of(model, rows, errors, drawn=drawn), molecules=molecules,
        selection=selection, geometry=geometry, title=title, words=named,
        source=None if source is None else os.fspath(source),
    )  # fmt: skip
    with atomic_write(path) as file:
        file.write(written.encode("utf-8", "replace"))


def _repeated(rows: Rows, sample_weight: Any, *values: list[Any] | None) -> tuple[Any, ...]:
    """Rows and values as often as the weights of the rows say."""
    if sample_weight is not None:
        rows, counts = as_rows(rows, missing=True, sample_weight=sample_weight), sample_weight
    else:
        counts = rows.weights
    each_once = rows.repeated()
    if each_once.layout.weight_one:
        raise InputError(
            "a report counts rows: weights must be whole numbers, at most 100,000 in all, of rows "
            "in memory"
        )
    numbers = np.repeat(np.arange(len(counts)), np.asarray(counts, dtype=np.int64)).tolist()
    return each_once, *(None if v is None else [v[i] for i in numbers] for v in values)


def _one_per_row(values: Any, name: str, m: int) -> list[Any] | None:
    if values is None:
        return None
    values = values.tolist() if isinstance(values, np.ndarray) else list(values)
    if len(values) != m:
        raise InputError(f"{name} must be {m} values, one per row, got {len(values)}")
    return values


def _index_of(X: Any) -> Any:
    """The index of a pandas table, unless it only counts the rows from 0."""
    index = getattr(X, "index", None)
    on_cluster = hasattr(type(X), "__dask_graph__")
    if index is None or callable(index) or on_cluster or len(index) != len(X):
        return None
    return None if list(index[:2]) == [0, 1][: len(index)] else index
