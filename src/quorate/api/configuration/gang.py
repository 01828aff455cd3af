"""Quorate's fields ``gangScheduling`` and ``podGroupWebhooks`` of Configuration.

Like every server here, the pod group webhooks are not served if their field is absent. An empty field enables
the defaults: objects that could never run are rejected, and pods cannot use reserved quota.
"""

from typing import Final, Literal, get_args

import msgspec

from quorate.api.decoding import strict as d
from quorate.api.syntax import is_dns_subdomain

OUR_SCHEDULER: Final = "quorate"
VOLCANO_SCHEDULER: Final = "volcano"


ManagedKind = Literal["volcanoJobs", "batchJobs", "pods", "queues", "hyperNodes"]
ALL_KINDS: Final[tuple[ManagedKind, ...]] = get_args(ManagedKind)


class GangScheduling(msgspec.Struct, frozen=True, kw_only=True):
    managed_kinds: tuple[ManagedKind, ...] = ALL_KINDS  # kinds that another controller manages are left out
    scheduler_names: tuple[str, ...] = (OUR_SCHEDULER, VOLCANO_SCHEDULER)  # pods of these get pod groups
    keep_pending_pods_on_rollback: bool = False  # keep unscheduled members when a group rolls back to Pending
    inherit_owner_annotations: bool = True  # copy annotations of the pods' owner to the pod group


_scheduler_name = d.text_matching(is_dns_subdomain, "the name of a scheduler")
decode_gang_scheduling = d.struct_of(
    GangScheduling,
    managed_kinds=("looksAfter", d.distinct(d.list_of(d.choice(ALL_KINDS)))),
    scheduler_names=("schedulerNames", d.distinct(d.list_of(_scheduler_name, minimum=1))),
    keep_pending_pods_on_rollback=("keepPendingPodsOnRollback", d.boolean),
    inherit_owner_annotations=("inheritOwnerAnnotations", d.boolean),
)


QuotaMode = Literal["default", "strict", "off"]
FailurePolicy = Literal["Ignore", "Fail"]


class PodGroupWebhooks(msgspec.Struct, frozen=True, kw_only=True):
    min_resources: QuotaMode = "default"  # how minResources of groups are checked against quotas
    failure_policy: FailurePolicy = "Ignore"  # what the API server does if no webhook answers
    reject_pods_of_pending_groups: bool = False
    gate_pods_of_pending_groups: bool = False
    max_pod_groups_hard: bool = False  # maxPodGroups also limits waiting groups
    refuse_deletion_of_used_queues: bool = False
    max_queue_depth: int = 5  # below the root queue


decode_pod_group_webhooks = d.struct_of(
    PodGroupWebhooks,
    min_resources=("minResources", d.off_or(get_args(QuotaMode), "off")),
    failure_policy=("failurePolicy", d.choice(get_args(FailurePolicy))),
    reject_pods_of_pending_groups=("rejectPodsOfPendingGroups", d.boolean),
    gate_pods_of_pending_groups=("gatePodsOfPendingGroups", d.boolean),
    max_pod_groups_hard=("maxPodGroupsHard", d.boolean),
    refuse_deletion_of_used_queues=("refuseDeletionOfUsedQueues", d.boolean),
    max_queue_depth=("maxQueueDepth", d.integer(minimum=1, maximum=100)),
)
