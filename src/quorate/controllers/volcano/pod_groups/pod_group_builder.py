"""Pod groups for pods that a gang scheduler places but that name no pod group.

All pods of one controlling owner share a group; a pod without one has a group of its own.

Source: Volcano's pod group controller (v1.15).
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.core import Resources
from quorate.api.core.pod import Pod
from quorate.api.core.pod_resources import quota_usage
from quorate.api.meta import ObjectMeta, OwnerReference
from quorate.api.names import volcano as names
from quorate.api.syntax import INT32_MAX
from quorate.api.volcano import DEFAULT_QUEUE, NetworkTopology, PodGroup, PodGroupSpec
from quorate.controllers.volcano.job.job_pod_group import multiply

POD_GROUP_PREFIX: Final = "podgroup-"
TOPOLOGY_MODE: Final = "volcano.sh/network-topology-mode"
TOPOLOGY_TIER: Final = "volcano.sh/network-topology-highest-tier"
_INHERITED_LABELS: Final = (names.PREEMPTABLE, names.COOLDOWN_TIME)  # of pods, as in Volcano
# Kinds with a pod template that may change and replicas that may be 0.
SCALABLE_KINDS: Final = (("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"))


def needs_pod_group(pod: Pod) -> bool:
    has_group = pod.group_name or pod.spec.scheduling_group is not None
    return not has_group and not pod.is_leaving and not pod.has_ended


def names_own_group(pod: Pod) -> bool:
    """Return True if ``pod`` still needs the group that was made for it."""
    return pod.group_name == pod_group_name(pod) and not pod.is_leaving and not pod.has_ended


def pod_group_name(pod: Pod) -> str:
    owner = pod.metadata.controller
    return f"{POD_GROUP_PREFIX}{pod.metadata.uid if owner is None else owner.uid}"


def pod_group_for(
    pod: Pod, owner_annotations: Mapping[str, str], namespace_annotations: Mapping[str, str]
) -> PodGroup:
    """Return the pod group from the annotations of pod, owner and namespace."""
    own = pod.metadata.annotations
    of_owner = annotated_min_member(owner_annotations)
    legacy = _count(own.get(names.LEGACY_GROUP_MIN_MEMBER, ""))
    minimum = next((count for count in (of_owner, legacy) if count is not None), 1)
    annotations = volcano_annotations(owner_annotations) | volcano_annotations(own)
    queue = (
        own.get(names.QUEUE_NAME)
        or owner_annotations.get(names.QUEUE_NAME)
        or namespace_annotations.get(names.QUEUE_NAME)
    )
    return PodGroup(
        metadata=ObjectMeta(
            name=pod_group_name(pod),
            namespace=pod.metadata.namespace,
            labels={name: text for name, text in pod.metadata.labels.items() if name in _INHERITED_LABELS},
            annotations=annotations,
            owner_references=(_owner_reference(pod),),
        ),
        spec=PodGroupSpec(
            min_member=minimum,
            queue=queue or DEFAULT_QUEUE,
            priority_class_name=pod.spec.priority_class_name,
            min_resources=annotated_min_resources(owner_annotations)
            or multiply(quota_usage(pod.spec), minimum),
            network_topology=annotated_topology(annotations),
        ),
    )


def names_queue(pod: Pod, owner_annotations: Mapping[str, str]) -> bool:
    """Return True if the pod or its owner selects the queue of the group."""
    return names.QUEUE_NAME in pod.metadata.annotations or names.QUEUE_NAME in owner_annotations


def changed_annotations(group: PodGroup, wanted: PodGroup) -> dict[str, str]:
    """Return the inherited annotations that ``wanted`` has and ``group`` does not.

    Annotations that only ``group`` has stay: they may be written by others.
    """
    stored = group.metadata.annotations
    inherited = volcano_annotations(wanted.metadata.annotations)
    return {name: text for name, text in inherited.items() if stored.get(name) != text}


def changed_labels(group: PodGroup, wanted: PodGroup) -> dict[str, str]:
    """Return the labels of ``wanted`` that ``group`` lacks or has with another value."""
    stored = group.metadata.labels
    return {name: text for name, text in wanted.metadata.labels.items() if stored.get(name) != text}


def tracks_owner_template(pod: Pod) -> bool:
    """Return True if each new pod updates the group: the owner's template may change."""
    owner = pod.metadata.controller
    return owner is not None and (owner.api_version, owner.kind) in SCALABLE_KINDS


def too_few_replicas(pod: Pod, replicas: int, group: PodGroup) -> str:
    """Return why the group of ``pod`` has too few members and the remedy; empty if it has enough.

    ``replicas``: of its owner.
    """
    owner, needed = pod.metadata.controller, group.spec.min_member
    if owner is None or not tracks_owner_template(pod) or needed <= replicas:
        return ""
    numbers = f"{names.GROUP_MIN_MEMBER} is {needed}, and {owner.kind} {owner.name} has {replicas} replicas"
    text = f"{numbers}: lower it, or have {needed} replicas"
    if owner.kind != "ReplicaSet":
        return text
    return f"{text}; for rolling updates of its Deployment set maxSurge to {needed}, or use strategy Recreate"


def _owner_reference(pod: Pod) -> OwnerReference:
    owner = pod.metadata.controller
    if owner is not None:
        return replace(owner, block_owner_deletion=False)  # deleting a set need not wait for its group
    metadata = pod.metadata
    return OwnerReference(api_version="v1", kind="Pod", name=metadata.name, uid=metadata.uid, controller=True)


def annotated_min_member(annotations: Mapping[str, str]) -> int | None:
    """Return the owner's ``minMember`` for its group; None if absent or malformed."""
    return _count(annotations.get(names.GROUP_MIN_MEMBER, ""))


def annotated_min_resources(annotations: Mapping[str, str]) -> Resources | None:
    """Return the owner's ``minResources`` for its group; None if absent or malformed."""
    text = annotations.get(names.GROUP_MIN_RESOURCES)
    if text is None:
        return None
    try:
        return codec.decode(Resources, text)
    except (msgspec.DecodeError, ValueError):
        return None


def volcano_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations that a pod group inherits from an owner."""
    return {name: text for name, text in annotations.items() if name.startswith(names.ANNOTATION_PREFIX)}


def _count(text: str) -> int | None:
    # The length is checked first: a text may consist of megabytes of digits.
    is_number = len(text) <= len(str(INT32_MAX)) and text.isascii() and text.isdigit()
    return int(text) if is_number and int(text) <= INT32_MAX else None


def annotated_topology(annotations: Mapping[str, str]) -> NetworkTopology | None:
    """Return the topology that annotations request; one of them suffices, and only soft is not hard."""
    if TOPOLOGY_MODE not in annotations and TOPOLOGY_TIER not in annotations:
        return None
    is_soft = annotations.get(TOPOLOGY_MODE, "").lower() == "soft"
    return NetworkTopology(
        mode="soft" if is_soft else "hard", highest_tier_allowed=_count(annotations.get(TOPOLOGY_TIER, ""))
    )
