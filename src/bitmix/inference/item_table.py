"""The table of item probabilities: the probability of each answer in each class."""

from typing import Any

import numpy as np

from bitmix.em.step import expect
from bitmix.errors import InputError
from bitmix.inference.bootstrap import Bootstrap
from bitmix.inference.fitted import fitted, item_answers, item_columns
from bitmix.inference.information import AnalyticErrors, analytic_standard_errors
from bitmix.inference.tables import Column, Table
from bitmix.kernels import fixed
from bitmix.models.mixture import Floats, Mixture
from bitmix.rows import Rows

MAX_QUICK_WORK = 1e10
"""Multiplications for analytic standard errors: a few seconds."""


def item_probabilities(
    model: Any,
    X: Any = None,
    errors: Bootstrap | AnalyticErrors | None = None,
    *,
    sample_weight: Any = None,
) -> Table:
    """The probability of each answer in each class, by item name.

    A binary item has one line, for the answer that is read as 1; an item with several values has
    one line per value. n is the number of people who answered, by weight.

    Parameters
    ----------
    model : TemplateMixture, TwoRoundEM or ClassicEM
        Fitted.
    X : as in ``model.predict``, optional
        The rows of the fit. Without them, n is left out.
    errors : optional
        The result of `bitmix.bootstrap` or `bitmix.analytic_standard_errors`, for intervals.
    sample_weight : array-like, shape (m,), optional
        How many times each row counts.

    Returns
    -------
    Table
        With ``to_markdown``, ``to_latex``, ``to_csv``, ``frame`` and ``records``.

    Examples
    --------
    >>> import pandas as pd
    >>> import bitmix
    >>> X = pd.DataFrame({"sings": [1, 1, 1, 0, 0], "dances": [1, 1, 0, 0, 0]})
    >>> model = bitmix.TemplateMixture(1, noise_model="cell", prior=0, random_state=0).fit(X)
    >>> print(bitmix.item_probabilities(model, X).to_markdown())
    | item | class 0 | n |
    | --- | ---: | ---: |
    | sings | 0.600 | 5 |
    | dances | 0.400 | 5 |
    <BLANKLINE>
    """
    model = fitted(model)
    mixture, p = model.mixture_, model.mixture_.probabilities
    rows = None if X is None else model.rows_like_fit(X, sample_weight)
    people = None if rows is None else known_people(rows)
    k, ends = len(p), None if errors is None else errors.intervals.probabilities
    records, of_items = [], item_answers(model)
    for answers, group in zip(of_items, item_columns(mixture), strict=True):
        for answer, s in zip(answers, group, strict=True):
            record: dict[str, Any] = {"item": answer.item, "answer": answer.one}
            if rows is not None and people is not None:
                record |= {"people": people[s], "missing": rows.total_weight - people[s]}
            for i in range(k):
                record[f"class_{i}"] = float(p[i, s])
                if ends is not None:
                    low, high = ends[i, s].tolist()
                    record |= {f"class_{i}_low": low, f"class_{i}_high": high}
            records.append(record)
    classes = [
        Column(
            f"class_{i}", f"class {i}", ".3f" if ends is None else ".2f",
            ends=() if ends is None else (f"class_{i}_low", f"class_{i}_high"),
        )
        for i in range(k)
    ]  # fmt: skip
    first = [Column("item", "item")]
    if any(answer.one != "1" for answers in of_items for answer in answers):
        first.append(Column("answer", "answer"))
    last = [] if rows is None else [Column("people", "n", ".6g")]
    if rows is not None and rows.layout.missing:
        last.append(Column("missing", "missing", ".6g"))
    return Table((*first, *classes, *last), tuple(records))


def known_people(rows: Rows) -> Floats:
    """The number of rows, by weight, that have a value in each column."""
    n = rows.shape[1]
    counts = expect(rows, Mixture(np.full((1, n), 0.5), np.ones(1), None)).counts[0]
    one = (rows.layout.weight_one or 1) << fixed.SHARE_BITS
    return np.broadcast_to(counts / one, n)


def quick_errors(model: Any, rows: Rows) -> AnalyticErrors | None:
    """Analytic standard errors, if they exist and take no more than a few seconds."""
    mixture = model.mixture_
    work = float(rows.shape[0]) * mixture.n_parameters() ** 2
    if mixture.noise is not None or work > MAX_QUICK_WORK or rows.remote:
        return None
    try:
        return analytic_standard_errors(model, rows)
    except InputError:  # they do not exist if classes are not identified
        return None
