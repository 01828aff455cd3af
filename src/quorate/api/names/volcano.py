"""Annotations, labels and scheduling gates for gang scheduling.

All names are annotations unless stated otherwise. They are Volcano's (1.15) and kube-batch's, which preceded
it.

A scheduling gate delays pods that are created before their pod group is admitted: schedulers and autoscalers
ignore gated pods. The API allows gates only at creation, so a pod gets no gate again when its group rolls
back. Gates with other names belong to other controllers and stay.
"""

from collections.abc import Mapping
from typing import Final

# On a pod: the name of its pod group, in the same namespace.
GROUP_NAME: Final = "scheduling.k8s.io/group-name"
# On a pod, as an annotation or else a label: its role in the gang (the name of a task spec).
TASK_SPEC: Final = "volcano.sh/task-spec"
# On a pod, job or namespace: the queue of a pod group that is created automatically or has none.
QUEUE_NAME: Final = "scheduling.volcano.sh/queue-name"
# A label with the same meaning, on resources of some operators.
QUEUE_NAME_LABEL: Final = "volcano.sh/queue-name"
# Whether a pod (default true) or pod group (default false) may be preempted.
PREEMPTABLE: Final = "volcano.sh/preemptable"
# On a pod or pod group: "*" allows it on revocable nodes.
REVOCABLE_ZONE: Final = "volcano.sh/revocable-zone"
# On a pod or pod group: minimum running time before eviction.
COOLDOWN_TIME: Final = "volcano.sh/cooldown-time"
# On a pod group: disruption budget for evictions from revocable nodes.
DISRUPTION_MIN_AVAILABLE: Final = "volcano.sh/jdb-min-available"
DISRUPTION_MAX_UNAVAILABLE: Final = "volcano.sh/jdb-max-unavailable"
# On a pod group: maximum waiting time.  The second is the older name of the first.
SLA_WAITING_TIME: Final = "volcano.sh/sla-waiting-time"
LEGACY_SLA_WAITING_TIME: Final = "sla-waiting-time"
# On a pod: overrides its priority in the task order.
TASK_PRIORITY: Final = "volcano.sh/task-priority"
# On the owner of pods: fields of the pod group that is created for them.
GROUP_MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
GROUP_MIN_RESOURCES: Final = "scheduling.volcano.sh/group-min-resources"
# On a pod without a pod group, in kube-batch: the minMember of its implicit group.
LEGACY_GROUP_MIN_MEMBER: Final = "scheduling.k8s.io/group-min-member"
# On a pod: requests the scheduling gate of the same name until its queue has quota.
QUEUE_ALLOCATION_GATE: Final = "scheduling.volcano.sh/queue-allocation-gate"
# On a queue: its path in the hierarchy of drf and the weights along it: "root/a/b" and "1/2/3".
HIERARCHY: Final = "volcano.sh/hierarchy"
NODE_GROUP_LIMITS: Final = "volcano.sh/nodegroup-resource-limits"  # of a queue: resources by node group
HIERARCHY_WEIGHTS: Final = "volcano.sh/hierarchy-weights"

# On a pod group: what one pod requests, as a JSON object with amounts by resource; of unequal members such an
# object by role.
MEMBER_REQUESTS: Final = "quorate.dev/member-requests"
EVERY_ROLE: Final = ""  # the role for which the former stands
# On a pod group: "false" if pods that fail are not replaced, so that nothing is reserved for replacements.
REPLACES_FAILED: Final = "quorate.dev/replaces-failed-pods"
# On a pod group: "true" while a cluster queue has not admitted its Workload.  It is Pending until then.
SUSPENDED: Final = "quorate.dev/suspended"
# On a Volcano Job or a pod group: the record of its admission by a cluster queue.
ADMITTED_POD_SETS: Final = "quorate.dev/admitted-pod-sets"

# Annotations with this prefix are copied from an owner to the pod group of its pods.
ANNOTATION_PREFIX: Final = "volcano.sh/"

# Annotations of pods that a scheduler reads.
POD_ANNOTATIONS: Final = frozenset(
    {
        GROUP_NAME, TASK_SPEC, QUEUE_NAME, PREEMPTABLE, REVOCABLE_ZONE, COOLDOWN_TIME, TASK_PRIORITY,
        LEGACY_GROUP_MIN_MEMBER, QUEUE_ALLOCATION_GATE,
    }
)  # fmt: skip


POD_GROUP_GATE: Final = "scheduling.quorate.dev/pod-group"


def requests_queue_allocation_gate(annotations: Mapping[str, str]) -> bool:
    """Return True if a pod requests Volcano's gate; only "true" counts (Volcano 1.15)."""
    return annotations.get(QUEUE_ALLOCATION_GATE) == "true"


def is_removed_on_admission(gate: str, annotations: Mapping[str, str]) -> bool:
    """Return True if ``gate`` is removed from a pod when its pod group is admitted.

    Volcano's gate is removed only from pods that request it by annotation, as in Volcano.
    """
    return gate == POD_GROUP_GATE or (
        gate == QUEUE_ALLOCATION_GATE and requests_queue_allocation_gate(annotations)
    )


# Labels and annotations of pods and other objects that a Volcano Job owns.
JOB_NAME: Final = "volcano.sh/job-name"
JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
JOB_VERSION: Final = "volcano.sh/job-version"
JOB_RETRY_COUNT: Final = "volcano.sh/job-retry-count"
TASK_INDEX: Final = "volcano.sh/task-index"
TEMPLATE_UID: Final = "volcano.sh/template-uid"
PARTITION: Final = "volcano.sh/partition-id"
