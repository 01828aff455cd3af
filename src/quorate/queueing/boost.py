"""The priority that counts in queues: the workload's own and, with the gate PriorityBoost, its boost."""

from typing import Final

from quorate.api.configuration_gates import Gates
from quorate.api.kueue import Workload

PRIORITY_BOOST: Final = "kueue.x-k8s.io/priority-boost"


def priority_of(workload: Workload, gates: Gates) -> int:
    """A boost that is no signed integer counts as none: the webhook, where there is one, refuses it."""
    own = workload.spec.priority or 0
    return own + boost_of(workload) if gates.priority_boost else own


def boost_of(workload: Workload) -> int:
    text = workload.metadata.annotations.get(PRIORITY_BOOST, "")
    digits = text[1:] if text[:1] in ("+", "-") else text
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS else 0


_DIGITS: Final = 10  # of the greatest 32-bit integer; more would only make the sum unreadable
