"""The field of Configuration about webhooks for pod groups, Volcano's queues and jobs, which is ours.

As with every server here, a ``podGroupWebhooks`` that is left out serves none.  With nothing below it the
defaults hold: what could never run is refused, and pods keep off quota that is reserved.
"""

from typing import Literal, get_args

import msgspec

from quorate.api.strict import Section, boolean, choice, integer

QuotaMode = Literal["default", "strict", "off"]
FailurePolicy = Literal["Ignore", "Fail"]


class PodGroupWebhooks(msgspec.Struct, frozen=True, kw_only=True):
    min_resources: QuotaMode = "default"  # how the minResources of groups are held against quotas
    failure_policy: FailurePolicy = "Ignore"  # what the API server does while nobody answers
    reject_pods_of_pending_groups: bool = False
    gate_pods_of_pending_groups: bool = False
    max_pod_groups_hard: bool = False  # a queue's maxPodGroups bounds those that wait, too
    refuse_deletion_of_used_queues: bool = False
    max_queue_depth: int = 5  # queues above one another, below the root


def pod_group_webhooks(fields: Section) -> PodGroupWebhooks:
    default = PodGroupWebhooks()
    return PodGroupWebhooks(
        min_resources=fields.take("minResources", choice(get_args(QuotaMode)), default.min_resources),
        failure_policy=fields.take("failurePolicy", choice(get_args(FailurePolicy)), default.failure_policy),
        reject_pods_of_pending_groups=fields.take("rejectPodsOfPendingGroups", boolean, False),
        gate_pods_of_pending_groups=fields.take("gatePodsOfPendingGroups", boolean, False),
        max_pod_groups_hard=fields.take("maxPodGroupsHard", boolean, False),
        refuse_deletion_of_used_queues=fields.take("refuseDeletionOfUsedQueues", boolean, False),
        max_queue_depth=fields.take("maxQueueDepth", integer(least=1, most=100), default.max_queue_depth),
    )
