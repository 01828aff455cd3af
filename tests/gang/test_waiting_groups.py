"""The report on waiting groups lists all failed checks with amounts and agrees with the scheduler."""

from typing import Any

from quorate.gang.reports import waiting_groups
from tests.gang.enqueue_worlds import group, rq, world

Json = dict[str, Any]


def report(given: Json, **arguments: Any) -> dict[str, str]:
    """Return the position and the failed checks of each waiting group."""
    here = world(given, **arguments)
    found = {}
    for key, outlook in waiting_groups(here.model, here.settings, here.now).items():
        against = [
            f"{name}: {pending_reason}"
            for name, pending_reason in outlook.checks.items()
            if pending_reason is not None
        ]
        against += ["blocked"] if outlook.blocked else []
        against += [f"not before {outlook.not_before:.0f}"] if outlook.not_before is not None else []
        assert outlook.admitted == (not against)
        found[key.name] = f"{outlook.position}/{outlook.waiting} {' | '.join(against)}".strip()
    here.session()
    assert {name for name, line in found.items() if "/" in line and " " not in line} == {
        key.name for key, each in here.groups.items() if each.status.phase == "Inqueue"
    }
    return found


def test_all_failed_checks_are_listed() -> None:
    assert report({
        "queues": [{"name": "default", "maxPodGroups": 0}],
        "quotas": [rq({"cpu": 2}, {"cpu": 1})],
        "podGroups": [group("a", "9"), group("b")],
    }) == {
        "a": "1/2 pod groups: queue default holds 0 active pod groups, 0 at most"
        " | room: cluster: cpu: need 9, have 4 now and 4 at most, so it can never fit"
        " | quota: quota rq: cpu: need 9, have 1 now and 2 at most, so it can never fit",
        "b": "2/2 pod groups: queue default holds 0 active pod groups, 0 at most",
    }  # fmt: skip


def test_each_group_is_evaluated_after_earlier_groups_were_admitted() -> None:
    assert report({"podGroups": [group("a", "3", created=1), group("b", "3", created=2)]}) == {
        "a": "1/2",
        "b": "2/2 room: cluster: cpu: need 3, have 1 now",
    }


def test_back_off_and_blocked_groups_are_reported() -> None:
    notes = {"scheduling.volcano.sh/requeue-not-before": "1970-01-01T00:20:00Z"}
    assert report({
        "queues": [{"name": "f", "dequeueStrategy": "fifo"}],
        "podGroups": [
            group("a", "1", queue="f", created=1, annotations=notes),
            group("b", "1", queue="f", created=2),
        ],
    }) == {"a": "1/2 not before 1200", "b": "2/2 blocked"}  # fmt: skip
