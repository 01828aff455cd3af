"""The examples of ``docs/concepts/fair-sharing.md``."""

import math

from quorate.api.meta import Key
from quorate.quota import tree
from quorate.quota.amount import FlavorResource
from quorate.quota.fair_sharing import dominant_share
from tests.docs.page import Example, job, section

SHARES = section("fair-sharing.md", "Example: shares")
FAIR_PREEMPTION = section("fair-sharing.md", "Example: fair preemption")
ADMISSION = section("fair-sharing.md", "Example: admission fair sharing")
CPU = FlavorResource("default", "cpu")


def share_with(world: Example, queue: str, milli_cpu: int) -> str:
    """Return the share of ``queue`` as shown, with ``milli_cpu`` more usage."""
    node = world.node(queue)
    tree.add_usage(node, {CPU: milli_cpu})
    share = dominant_share(node)
    tree.add_usage(node, {CPU: -milli_cpu})
    return str(math.ceil(share.thousandths))


def test_shares() -> None:
    rows = SHARES.table("queue", "uses", "borrows", "weight", "share")
    busy = [row for row in rows if row["uses"] != "0"]
    jobs = [job(row["queue"], row["queue"], row["uses"], admitted="default") for row in busy]
    world = Example(SHARES.objects(), jobs)
    world.create_jobs(*(row["queue"] for row in busy))
    for row in rows:
        node = world.node(row["queue"])
        borrowed = max(0, tree.used(node, CPU) - tree.subtree_quota(node, CPU)) // 1000
        assert row["borrows"] == f"{borrowed} of {tree.potential_available(node, CPU) // 1000}"
        assert row["weight"] == str(node.weight)
        assert row["share"] == share_with(world, row["queue"], 0)


def test_fair_preemption() -> None:
    running = [
        job(name, name[0], "1", admitted={"flavor": "default", "at": index})
        for index, name in enumerate(["a1", "a2", "a3", "a4", "b1", "b2"])
    ]
    rows = FAIR_PREEMPTION.table("job", "b would have", "a has", "a would have", "preempted")
    world = Example(FAIR_PREEMPTION.objects(), [*running, *(job(row["job"], "b", "1") for row in rows)])
    world.create_jobs(*(held["name"] for held in running))
    for row in rows:
        assert row["b would have"] == share_with(world, "b", 1000)
        assert row["a has"] == share_with(world, "a", 0)
        assert row["a would have"] == share_with(world, "a", -1000)
        before = world.preempted()
        world.create_jobs(row["job"])
        victims = [] if row["preempted"] == "none" else [row["preempted"]]
        assert world.preempted() == before | dict.fromkeys(victims, "InCohortFairSharing")
        world.leave(*victims)
        assert (row["job"] in world.admitted()) is bool(victims)
    waiting = [key.name for queue in ("a", "b") for key in world.state.pending(queue).inadmissible]
    assert waiting == ["a4", "b4"]


def test_admission_fair_sharing() -> None:
    jobs = [job("a1", "alice", "4"), job("a2", "alice", "4", created=1), job("b1", "bob", "4", created=2)]
    world = Example(ADMISSION.objects(), jobs)
    world.create_jobs("a1")
    world.create_jobs("a2", "b1")
    rows = ADMISSION.table("minutes", "alice used", "bob used", "runs")
    running = "a1"
    for row in rows:
        world.run({"advance": f"{100_000 + 60 * int(row['minutes']) - world.now:.0f}s"})
        if row["runs"] != running:
            world.run({"finish": [running]})
            world.decide_all()
            running = row["runs"]
        assert set(world.admitted()) == {running}
        for person in ("alice", "bob"):
            used = world.state.ledger.consumed_usage(Key("default", person))
            assert f"{used:.2f}" == row[f"{person} used"], f"{person} after {row['minutes']} minutes"
