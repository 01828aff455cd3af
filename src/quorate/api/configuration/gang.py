"""Quorate's fields ``gangScheduling`` and ``podGroupWebhooks`` of Configuration.

Like every server here, the pod group webhooks are not served if their field is absent. An empty field enables
the defaults: objects that could never run are rejected, and pods cannot use reserved quota.
"""

from typing import Final, Literal, get_args

import msgspec

from quorate.api.decoding.strict import Field, Section, boolean, choice, integer, list_of, text_matching
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


def decode_gang_scheduling(fields: Section) -> GangScheduling:
    default = GangScheduling()
    name = text_matching(is_dns_subdomain, "the name of a scheduler")
    names = fields.take("schedulerNames", list_of(name, minimum=1), default.scheduler_names)
    return GangScheduling(
        managed_kinds=tuple(dict.fromkeys(fields.take("looksAfter", list_of(choice(ALL_KINDS)), ALL_KINDS))),
        scheduler_names=tuple(dict.fromkeys(names)),
        keep_pending_pods_on_rollback=fields.take("keepPendingPodsOnRollback", boolean, False),
        inherit_owner_annotations=fields.take("inheritOwnerAnnotations", boolean, True),
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


def _quota_mode(field: Field) -> QuotaMode:
    """Decode a mode; YAML reads an ``off`` without quotes as false."""
    return "off" if field.value is False else choice(get_args(QuotaMode))(field)


def decode_pod_group_webhooks(fields: Section) -> PodGroupWebhooks:
    default = PodGroupWebhooks()
    return PodGroupWebhooks(
        min_resources=fields.take("minResources", _quota_mode, default.min_resources),
        failure_policy=fields.take("failurePolicy", choice(get_args(FailurePolicy)), default.failure_policy),
        reject_pods_of_pending_groups=fields.take("rejectPodsOfPendingGroups", boolean, False),
        gate_pods_of_pending_groups=fields.take("gatePodsOfPendingGroups", boolean, False),
        max_pod_groups_hard=fields.take("maxPodGroupsHard", boolean, False),
        refuse_deletion_of_used_queues=fields.take("refuseDeletionOfUsedQueues", boolean, False),
        max_queue_depth=fields.take(
            "maxQueueDepth", integer(minimum=1, maximum=100), default.max_queue_depth
        ),
    )
