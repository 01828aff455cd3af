"""Vectors of kind ``phase``: the phase of a pod group at the end of a session."""

from collections import Counter
from typing import Any

from quorate.gang.cache.task import TaskCounts, TaskStatus
from quorate.gang.job_status import phase_after

Json = dict[str, Any]


def run_phase(given: Json, expect: Json, profile: str) -> list[str]:
    """Return the difference from the expected phase."""
    got = phase_after(
        given["phase"],
        given["minMember"],
        TaskCounts(Counter({TaskStatus(status): count for status, count in given.get("tasks", {}).items()})),
        unschedulable=given.get("unschedulable", False),
        keeps_live_groups=profile == "design",
    )
    return [] if got == expect["phase"] else [f"phase: expected {expect['phase']}, got {got}"]
