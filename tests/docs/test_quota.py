"""The example of ``docs/concepts/quota.md``."""

from quorate.quota import tree
from quorate.quota.amount import FlavorResource, as_quantity
from tests.docs.page import Example, job, section

EXAMPLE = section("quota.md", "Example")
CPU = FlavorResource("default", "cpu")


def test_the_amounts_of_the_quota_tree() -> None:
    rows = EXAMPLE.table("node", "subtree quota", "guaranteed", "used", "available", "maximum")
    later = EXAMPLE.table("job", "queue", "cpu", "message")
    used = {"theory": "9", "laboratory": "4", "library": "3"}
    jobs = [job(queue, queue, cpu, admitted="default") for queue, cpu in used.items()]
    world = Example(EXAMPLE.objects(), [*jobs, *(job(row["job"], row["queue"], row["cpu"]) for row in later)])
    world.create_jobs(*used)
    numbers = {"subtree quota": tree.subtree_quota, "guaranteed": tree.guaranteed, "used": tree.used}
    numbers |= {"available": tree.available, "maximum": tree.potential_available}
    assert {row["node"] for row in rows} == {
        *world.state.ledger.quota.queues,
        *world.state.ledger.quota.cohorts,
    }
    for row in rows:
        node = world.node(row["node"])
        got = {name: str(as_quantity("cpu", ask(node, CPU))) for name, ask in numbers.items()}
        assert {"node": row["node"], **got} == row

    world.create_jobs(*(row["job"] for row in later))
    for row in later:
        assert world.why(row["job"]) == f"couldn't assign flavors to pod set main: {row['message']}"
