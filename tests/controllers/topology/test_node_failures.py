"""Which hosts a workload is assigned to, and which pods wait for one."""

import pytest

from quorate.api.kueue.topology import HOSTNAME
from quorate.controllers.topology.host_pods import host_of, is_progressing, is_waiting
from quorate.controllers.topology.node_failures import assigned_hosts
from quorate.controllers.topology.placed_pods import PlacedPod
from tests.controllers.topology.objects import a_pod, a_workload

ON_X = {HOSTNAME: "x"}


def test_only_places_on_hosts_have_hosts() -> None:
    on_hosts = a_workload(("main", {"x": 2, "y": 1}), ("other", {"y": 1}))
    assert on_hosts.status.admission is not None
    found = assigned_hosts(on_hosts.status.admission)
    assert found.by_pod_set == {"main": {"x", "y"}, "other": {"y"}}
    assert found.all == {"x", "y"}

    on_racks = a_workload(("main", {"b/r": 2}), levels=("block", "rack"))
    assert on_racks.status.admission is not None
    assert assigned_hosts(on_racks.status.admission).by_pod_set == {}


@pytest.mark.parametrize(
    ("pod", "state"),
    [
        pytest.param(a_pod("a"), "", id="gated"),
        pytest.param(a_pod("a", ON_X), "waits", id="without a node"),
        pytest.param(a_pod("a", ON_X, is_deleted=True), "", id="deleted without a node"),
        pytest.param(a_pod("a", ON_X, phase="Failed"), "", id="failed without a node"),
        pytest.param(a_pod("a", ON_X, node="n"), "progresses", id="bound"),
        pytest.param(a_pod("a", ON_X, node="n", is_deleted=True), "", id="being deleted"),
        pytest.param(a_pod("a", ON_X, node="n", phase="Succeeded"), "", id="succeeded"),
    ],
)
def test_pods_wait_or_progress(pod: PlacedPod, state: str) -> None:
    assert (is_waiting(pod), is_progressing(pod)) == (state == "waits", state == "progresses")
    assert host_of(pod) == pod.spec.node_selector.get(HOSTNAME, "")
