"""The examples of ``docs/concepts/partial-admission.md``."""

import pytest

from quorate.api import codec
from quorate.api.batch import Job
from quorate.controllers.jobs.batch import BatchJob
from quorate.queueing.scheduling.podset_reducer import PodSetCounts, reduce_counts
from tests.docs.page import Example, Row, job, section

STEPS = section("partial-admission.md", "Number of pods")
EXAMPLE = section("partial-admission.md", "Example")


def with_quota_for(pods: int) -> list[int] | None:
    counts = [PodSetCounts(3, 3), PodSetCounts(6, 3), PodSetCounts(9, 3)]
    return reduce_counts(counts, lambda attempt: list(attempt) if sum(attempt) <= pods else None)


def test_the_steps() -> None:
    rows = STEPS.table("step", "pods", "together")
    assert [int(row["step"]) for row in rows] == list(range(10))
    for row in rows:
        assert row["pods"] == ", ".join(str(count) for count in with_quota_for(int(row["together"])) or [])
    assert (with_quota_for(16), with_quota_for(8)) == ([3, 5, 7], None)


@pytest.mark.parametrize(
    "row", EXAMPLE.table("another job uses", "of priority", "sweep"), ids=lambda row: row["sweep"]
)
def test_the_job(row: Row) -> None:
    *objects, body = EXAMPLE.objects()
    (pod_set,) = BatchJob().pod_sets(codec.convert(Job, body))
    wanted = {"name": "main", "count": pod_set.count, "minCount": pod_set.min_count, "requests": {"cpu": 1}}
    others = []
    if row["another job uses"] != "0":
        priority = int(row["of priority"])
        others = [job("other", "batch", row["another job uses"], priority=priority, admitted="default")]
    sweep = {"name": "sweep", "queue": "batch", "podSets": [wanted], "create": "later"}
    world = Example(objects, [*others, sweep])
    world.create_jobs(*(other["name"] for other in others))
    world.create_jobs("sweep")
    story = []
    if world.preempted():
        assert world.preempted() == {"other": "InClusterQueue"}
        world.leave("other")
        story.append("preempts it, then ")
    if "sweep" in world.admitted():
        story.append(f"starts with {world.pods('sweep')} pods")
    else:
        assert f"    {world.why('sweep')}\n" in EXAMPLE.text
        assert not world.can_never_fit("sweep")
        story.append("waits")
    assert "".join(story) == row["sweep"]
