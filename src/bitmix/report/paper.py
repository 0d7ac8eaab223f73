"""The numbers for a paper in a report: fit statistics, sizes and item probabilities."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from bitmix.inference.bootstrap import Bootstrap
from bitmix.inference.information import AnalyticErrors
from bitmix.inference.item_table import item_probabilities, quick_errors
from bitmix.inference.pattern_table import pattern_table
from bitmix.inference.residuals import BivariateResiduals, quick_residuals
from bitmix.inference.statistics import FitStatistics, fit_statistics
from bitmix.inference.tables import Table
from bitmix.rows import Rows

MAX_PROBABILITIES = 20_000
"""Of more, there is no table of items."""
N_RESIDUALS, N_PATTERNS = 10, 20


@dataclass(frozen=True, eq=False)
class Paper:
    """The numbers for a paper."""

    statistics: FitStatistics
    items: Table | None
    """Item probabilities; None if they are too many or no items."""
    errors: Bootstrap | AnalyticErrors | None
    residuals: BivariateResiduals | None
    """Pairs of items; None if they take long."""
    patterns: Table | None
    """The most frequent response patterns; None if they cannot be counted or are too long."""

    @property
    def largest_residuals(self) -> Table | None:
        """The pairs of items with the largest residuals."""
        return None if self.residuals is None else self.residuals.largest(N_RESIDUALS)

    @property
    def how(self) -> str:
        """Where the intervals come from."""
        if isinstance(self.errors, Bootstrap):
            return f"from {self.errors.n} bootstrap replicates"
        return "from the observed information"

    def download(self, format: str) -> str:
        """The table of items as a link to itself."""
        assert self.items is not None
        return f"data:text/plain;charset=utf-8,{quote(self.items.text(format))}"


def paper_of(
    model: Any, rows: Rows, errors: Bootstrap | AnalyticErrors | None, *, drawn: bool = False
) -> Paper:
    """Gather the numbers, as far as they can be had in some seconds. Columns of rows that are
    `drawn`, as pixels of images, are no items.
    """
    mixture = model.mixture_
    few = mixture.means.size <= MAX_PROBABILITIES
    is_class_model = mixture.noise is None and few and not drawn
    if errors is None and is_class_model:
        errors = quick_errors(model, rows)
    items = item_probabilities(model, rows, errors) if is_class_model else None
    n_replicates = errors.n if isinstance(errors, Bootstrap) else 0
    residuals = None if items is None else quick_residuals(model, rows, n_replicates)
    statistics = fit_statistics(model, rows)
    patterns = None if items is None else pattern_table(model, statistics, N_PATTERNS)
    return Paper(statistics, items, errors, residuals, patterns)
