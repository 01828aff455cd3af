"""A vector that says what nobody reads does not pass."""

from typing import Any

import pytest

from tests.gang.vectors import run_case

CONFS = {"place": {"actions": "allocate", "tiers": [["gang"], ["predicates"]]}}


@pytest.mark.parametrize(
    ("given", "steps", "unread"),
    [
        pytest.param({"node": []}, [], "given.node", id="of the world"),
        pytest.param({"nodes": [{"name": "n1", "cpus": 4}]}, [], "given.nodes[0].cpus", id="of a node"),
        pytest.param({}, [{"cycle": 2}], "steps[0].cycle", id="of a step"),
        pytest.param({}, [{"do": ["start", {"stop": "all"}]}], "steps[0].do[1].stop", id="of an operation"),
        pytest.param(
            {},
            [{}, {"do": [{"addPods": [{"name": "p", "gruop": "g"}]}]}],
            "steps[1].do[0].addPods[0].gruop",
            id="of a pod that comes later",
        ),
    ],
)
def test_of_a_session(given: dict[str, Any], steps: list[dict[str, Any]], unread: str) -> None:
    case = {"kind": "session", "given": {"conf": "place", **given}, "steps": steps}
    assert run_case(case, CONFS) == [f"{unread}: nobody reads it"]


def test_of_a_rule() -> None:
    case = {"kind": "deserved", "given": {"total": {}, "queues": []}, "expect": {"desreved": {}}}
    assert run_case(case, {}) == ["expect.desreved: nobody reads it"]
