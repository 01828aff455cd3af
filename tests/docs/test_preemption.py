"""The examples of ``docs/concepts/preemption.md``."""

import copy

import pytest
import yaml

from tests.docs.page import Example, Row, job, section

ONE_QUEUE = section("preemption.md", "Example: one queue")
COHORT = section("preemption.md", "Example: a cohort")


@pytest.mark.parametrize("row", ONE_QUEUE.table("request", "preempted"), ids=lambda row: row["request"])
def test_one_queue(row: Row) -> None:
    running = [
        job(
            held["job"],
            "batch",
            held["cpu"],
            priority=int(held["priority"]),
            admitted={"flavor": "default", "at": int(held["since"].replace(":", ""))},
        )
        for held in ONE_QUEUE.table("job", "priority", "cpu", "since")
    ]
    world = Example(ONE_QUEUE.objects(), [*running, job("next", "batch", row["request"], priority=1)])
    world.create_jobs(*(held["name"] for held in running))
    world.create_jobs("next")
    victims = [] if row["preempted"] == "none" else row["preempted"].split(", ")
    assert sorted(world.preempted()) == sorted(victims)
    if victims:
        assert world.why("next").endswith(f". Pending the preemption of {len(victims)} workload(s)")
        world.leave(*victims)
        assert world.flavor("next") == "default"
    else:
        assert world.can_never_fit("next")


@pytest.mark.parametrize(
    "row",
    COHORT.table("request", "borrowWithinCohort", "preempted", "reason"),
    ids=lambda row: f"{row['request']} {row['borrowWithinCohort'] or 'Never'}",
)
def test_a_cohort(row: Row) -> None:
    objects = copy.deepcopy(COHORT.objects())
    if row["borrowWithinCohort"]:
        (owner,) = [body for body in objects if body["metadata"]["name"] == "owner"]
        owner["spec"]["preemption"]["borrowWithinCohort"] = yaml.safe_load(row["borrowWithinCohort"])
    nine = [job(f"b{index}", "borrower", "1", admitted="default") for index in range(9)]
    world = Example(objects, [*nine, job("next", "owner", row["request"], priority=5)])
    world.create_jobs(*(held["name"] for held in nine))
    world.create_jobs("next")
    preempted = world.preempted()
    assert len(preempted) == int(row["preempted"])
    assert set(preempted.values()) == ({row["reason"]} if row["reason"] else set())
