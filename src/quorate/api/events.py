"""events.k8s.io/v1 and coordination.k8s.io/v1: what controllers report, and the locks they hold.

Both carry moments to the microsecond in a form stricter than JSON times, so they are kept as written
(see ``meta.micro_time``).
"""

from typing import Literal

from quorate.api.meta import MicroTime, ObjectMeta, Struct, Uid


class ObjectReference(Struct):
    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: Uid = Uid("")
    resource_version: str = ""


class EventSeries(Struct, omit_defaults=False):
    """The same event again and again: how often so far, and when last."""

    count: int
    last_observed_time: MicroTime


class Event(Struct):
    metadata: ObjectMeta
    event_time: MicroTime = MicroTime("")
    type: Literal["Normal", "Warning", ""] = ""
    reason: str = ""
    note: str = ""
    action: str = ""
    regarding: ObjectReference | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""


class LeaseSpec(Struct):
    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: MicroTime = MicroTime("")
    renew_time: MicroTime = MicroTime("")
    lease_transitions: int = 0


class Lease(Struct):
    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()
