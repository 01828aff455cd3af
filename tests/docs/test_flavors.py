"""The examples of ``docs/concepts/flavors.md``."""

import copy

import pytest

from tests.docs.page import Example, Row, job, section

EXAMPLE = section("flavors.md", "Example")
CHOICE = section("flavors.md", "Example: preempt or borrow")


def test_flavor_choice() -> None:
    rows = EXAMPLE.table("job", "cpu", "node selector", "tolerates spot", "result")
    toleration = {"key": "spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}
    jobs = [
        {
            **job(row["job"], "ml", row["cpu"], created=created),
            "podSets": [
                {
                    "requests": {"cpu": row["cpu"]},
                    "nodeSelector": dict([row["node selector"].split("=")]) if row["node selector"] else {},
                    "tolerations": [toleration] if row["tolerates spot"] == "yes" else [],
                }
            ],
        }
        for created, row in enumerate(rows)
    ]
    world = Example(EXAMPLE.objects(), jobs)
    world.create_jobs(*(row["job"] for row in rows))
    assert {row["job"]: world.flavor(row["job"]) or "waits" for row in rows} == {
        row["job"]: row["result"] for row in rows
    }
    for name, in_vain in (("second", False), ("fourth", True)):
        assert f"    {world.why(name)}\n" in EXAMPLE.text
        assert world.can_never_fit(name) is in_vain


@pytest.mark.parametrize(
    "row",
    CHOICE.table("whenCanBorrow", "whenCanPreempt", "preference", "result"),
    ids=lambda row: "-".join(filter(None, list(row.values())[:3])),
)
def test_preempt_or_borrow(row: Row) -> None:
    objects = copy.deepcopy(CHOICE.objects())
    fungibility = {field: row[field] for field in ("whenCanBorrow", "whenCanPreempt", "preference")}
    (team,) = [body for body in objects if body["metadata"]["name"] == "team"]
    team["spec"]["flavorFungibility"] = {field: value for field, value in fungibility.items() if value}
    low = job("low", "team", "4", priority=-1, admitted="reserved")
    world = Example(objects, [low, job("next", "team", "4")])
    world.create_jobs("low")
    world.create_jobs("next")
    if row["result"] == "borrows on spot":
        assert (world.flavor("next"), world.preempted()) == ("spot", {})
        return
    assert row["result"] == "preempts on reserved"
    assert (world.flavor("next"), world.preempted()) == (None, {"low": "InClusterQueue"})
    world.leave("low")
    assert world.flavor("next") == "reserved"
