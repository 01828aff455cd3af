"""The page about pod groups: run its examples, and compare its tables with the code."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from quorate.api.scheduler_configuration.actions import EnqueueArguments
from quorate.gang import pending_reasons
from quorate.observe.gang_families import BY_NAME
from tests.docs.page import CONCEPTS, Section, section
from tests.gang.vectors import settings_of
from tests.gang.world import World

Json = dict[str, Any]

PAGE = "gang.md"
EVERYTHING = "enqueue, allocate, backfill, preempt, reclaim"
NODE = {"name": "n1", "cpu": 4}


def world(given: Json, *plugins: str, actions: str = EVERYTHING, **preempt: bool) -> World:
    documented = {name.replace("_", "-"): value for name, value in preempt.items()}
    conf = {
        "actions": actions,
        "tiers": [["priority", "gang", "predicates", "nodeorder", *plugins]],
        "configurations": {"preempt": documented},
    }
    return World({"nodes": [NODE], **given}, settings_of(conf, "design"), restarting=False)


def group(name: str, cpu: int, least: int = 1, **given: Any) -> Json:
    return {"name": name, "minMember": least, "minResources": {"cpu": cpu}, **given}


def pods(of: str, count: int, cpu: int = 1, **given: Any) -> Json:
    return {"name": of, "count": count, "group": of, "cpu": cpu, **given}


RUNS: Json = {"phase": "Running"}


def session(world: World) -> None:
    world.start_step()
    world.session()


def phases_or_reasons(world: World, *groups: str) -> tuple[str, ...]:
    """Return the phase or pending reason of each group; empty for a group that does not exist."""
    here = {key.name for key in world.groups}
    return tuple(
        (world.condition(each, "Unschedulable") or "Pending")
        if each in here and world.phase(each) == "Pending"
        else world.phase(each) if each in here else ""
        for each in groups
    )  # fmt: skip


def placed(world: World, of: str) -> tuple[int, int]:
    """Return the number of pods of a group and the number of those with a node."""
    members = [pod for key, pod in world.pods.items() if key.name.startswith(f"{of}-")]
    return len(members), sum(bool(pod.node_name) for pod in members)


Rows = Iterator[tuple[Any, ...]]


def pods_created_after_admission() -> Rows:
    here = world({"podGroups": [group("a", 2, 2)], "delayedPods": [pods("a", 2)]})

    def row() -> tuple[Any, ...]:
        session(here)
        return (here.phase("a"), *placed(here, "a"))

    yield row()
    here.do("controller", None)
    yield row()
    here.do("start", "all")
    yield row()
    here.do("finish", {"pods": ["a-0", "a-1"]})
    yield row()


def backoff() -> Rows:
    here = world({"nodes": [NODE, {"name": "n2", "cpu": 4}], "podGroups": [group("a", 8, 2)]})
    began = here.now

    def row() -> tuple[Any, ...]:
        session(here)
        gang = next(iter(here.fresh_model().gangs.values()))
        not_before = gang.admission.not_before
        return here.phase("a"), "" if not_before is None else f"+{not_before - began:.0f} s"

    yield row()
    here.do("removeNodes", ["n2"])
    yield row()
    here.do("addNodes", [{"name": "n3", "cpu": 4}])
    here.do("advance", 9)
    yield row()
    here.do("advance", 1)
    yield row()
    began = here.now
    here.do("removeNodes", ["n3"])
    yield row()


def namespace_quota() -> Rows:
    rq = {"name": "rq", "hard": {"cpu": 4}, "used": {"cpu": 0}}
    here = world({
        "nodes": [{"name": "n1", "cpu": 100}], "quotas": [rq],
        "podGroups": [group("a", 3, created=1)], "delayedPods": [pods("a", 3)],
    })  # fmt: skip
    session(here)
    yield phases_or_reasons(here, "a", "b", "c")
    here.do("addPodGroups", [group("b", 2, created=2), group("c", 1, created=3)])
    session(here)
    yield phases_or_reasons(here, "a", "b", "c")
    here.do("controller", None)
    here.do("setQuota", {"name": "rq", "used": {"cpu": 3}})
    session(here)
    yield phases_or_reasons(here, "a", "b", "c")


def overcommit() -> Rows:
    here = world({
        "nodes": [{"name": "n1", "cpu": 10}], "queues": [{"name": "q1"}, {"name": "q2"}],
        "podGroups": [
            group("a", 6, queue="q1", created=1), group("b", 6, queue="q2", created=2),
            group("c", 1, queue="q2", created=3),
        ],
    }, "overcommit")  # fmt: skip
    session(here)
    yield phases_or_reasons(here, "a", "b", "c")


def preemptable_surplus() -> Rows:
    here = world({
        "podGroups": [group("fat", 2, 2, created=1, **RUNS), group("a", 2, 2, created=2)],
        "pods": [pods("fat", 4, node="n1", **RUNS)], "delayedPods": [pods("a", 2)],
    })  # fmt: skip
    return _evicted_once_the_pods_exist(here, "fat", "a")


def higher_priority() -> Rows:
    low, high = ({"priorityClassName": each} for each in ("low", "high"))
    here = world({
        "priorityClasses": {"low": 1, "high": 2},
        "podGroups": [group("low", 4, 4, created=1, **low, **RUNS), group("high", 2, 2, created=2, **high)],
        "pods": [pods("low", 4, node="n1", **RUNS)], "delayedPods": [pods("high", 2)],
    })  # fmt: skip
    return _evicted_once_the_pods_exist(here, "low", "high")


def _evicted_once_the_pods_exist(here: World, victim: str, beneficiary: str) -> Rows:
    def row() -> tuple[Any, ...]:
        session(here)
        leaving = len([pod for pod in here.pods.values() if pod.metadata.deletion_timestamp])
        return placed(here, victim)[0] - leaving, here.phase(beneficiary), placed(here, beneficiary)[1]

    yield row()
    here.do("controller", None)
    yield row()
    here.do("reap", "all")
    yield row()


def _of(here: World, name: str) -> str:
    members, with_node = placed(here, name)
    return f"{with_node} of {members}"


def all_or_nothing() -> Rows:
    here = world({
        "podGroups": [
            {"name": "big", "minMember": 3, "created": 1}, {"name": "small", "minMember": 1, "created": 2},
        ],
        "pods": [pods("big", 3, 2), pods("small", 1, 4)],
    })  # fmt: skip
    session(here)
    yield _of(here, "big"), _of(here, "small")


def terminating_pods() -> Rows:
    here = world({
        "nodes": [{"name": "n1", "cpu": 1}, {"name": "n2", "cpu": 1}],
        "podGroups": [
            {"name": "a", "minMember": 2, "created": 1}, {"name": "b", "minMember": 1, "created": 2},
        ],
        "pods": [
            {"name": "web", "cpu": 1, "node": "n2", "deleting": True, **RUNS}, pods("a", 2), pods("b", 1),
        ],
    })  # fmt: skip
    session(here)
    yield _of(here, "a"), _of(here, "b")
    here.do("reap", "all")
    session(here)
    yield _of(here, "a"), _of(here, "b")


def _evicted(here: World, group: str) -> int:
    here.start_step()
    outcome = here.session()
    return Counter(eviction.gang.name for eviction in outcome.evictions)[group]


def evicting_a_gang() -> Rows:
    for whole in (False, True):
        here = world({
            "priorityClasses": {"high": 9, "low": 1}, "nodes": [{"name": "n1", "cpu": 3}],
            "podGroups": [
                {"name": "low", "minMember": 2, "priorityClassName": "low", **RUNS},
                {"name": "high", "minMember": 2, "priorityClassName": "high", "phase": "Inqueue"},
            ],
            "pods": [pods("low", 3, node="n1", **RUNS), pods("high", 2)],
        }, evict_whole_group=whole)  # fmt: skip
        yield (_evicted(here, "low"),)


def reclaim() -> Rows:
    here = world({
        "queues": [{"name": "q1"}, {"name": "q2"}],
        "podGroups": [
            {"name": "a", "queue": "q1", "minMember": 1, **RUNS},
            {"name": "b", "queue": "q2", "minMember": 2, "phase": "Inqueue"},
        ],
        "pods": [pods("a", 4, node="n1", **RUNS), pods("b", 3)],
    }, "proportion")  # fmt: skip
    yield (_evicted(here, "a"),)


EXAMPLES = [
    pods_created_after_admission, backoff, namespace_quota, overcommit,
    preemptable_surplus, higher_priority, all_or_nothing, terminating_pods, evicting_a_gang,
    reclaim,
]  # fmt: skip


def example(heading: str) -> list[list[str]]:
    """Return the rows of the table below ``heading`` without the first cells, which name the events."""
    text = section(PAGE, "Examples").text.split(f"\n### {heading}\n")[1].split("\n### ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")][1:] for line in lines[2:]]


@pytest.mark.parametrize("play", EXAMPLES, ids=lambda play: play.__name__)
def test_an_example(play: Any) -> None:
    heading = play.__name__.replace("_", " ").capitalize()
    assert [[str(cell) for cell in row] for row in play()] == example(heading)


def test_every_example_is_run() -> None:
    assert section(PAGE, "Examples").text.count("\n### ") == len(EXAMPLES)


def test_the_page_lists_every_reason() -> None:
    documented = {row["reason"].strip("`") for row in _reasons().table("reason", "remedy")}
    reasons = [each.reason for each in get_args(pending_reasons.PendingReason)]
    assert documented == {each for each in reasons if isinstance(each, str)}  # else that of another reason


def _reasons() -> Section:
    return section(PAGE, "Reasons")


def test_the_page_states_the_defaults() -> None:
    rows = section(PAGE, "Configuration").table("argument", "default", "meaning")
    documented = {row["argument"].strip("`"): row["default"].strip("`") for row in rows}
    rules = EnqueueArguments()
    assert documented == {
        "order": rules.order,
        "idle-factor": f"the `overcommit-factor`, else {rules.idle_factor}".strip("`"),
        "inqueue-timeout": f"{rules.inqueue_timeout_s:.0f}s",
        "requeue-backoff-base": f"{rules.backoff_base_s:.0f}s",
        "requeue-backoff-max": f"{rules.backoff_max_s:.0f}s",
        "check-quota": str(rules.check_quota).lower(),
    }


def test_the_page_lists_every_decision() -> None:
    text = (CONCEPTS / PAGE).read_text()
    assert [number for number in range(1, 19) if f"\n| D{number} |" in text] == list(range(1, 18))


def test_every_named_series_is_exported() -> None:
    for row in section(PAGE, "Metrics").table("series", "labels", "meaning"):
        family = BY_NAME[row["series"].strip("`")]
        assert tuple(re.findall(r"`(\w+)`", row["labels"])) == family.labels, family.name
