"""The methods that are compared: the paper's as it ran them, and ours, which are marked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

KNOWN = "known"
"""In place of a parameter's value: the method is given the true value."""


@dataclass(frozen=True)
class Method:
    """A label for legends and tables, and the parameters of the method."""

    label: str
    params: Mapping[str, Any]
    """For methods that fit: `estimator`, and its parameters."""
    ours: bool = False

    @property
    def legend(self) -> str:
        return f"{self.label} (ours)" if self.ours else self.label


def two_round(rounds: int, **params: Any) -> Method:
    label = {2: "two-round EM", 10: "ten-round EM"}[rounds]
    return Method(label, {"estimator": "TwoRoundEM", "rounds": rounds, **params})


def classic(iterations: int, starts: int, **params: Any) -> Method:
    return Method(
        f"original EM, {iterations}×{starts}",
        {"estimator": "ClassicEM", "max_iter": iterations, "n_init": starts, **params},
    )


TEMPLATE_MIXTURE = Method("TemplateMixture", {"estimator": "TemplateMixture"}, ours=True)
"""It estimates the noise and the weights, which the other methods are given in places."""

ORACLE = Method("membership oracle", {"estimator": "oracle"}, ours=True)
"""Knows which template each row comes from, and returns mean(S_i) of these rows, rounded."""

CERTIFICATES = (
    Method("certificate", {"method": "certificate", "pruning": "l1"}, ours=True),
    Method("certificate, Hamming pruning", {"method": "certificate", "pruning": "hamming"}, True),
)
