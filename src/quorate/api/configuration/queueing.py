"""The field ``objectRetentionPolicies`` of Configuration: how long what is over is kept."""

import msgspec

from quorate.api.decoding.strict import Section, duration, section


class ObjectRetention(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds; 0 deletes at once, None never."""

    finished_s: float | None = None  # a workload, from the moment it finished
    deactivated_s: float | None = None  # a job, from the moment its workload was deactivated by the system


def decode_retention(fields: Section) -> ObjectRetention:
    return fields.take("workloads", section(_of_workloads), ObjectRetention())


def _of_workloads(fields: Section) -> ObjectRetention:
    return ObjectRetention(
        finished_s=fields.take("afterFinished", duration(), None),
        deactivated_s=fields.take("afterDeactivatedByKueue", duration(), None),
    )
