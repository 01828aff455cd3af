"""Configuration of queueing: retention of finished objects."""

import msgspec

from quorate.api.decoding.strict import Section, duration, section


class ObjectRetention(msgspec.Struct, frozen=True, kw_only=True):
    """Retention times in seconds; 0 deletes at once, None never."""

    finished_s: float | None = None  # of a workload, since it finished
    deactivated_s: float | None = None  # of a job, since the system deactivated its workload


def decode_retention(fields: Section) -> ObjectRetention:
    return fields.take("workloads", section(_of_workloads), ObjectRetention())


def _of_workloads(fields: Section) -> ObjectRetention:
    return ObjectRetention(
        finished_s=fields.take("afterFinished", duration(), None),
        deactivated_s=fields.take("afterDeactivatedByKueue", duration(), None),
    )
