"""Topology requests of StatefulSets and LeaderWorkerSets."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.names.kueue import TOPOLOGY_GATE
from quorate.controllers.executor import Plan
from quorate.controllers.jobframework.job_plan import JobOptions
from quorate.controllers.pods import constants
from quorate.controllers.serving.kinds import ServingSet, set_topology_findings
from quorate.controllers.serving.reconciler import gate_plan
from quorate.kube.patches import merged
from quorate.kube.resources import Json
from quorate.kube.writes import Create, Patch
from tests.controllers.pods.notation import NOW, a_pod
from tests.controllers.serving.test_workloads import (
    LEADER_WORKER_SET,
    NOTHING,
    STATEFUL_SET,
    a_set,
    groups_of,
    serving_plan,
)

ON = TopologyGates()
RACK = {"kueue.x-k8s.io/podset-required-topology": "rack"}
GROUP = {**RACK, "kueue.x-k8s.io/podset-group-name": "g"}
ORDINAL = {"podIndexLabel": "apps.kubernetes.io/pod-index"}
WORKER = {"podIndexLabel": "leaderworkerset.sigs.k8s.io/worker-index"}


def annotated(obj: ServingSet, *path: str, annotations: Json = RACK) -> ServingSet:
    """Return a set with annotations in the pod template at ``path``."""
    change: Json = {"metadata": {"annotations": annotations}}
    for step in reversed(("spec", *path)):
        change = {step: change}
    body = {"metadata": codec.to_builtins(obj.metadata), "spec": obj.spec}
    return codec.convert(ServingSet, merged(body, change))


def plan(
    kind: Any, obj: ServingSet, gates: TopologyGates | None = ON, workloads: Any = (), pods: Any = ()
) -> Plan:
    return serving_plan(kind.serving, obj, workloads, pods, NOTHING, JobOptions(topology=gates), NOW)


def requests(kind: Any, obj: ServingSet, gates: TopologyGates | None = ON) -> dict[str, object]:
    (create,) = plan(kind, obj, gates=gates).writes
    assert isinstance(create, Create)
    return {each.name: codec.to_builtins(each).get("topologyRequest") for each in create.body.spec.pod_sets}


DB = annotated(a_set(), "template")
LEADERS = groups_of(4, 1)
WORKERS = ("leaderWorkerTemplate", "workerTemplate")


@pytest.mark.parametrize(
    ("kind", "obj", "want"),
    [
        pytest.param(STATEFUL_SET, DB, {"main": {"required": "rack", **ORDINAL}}, id="a StatefulSet"),
        pytest.param(STATEFUL_SET, a_set(), {"main": ORDINAL}, id="a StatefulSet without annotations"),
        pytest.param(
            LEADER_WORKER_SET, annotated(LEADERS, *WORKERS),
            {"leader": None, "worker": {"required": "rack", **WORKER}}, id="leader and workers",
        ),
        pytest.param(
            LEADER_WORKER_SET, annotated(groups_of(4, 1, leader=False), *WORKERS),
            {"main": {"required": "rack", **WORKER}}, id="no leader",
        ),
    ],
)  # fmt: skip
def test_the_request_of_each_kind_of_set(kind: Any, obj: ServingSet, want: dict[str, object]) -> None:
    assert requests(kind, obj) == want
    assert requests(kind, obj, gates=None) == dict.fromkeys(want)


@pytest.mark.parametrize(
    ("obj", "worker_index", "want"),
    [
        pytest.param(LEADERS, "2", "1", id="a worker beside a leader"),
        pytest.param(LEADERS, "0", None, id="the leader"),
        pytest.param(groups_of(4, 1, leader=False), "2", None, id="equal pods"),
        pytest.param(
            annotated(
                annotated(LEADERS, *WORKERS, annotations=GROUP),
                "leaderWorkerTemplate", "leaderTemplate", annotations=GROUP,
            ),
            "2", None, id="a group counts its leader anyway",
        ),
    ],
)  # fmt: skip
def test_workers_are_numbered_after_their_leader(
    obj: ServingSet, worker_index: str, want: str | None
) -> None:
    labels = {
        "leaderworkerset.sigs.k8s.io/group-index": "0",
        "leaderworkerset.sigs.k8s.io/worker-index": worker_index,
    }
    pod = a_pod("serve-0-2", group="", has_finalizer=False, labels=labels)
    (create,) = plan(LEADER_WORKER_SET, obj).writes
    assert isinstance(create, Create)
    assert plan(LEADER_WORKER_SET, obj, pods=(pod,)).concurrent == (), "its group has no workload yet"
    ((patch,),) = plan(LEADER_WORKER_SET, obj, workloads=(create.body,), pods=(pod,)).concurrent
    assert isinstance(patch, Patch)
    assert patch.body["metadata"]["annotations"].get("kueue.x-k8s.io/pod-index-offset") == want


def test_a_set_with_an_invalid_annotation_gets_an_event_and_no_workload() -> None:
    wrong = {"kueue.x-k8s.io/podset-slice-required-topology": "rack", "kueue.x-k8s.io/podset-slice-size": "9"}
    obj = annotated(a_set(), "template", annotations=wrong)
    got = plan(STATEFUL_SET, obj)
    assert got.writes == ()
    (event,) = (each.event for each in got.events)
    assert (event.reason, event.message) == (
        "ErrWorkloadCompose",
        "spec.template.metadata.annotations[kueue.x-k8s.io/podset-slice-size]: '9' must not be greater than "
        "pod set count 2",
    )


def test_pod_sets_of_a_replica_are_compared() -> None:
    serving = LEADER_WORKER_SET.serving
    assert serving is not None
    alone = annotated(LEADERS, *WORKERS, annotations=GROUP)
    (finding,) = set_topology_findings(serving, alone, ON)
    assert finding.path == (
        "spec.leaderWorkerTemplate.workerTemplate.metadata.annotations[kueue.x-k8s.io/podset-group-name]"
    )
    assert set_topology_findings(serving, groups_of(4, 0), ON) == ()


@pytest.mark.parametrize("topology", [True, False])
def test_templates_are_gated_for_places_if_pods_may_get_them(topology: bool) -> None:
    kind = STATEFUL_SET
    got = gate_plan(kind.templates, kind.resource, a_set(marked=False), topology=topology)
    assert got is not None
    (patch,) = got.writes
    assert isinstance(patch, Patch)
    gates = [gate["name"] for gate in patch.body["spec"]["template"]["spec"]["schedulingGates"]]
    assert gates == [constants.ADMISSION_GATE, *([TOPOLOGY_GATE] if topology else [])]
