"""Topology requests of plain pods and pod groups, and the gate behind which pods wait for their places."""

from typing import Any

import msgspec
import pytest

from quorate.api import codec
from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.core.pod import Pod
from quorate.api.kueue import PodSet
from quorate.api.names.kueue import TOPOLOGY_GATE
from quorate.controllers.jobframework.job_plan import JobOptions, ReconcileContext
from quorate.controllers.jobframework.podset_info import PodSetInfo, read_template
from quorate.controllers.jobframework.rules import decide
from quorate.controllers.pods import constants
from quorate.controllers.pods.defaulting import DefaultingContext, default_pod
from quorate.controllers.pods.pod_group import PodGroup
from quorate.controllers.pods.pod_group_kind import PodGroupKind
from quorate.controllers.pods.pod_kind import PodKind
from quorate.controllers.pods.pod_writes import ungate
from quorate.kube.writes import Create, Patch
from tests.controllers.pods.notation import NOW, a_pod, with_spec

NOTHING = ReconcileContext(flavors={}, workload_classes={}, pod_classes={})
ON = JobOptions(topology=TopologyGates())
RACK = {"kueue.x-k8s.io/podset-required-topology": "rack"}
INDEX = "kueue.x-k8s.io/pod-group-pod-index"
BOTH = [{"name": constants.ADMISSION_GATE}, {"name": TOPOLOGY_GATE}]


def gated(name: str, **fields: Any) -> Pod:
    """Return a pod with both gates."""
    pod = a_pod(name, **fields)
    spec = {**read_template(pod.written), "schedulingGates": BOTH}
    return with_spec(pod, msgspec.Raw(codec.encode(spec)))


def composed(*pods: Pod) -> tuple[PodSet, ...] | str:
    """Return the pod sets of the workload that is made of the pods, or the message of the event."""
    if pods[0].metadata.labels.get(constants.GROUP_NAME):
        group = PodGroup.of("train", pods, NOW)
        plan = decide(PodGroupKind(), group, (), NOTHING, ON, NOW)
    else:
        plan = decide(PodKind(), pods[0], (), NOTHING, ON, NOW)
    if not plan.writes:
        return plan.events[0].event.message
    (create,) = plan.writes
    assert isinstance(create, Create)
    pod_sets: tuple[PodSet, ...] = create.body.spec.pod_sets
    return pod_sets


def requests(*pods: Pod) -> dict[str, object]:
    pod_sets = composed(*pods)
    assert not isinstance(pod_sets, str), pod_sets
    return {each.name: codec.to_builtins(each.topology_request) for each in pod_sets}


def test_a_pod_requests_by_its_own_annotations() -> None:
    assert requests(gated("a", group="", annotations=RACK)) == {
        "main": {"required": "rack", "podIndexLabel": INDEX}
    }
    assert requests(gated("a", group="")) == {"main": {"podIndexLabel": INDEX}}


def test_each_role_of_a_group_requests_by_its_first_pod() -> None:
    leader, worker = gated("a", role="leader", age=0), gated("b", role="worker", age=1, annotations=RACK)
    assert requests(leader, worker) == {
        "leader": {"podIndexLabel": INDEX},
        "worker": {"required": "rack", "podIndexLabel": INDEX},
    }


def test_a_fast_group_requests_by_its_first_pod() -> None:
    fast = {**RACK, constants.FAST_ADMISSION: "true"}
    assert requests(gated("a", total="3", annotations=fast)) == {
        "main": {"required": "rack", "podIndexLabel": INDEX}
    }


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param(
            [gated("a", group="", annotations={"kueue.x-k8s.io/podset-unconstrained-topology": "no"})],
            "metadata.annotations[kueue.x-k8s.io/podset-unconstrained-topology]: 'no' must be a boolean "
            "value",
            id="a pod",
        ),
        pytest.param(
            [gated("a", total="1", annotations={"kueue.x-k8s.io/podset-slice-size": "1"})],
            "pod a: metadata.annotations[kueue.x-k8s.io/podset-slice-size]: '1' may not be set when "
            "'kueue.x-k8s.io/podset-slice-required-topology' is not specified",
            id="a group",
        ),
        pytest.param(
            [a_pod("a", group="", annotations=RACK)],
            'spec.schedulingGates: ["kueue.x-k8s.io/admission"] lack kueue.x-k8s.io/topology, with which the '
            "pod waits for its place (create it again with the gate)",
            id="a pod that could not wait",
        ),
    ],
)
def test_a_pod_that_cannot_be_placed_gets_an_event(pods: list[Pod], want: str) -> None:
    assert composed(*pods) == want


def left(pod: Pod, *gates: str) -> tuple[object, object]:
    """Return the gates and the index label of a pod after it is ungated."""
    patch = ungate(pod, PodSetInfo(name="main", count=1, scheduling_gates=gates))
    assert isinstance(patch, Patch)
    labels = patch.body.get("metadata", {}).get("labels", {})
    return patch.body["spec"]["schedulingGates"], labels.get(INDEX)


def test_an_admitted_pod_waits_for_its_place_only_if_it_gets_one() -> None:
    assert left(gated("a"), TOPOLOGY_GATE) == ([{"name": TOPOLOGY_GATE}], None)
    assert left(gated("a")) == (None, None)
    assert left(a_pod("a"), TOPOLOGY_GATE) == (None, None), "gates cannot be added to a pod"


def test_a_pod_gets_the_index_that_another_label_has() -> None:
    named = {f"{INDEX}-label": "rank"}
    assert left(gated("a", annotations=named, labels={"rank": "4"}), TOPOLOGY_GATE)[1] == "4"
    assert left(gated("a", annotations=named), TOPOLOGY_GATE)[1] is None
    assert left(gated("a", annotations=named, labels={"rank": "4", INDEX: "3"}), TOPOLOGY_GATE)[1] is None
    assert left(gated("a", annotations=named, labels={"rank": "4"}))[1] is None


def test_a_new_pod_gets_both_gates_and_the_index_label() -> None:
    here = DefaultingContext(namespace_managed=True, topology=True)
    queue = {"kueue.x-k8s.io/queue-name": "queue"}
    metadata = {"name": "a", "labels": {**queue, "rank": "4"}, "annotations": {f"{INDEX}-label": "rank"}}
    pod = default_pod({"metadata": metadata, "spec": {"containers": []}}, here)
    assert pod["spec"]["schedulingGates"] == BOTH
    assert pod["metadata"]["labels"][INDEX] == "4"
    assert default_pod(pod, here) == pod, "defaulting is idempotent"
