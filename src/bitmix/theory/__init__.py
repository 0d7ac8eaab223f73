"""Can it be trusted? The paper's guarantee, a sharper certificate, the limit, and a planner.

Numbers in, numbers out: NumPy and SciPy only.
"""

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
]
