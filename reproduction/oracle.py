"""The membership oracle without simulation: how likely is a majority vote right in each cluster."""

import numpy as np
from scipy import stats


def recovery(n: int, d: int, m: int, q: float, w_min: float) -> float:
    """The probability that the oracle recovers both templates of `paper_pair`; ties give 0.

    The template of the light cluster has d ones. It counts as all zeros if the cluster has no rows.
    """
    light = np.arange(m + 1)
    heavy = m - light
    with np.errstate(divide="ignore"):  # ln 0: a cluster without rows cannot have its ones right
        log_right = (
            n * np.log1p(-stats.binom.sf(heavy // 2, heavy, q))
            + (n - d) * np.log1p(-stats.binom.sf(light // 2, light, q))
            + d * np.log1p(-stats.binom.sf((light - 1) // 2, light, q))
        )
    return float(np.sum(stats.binom.pmf(light, m, w_min) * np.exp(log_right)))
