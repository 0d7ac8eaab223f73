"""What the functions of this package require of a fitted model and of its rows."""

import math
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from bitmix.em.search import Settings
from bitmix.errors import InputError
from bitmix.kernels.items import Items
from bitmix.models.mixture import Mixture
from bitmix.rows import Rows
from bitmix.rows.codes import PLAIN, Binary
from bitmix.rows.packed import BitMatrix

MAX_GROUPED_ROWS, MAX_SORTED_WORDS = 1_000_000, 1 << 24


@runtime_checkable
class Fitted(Protocol):
    """A fitted mixture of templates; every estimator of bitmix is one."""

    mixture_: Mixture

    @property
    def n_parameters_(self) -> int: ...

    def rows_like_fit(self, X: Any, sample_weight: Any = None) -> Rows: ...


@runtime_checkable
class Refittable(Fitted, Protocol):
    """A fitted `TemplateMixture`, for which EM can continue from its parameters."""

    def settings_like_fit(self) -> Settings: ...


def fitted(model: Any) -> Fitted:
    """Check that the model is a fitted estimator, and return it."""
    if isinstance(model, Fitted):
        return model
    raise InputError(f"model must be a fitted estimator of bitmix, got {type(model).__name__}")


def refittable(model: Any, what: str) -> Refittable:
    """Check that the model can be fitted again to other rows, and return it."""
    if isinstance(model, Refittable):
        return model
    raise InputError(f"{what} needs a fitted TemplateMixture, got {type(model).__name__}")


def in_memory(rows: Rows, what: str) -> BitMatrix:
    """Check that the rows are in this process, and return them."""
    if isinstance(rows, BitMatrix):
        return rows
    raise InputError(
        f"{what} needs rows in memory, but these are on a cluster: fetch them, or a sample of them"
    )


def patterns_of(rows: Rows) -> BitMatrix | None:
    """The distinct rows with their weights; None if there are too many or they are on a cluster.

    Unless there are very many, they are sorted, so that a replicate does not depend on the order of
    the rows.
    """
    m = rows.shape[0]
    if not isinstance(rows, BitMatrix) or m > MAX_GROUPED_ROWS:
        return None
    patterns = (rows if rows.layout.weight_one else rows.weighted(np.ones(m))).distinct()
    if len(patterns) * rows.layout.width(rows.shape[1]) > MAX_SORTED_WORDS:
        return patterns
    return patterns.subset(np.lexsort(patterns.words[:, :-1].T))


def column_names(model: Any) -> list[str]:
    """The names of the columns; those without names are numbered."""
    names = getattr(model, "feature_names_in_", None)
    n = model.mixture_.means.shape[1]
    return [f"column {s}" for s in range(n)] if names is None else [str(name) for name in names]


def item_columns(mixture: Mixture) -> list[list[int]]:
    """The columns of each item, ordered by first column; a binary item has one."""
    n = mixture.means.shape[1]
    if mixture.items is None:
        return [[s] for s in range(n)]
    binary = [[s] for s in np.flatnonzero(~mixture.items.is_value).tolist()]
    return sorted([*binary, *mixture.items.groups])


def item_names(model: Any) -> list[str]:
    """A name per item: that of its column, or the common prefix of its column names."""
    return [answers[0].item for answers in item_answers(model)]


@dataclass(frozen=True)
class Answer:
    """The value of the original table that a 1 in a column of bits stands for."""

    item: str
    one: str = "1"
    zero: str = "0"
    """The value that a 0 stands for, if the item is binary."""


def item_answers(model: Any) -> list[list[Answer]]:
    """For each item, the answer of each of its columns; a binary item has one column."""
    names, codes = column_names(model), getattr(model, "codes_", None)
    told: dict[int, Answer] = {}
    if codes is not None and codes.columns and codes.n_planes == len(names):
        of_columns = codes.names or tuple(f"column {i}" for i in range(len(codes.columns)))
        for s, column in enumerate(codes.column_of_plane.tolist()):
            code = codes.columns[column]
            item = str(of_columns[column])
            if not isinstance(code, Binary):
                first = int(np.searchsorted(codes.column_of_plane, column))
                told[s] = Answer(item, code.values[s - first])
            elif code == PLAIN:
                told[s] = Answer(item)
            else:
                told[s] = Answer(item, ", ".join(code.ones), ", ".join(code.zeros))
    answers = []
    for group in item_columns(model.mixture_):
        of_table = [told[s] for s in group if s in told]
        if len({answer.item for answer in of_table}) == 1:
            answers.append(of_table)
            continue
        item = _common_name([names[s] for s in group], group)
        values = [names[s].removeprefix(item).lstrip("_=: ") for s in group]
        answers.append([Answer(item, value) for value in values] if values[1:] else [Answer(item)])
    return answers


def _common_name(names: list[str], columns: list[int]) -> str:
    if len(names) == 1:
        return names[0]
    first, last = min(names), max(names)  # the prefix of the first and last name is that of all
    same = [a == b for a, b in zip(first, last, strict=False)]
    start = first[: [*same, False].index(False)]
    cut = max(start.rfind(mark) for mark in "_=: ")
    return start[:cut].strip() or f"columns {columns[0]} to {columns[-1]}"


def number_of_cells(n_columns: int, items: Items | None) -> int:
    """The number of possible distinct rows."""
    if items is None:
        return 1 << n_columns
    binary = int((~items.is_value).sum())
    return math.prod(map(len, items.groups)) << binary
