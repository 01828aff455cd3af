"""Kubernetes' own pod groups as gangs: what they have in common with Volcano's, and their own terms.

A native group is admitted when it exists, because its pods do: delayed creation of pods does not apply.  The
names of the two kinds may be equal, so the key of a native group has its API group before the name.
"""

from typing import Final

from quorate.api import native_groups
from quorate.api.core.pod import Pod
from quorate.api.meta import Condition, ConditionStatus, Key
from quorate.api.names.volcano import QUEUE_NAME
from quorate.api.native_groups import PREFIX
from quorate.api.volcano import (
    DEFAULT_QUEUE,
    INQUEUE,
    NOT_ENOUGH_RESOURCES,
    READY_TO_BE_SCHEDULED,
    RUNNING,
    SCHEDULED,
    UNSCHEDULABLE,
    PodGroup,
    PodGroupCondition,
    PodGroupSpec,
    PodGroupStatus,
)
from quorate.gang.cache.sub_groups import GangTopology, TierLimit

_SEPARATOR: Final = ": "  # between our reason and the message


def native_key(key: Key) -> Key:
    """Return the key of the gang of a native group."""
    return Key(key.namespace, PREFIX + key.name)


def native_name(gang: Key) -> Key | None:
    """Return the key of the native group of a gang; None for a Volcano group."""
    name = gang.name.removeprefix(PREFIX)
    return None if name == gang.name else Key(gang.namespace, name)


def native_group_of(pod: Pod) -> Key | None:
    """Return the key of the gang of the native group that a pod names; None if it names none."""
    group = pod.spec.scheduling_group
    if group is None or not group.pod_group_name:
        return None
    return native_key(Key(pod.metadata.namespace, group.pod_group_name))


def as_volcano_group(group: native_groups.PodGroup) -> PodGroup:
    """Return the Volcano group with the same members and minimum; a basic group needs one member.

    The queue is that of Volcano's annotation or label.
    """
    metadata, gang = group.metadata, group.spec.scheduling_policy.gang
    queue = metadata.annotations.get(QUEUE_NAME) or metadata.labels.get(QUEUE_NAME)
    condition = native_groups.find_scheduled(group.status.conditions)
    is_scheduled = condition is not None and condition.status == "True"
    return PodGroup(
        metadata=type(metadata)(
            name=native_key(metadata.key).name,
            namespace=metadata.namespace,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            creation_timestamp=metadata.creation_timestamp,
            deletion_timestamp=metadata.deletion_timestamp,
            owner_references=metadata.owner_references,
        ),
        spec=PodGroupSpec(
            min_member=1 if gang is None else gang.min_count,
            queue=queue or DEFAULT_QUEUE,
            priority_class_name=group.spec.priority_class_name,
        ),
        status=PodGroupStatus(
            phase=RUNNING if is_scheduled else INQUEUE,
            conditions=() if condition is None else (_volcano_condition(condition),),
        ),
    )


def native_topology(spec: native_groups.PodGroupSpec) -> GangTopology | None:
    """Return what the pods of a native group must have in common; None if they may be on any nodes."""
    key = spec.topology_key
    return GangTopology(TierLimit(label=key), ()) if key else None


def _volcano_condition(condition: Condition) -> PodGroupCondition:
    if condition.status == "True":
        return PodGroupCondition(
            type=SCHEDULED,
            status="True",
            last_transition_time=condition.last_transition_time,
            reason=READY_TO_BE_SCHEDULED,
            message=condition.message,
        )
    reason, separator, message = condition.message.partition(_SEPARATOR)
    return PodGroupCondition(
        type=UNSCHEDULABLE,
        status="True",
        last_transition_time=condition.last_transition_time,
        reason=reason if separator else NOT_ENOUGH_RESOURCES,
        message=message if separator else condition.message,
    )


def scheduled_condition(conditions: tuple[PodGroupCondition, ...]) -> Condition | None:
    """Return the condition PodGroupScheduled; None if it is not known yet whether the group can be placed.

    It stays True once it was.  A group that waits has the reason ``Unschedulable``, and our own reason before
    the message.
    """
    by_type = {condition.type: condition for condition in conditions if condition.status == "True"}
    status: ConditionStatus = "False"
    if (native := by_type.get(SCHEDULED)) is not None:
        status, reason, message = "True", native_groups.SCHEDULED, native.message
    elif (native := by_type.get(UNSCHEDULABLE)) is not None:
        reason, message = native_groups.UNSCHEDULABLE, f"{native.reason}{_SEPARATOR}{native.message}"
    else:
        return None
    return Condition(
        type=native_groups.POD_GROUP_SCHEDULED,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=native.last_transition_time,
    )
