"""Elastic jobs: which of their pods are ungated, and with which nodes."""

from typing import Any

import msgspec
import pytest

from quorate.api.core import SchedulingGate, Toleration
from quorate.api.core.pod import Pod, PodMeta
from quorate.api.kueue import (
    Workload,
)
from quorate.api.kueue.topology import topology_assignment
from quorate.api.meta import at_epoch
from quorate.api.names.kueue import TOPOLOGY_GATE, WORKLOAD_ANNOTATION
from quorate.api.names.topology import UNCONSTRAINED
from quorate.controllers.jobframework.elastic_gates import ELASTIC_GATE, pods_of_job, ungate, ungating_slices
from quorate.controllers.jobframework.podset_info import PodSetInfo
from quorate.controllers.jobframework.workload_slices import without_nodes
from quorate.controllers.jobs.ray import RayCluster
from quorate.controllers.jobs.rayjob import RayJob
from quorate.kube.patches import merged
from tests.controllers.jobframework.test_workload_slices import a_slice, running
from tests.controllers.jobs.test_ray import a_cluster, a_ray_job
from tests.controllers.jobs.test_unstructured import with_sections
from tests.controllers.objects import template

GATED = template(schedulingGates=[{"name": ELASTIC_GATE}])
REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"
SLICE_NAME = "kueue.x-k8s.io/workload-slice-name"


def a_pod(
    name: str, *, gated: bool = True, phase: str = "Pending", age: float = 0.0, of: str = "main"
) -> Pod:
    gates = (SchedulingGate(name=ELASTIC_GATE), SchedulingGate(name="other")) if gated else ()
    pod = Pod(
        metadata=PodMeta(
            name=name,
            namespace="default",
            resource_version="1",
            labels={"kueue.x-k8s.io/podset": of} if of else {},
            creation_timestamp=at_epoch(1_000 - age),
        )
    )
    spec = msgspec.structs.replace(pod.spec, scheduling_gates=gates)
    return msgspec.structs.replace(pod, spec=spec, status=msgspec.structs.replace(pod.status, phase=phase))


@pytest.mark.parametrize(
    ("pods", "admitted", "want"),
    [
        pytest.param([a_pod("a"), a_pod("b")], 1, ["a"], id="up to the admitted count"),
        pytest.param([a_pod("a"), a_pod("b", age=9)], 1, ["b"], id="the oldest first"),
        pytest.param([a_pod("a", gated=False), a_pod("b"), a_pod("c")], 2, ["b"], id="ungated pods count"),
        pytest.param(
            [a_pod("a", gated=False, phase="Failed"), a_pod("b")],
            1,
            ["b"],
            id="terminated pods do not count",
        ),
        pytest.param([a_pod("a", gated=False), a_pod("b")], 1, [], id="enough pods are ungated"),
        pytest.param(
            [a_pod("a", gated=False, of=""), a_pod("b"), a_pod("c")],
            2,
            ["b"],
            id="a pod that runs since before the first suspension",
        ),
    ],
)
def test_the_oldest_pods_are_ungated(pods: list[Pod], admitted: int, want: list[str]) -> None:
    patches = ungate(pods, {"main": admitted})
    assert [patch.key.name for patch in patches] == want
    assert all(
        [gate.name for gate in patch.body["spec"]["schedulingGates"]] == ["other"] for patch in patches
    ), "other gates stay"


@pytest.mark.parametrize(
    ("slices", "want"),
    [
        pytest.param([running(3)], [3], id="one slice"),
        pytest.param([running(5, name="second", replaces="first"), running(3)], [3, 5], id="both admitted"),
        pytest.param([running(3), a_slice(5, name="second", replaces="first")], [3], id="the second waits"),
        pytest.param(
            [a_slice(3, "Admitted", "Finished=WorkloadSliceReplaced"), running(5, name="second")],
            [5],
            id="a replaced slice",
        ),
        pytest.param([a_slice(3, "Admitted", "Evicted=Preempted")], [], id="an evicted slice"),
    ],
)
def test_no_pod_is_ungated_for_an_evicted_or_a_replaced_slice(
    slices: list[Workload], want: list[int]
) -> None:
    assert [each.spec.pod_sets[0].count for each in ungating_slices(slices)] == want


def test_each_pod_set_has_its_own_count_of_ungated_pods() -> None:
    pods = [a_pod("h", of="head"), a_pod("w", of="workers"), a_pod("x", of="workers"), a_pod("o", of="other")]
    patches = ungate(pods, {"head": 1, "workers": 1})
    assert [patch.key.name for patch in patches] == ["h", "w"]
    unlabelled = [a_pod("p", gated=False, of=""), a_pod("q", gated=False, of="")]
    patches = ungate([*pods, *unlabelled], {"head": 1, "workers": 2})
    assert [patch.key.name for patch in patches] == ["w"]


def test_pods_without_the_gate_of_their_topology_get_their_places_as_they_are_ungated() -> None:
    """The pod set was started without pods; a pod that has the gate waits for the ungater."""
    places = topology_assignment(("kubernetes.io/hostname",), [(("x",), 2), (("y",), 1)])
    on_x = msgspec.structs.replace(
        a_pod("a", gated=False).spec, node_selector={"kubernetes.io/hostname": "x"}
    )
    waits = a_pod("d")
    both = msgspec.structs.replace(
        waits.spec, scheduling_gates=(*waits.spec.scheduling_gates, SchedulingGate(name=TOPOLOGY_GATE))
    )
    pods = [
        msgspec.structs.replace(a_pod("a", gated=False), spec=on_x),
        a_pod("b", age=3),
        a_pod("c", age=2),
        msgspec.structs.replace(waits, spec=both),
    ]
    patches = ungate(pods, {"main": 4}, (), {"main": places})
    assert {patch.key.name: patch.body["spec"].get("nodeSelector") for patch in patches} == {
        "b": {"kubernetes.io/hostname": "x"},
        "c": {"kubernetes.io/hostname": "y"},
        "d": None,
    }
    assert patches[0].body["metadata"] == {"annotations": {UNCONSTRAINED: "true"}}
    assert [patch.key.name for patch in ungate(pods[:1], {"main": 2}, (), {"main": places})] == []


ZONES = (
    PodSetInfo(name="head", count=1, node_selector={"zone": "a"}),
    PodSetInfo(
        name="workers",
        count=0,
        node_selector={"zone": "b"},
        tolerations=(Toleration(key="b", effect="NoSchedule"),),
    ),
)


def test_pods_that_are_gated_get_their_nodes_later() -> None:
    head, workers = without_nodes(ZONES, {"workers"})
    assert (head, workers) == (ZONES[0], PodSetInfo(name="workers", count=0))
    only = ZONES[1:]
    assert without_nodes(only, {"workers"}) == only, "the job is started anew when it grows from zero"
    job = a_ray_job()
    assert RayJob().gated_pod_sets(job) == {"head", "workers"}, "the submitter has no gate"


def test_ungated_pods_get_the_nodes_of_their_flavor() -> None:
    gated = a_pod("w", of="workers")
    placed = msgspec.structs.replace(gated.spec, node_selector={"zone": "b", "disk": "ssd"})
    pods = [gated, msgspec.structs.replace(a_pod("x", of="workers"), spec=placed), a_pod("h", of="head")]
    head, *workers = ungate(pods, {"head": 1, "workers": 2}, ZONES)
    tolerations = [{"key": "b", "effect": "NoSchedule"}]
    gates = {"schedulingGates": [SchedulingGate(name="other")]}
    assert head.body == {"spec": {"nodeSelector": {"zone": "a"}, **gates}}
    assert [each.body for each in workers] == [
        {"spec": {"nodeSelector": {"zone": "b"}, "tolerations": tolerations, **gates}},
        {"spec": {"tolerations": tolerations, **gates}},
    ]


def test_ungated_pods_use_the_capacity_that_was_requested_for_their_slice() -> None:
    """The template may have the annotations of the first slice."""
    wanted = {"autoscaling.x-k8s.io/consume-provisioning-request": "second-request"}
    info = PodSetInfo(name="main", count=1, annotations={**wanted, WORKLOAD_ANNOTATION: "second"})
    (patch,) = ungate([a_pod("new")], {"main": 1}, [info])
    assert patch.body["metadata"] == {"annotations": wanted}


def test_an_annotation_names_the_slices_of_pods_created_by_hand() -> None:
    def with_metadata(pod: Pod, **fields: Any) -> Pod:
        return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, **fields))

    owner = ("batch.kubernetes.io/controller-uid", "u1")
    made = with_metadata(a_pod("made"), labels=dict([owner]))
    by_hand = with_metadata(a_pod("hand"), annotations={"kueue.x-k8s.io/workload-slice-name": "first"})
    of_others = with_metadata(a_pod("other"), annotations={"kueue.x-k8s.io/workload-slice-name": "second"})
    found = pods_of_job([made, by_hand, of_others, a_pod("plain")], owner, "first")
    assert [pod.metadata.name for pod in found] == ["made", "hand"]


def test_all_templates_of_a_ray_cluster_are_gated() -> None:
    kind, job = RayCluster(), a_cluster(suspend=True)
    assert not kind.is_gated(job)
    (patch,) = kind.gate(job)
    gated = with_sections(job, spec=merged(job.spec, patch.body["spec"]))
    assert kind.is_gated(gated)
    assert kind.is_suspended(gated)
    assert kind.pods_label(gated) == ("ray.io/cluster", "train")
