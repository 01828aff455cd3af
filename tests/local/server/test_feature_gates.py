"""Feature gates decide which kinds and fields of pod groups are served."""

import asyncio
import re
from collections.abc import Iterable
from typing import Any

import pytest

from quorate.kube.clock import WallClock
from quorate.local.server.apiserver import ApiServer
from quorate.local.server.registry.feature_gates import GATES, InvalidGate, disabled_gates
from tests.local.api_client import ApiClient, connect
from tests.local.clusters import ADMIN, KEYS, TOKEN, RestorableStore, RunningServer

PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
WORKLOADS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/workloads"
POLICY = {"schedulingPolicy": {"gang": {"minCount": 2}}}
POD = {
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i"}], "schedulingGroup": {"podGroupName": "g"}},
}


@pytest.mark.parametrize(
    ("text", "off"),
    [
        pytest.param("", {"WorkloadWithJob"}, id="jobs make no groups unless they are to"),
        pytest.param("WorkloadWithJob=true", set(), id="a gate is turned on"),
        pytest.param(
            "GenericWorkload=false", {"GenericWorkload", "WorkloadWithJob"}, id="a gate is turned off"
        ),
    ],
)
def test_gates_are_read(text: str, off: set[str]) -> None:
    assert disabled_gates(text) == off


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("Surprise=true", f"'Surprise' is not one of {', '.join(sorted(GATES))}", id="unknown"),
        pytest.param("GenericWorkload=1", "'GenericWorkload=1' is not NAME=true or NAME=false", id="no bool"),
        pytest.param("GenericWorkload", "'GenericWorkload' is not NAME=true or NAME=false", id="no value"),
    ],
)
def test_a_wrong_setting_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidGate, match=f"^{re.escape(problem)}$"):
        disabled_gates(text)


async def served_with(off: Iterable[str]) -> tuple[tuple[int, Any], tuple[int, Any], tuple[int, Any]]:
    """Return the answers to new objects with all fields: a pod, a pod group and a workload."""
    terms = POLICY | {
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
        "resourceClaims": [{"name": "c", "resourceClaimName": "c"}],
        "disruptionMode": "PodGroup",
    }
    store = RestorableStore(":memory:")
    server = ApiServer(store, {TOKEN: ADMIN}, WallClock(), iter_uids(), keys=KEYS, disabled_gates=off)
    await server.start("127.0.0.1", 0, None)
    try:
        url = f"http://127.0.0.1:{server.port}"
        async with connect(RunningServer(url, TOKEN, server.port, server.connect, store)) as client:
            return await send_all(client, terms)
    finally:
        await server.stop()


async def send_all(client: ApiClient, terms: Any) -> tuple[Any, Any, Any]:
    workload = {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": [{"name": "t"} | terms]}}
    group = {"metadata": {"name": "g"}, "spec": terms}
    return (
        await client.send("POST", PODS, POD),
        await client.send("POST", GROUPS, group),
        await client.send("POST", WORKLOADS, workload),
    )


def iter_uids() -> Any:
    numbers = iter(range(1, 1000))
    return lambda: f"00000000-0000-0000-0000-{next(numbers):012}"


def test_all_fields_are_stored_with_all_gates() -> None:
    (_, pod), (_, group), (_, workload) = asyncio.run(served_with(()))
    assert pod["spec"]["schedulingGroup"] == {"podGroupName": "g"}
    (template,) = workload["spec"]["podGroupTemplates"]
    for terms in (group["spec"], template):
        assert {"schedulingConstraints", "resourceClaims", "disruptionMode"} <= set(terms)


def test_without_the_api_pods_lose_their_group() -> None:
    (_, pod), (group_code, _), (workload_code, _) = asyncio.run(served_with({"GenericWorkload"}))
    assert "schedulingGroup" not in pod["spec"]
    assert (group_code, workload_code) == (404, 404)


@pytest.mark.parametrize(
    ("gate", "field"),
    [
        ("TopologyAwareWorkloadScheduling", "schedulingConstraints"),
        ("WorkloadAwarePreemption", "disruptionMode"),
        ("DRAWorkloadResourceClaims", "resourceClaims"),
    ],
)
def test_without_a_gate_new_objects_lose_its_fields(gate: str, field: str) -> None:
    _, (_, group), (_, workload) = asyncio.run(served_with({gate}))
    (template,) = workload["spec"]["podGroupTemplates"]
    assert not group["spec"].get(field)
    assert not template.get(field)
