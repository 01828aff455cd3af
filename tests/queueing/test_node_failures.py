"""When a node has failed for a workload, and what follows for the workload."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.core import Taint, Toleration
from quorate.api.kueue import ResourceFlavor, Workload
from quorate.api.meta import Condition, at_epoch
from quorate.queueing.topology.node_failures import (
    NOT_READY_S,
    HostState,
    NodeFailures,
    NodeHealth,
    host_state,
    node_failures,
    tolerations_of,
)

NOW = 1_000_000.0
HEALTHY = HostState()
BUSY = HostState(has_failed=False, admits_pods=False)  # its pods still run, new ones do not start
FAILED = HostState(has_failed=True, admits_pods=False)

DEFAULT = TopologyGates()
BY_TIME = TopologyGates(fail_after_pods=False)
ALSO_BY_TIME = TopologyGates(fail_after_delay=True)
NO_TAINTS = TopologyGates(fail_on_taints=False)


def ready(status: Any = "True", since: float = NOW - 5) -> Condition:
    return Condition(type="Ready", status=status, last_transition_time=at_epoch(since))


def a_node(ready_condition: Condition | None = None, *taints: str) -> NodeHealth:
    """Return a node with taints such as ``key:NoExecute``."""
    parsed = tuple(Taint(key=key, effect=effect) for key, _, effect in (t.partition(":") for t in taints))
    return NodeHealth(ready_condition or ready(), parsed)


LOST, LONG_LOST = a_node(ready("Unknown")), a_node(ready("False", NOW - NOT_READY_S))
TAINTED = a_node(None, "gone:NoExecute")
FOR_GOOD = Toleration(key="gone", operator="Exists")
FOR_A_WHILE = Toleration(key="gone", operator="Exists", toleration_seconds=300)


@pytest.mark.parametrize(
    ("node", "progressing", "tolerations", "gates", "expected"),
    [
        pytest.param(a_node(), True, (), DEFAULT, HEALTHY, id="ready"),
        pytest.param(None, True, (), DEFAULT, FAILED, id="gone"),
        pytest.param(NodeHealth(None), True, (), DEFAULT, FAILED, id="without the condition Ready"),
        pytest.param(LOST, True, (), DEFAULT, BUSY, id="not ready while a pod runs"),
        pytest.param(LOST, False, (), DEFAULT, FAILED, id="not ready after all pods"),
        pytest.param(
            LOST,
            False,
            (),
            BY_TIME,
            HostState(check_at=NOW - 5 + NOT_READY_S),
            id="not ready for a moment, where the time decides",
        ),
        pytest.param(LONG_LOST, True, (), BY_TIME, FAILED, id="not ready for 30 s, where the time decides"),
        pytest.param(
            LOST,
            True,
            (),
            ALSO_BY_TIME,
            BUSY._replace(check_at=NOW - 5 + NOT_READY_S),
            id="not ready while a pod runs, where the time decides too",
        ),
        pytest.param(LONG_LOST, True, (), ALSO_BY_TIME, FAILED, id="30 s, where the time decides too"),
        pytest.param(LONG_LOST, True, (), DEFAULT, BUSY, id="not ready for 30 s"),
        pytest.param(TAINTED, True, ((),), DEFAULT, BUSY, id="tainted while a pod runs"),
        pytest.param(TAINTED, False, ((),), DEFAULT, FAILED, id="tainted after all pods"),
        pytest.param(TAINTED, True, ((),), BY_TIME, FAILED, id="tainted, and pods do not matter"),
        pytest.param(TAINTED, False, ((),), NO_TAINTS, HEALTHY, id="tainted, and taints do not matter"),
        pytest.param(TAINTED, False, ((FOR_GOOD,),), DEFAULT, HEALTHY, id="tolerated for good"),
        pytest.param(TAINTED, True, ((FOR_A_WHILE,),), DEFAULT, BUSY, id="tolerated while a pod runs"),
        pytest.param(TAINTED, False, ((FOR_A_WHILE,),), DEFAULT, FAILED, id="tolerated for a while"),
        pytest.param(
            TAINTED, True, ((FOR_A_WHILE,),), BY_TIME, BUSY, id="tolerated for a while: pods always matter"
        ),
        pytest.param(
            TAINTED, False, ((FOR_GOOD,), ()), DEFAULT, FAILED, id="one of two pod sets tolerates it"
        ),
        pytest.param(
            a_node(None, "slow:PreferNoSchedule"), False, ((),), DEFAULT, HEALTHY, id="a preference"
        ),
        pytest.param(a_node(None, "full:NoSchedule"), False, ((),), DEFAULT, FAILED, id="cordoned"),
    ],
)
def test_state_of_a_host(
    node: NodeHealth | None,
    progressing: bool,
    tolerations: Any,
    gates: TopologyGates,
    expected: HostState,
) -> None:
    state = host_state(node, is_progressing=progressing, tolerations=tolerations, gates=gates, now=NOW)
    assert state == expected
    if node is not None and node.is_healthy:
        assert state == HEALTHY


def with_failed(*names: str) -> Workload:
    status = {"unhealthyNodes": [{"name": name} for name in names]}
    return codec.convert(Workload, {"metadata": {"name": "w"}, "status": status})


@pytest.mark.parametrize(
    ("recorded", "states", "expected"),
    [
        pytest.param("", {"x": HEALTHY, "y": BUSY}, None, id="nothing"),
        pytest.param("", {"x": FAILED}, "x", id="the first failed node"),
        pytest.param("x", {"x": FAILED}, None, id="recorded already"),
        pytest.param("x", {}, None, id="not checked"),
        pytest.param("x", {"x": HEALTHY}, "", id="healthy again"),
        pytest.param("x", {"x": BUSY}, "", id="its pods run after all"),
        pytest.param("x", {"y": FAILED}, "x, y!", id="a second one"),
        pytest.param("", {"y": FAILED, "x": FAILED}, "x, y!", id="two at once"),
        pytest.param("x", {"x": HEALTHY, "y": FAILED}, "y", id="one after the other"),
        pytest.param("x y", {"x": HEALTHY}, "y", id="recorded by another client"),
    ],
)
def test_consequences(recorded: str, states: dict[str, HostState], expected: str | None) -> None:
    """``!`` stands for an eviction."""
    found = node_failures(with_failed(*recorded.split()), states)
    assert (None if found is None else show(found)) == expected


def show(failures: NodeFailures) -> str:
    names = ", ".join(node.name for node in failures.nodes)
    if not failures.eviction:
        return names
    assert failures.eviction == (
        f"Workload eviction triggered due to multiple TAS assigned node failures, including: {names}"
    )
    return f"{names}!"


def test_tolerations_are_those_of_template_flavors_and_checks() -> None:
    def one(key: str) -> dict[str, str]:
        return {"key": key, "operator": "Exists"}

    flavors = {
        name: codec.convert(
            ResourceFlavor, {"metadata": {"name": name}, "spec": {"tolerations": [one(name)]}}
        )
        for name in ("tas", "other")
    }
    template = {"spec": {"containers": [], "tolerations": [one("template")]}}
    updates = [{"name": name, "tolerations": [one(f"check-{name}")]} for name in ("main", "side")]
    workload = codec.convert(
        Workload,
        {
            "metadata": {"name": "w"},
            "spec": {"podSets": [{"name": "main", "count": 1, "template": template}]},
            "status": {
                "admission": {
                    "clusterQueue": "q",
                    "podSetAssignments": [{"name": "main", "flavors": {"cpu": "tas", "gpu": "missing"}}],
                },
                "admissionChecks": [
                    {"name": "c", "state": "Ready", "podSetUpdates": updates},
                    {
                        "name": "d",
                        "state": "Retry",
                        "podSetUpdates": [
                            {"name": "main", "tolerations": [one("not-ready")]},
                        ],
                    },
                ],
            },
        },
    )
    assert workload.status.admission is not None
    (assigned,) = workload.status.admission.pod_set_assignments
    found = tolerations_of(workload, assigned, flavors)
    assert [each.key for each in found] == ["template", "tas", "check-main"]
