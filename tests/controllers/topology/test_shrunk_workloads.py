"""Which places an elastic workload keeps when its job has shrunk."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from quorate.api.core.pod import Pod
from quorate.api.kueue import Workload
from quorate.api.kueue.topology import HOSTNAME
from quorate.controllers.topology.ungater import has_shrunk, shrunk_admission
from tests.controllers.topology.objects import a_pod, a_workload

ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}


def resized(workload: Workload, *counts: int) -> Workload:
    pod_sets = tuple(
        msgspec.structs.replace(pod_set, count=count)
        for pod_set, count in zip(workload.spec.pod_sets, counts, strict=True)
    )
    return replace(workload, spec=replace(workload.spec, pod_sets=pod_sets))


def on(host: str, name: str, **fields: Any) -> Pod:
    return a_pod(name, {HOSTNAME: host}, **fields)


@pytest.mark.parametrize(
    ("places", "count", "pods", "expected"),
    [
        pytest.param({"x": 2, "y": 2}, 4, [], None, id="it has not shrunk"),
        pytest.param(
            {"x": 2, "y": 2},
            2,
            [on("x", "a"), on("y", "b")],
            {"x": 1, "y": 1},
            id="the places of the pods that are left",
        ),
        pytest.param(
            {"x": 2, "y": 2},
            2,
            [on("x", "a"), on("y", "b"), on("y", "c", is_deleted=True)],
            None,
            id="a pod that is being deleted still has its place",
        ),
        pytest.param(
            {"x": 2, "y": 2},
            2,
            [on("y", "a"), on("y", "b"), on("x", "c", phase="Failed")],
            {"y": 2},
            id="a host without pods is given up",
        ),
        pytest.param(
            {"x": 2, "y": 2},
            3,
            [on("y", "a"), a_pod("b")],
            {"x": 2, "y": 1},
            id="a gated pod and one that does not exist get the first places",
        ),
        pytest.param({"x": 2, "y": 2}, 1, [on("z", "a")], {"x": 1}, id="a pod elsewhere"),
        pytest.param(
            {"x": 2}, 1, [on("x", "a"), on("x", "b", pod_set="other")], {"x": 1}, id="another pod set"
        ),
        pytest.param({"x": 2}, 0, [], {}, id="no pods"),
    ],
)
def test_kept_places(
    places: dict[str, int], count: int, pods: list[Pod], expected: dict[str, int] | None
) -> None:
    workload = resized(a_workload(("main", places), annotations=ELASTIC), count)
    assert has_shrunk(workload) is (count < sum(places.values()))
    found = shrunk_admission(workload, pods, {}, by_host_prefix=True)
    if found is None:
        assert expected is None
    else:
        (assigned,) = found.pod_set_assignments
        assert assigned.topology_assignment is not None
        assert {values[-1]: kept for values, kept in assigned.topology_assignment.domains()} == expected
        assert assigned.count == sum(places.values())


def test_a_pod_that_was_just_ungated_has_its_place() -> None:
    workload = resized(a_workload(("main", {"x": 2, "y": 2}), annotations=ELASTIC), 1)
    pod = a_pod("a")
    found = shrunk_admission(workload, [pod], {pod.metadata.key: {HOSTNAME: "y"}}, by_host_prefix=True)
    assert found is not None
    assert found.pod_set_assignments[0].topology_assignment is not None
    assert tuple(found.pod_set_assignments[0].topology_assignment.domains()) == ((("y",), 1),)


def test_other_jobs_give_nothing_up() -> None:
    assert not has_shrunk(resized(a_workload(("main", {"x": 2})), 1))
