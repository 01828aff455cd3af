"""Scheduling gates that stay on a pod only until its pod group is admitted.

Whoever makes pods too early has them held back by one: schedulers and autoscalers do not look at a pod with a
gate.  The API lets gates be set only as a pod is created, so a pod gets none again when its group goes back.
Gates of any other name are somebody else's, and stay.
"""

from collections.abc import Mapping
from typing import Final

from quorate.api.volcano_keys import QUEUE_ALLOCATION_GATE

POD_GROUP_GATE: Final = "scheduling.quorate.dev/pod-group"


def asks_for_gate(annotations: Mapping[str, str]) -> bool:
    """Whether a pod asks for Volcano's gate by name (source: Volcano 1.15, where only "true" counts)."""
    return annotations.get(QUEUE_ALLOCATION_GATE) == "true"


def ends_on_admission(gate: str, annotations: Mapping[str, str]) -> bool:
    """Whether ``gate`` of a pod with these annotations is to go once its group is admitted.

    As with Volcano, whoever set Volcano's gate without asking for it takes it off as well.
    """
    return gate == POD_GROUP_GATE or (gate == QUEUE_ALLOCATION_GATE and asks_for_gate(annotations))
