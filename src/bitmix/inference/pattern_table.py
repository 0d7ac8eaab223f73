"""The table of response patterns: how often each occurs, and how often the model expects it."""

from typing import Any

import numpy as np

from bitmix.inference.fitted import item_answers, item_columns
from bitmix.inference.statistics import FitStatistics
from bitmix.inference.tables import Column, Table

MAX_ITEMS = 12
"""With more items, a pattern is too long for a line."""


def pattern_table(model: Any, statistics: FitStatistics, n: int) -> Table | None:
    """The n most frequent patterns, with a column per item; None if patterns cannot be counted or
    there are too many items.

    The residual is (observed - expected) / sqrt(expected); its square is the contribution of the
    pattern to chi squared.
    """
    patterns, groups = statistics.patterns, item_columns(model.mixture_)
    if patterns is None or len(groups) > MAX_ITEMS:
        return None
    order = np.argsort(-patterns.observed, kind="stable")[:n]
    bits, expected = patterns.rows.subset(order).to_dense(np.uint8), patterns.expected[order]
    answers, records = item_answers(model), []
    for line, observed, mean in zip(bits, patterns.observed[order], expected, strict=True):
        record: dict[str, Any] = {}
        for number, (of_item, group) in enumerate(zip(answers, groups, strict=True)):
            given = line[group].tolist()
            one = of_item[given.index(1)].one if 1 in given else of_item[0].zero
            record[f"item_{number}"] = one
        apart = (observed - mean) / np.sqrt(mean) if mean > 0 else np.nan
        record |= {"observed": float(observed), "expected": float(mean), "residual": float(apart)}
        records.append(record)
    items = [Column(f"item_{i}", of_item[0].item) for i, of_item in enumerate(answers)]
    counts = Column("observed", "observed", ".6g"), Column("expected", "expected", ".2f")
    return Table((*items, *counts, Column("residual", "residual", ".2f")), tuple(records))
