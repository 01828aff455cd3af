"""Topology requests in the rules of the job framework: composed, refused, and followed by gated pods."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.kueue import PodSet, Workload
from quorate.api.kueue.topology import PodSetTopologyRequest, topology_assignment
from quorate.api.names.kueue import TOPOLOGY_GATE
from quorate.controllers.jobframework.job_plan import IDLE, JobOptions
from quorate.kube.writes import Create, Patch
from tests.controllers.jobframework.plans import events, plan, reasons, show
from tests.controllers.objects import a_job, a_workload, template

ON = JobOptions(topology=TopologyGates())
OFF = JobOptions()
REQUIRED = "kueue.x-k8s.io/podset-required-topology"
UNCONSTRAINED = "kueue.x-k8s.io/podset-unconstrained-topology"
IMPLIED = {UNCONSTRAINED: "true"}
PLACES = topology_assignment(("kubernetes.io/hostname",), [(("x1",), 2), (("x2",), 1)])


def created(**annotations: str) -> Workload:
    (create,) = plan(
        a_job(template=template(annotations={REQUIRED: "rack", **annotations})), options=ON
    ).writes
    assert isinstance(create, Create)
    assert isinstance(create.body, Workload)
    return create.body


def test_a_job_requests_its_topology_of_its_workload() -> None:
    (pod_set,) = created().spec.pod_sets
    assert pod_set.topology_request == PodSetTopologyRequest(
        required="rack", pod_index_label="batch.kubernetes.io/job-completion-index"
    )


def test_an_obeyed_annotation_is_not_reported() -> None:
    job = a_job(template=template(annotations={REQUIRED: "rack"}))
    assert reasons(plan(job, options=ON)) == ["CreatedWorkload"]


def test_a_job_with_an_invalid_annotation_gets_an_event_and_no_workload() -> None:
    got = plan(a_job(template=template(annotations={REQUIRED: "a rack"})), options=ON)
    assert show(got) == []
    (event,) = events(got)
    assert (event.type, event.reason) == ("Warning", "ErrWorkloadCompose")
    assert event.message == (
        f"spec.template.metadata.annotations[{REQUIRED}]: 'a rack' is not the key of a label "
        "(write name or example.com/name)"
    )


def test_a_workload_from_before_stays_the_workload_of_its_job() -> None:
    """Kueue does not compare requests either: they change neither quota nor pods."""
    annotated = template(annotations={REQUIRED: "rack"})
    before = a_workload("!QuotaReserved=Pending", pod_sets=[PodSet(count=3, template=annotated)])
    assert plan(a_job(template=annotated), before, options=ON) == IDLE


@pytest.mark.parametrize(
    ("options", "placed", "request_", "gates", "annotations"),
    [
        pytest.param(
            ON, True, PodSetTopologyRequest(required="rack"), [{"name": TOPOLOGY_GATE}], {}, id="required"
        ),
        pytest.param(
            ON, True, PodSetTopologyRequest(unconstrained=False), [{"name": TOPOLOGY_GATE}], {},
            id="explicitly not unconstrained",
        ),
        pytest.param(
            ON, True, PodSetTopologyRequest(pod_index_label="i"), [{"name": TOPOLOGY_GATE}], IMPLIED,
            id="only numbered",
        ),
        pytest.param(ON, True, msgspec.UNSET, [{"name": TOPOLOGY_GATE}], IMPLIED, id="no request"),
        pytest.param(ON, False, PodSetTopologyRequest(required="rack"), None, {}, id="no places"),
        pytest.param(OFF, True, PodSetTopologyRequest(required="rack"), None, {}, id="places from before"),
    ],
)  # fmt: skip
def test_pods_with_places_start_gated(
    options: JobOptions,
    placed: bool,
    request_: PodSetTopologyRequest | msgspec.UnsetType,
    gates: object,
    annotations: Mapping[str, str],
) -> None:
    pods = a_workload().spec.pod_sets[0].template
    pod_set = PodSet(count=3, template=pods, topology_request=request_)
    workload = with_places(a_workload(admitted_to=["spot"], pod_sets=[pod_set]), placed=placed)
    (patch,) = plan(a_job(), workload, options=options).writes
    assert isinstance(patch, Patch)
    started = patch.body["spec"]["template"]
    assert started["spec"].get("schedulingGates") == gates
    assert started["metadata"]["labels"]["kueue.x-k8s.io/podset"] == "main"
    assert started["metadata"]["annotations"] == {
        "kueue.x-k8s.io/workload": workload.metadata.name,
        **annotations,
    }


def with_places(workload: Workload, *, placed: bool) -> Workload:
    admission = workload.status.admission
    assert admission is not None
    assignments: Any = tuple(
        msgspec.structs.replace(each, topology_assignment=PLACES if placed else None)
        for each in admission.pod_set_assignments
    )
    admission = msgspec.structs.replace(admission, pod_set_assignments=assignments)
    status = msgspec.structs.replace(workload.status, admission=admission)
    return msgspec.structs.replace(workload, status=status)
