"""The field ``gangScheduling`` of Configuration, which is ours: what the controllers of pod groups do."""

from typing import Final

import msgspec

from quorate.api.names import is_dns_subdomain
from quorate.api.strict import Section, boolean, list_of, shaped

OUR_SCHEDULER: Final = "quorate"
VOLCANO_SCHEDULER: Final = "volcano"


class GangRules(msgspec.Struct, frozen=True, kw_only=True):
    scheduler_names: tuple[str, ...] = (OUR_SCHEDULER, VOLCANO_SCHEDULER)  # whose pods get pod groups
    keep_pending_pods_on_rollback: bool = False  # members without a node stay when their group must wait
    inherit_owner_annotations: bool = True  # a pod group has what the owner of its pods says of it


def gang_rules(fields: Section) -> GangRules:
    default = GangRules()
    name = shaped(is_dns_subdomain, "the name of a scheduler")
    names = fields.take("schedulerNames", list_of(name, least=1), default.scheduler_names)
    return GangRules(
        scheduler_names=tuple(dict.fromkeys(names)),
        keep_pending_pods_on_rollback=fields.take("keepPendingPodsOnRollback", boolean, False),
        inherit_owner_annotations=fields.take("inheritOwnerAnnotations", boolean, True),
    )
