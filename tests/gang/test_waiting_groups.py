"""The report on waiting groups lists all failed checks with amounts and agrees with the scheduler."""

from json import dumps
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from quorate.api.names.volcano import MEMBER_REQUESTS
from quorate.gang.reports import waiting_groups
from quorate.gang.shortage import NEVER_FITS
from tests.gang.enqueue_worlds import group, group_states, message, rq, running, world

Json = dict[str, Any]


def report(content: Json, **arguments: Any) -> dict[str, str]:
    """Return the position and the failed checks of each waiting group."""
    here = world(content, **arguments)
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
        "a": "1/2 pod groups: queue default holds 0 active pod groups, 0 at most, so it can never fit"
        " | room: cluster: cpu: need 9, have 4 now and 4 at most, so it can never fit"
        " | quota: quota rq: cpu: need 9, have 1 now and 2 at most, so it can never fit",
        "b": "2/2 pod groups: queue default holds 0 active pod groups, 0 at most, so it can never fit",
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


@given(
    nodes=st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=4),
    roles=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 3)), min_size=1, max_size=2),
    factor=st.sampled_from(("1", "1.5")),
)
def test_a_group_of_which_equal_members_exceed_the_empty_nodes_never_fits(
    nodes: list[tuple[int, bool]], roles: list[tuple[int, int]], factor: str
) -> None:
    """``nodes``: cpu of each, and whether it is full; ``roles``: cpu of a member, and their number."""
    content = {
        "nodes": [{"name": f"n{index}", "cpu": cpu} for index, (cpu, _) in enumerate(nodes)],
        "pods": [
            running("r", str(cpu), name=f"r-{index}", node=f"n{index}")
            for index, (cpu, is_full) in enumerate(nodes)
            if is_full
        ],
        "podGroups": [
            group("r", phase="Running"),
            group(
                "g",
                str(sum(cpu * pods for cpu, pods in roles)),
                minMember=sum(pods for _, pods in roles),
                minTaskMember={f"role{index}": pods for index, (_, pods) in enumerate(roles)},
                annotations={
                    MEMBER_REQUESTS: dumps(
                        {f"role{index}": {"cpu": cpu} for index, (cpu, _) in enumerate(roles)}
                    )
                },
            ),
        ],
    }
    here = world(content, idle_factor=factor)
    here.session()
    never = any(sum(cpu // each for cpu, _ in nodes) < pods for each, pods in roles)
    waits = group_states(here)["g"] != "Inqueue"
    assert waits or not never
    if waits and (never or len(roles) == 1):
        assert (NEVER_FITS in message(here, "g")) == never
