"""How limit ranges change and bound the requests of pods."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core import LimitRange, RuntimeClass
from quorate.api.meta import Key
from quorate.queueing.decisions import Hold, Reserve
from tests.queueing.world import World


def decided(
    limits: list[dict[str, Any]],
    container: dict[str, Any],
    gates: dict[str, bool] | None = None,
    **pod: Any,
) -> str:
    """Return ``admitted`` or the message of the pending workload."""
    world = World(
        {
            "flavors": ["default"],
            "limitRanges": limits,
            "clusterQueues": {"cq": {"quota": [{"default": {"cpu": 100}}]}},
            "workloads": [
                {"name": "w", "queue": "cq", "podSets": [{"pod": {"containers": [container], **pod}}]}
            ],
            "config": {"featureGates": gates or {}},
        }
    )
    (decision,) = world.admission_cycle.run(world.now).decisions
    if isinstance(decision, Reserve):
        return "admitted"
    assert isinstance(decision, Hold)
    return decision.message


@pytest.mark.parametrize(
    ("limits", "container", "want"),
    [
        pytest.param([], {"requests": {"cpu": 1}}, "admitted", id="no limit range"),
        pytest.param(
            [],
            {"requests": {"cpu": 2}, "limits": {"cpu": 1}},
            "resources validation failed: "
            "containers[0] of pod set main requests 2 of cpu, more than its limit 1",
            id="above its own limit",
        ),
        pytest.param(
            [],
            {"requests": {"cpu": -1}, "limits": {"pods": 1}},
            "resources validation failed: "
            "containers[0] of pod set main asks for -1 of cpu, must be at least 0, "
            "containers[0] of pod set main asks for 1 of pods, which a queue counts itself",
            id="negative, and pods",
        ),
        pytest.param(
            [{"type": "Container", "max": {"cpu": 2}}],
            {"requests": {"cpu": 2}},
            "admitted",
            id="at the maximum",
        ),
        pytest.param(
            [{"type": "Container", "max": {"cpu": 2}}, {"type": "Container", "max": {"cpu": 1}}],
            {"requests": {"cpu": 2}},
            "resources didn't satisfy LimitRange constraints: "
            "a container of pod set main: cpu is 2, at most 1 is allowed",
            id="the narrowest of several bounds",
        ),
        pytest.param(
            [{"type": "Container", "min": {"cpu": "500m"}}],
            {"requests": {"cpu": "100m"}},
            "resources didn't satisfy LimitRange constraints: "
            "a container of pod set main: cpu is 100m, at least 500m is required",
            id="below the minimum",
        ),
        pytest.param(
            [{"type": "Container", "maxLimitRequestRatio": {"cpu": 2}}],
            {"requests": {"cpu": 1}, "limits": {"cpu": 3}},
            "resources didn't satisfy LimitRange constraints: a container of pod set main: "
            "the limit of cpu is 3 for a request of 1, at most 2 times as much is allowed",
            id="the ratio of limit to request",
        ),
        pytest.param(
            [{"type": "Pod", "max": {"cpu": 1}}],
            {"limits": {"cpu": 2}},
            "resources didn't satisfy LimitRange constraints: "
            "a pod of pod set main: cpu is 2, at most 1 is allowed",
            id="the pod as a whole",
        ),
        pytest.param(
            [{"type": "Container", "min": {"cpu": 1}}],
            {},
            "admitted",
            id="a minimum is the default of containers",
        ),
        pytest.param(
            [{"type": "Pod", "min": {"memory": "1Gi"}}],
            {"requests": {"cpu": 1}},
            "resources didn't satisfy LimitRange constraints: "
            "a pod of pod set main: memory is not requested, at least 1Gi is required",
            id="and not of pods",
        ),
        pytest.param(
            [{"type": "Pod", "max": {"cpu": 2}}],
            {"requests": {"cpu": 1}},
            "resources didn't satisfy LimitRange constraints: "
            "a pod of pod set main: cpu is not limited, at most 2 is allowed",
            id="a maximum of pods requires a limit",
        ),
        pytest.param(
            [{"type": "Pod", "max": {"cpu": 2}}],
            {"requests": {"cpu": 1}, "limits": {"cpu": 3}},
            "resources didn't satisfy LimitRange constraints: "
            "a pod of pod set main: cpu is 3, at most 2 is allowed",
            id="and bounds it",
        ),
        pytest.param(
            [{"type": "Pod", "maxLimitRequestRatio": {"cpu": 2}}],
            {"requests": {"cpu": 1}},
            "resources didn't satisfy LimitRange constraints: a pod of pod set main: "
            "the limit of cpu is 0 for a request of 1, at most 2 times as much is allowed",
            id="a ratio requires both",
        ),
    ],
)
def test_limit_ranges(limits: list[dict[str, Any]], container: dict[str, Any], want: str) -> None:
    got = decided(limits, container)
    assert got.startswith(want) if want.endswith(": ") else got == want


def test_a_workload_is_admitted_once_the_limit_range_is_removed() -> None:
    world = World(
        {
            "flavors": ["default"],
            "clusterQueues": {"cq": {"quota": [{"default": {"cpu": 100}}]}},
            "workloads": [{"name": "w", "queue": "cq", "requests": {"cpu": 2}}],
        }
    )
    body = {
        "metadata": {"namespace": "default", "name": "l"},
        "spec": {"limits": [{"type": "Container", "max": {"cpu": 1}}]},
    }
    world.state.request_updates.put_limit_range(codec.convert(LimitRange, body))
    world.run("cycle")
    assert world.admitted() == {}
    world.state.request_updates.remove_limit_range(Key("default", "l"))
    world.run("cycle")
    assert list(world.admitted()) == ["w"]


def flavors(world: World) -> dict[str, object]:
    return {name: admission.pod_set_assignments[0].flavors for name, admission in world.admitted().items()}


def test_pods_run_where_their_runtime_class_says() -> None:
    taint = {"key": "sandbox", "value": "true", "effect": "NoSchedule"}
    world = World(
        {
            "flavors": {"plain": {"nodeLabels": {"pool": "plain"}},
                        "sandbox": {"nodeLabels": {"pool": "sandbox"}, "nodeTaints": [taint]}},
            "clusterQueues": {"cq": {"quota": [{"plain": {"cpu": 1}}, {"sandbox": {"cpu": 1}}]}},
            "workloads": [
                {"name": name, "queue": "cq", "created": created,
                 "podSets": [{"pod": {"runtimeClassName": "kata", "containers": [{"requests": {"cpu": 1}}]}}]}
                for created, name in enumerate(("first", "second"))
            ],
        }
    )  # fmt: skip
    scheduling = {
        "nodeSelector": {"pool": "sandbox"},
        "tolerations": [{"key": "sandbox", "operator": "Exists"}],
    }
    body = {"metadata": {"name": "kata"}, "scheduling": scheduling}
    world.state.request_updates.put_runtime_class(codec.convert(RuntimeClass, body))
    world.run("cycle")
    world.run("cycle")
    assert flavors(world) == {"first": {"cpu": "sandbox"}}
    world.state.request_updates.remove_runtime_class("kata")
    world.run("cycle")
    assert flavors(world) == {"first": {"cpu": "sandbox"}, "second": {"cpu": "plain"}}
