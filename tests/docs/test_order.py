"""The examples of ``docs/concepts/order.md``."""

import copy

import pytest

from tests.docs.page import Example, Row, job, section
from tests.queueing.notation import Json

ONE_QUEUE = section("order.md", "Example: one queue")
TWO_QUEUES = section("order.md", "Example: two queues")


def seconds(clock: str) -> int:
    hours, minutes = clock.split(":")
    return int(hours) * 3600 + int(minutes) * 60


def waiting_job(row: Row) -> Json:
    given = job(
        row["job"], "research", row["cpu"], priority=int(row["priority"]), created=seconds(row["created"])
    )
    if row["before"]:
        reason = "Preempted" if row["before"].startswith("preempted") else "PodsReadyTimeout"
        evicted = {"status": "True", "reason": reason, "at": seconds(row["before"].rsplit(" at ")[1])}
        given["conditions"] = {"Evicted": evicted}
    return given


@pytest.mark.parametrize(
    "row",
    ONE_QUEUE.table("strategy", "admitted", "still queued", "inadmissible"),
    ids=lambda row: row["strategy"],
)
def test_one_queue(row: Row) -> None:
    rows = ONE_QUEUE.table("position", "job", "priority", "cpu", "created", "before")
    objects = copy.deepcopy(ONE_QUEUE.objects())
    objects[-1]["spec"]["queueingStrategy"] = row["strategy"]
    # The positions do not depend on the order of creation.
    jobs = [waiting_job(waiting) for waiting in reversed(rows)]
    world = Example(objects, jobs, {"waitForPodsReady": {"timeout": "5m"}})
    world.run({"create": [given["name"] for given in jobs]})
    active = [key.name for key in world.state.pending("research").active]
    assert active == [
        waiting["job"] for waiting in sorted(rows, key=lambda waiting: int(waiting["position"]))
    ]

    world.decide_all()
    waiting = world.state.pending("research")
    assert {
        "strategy": row["strategy"],
        "admitted": ", ".join(sorted(world.admitted(), reverse=True)),
        "still queued": ", ".join(key.name for key in waiting.active),
        "inadmissible": ", ".join(key.name for key in waiting.inadmissible),
    } == row


def test_two_queues() -> None:
    rows = TWO_QUEUES.table("job", "queue", "priority", "cpu", "result")
    jobs = [job(row["job"], row["queue"], row["cpu"], priority=int(row["priority"])) for row in rows]
    world = Example(TWO_QUEUES.objects(), jobs)
    world.create_jobs(*(row["job"] for row in rows))
    admitted = world.admitted()
    assert {row["job"]: row["result"] for row in rows} == {
        row["job"]: "admitted" if row["job"] in admitted else "waits" for row in rows
    }
    assert f"    {world.why('wide')}\n" in TWO_QUEUES.text
