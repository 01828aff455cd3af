"""The field ``gangScheduling`` of Configuration, which is ours: what the controllers of pod groups do."""

from typing import Final, Literal, get_args

import msgspec

from quorate.api.names import is_dns_subdomain
from quorate.api.strict import Section, boolean, choice, list_of, shaped

OUR_SCHEDULER: Final = "quorate"
VOLCANO_SCHEDULER: Final = "volcano"


Looked = Literal["volcanoJobs", "batchJobs", "pods", "queues"]
ALL: Final[tuple[Looked, ...]] = get_args(Looked)


class GangRules(msgspec.Struct, frozen=True, kw_only=True):
    looks_after: tuple[Looked, ...] = ALL  # what somebody else looks after is left to them
    scheduler_names: tuple[str, ...] = (OUR_SCHEDULER, VOLCANO_SCHEDULER)  # whose pods get pod groups
    keep_pending_pods_on_rollback: bool = False  # members without a node stay when their group must wait
    inherit_owner_annotations: bool = True  # a pod group has what the owner of its pods says of it


def gang_rules(fields: Section) -> GangRules:
    default = GangRules()
    name = shaped(is_dns_subdomain, "the name of a scheduler")
    names = fields.take("schedulerNames", list_of(name, least=1), default.scheduler_names)
    return GangRules(
        looks_after=tuple(dict.fromkeys(fields.take("looksAfter", list_of(choice(ALL)), ALL))),
        scheduler_names=tuple(dict.fromkeys(names)),
        keep_pending_pods_on_rollback=fields.take("keepPendingPodsOnRollback", boolean, False),
        inherit_owner_annotations=fields.take("inheritOwnerAnnotations", boolean, True),
    )
