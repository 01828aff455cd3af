"""Vectors of kind ``phase``: the phase of a pod group when a session ends."""

from collections import Counter
from typing import Any

from quorate.gang.gang import Tally
from quorate.gang.phases import phase_after
from quorate.gang.task import Standing

Json = dict[str, Any]


def run_phase(given: Json, expect: Json, profile: str) -> list[str]:
    """Every difference between what ``given`` is expected to become and what it becomes."""
    got = phase_after(
        given["phase"],
        given["minMember"],
        Tally(Counter({Standing(status): count for status, count in given.get("tasks", {}).items()})),
        unschedulable=given.get("unschedulable", False),
        keeps_live_groups=profile == "design",
    )
    return [] if got == expect["phase"] else [f"phase: expected {expect['phase']}, got {got}"]
