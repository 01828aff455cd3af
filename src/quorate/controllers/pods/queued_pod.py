"""What the state of a plain pod means for its queueing, alone or in a group."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from quorate.api import codec
from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.core.pod import Pod
from quorate.api.findings import Finding
from quorate.api.kueue import PodSet
from quorate.api.kueue.topology_annotations import PodIndex
from quorate.api.meta import ObjectMeta, is_true
from quorate.api.names.kueue import TOPOLOGY_GATE
from quorate.api.names.topology import GROUP_POD_INDEX, REQUESTS
from quorate.controllers.jobframework.construct_workload import NotComposed
from quorate.controllers.jobframework.podset_info import read_template
from quorate.controllers.jobframework.topology import (
    TopologySource,
    topology_findings,
    with_topology_requests,
)
from quorate.controllers.pods import constants

_DIGITS: Final = 8
_COPIED_FIELDS: Final = (
    "affinity", "nodeSelector", "overhead", "resourceClaims", "runtimeClassName", "topologySpreadConstraints",
)  # fmt: skip
# Go encodes the fields of a struct in their declared order, not sorted.
_PORT: Final = ("name", "hostPort", "containerPort", "protocol", "hostIP")
_NO_AMOUNTS: Final[Mapping[str, Any]] = {"ports": None, "resources": {"requests": None}}
_TOLERATION: Final = ("key", "operator", "value", "effect", "tolerationSeconds")


def is_forcefully_deletable(pod: Pod) -> bool:
    """Return True if the pod opts in to failure recovery, whether it is managed or not."""
    return pod.metadata.annotations.get(constants.FORCEFULLY) == "true"


def is_gated(pod: Pod) -> bool:
    return pod.has_gate(constants.ADMISSION_GATE)


def is_suspended(pod: Pod) -> bool:
    return pod.has_ended or is_gated(pod)


def is_ready(pod: Pod) -> bool:
    return is_true(pod.status.conditions, "Ready")


def can_count(pod: Pod) -> bool:
    """Return True if the pod can still run, runs or has succeeded: its group counts it."""
    if pod.is_leaving and not pod.node_name:
        return False
    return pod.status.phase != "Failed"


def has_failed_for_good(pod: Pod) -> bool:
    """Return True if the pod failed by itself: a pod stopped with its group may be created again."""
    return pod.status.phase == "Failed" and not is_true(pod.status.conditions, constants.TERMINATION_TARGET)


def has_finalizer(pod: Pod) -> bool:
    return constants.MANAGED in pod.metadata.finalizers


def is_retriable(pod: Pod) -> bool:
    return pod.metadata.annotations.get(constants.RETRIABLE) != "false"


def group_name_of(metadata: ObjectMeta, by_annotation: bool) -> str:
    """Return the name of a pod's group, or an empty text.

    ``by_annotation``: the annotation takes precedence over the label (gate WorkloadIdentifierAnnotations),
    because it may be longer than 63 characters.
    """
    return group_name_in(metadata.labels, metadata.annotations, by_annotation)


def group_name_in(labels: Mapping[str, str], annotations: Mapping[str, str], by_annotation: bool) -> str:
    label = labels.get(constants.GROUP_NAME, "")
    return (annotations.get(constants.GROUP_NAME, "") or label) if by_annotation else label


def last_active(pod: Pod, never: datetime) -> datetime:
    """Return when a pod that does not count failed or was deleted, whichever is first."""
    times = [never]
    if pod.history.failed_since is not None:
        times.append(pod.history.failed_since)
    if pod.metadata.deletion_timestamp is not None:
        times.append(pod.metadata.deletion_timestamp)
    return min(times)


_INDEX: Final = PodIndex(GROUP_POD_INDEX)


def topology_source(pod: Pod) -> TopologySource:
    return TopologySource("metadata.annotations", _INDEX, pod.metadata.annotations)


def missing_gate_findings(pod: Pod) -> Iterator[Finding]:
    """Report a pod that requests a place and could not wait for it: gates cannot be added to a pod."""
    requests = any(key in pod.metadata.annotations for key in REQUESTS)
    if requests and is_gated(pod) and TOPOLOGY_GATE not in pod.gates:
        rule = f"lack {TOPOLOGY_GATE}, with which the pod waits for its place (create it again with the gate)"
        yield Finding("spec.schedulingGates", list(pod.gates), rule)


def request_topology(
    pods: Sequence[Pod], pod_sets: Sequence[PodSet], gates: TopologyGates
) -> tuple[PodSet, ...] | NotComposed:
    """Return the pod sets of a group with their requests; ``pods``: the first one of each set."""
    sources = [topology_source(pod) for pod in pods]
    problems = [
        f"pod {pod.metadata.name}: {finding}"
        for pod, pod_set, source in zip(pods, pod_sets, sources, strict=True)
        for finding in (
            *topology_findings((pod_set,), (source,), gates, grouped=False),
            *missing_gate_findings(pod),
        )
    ]
    if problems:
        return NotComposed("; ".join(problems))
    return with_topology_requests(pod_sets, sources, gates)


def role_of(pod: Pod) -> str:
    """Return the pod's role, which is the name of its pod set.

    The role hash is Kueue's, so that both controllers assign the same roles: eight hex digits of SHA-256 over
    JSON with sorted keys, in which absent fields are null.
    """
    return pod.metadata.annotations.get(constants.ROLE_HASH) or role_hash(read_template(pod.written))


def role_hash(spec: Mapping[str, Any]) -> str:
    """Compute the role of a pod with ``spec`` and without the annotation."""
    text = codec.encode({"spec": dict(sorted(role_shape(spec).items()))})
    return hashlib.sha256(text).hexdigest()[:_DIGITS]


def role_shape(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of ``spec`` that determine the role, by the name of the field."""
    shape: dict[str, Any] = {
        "containers": _containers(spec.get("containers")),
        "initContainers": _containers(spec.get("initContainers")),
        "priority": spec.get("priority"),
        "tolerations": _structs(spec.get("tolerations"), _TOLERATION),
        **{name: _sorted(spec.get(name)) for name in _COPIED_FIELDS},
    }
    if requests := _requests(spec):
        shape["resources"] = {"requests": requests}
    return shape


def _containers(containers: Sequence[Mapping[str, Any]] | None) -> list[Any] | None:
    return [
        {
            "ports": _structs([port for port in container.get("ports") or () if port.get("hostPort")], _PORT),
            "resources": {"requests": _requests(container)},
        }
        if container.get("ports") or container.get("resources")
        else _NO_AMOUNTS
        for container in containers or ()
    ] or None


def _requests(of: Mapping[str, Any]) -> msgspec.Raw | None:
    return _sorted((of.get("resources") or {}).get("requests"))


def _structs(items: Sequence[Mapping[str, Any]] | None, fields: Sequence[str]) -> list[Any] | None:
    return [
        {name: item[name] for name in fields if item.get(name) is not None} for item in items or ()
    ] or None


def _sorted(value: Any) -> msgspec.Raw | None:
    return msgspec.Raw(codec.encode_sorted(value)) if value else None
