"""Which hosts a workload is assigned to, and which pods wait for one."""

import pytest
from msgspec.structs import replace

from quorate.api.core.pod import Pod
from quorate.api.kueue import ReclaimablePod
from quorate.api.kueue.topology import HOSTNAME
from quorate.controllers.topology.node_failures import assigned_hosts, needed_hosts
from quorate.controllers.topology.placed_pods import host_of, is_progressing, is_waiting
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
    ("pods", "ended", "want"),
    [
        pytest.param([], 0, {"x", "y", "z"}, id="no pod has ended"),
        pytest.param([], 2, {"x", "y", "z"}, id="it is unknown where the last pod runs"),
        pytest.param([a_pod("a", ON_X, node="x")], 2, {"x", "z"}, id="it runs on x"),
        pytest.param([a_pod("a", ON_X, node="x")], 1, {"x", "y", "z"}, id="another pod may come"),
        pytest.param([a_pod("a", ON_X, node="x", phase="Succeeded")], 3, {"z"}, id="all have ended"),
        pytest.param([a_pod("a", ON_X, node="x", is_deleted=True)], 2, {"x", "z"}, id="it is being deleted"),
    ],
)
def test_hosts_on_which_all_pods_have_ended_are_not_needed(
    pods: list[Pod], ended: int, want: set[str]
) -> None:
    """``main`` has two places on x and one on y, ``other`` one on z."""
    workload = a_workload(("main", {"x": 2, "y": 1}), ("other", {"z": 1}))
    reported = (ReclaimablePod(name="main", count=ended),) if ended else ()
    workload = replace(workload, status=replace(workload.status, reclaimable_pods=reported))
    assert workload.status.admission is not None
    assert needed_hosts(workload, assigned_hosts(workload.status.admission), pods) == want


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
def test_pods_wait_or_progress(pod: Pod, state: str) -> None:
    assert (is_waiting(pod), is_progressing(pod)) == (state == "waits", state == "progresses")
    assert host_of(pod) == pod.spec.node_selector.get(HOSTNAME, "")
