"""Pods that name no pod group though a gang scheduler places them, and the group that is made for each.

Source: Volcano's pod group controller (v1.15).  All pods of one owner share a group; a pod without a
controlling owner has one of its own.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.core import PodSpec, Resources
from quorate.api.core.pod_resources import quota_usage
from quorate.api.meta import ObjectMeta, OwnerReference
from quorate.api.syntax import INT32_MAX
from quorate.api.volcano import DEFAULT_QUEUE, NetworkTopology, PodGroup, PodGroupSpec
from quorate.api.volcano.annotations import (
    ANNOTATION_PREFIX,
    GROUP_MIN_MEMBER,
    GROUP_MIN_RESOURCES,
    LEGACY_GROUP_MIN_MEMBER,
    QUEUE_NAME,
)
from quorate.controllers.volcano.job.min_resources import multiply
from quorate.controllers.volcano.pod_groups.group_pod import GroupPod
from quorate.kube.patches import merge_patch

POD_GROUP_PREFIX: Final = "podgroup-"
TOPOLOGY_MODE: Final = "volcano.sh/network-topology-mode"
TOPOLOGY_TIER: Final = "volcano.sh/network-topology-highest-tier"
# Kinds whose template may change, or which may want no pods, while they go on.
SCALABLE_KINDS: Final = (("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"))


def pod_group_name(pod: GroupPod) -> str:
    owner = pod.metadata.controller
    return f"{POD_GROUP_PREFIX}{pod.metadata.uid if owner is None else owner.uid}"


def pod_group_for(
    pod: GroupPod, owner_annotations: Mapping[str, str], namespace_annotations: Mapping[str, str]
) -> PodGroup:
    """The pod group of a pod, by its own annotations, those of its owner and those of its namespace."""
    own = pod.metadata.annotations
    spec = codec.decode(PodSpec, pod.spec)
    stated = annotated_min_member(owner_annotations)
    legacy = _count(own.get(LEGACY_GROUP_MIN_MEMBER, ""))
    minimum = next((each for each in (stated, legacy) if each is not None), 1)
    annotations = volcano_annotations(owner_annotations) | volcano_annotations(own)
    queue = own.get(QUEUE_NAME) or owner_annotations.get(QUEUE_NAME) or namespace_annotations.get(QUEUE_NAME)
    return PodGroup(
        metadata=ObjectMeta(
            name=pod_group_name(pod),
            namespace=pod.metadata.namespace,
            annotations=annotations,
            owner_references=(_owner_of(pod),),
        ),
        spec=PodGroupSpec(
            min_member=minimum,
            queue=queue or DEFAULT_QUEUE,
            priority_class_name=spec.priority_class_name,
            min_resources=annotated_min_resources(owner_annotations) or multiply(quota_usage(spec), minimum),
            network_topology=annotated_topology(annotations),
        ),
    )


def tracks_owner_template(pod: GroupPod) -> bool:
    """Whether the group is brought in step with the newest pod: its owner's template may have changed."""
    owner = pod.metadata.controller
    return owner is not None and (owner.api_version, owner.kind) in SCALABLE_KINDS


def pod_group_patch(group: PodGroup, wanted: PodGroup) -> dict[str, Any]:
    """The merge patch of ``spec``; the queue stays where somebody has moved the group."""
    return merge_patch(group.spec, replace(wanted.spec, queue=group.spec.queue))


def _owner_of(pod: GroupPod) -> OwnerReference:
    owner = pod.metadata.controller
    if owner is not None:
        return replace(owner, block_owner_deletion=False)  # deleting a set need not wait for its group
    metadata = pod.metadata
    return OwnerReference(api_version="v1", kind="Pod", name=metadata.name, uid=metadata.uid, controller=True)


def annotated_min_member(owner: Mapping[str, str]) -> int | None:
    """How many members an owner says that the group of its pods needs; None: it says nothing readable."""
    return _count(owner.get(GROUP_MIN_MEMBER, ""))


def annotated_min_resources(owner: Mapping[str, str]) -> Resources | None:
    """What an owner says that the group of its pods needs, as JSON; None: it says nothing readable."""
    text = owner.get(GROUP_MIN_RESOURCES)
    if text is None:
        return None
    try:
        return codec.decode(Resources, text)
    except (msgspec.DecodeError, ValueError):
        return None


def volcano_annotations(owner: Mapping[str, str]) -> dict[str, str]:
    """What a pod group takes over of the annotations of an owner."""
    return {name: text for name, text in owner.items() if name.startswith(ANNOTATION_PREFIX)}


def _count(text: str) -> int | None:
    # The length first: a text of megabytes may consist of digits.
    readable = len(text) <= len(str(INT32_MAX)) and text.isascii() and text.isdigit()
    return int(text) if readable and int(text) <= INT32_MAX else None


def annotated_topology(annotations: Mapping[str, str]) -> NetworkTopology | None:
    mode, tier = annotations.get(TOPOLOGY_MODE, ""), annotations.get(TOPOLOGY_TIER, "")
    highest = int(tier) if tier.isascii() and tier.isdigit() and len(tier) < 10 else None
    match mode:
        case "hard":
            return NetworkTopology(mode="hard", highest_tier_allowed=highest)
        case "soft":
            return NetworkTopology(mode="soft", highest_tier_allowed=highest)
        case _:
            return None
