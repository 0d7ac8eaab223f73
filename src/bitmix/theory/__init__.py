"""The paper's theorems and propositions, a sharper certificate, limits, and a planner.

All are functions of numbers and need only NumPy and SciPy.
"""

from bitmix.theory import propositions
from bitmix.theory.certificate import Certificate, certificate
from bitmix.theory.guarantee import Condition, Guarantee, guarantee
from bitmix.theory.limit import Limit, limit
from bitmix.theory.plan import Plan, plan

__all__ = [
    "Certificate",
    "Condition",
    "Guarantee",
    "Limit",
    "Plan",
    "certificate",
    "guarantee",
    "limit",
    "plan",
    "propositions",
]
