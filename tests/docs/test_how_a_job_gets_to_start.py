"""The numbers and messages of the first concept page match the code.

Its second example, about timeouts, is tested in ``tests/queueing/test_readiness.py``.
"""

from pathlib import Path

from quorate.api.meta import Key
from quorate.queueing.explain import why_pending
from tests.queueing.world import World

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "how-a-job-gets-to-start.md"


def the_example(strategy: str) -> World:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text().splitlines()
        if line.startswith(("| a |", "| b |", "| c |", "| d |"))
    ]
    assert len(rows) == 4
    assert all(int(pods) * int(cpu) == int(together) for _, pods, cpu, together, _ in rows)
    return World(
        {
            "flavors": ["default"],
            "clusterQueues": {"cq": {"strategy": strategy, "quota": [{"default": {"cpu": 10}}]}},
            "workloads": [
                {
                    "name": name,
                    "queue": "cq",
                    "created": index,
                    "count": int(pods),
                    "requests": {"cpu": int(cpu)},
                }
                for index, (name, pods, cpu, _, _) in enumerate(rows)
            ],
        }
    )


def why(world: World, name: str) -> str:
    hold = why_pending(world.state, Key("default", name))
    assert hold is not None
    return hold.message


def test_best_effort_admits_jobs_behind_one_that_does_not_fit() -> None:
    page, world = PAGE.read_text(), the_example("BestEffortFIFO")
    world.carry_out(world.admission_cycle.run(world.now).decisions)
    assert sorted(world.admitted()) == ["a", "c"]
    assert f"    {why(world, 'b')}\n" in page
    assert f"    {why(world, 'd')}\n" in page

    world.run({"finish": ["a"]})
    world.carry_out(world.admission_cycle.run(world.now).decisions)
    assert sorted(world.admitted()) == ["b", "c"]


def test_strict_order_waits_behind_a_job_that_does_not_fit() -> None:
    world = the_example("StrictFIFO")
    world.carry_out(world.admission_cycle.run(world.now).decisions)
    assert sorted(world.admitted()) == ["a"]
