"""The membership oracle in numbers: how often a majority vote in every cluster is right."""

import numpy as np
from scipy import stats


def recovery(n: int, d: int, m: int, q: float, w_min: float) -> float:
    """P(both templates of `paper_pair` are found) with all memberships known, ties to 0.

    The light cluster has d ones. Without rows its template is taken as all zero.
    """
    light = np.arange(m + 1)
    heavy = m - light
    with np.errstate(divide="ignore"):  # a cluster without rows gets its ones wrong for sure
        right = (
            n * np.log1p(-stats.binom.sf(heavy // 2, heavy, q))
            + (n - d) * np.log1p(-stats.binom.sf(light // 2, light, q))
            + d * np.log1p(-stats.binom.sf((light - 1) // 2, light, q))
        )
    return float(np.sum(stats.binom.pmf(light, m, w_min) * np.exp(right)))
