"""A vector with a key that no runner reads fails."""

from typing import Any

import pytest

from tests.gang.vectors import run_case

CONFS = {"place": {"actions": "allocate", "tiers": [["gang"], ["predicates"]]}}


@pytest.mark.parametrize(
    ("given", "steps", "unread"),
    [
        pytest.param({"node": []}, [], "given.node", id="in the world"),
        pytest.param({"nodes": [{"name": "n1", "cpus": 4}]}, [], "given.nodes[0].cpus", id="in a node"),
        pytest.param({}, [{"cycle": 2}], "steps[0].cycle", id="in a step"),
        pytest.param({}, [{"do": ["start", {"stop": "all"}]}], "steps[0].do[1].stop", id="in an operation"),
        pytest.param(
            {},
            [{}, {"do": [{"addPods": [{"name": "p", "gruop": "g"}]}]}],
            "steps[1].do[0].addPods[0].gruop",
            id="in a pod that is added later",
        ),
    ],
)
def test_unknown_keys_of_session_vectors(
    given: dict[str, Any], steps: list[dict[str, Any]], unread: str
) -> None:
    case = {"kind": "session", "given": {"conf": "place", **given}, "steps": steps}
    assert run_case(case, CONFS) == [f"{unread}: unknown key"]


def test_unknown_keys_of_rule_vectors() -> None:
    case = {"kind": "deserved", "given": {"total": {}, "queues": []}, "expect": {"desreved": {}}}
    assert run_case(case, {}) == ["expect.desreved: unknown key"]
