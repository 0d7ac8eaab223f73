"""What is compared: the paper's methods as it ran them, and ours, marked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

KNOWN = "known"
"""In the place of a parameter: the method is told the true value."""


@dataclass(frozen=True)
class Method:
    """A name for the legend, and all that is needed to run it."""

    label: str
    params: Mapping[str, Any]
    """`estimator`, and its parameters."""
    ours: bool = False

    @property
    def legend(self) -> str:
        return f"{self.label} (ours)" if self.ours else self.label


def two_round(rounds: int, **params: Any) -> Method:
    name = {2: "two-round EM", 10: "ten-round EM"}[rounds]
    return Method(name, {"estimator": "TwoRoundEM", "rounds": rounds, **params})


def classic(iterations: int, starts: int, **params: Any) -> Method:
    return Method(
        f"original EM, {iterations}×{starts}",
        {"estimator": "ClassicEM", "max_iter": iterations, "n_init": starts, **params},
    )


BETTER = Method("TemplateMixture", {"estimator": "TemplateMixture"}, ours=True)
"""The best estimator the package has; it is told nothing, neither noise nor weights."""

ORACLE = Method("membership oracle", {"estimator": "oracle"}, ours=True)
"""Knows which template each row came from: mean(S_i), rounded where templates are compared."""

CERTIFICATES = (
    Method("certificate", {"method": "certificate", "pruning": "l1"}, ours=True),
    Method("certificate, Hamming pruning", {"method": "certificate", "pruning": "hamming"}, True),
)
