"""The phase of a pod group follows from its members and from the result of the session."""

from collections import Counter

import pytest

from quorate.gang.cache.task import TaskCounts, TaskStatus
from quorate.gang.job_status import phase_after


def task_counts(members: str) -> TaskCounts:
    """Parse "Running=2 Pending=1"."""
    pairs = (member.split("=") for member in members.split())
    return TaskCounts(Counter({TaskStatus(status): int(count) for status, count in pairs}))


@pytest.mark.parametrize(
    ("phase", "least", "members", "unschedulable", "compat", "design"),
    [
        ("", 2, "", False, "Pending", "Pending"),
        ("Pending", 2, "Pending=2", True, "Pending", "Pending"),
        ("Inqueue", 2, "", False, "Inqueue", "Inqueue"),
        ("Inqueue", 2, "Pending=2", True, "Inqueue", "Inqueue"),
        ("Inqueue", 2, "Binding=2", False, "Inqueue", "Inqueue"),  # being written
        ("Inqueue", 2, "Bound=1 Pending=1", False, "Inqueue", "Inqueue"),
        ("Inqueue", 2, "Bound=2", False, "Running", "Running"),
        ("", 2, "Bound=1 Running=1", False, "Running", "Running"),
        ("Inqueue", 2, "Running=1 Pending=1", True, "Unknown", "Unknown"),
        ("Running", 2, "Running=1 Pending=1", True, "Unknown", "Unknown"),
        ("Running", 2, "Bound=1 Pending=1", True, "Pending", "Unknown"),
        ("Running", 2, "Running=1 Binding=1", False, "Pending", "Unknown"),
        ("Unknown", 2, "Running=1 Pending=1", False, "Pending", "Unknown"),
        ("Unknown", 2, "Pending=2", True, "Pending", "Pending"),
        ("Unknown", 2, "Releasing=2", False, "Pending", "Unknown"),
        ("Running", 2, "Releasing=2 Pending=2", True, "Pending", "Running"),
        ("Running", 3, "Releasing=1 Succeeded=2", False, "Pending", "Running"),
        ("Inqueue", 2, "Releasing=2", False, "Inqueue", "Inqueue"),
        ("Pending", 2, "Releasing=2", False, "Pending", "Pending"),
        ("Running", 2, "Releasing=1 Running=1", False, "Pending", "Unknown"),
        ("Running", 2, "Succeeded=1 Running=1", False, "Running", "Running"),
        ("Running", 2, "Succeeded=1 Failed=1", True, "Completed", "Completed"),
        ("Running", 2, "Failed=1 Pending=1", True, "Pending", "Pending"),
        ("Running", 1, "Succeeded=2 Pending=1", False, "Completed", "Running"),
        ("Running", 1, "Succeeded=2 Releasing=1", False, "Completed", "Running"),
        ("Completed", 1, "Succeeded=1 Pending=1", False, "Completed", "Running"),
        ("Completed", 2, "", False, "Completed", "Completed"),
        ("Completed", 2, "Succeeded=1", False, "Completed", "Completed"),
        ("Completed", 2, "Releasing=1", False, "Completed", "Completed"),
        ("Completed", 2, "Pending=2", True, "Pending", "Pending"),  # new members wait for admission
        ("Completed", 0, "", False, "Completed", "Completed"),
        ("", 0, "", False, "Completed", "Pending"),  # nothing of nothing is done
        ("Inqueue", 0, "", False, "Completed", "Inqueue"),
        ("Inqueue", 0, "Pending=1", False, "Completed", "Inqueue"),
        ("Inqueue", 0, "Running=1", False, "Running", "Running"),
        ("Odd", 1, "", False, "Pending", "Pending"),  # an unknown phase
    ],
)
def test_phase_after(
    phase: str, least: int, members: str, unschedulable: bool, compat: str, design: str
) -> None:
    for keeps, want in ((False, compat), (True, design)):
        got = phase_after(
            phase, least, task_counts(members), unschedulable=unschedulable, keeps_live_groups=keeps
        )
        assert got == want, f"keeps_live_groups={keeps}"


@pytest.mark.parametrize(
    ("phase", "least", "members", "ended", "want"),
    [
        ("Running", 2, "", 2, "Completed"),
        ("Unknown", 2, "Failed=1", 1, "Completed"),
        ("Running", 2, "", 1, "Pending"),  # the others did not finish
        ("Running", 2, "Running=1", 1, None),
        ("Running", 2, "Pending=1", 2, "Pending"),
        ("Inqueue", 2, "", 2, "Inqueue"),
        ("Pending", 2, "", 2, "Pending"),
        ("Running", 0, "", 0, None),
    ],
)
def test_members_that_finished_and_were_deleted_between_sessions_have_ended(
    phase: str, least: int, members: str, ended: int, want: str | None
) -> None:
    """``want``: None is the phase that is right without them."""
    for keeps in (False, True):

        def after(ended: int, keeps: bool = keeps) -> str:
            counts = task_counts(members)
            return phase_after(
                phase, least, counts, ended=ended, unschedulable=False, keeps_live_groups=keeps
            )

        assert after(ended) == (want or after(0)), f"keeps_live_groups={keeps}"


@pytest.mark.parametrize(
    ("phase", "members", "want"),
    [
        ("Running", "Failed=2", "Pending"),
        ("Running", "Failed=2 Pending=2", "Pending"),
        ("Running", "Failed=2 Releasing=1", "Running"),
        ("Running", "Failed=2 Running=1 Pending=1", "Unknown"),
        ("Unknown", "Succeeded=2", "Pending"),
        ("Inqueue", "Failed=2", "Inqueue"),
        ("Pending", "Failed=2", "Pending"),
        ("Completed", "Failed=2", "Completed"),
        ("Running", "Failed=4", "Completed"),  # the other two finished
    ],
)
def test_members_that_were_deleted_before_they_ended_have_not_finished(
    phase: str, members: str, want: str
) -> None:
    """Two of the members were."""
    counts = task_counts(members)
    assert phase_after(phase, 2, counts, cut_short=2, unschedulable=False, keeps_live_groups=True) == want


def test_the_group_of_members_that_the_scheduler_evicts_waits_at_once() -> None:
    counts = task_counts("Releasing=2")
    for evicted, want in ((False, "Running"), (True, "Pending")):
        after = phase_after(
            "Running", 2, counts, evicted=evicted, unschedulable=False, keeps_live_groups=True
        )
        assert after == want
