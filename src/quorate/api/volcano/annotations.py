"""How pods, pod groups, queues, namespaces and owners of pods speak to a gang scheduler besides their fields.

All are annotations unless said otherwise.  The names are Volcano's (1.15) and, before it, kube-batch's.
"""

from collections.abc import Mapping
from typing import Final

# On a pod: the name of its pod group, in its namespace.
GROUP_NAME: Final = "scheduling.k8s.io/group-name"
# On a pod, as annotation or else as label: its role in the gang (the name of a task spec).
TASK_SPEC: Final = "volcano.sh/task-spec"
# On a pod, a job or a namespace: the queue of a pod group that is made automatically or names none.
QUEUE_NAME: Final = "scheduling.volcano.sh/queue-name"
# A label of the resources of some operators, with the same meaning.
QUEUE_NAME_LABEL: Final = "volcano.sh/queue-name"
# On a pod (default true) or on a pod group (default false): whether it may be evicted for others.
PREEMPTABLE: Final = "volcano.sh/preemptable"
# On a pod or a pod group: "*" lets it run on revocable nodes.
REVOCABLE_ZONE: Final = "volcano.sh/revocable-zone"
# On a pod or a pod group: how long it runs at least before it may be evicted.
COOLDOWN_TIME: Final = "volcano.sh/cooldown-time"
# On a pod group: the disruption budget for evictions from revocable nodes.
DISRUPTION_MIN_AVAILABLE: Final = "volcano.sh/jdb-min-available"
DISRUPTION_MAX_UNAVAILABLE: Final = "volcano.sh/jdb-max-unavailable"
# On a pod group: the longest it shall wait.  The second is the older name of the first.
SLA_WAITING_TIME: Final = "volcano.sh/sla-waiting-time"
LEGACY_SLA_WAITING_TIME: Final = "sla-waiting-time"
# On a pod: what stands in for its priority in the order of tasks.
TASK_PRIORITY: Final = "volcano.sh/task-priority"
# On the owner of pods: hints for the pod group that is made for them.
GROUP_MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
GROUP_MIN_RESOURCES: Final = "scheduling.volcano.sh/group-min-resources"
# On a pod without pod group, in kube-batch: the minMember of the group it stands for.
LEGACY_GROUP_MIN_MEMBER: Final = "scheduling.k8s.io/group-min-member"
# On a pod: asks for the scheduling gate of the same name until its queue has room.
QUEUE_ALLOCATION_GATE: Final = "scheduling.volcano.sh/queue-allocation-gate"
# On a queue: its place in a tree of weights (drf with hierarchy), both as "root/a/b" and "1/2/3".
HIERARCHY: Final = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS: Final = "volcano.sh/hierarchy-weights"

# What an owner's annotations of this prefix say is copied to the pod group made for its pods.
ANNOTATION_PREFIX: Final = "volcano.sh/"

# Those that a scheduler reads of a pod.
POD_ANNOTATIONS: Final = frozenset(
    {
        GROUP_NAME, TASK_SPEC, QUEUE_NAME, PREEMPTABLE, REVOCABLE_ZONE, COOLDOWN_TIME, TASK_PRIORITY,
        LEGACY_GROUP_MIN_MEMBER, QUEUE_ALLOCATION_GATE,
    }
)  # fmt: skip


POD_GROUP_GATE: Final = "scheduling.quorate.dev/pod-group"


def requests_queue_allocation_gate(annotations: Mapping[str, str]) -> bool:
    """Whether a pod asks for Volcano's gate by name (source: Volcano 1.15, where only "true" counts)."""
    return annotations.get(QUEUE_ALLOCATION_GATE) == "true"


def is_removed_on_admission(gate: str, annotations: Mapping[str, str]) -> bool:
    """Whether ``gate`` of a pod with these annotations is to go once its group is admitted.

    As with Volcano, whoever set Volcano's gate without asking for it takes it off as well.
    """
    return gate == POD_GROUP_GATE or (
        gate == QUEUE_ALLOCATION_GATE and requests_queue_allocation_gate(annotations)
    )
