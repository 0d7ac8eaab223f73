"""Hold out rows to certify bits of a model of the other rows, and the agreement of two fits."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone

from bitmix.certify.bits import Agreement, CertifiedBits, agreement_of
from bitmix.errors import BitmixWarning, InputError
from bitmix.estimators.base import FittedTemplates
from bitmix.inference.matching import distances
from bitmix.rows import Rows
from bitmix.support import checks
from bitmix.support.randomness import draw_without_replacement, stream


@dataclass(frozen=True, eq=False)
class HeldOutRows:
    """Results on held-out rows. The bits are those of `model`, which was fitted without them."""

    model: FittedTemplates
    bits: CertifiedBits
    agreement: Agreement
    group: tuple[int, ...]
    """The group of the model fitted to all rows that is nearest to each group of `model`."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "bits": self.bits.to_dict(),
            "agreement": self.agreement.to_dict(),
            "group": list(self.group),
        }


def hold_out(
    model: FittedTemplates,
    X: Any,
    share_held_out: float = 0.3,
    alpha: float = 0.05,
    share: float = 0.5,
    random_state: int = 0,
) -> HeldOutRows:
    """Refit to a part of the rows and certify bits with the others; also certify agreement.

    Parameters
    ----------
    model : fitted estimator
        The model fitted to all rows; its parameters, its number of components and its noise model
        are used again. The certified statements are about the new fits.
    X : as in `fit`
        All rows.
    share_held_out : float in (0, 1), default=0.3
        The share of the rows that is held out.
    alpha, share : float
        As in `certified_bits`. Bits and agreement have an error of α each.
    random_state : int, default=0
        Splits the rows.

    For the agreement, the rows are split in three: two models are fitted to a third each, their
    groups are matched by their probabilities, and their labels are compared on the last third.
    """
    share_held_out = checks.between(share_held_out, "share_held_out", 0, 1)
    rows = model.rows_like_fit(X)
    if rows.layout.weight_one:
        raise InputError("held-out rows count as independent draws: give rows without weights")
    codes = getattr(rows, "codes", None)
    if model.mixture_.items is not None and (codes is None or codes.items is None):
        raise InputError(
            "items= was given to fit, but the rows do not hold it: give each item as one column of "
            "values"
        )
    m, k = rows.shape[0], len(model.weights_)
    n_test = int(share_held_out * m)
    if n_test < 1 or m - n_test < k or m // 3 < k:
        raise InputError(
            f"to hold out rows, the others and a third of all must be at least k = {k}, got "
            f"{n_test} of {m} held out: use more rows, or hold out another share"
        )
    order = draw_without_replacement(m, m, stream(random_state, "folds"))
    learned = _fit_again(model, rows.subset(np.sort(order[n_test:])))
    bits = learned.certified_bits(rows.subset(np.sort(order[:n_test])), alpha, share)
    first, second, test = (rows.subset(np.sort(part)) for part in np.array_split(order, 3))
    one, other = _fit_again(model, first), _fit_again(model, second)
    to_one = np.argsort(_nearest(one, other))  # the group of `one` for each group of `other`
    agreement = agreement_of(one.predict(test), to_one[other.predict(test)], first.shape[0], alpha)
    return HeldOutRows(learned, bits, agreement, tuple(_nearest(learned, model).tolist()))


def _fit_again(model: FittedTemplates, rows: Rows) -> FittedTemplates:
    """Refit the same estimator with the number of components and noise model of the fit."""
    again = clone(model).set_params(n_components=len(model.weights_), random_state=model.seed_)
    if "noise_model" in again.get_params():
        again.set_params(noise_model=model.mixture_.noise_model)
        if again.get_params().get("init") is not None:
            again.set_params(init=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BitmixWarning)  # about parts of the rows
        return again.fit(rows)


def _nearest(one: FittedTemplates, other: FittedTemplates) -> Any:
    """The group of `other` for each group of `one`, each used once: the least sum of distances."""
    return linear_sum_assignment(distances(one.mixture_.density(), other.mixture_.density()))[1]
