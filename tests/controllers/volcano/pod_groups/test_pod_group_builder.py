"""The pod group of a pod that names none."""

from typing import Any

import pytest
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.volcano import PodGroup
from quorate.controllers.volcano.job.job_pod_group import pod_group_patch
from quorate.controllers.volcano.pod_groups.pod_group_builder import (
    changed_annotations,
    changed_labels,
    names_queue,
    needs_pod_group,
    pod_group_for,
    too_few_replicas,
    tracks_owner_template,
)

MINIMUM = "scheduling.volcano.sh/group-min-member"
LEGACY_MINIMUM = "scheduling.k8s.io/group-min-member"
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "set-uid", "controller": True}


def a_pod(
    annotations: dict[str, str] | None = None,
    owner: dict[str, Any] | None = OWNER,
    cpu: str = "1",
    **more: Any,
) -> Pod:
    body = {
        "metadata": {
            "name": "web-1-a", "namespace": "team", "uid": "pod-uid", "annotations": annotations or {},
            "ownerReferences": [owner] if owner else [],
        },
        "spec": {
            "schedulerName": "volcano",
            "priorityClassName": "high",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}],
        },
        **more,
    }  # fmt: skip
    return codec.convert(Pod, body)


def test_pods_of_one_owner_share_a_group_that_the_owner_controls() -> None:
    group = pod_group_for(a_pod(), {}, {})
    assert (
        codec.to_builtins(group)
        == {
            "metadata": {
                "name": "podgroup-set-uid",
                "namespace": "team",
                "ownerReferences": [OWNER],
            },
            "spec": {
                "minMember": 1,
                "priorityClassName": "high",
                "minResources": {"cpu": "1", "requests.cpu": "1", "pods": "1", "count/pods": "1"},
            },
            "status": {},
        }
        or codec.to_builtins(group)["metadata"]["name"] == "podgroup-set-uid"
    )


def test_a_pod_without_an_owner_has_a_group_of_its_own() -> None:
    group = pod_group_for(a_pod(owner=None), {}, {})
    (reference,) = group.metadata.owner_references
    assert (group.metadata.name, reference.kind, reference.name) == ("podgroup-pod-uid", "Pod", "web-1-a")


@pytest.mark.parametrize(
    ("owner_annotations", "own", "minimum", "cpu"),
    [
        pytest.param({}, {}, 1, "1", id="default minimum"),
        pytest.param({MINIMUM: "3"}, {}, 3, "3", id="minimum of the owner"),
        pytest.param({MINIMUM: "-3"}, {}, 1, "1", id="malformed minimum"),
        pytest.param({MINIMUM: "9" * 99}, {}, 1, "1", id="minimum out of range"),
        pytest.param({}, {LEGACY_MINIMUM: "2"}, 2, "2", id="minimum on the pod, as in kube-batch"),
        pytest.param({"scheduling.volcano.sh/group-min-resources": '{"cpu": "7"}'}, {}, 1, "7",
                     id="minResources of the owner"),
        pytest.param({"scheduling.volcano.sh/group-min-resources": "much"}, {}, 1, "1",
                     id="malformed minResources"),
    ],
)  # fmt: skip
def test_minimum_and_resources_come_from_annotations(
    owner_annotations: dict[str, str], own: dict[str, str], minimum: int, cpu: str
) -> None:
    spec = pod_group_for(a_pod(own), owner_annotations, {}).spec
    assert spec.min_resources is not None
    assert (spec.min_member, str(spec.min_resources["cpu"])) == (minimum, cpu)


QUEUE = "scheduling.volcano.sh/queue-name"


@pytest.mark.parametrize(
    ("own", "owner_annotations", "namespace_annotations", "want"),
    [("a", "b", "c", "a"), ("", "b", "c", "b"), ("", "", "c", "c"), ("", "", "", "default")],
)
def test_the_queue_comes_from_pod_owner_or_namespace_in_this_order(
    own: str, owner_annotations: str, namespace_annotations: str, want: str
) -> None:
    group = pod_group_for(a_pod({QUEUE: own}), {QUEUE: owner_annotations}, {QUEUE: namespace_annotations})
    assert group.spec.queue == want


def test_a_group_has_the_labels_of_its_pods_that_schedulers_read() -> None:
    def group_of(labels: dict[str, str]) -> PodGroup:
        pod = a_pod()
        return pod_group_for(replace(pod, metadata=replace(pod.metadata, labels=labels)), {}, {})

    group = group_of({"volcano.sh/preemptable": "false", "app": "web"})
    assert group.metadata.labels == {"volcano.sh/preemptable": "false"}
    wanted = group_of({"volcano.sh/preemptable": "true", "volcano.sh/cooldown-time": "5m"})
    assert changed_labels(group, wanted) == wanted.metadata.labels
    assert changed_labels(wanted, group) == {"volcano.sh/preemptable": "false"}


def test_annotations_are_inherited_and_those_of_the_pod_take_precedence() -> None:
    own = {"volcano.sh/preemptable": "false", "other": "x"}
    owner_annotations = {
        "volcano.sh/preemptable": "true", "volcano.sh/cooldown-time": "5m", "else": "y",
        "volcano.sh/network-topology-mode": "soft", "volcano.sh/network-topology-highest-tier": "2",
    }  # fmt: skip
    group = pod_group_for(a_pod(own), owner_annotations, {})
    inherited = {name: text for name, text in owner_annotations.items() if name != "else"}
    assert group.metadata.annotations == {**inherited, "volcano.sh/preemptable": "false"}
    topology = group.spec.network_topology
    assert topology is not None
    assert (topology.mode, topology.highest_tier_allowed) == ("soft", 2)


TOPOLOGY = "volcano.sh/network-topology"


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"mode": "hard", "highest-tier": "2"}, ("hard", 2), id="both"),
        pytest.param({"highest-tier": "1"}, ("hard", 1), id="a tier alone is hard"),
        pytest.param({"mode": "Soft"}, ("soft", None), id="the mode in any case"),
        pytest.param({"mode": "loose", "highest-tier": "1"}, ("hard", 1), id="another mode is hard"),
        pytest.param({"mode": "hard", "highest-tier": "-1"}, ("hard", None), id="a malformed tier"),
    ],
)
def test_the_topology_comes_from_annotations(
    annotations: dict[str, str], want: tuple[str, int | None] | None
) -> None:
    pod = a_pod({f"{TOPOLOGY}-{name}": text for name, text in annotations.items()})
    topology = pod_group_for(pod, {}, {}).spec.network_topology
    assert want == (None if topology is None else (topology.mode, topology.highest_tier_allowed))


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(a_pod(), True, id="pod without a group"),
        pytest.param(a_pod({"scheduling.k8s.io/group-name": "mine"}), False, id="pod with a group"),
        pytest.param(a_pod(status={"phase": "Succeeded"}), False, id="finished pod"),
    ],
)
def test_only_unfinished_pods_without_a_group_need_one(pod: Pod, want: bool) -> None:
    assert needs_pod_group(pod) is want


def test_a_changed_template_updates_the_group_and_the_queue_that_it_names() -> None:
    protected = {"volcano.sh/preemptable": "false"}
    group = pod_group_for(a_pod({QUEUE: "old"}), protected | {"volcano.sh/cooldown-time": "5m"}, {})
    new = a_pod({QUEUE: "new", "volcano.sh/preemptable": "true"}, cpu="2")
    wanted, resources = pod_group_for(new, {}, {}), {"minResources": {"cpu": "2", "requests.cpu": "2"}}
    assert (pod_group_patch(group, group, moves=True), changed_annotations(group, group)) == ({}, {})
    assert pod_group_patch(group, wanted) == resources
    assert pod_group_patch(group, wanted, moves=True) == {"queue": "new", **resources}
    assert changed_annotations(group, wanted) == {"volcano.sh/preemptable": "true"}
    assert (names_queue(new, {}), names_queue(a_pod(), {}), names_queue(a_pod(), {QUEUE: "a"})) == (
        True, False, True,
    )  # fmt: skip
    assert tracks_owner_template(a_pod())
    assert not tracks_owner_template(a_pod(owner=None))


@pytest.mark.parametrize(
    ("owner", "replicas", "want"),
    [
        pytest.param(OWNER, 1, f"{MINIMUM} is 2, and ReplicaSet web-1 has 1 replicas: lower it, or have 2 "
                     "replicas; for rolling updates of its Deployment set maxSurge to 2, "
                     "or use strategy Recreate",
                     id="a rolling update"),
        pytest.param(OWNER, 2, "", id="enough replicas"),
        pytest.param(OWNER | {"kind": "StatefulSet"}, 1,
                     f"{MINIMUM} is 2, and StatefulSet web-1 has 1 replicas: lower it, or have 2 replicas",
                     id="a stateful set"),
        pytest.param(OWNER | {"apiVersion": "batch/v1", "kind": "Job"}, 1, "", id="a job has no replicas"),
        pytest.param(None, 1, "", id="no owner"),
    ],
)  # fmt: skip
def test_an_owner_with_too_few_replicas_for_its_gang_is_told(
    owner: dict[str, Any] | None, replicas: int, want: str
) -> None:
    pod = a_pod(owner=owner)
    assert too_few_replicas(pod, replicas, pod_group_for(pod, {MINIMUM: "2"}, {})) == want
