"""Fields of events.k8s.io/v1 Event and coordination.k8s.io/v1 Lease.

Both contain times with microseconds in a stricter format than JSON times, so they are stored as text (see
``meta.micro_time``).
"""

from datetime import UTC, datetime
from typing import Literal

from quorate.api.meta import Int32, MicroTime, ObjectMeta, Struct, Uid, at_epoch


class ObjectReference(Struct):
    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: Uid = Uid("")
    resource_version: str = ""
    field_path: str = ""  # of a container, such as spec.containers{main}


class EventSeries(Struct, omit_defaults=False):
    """The number of repetitions of an event, and the time of the last one."""

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
    # Written by clients of the events of core/v1, such as kube-controller-manager, in place of the series.
    deprecated_count: Int32 = 0
    deprecated_last_timestamp: datetime | None = None

    @property
    def occurrences(self) -> int:
        """How often it happened."""
        return self.series.count if self.series is not None else max(1, self.deprecated_count)

    @property
    def last_at(self) -> datetime:
        """When it happened last; the start of the epoch if the event has no time."""
        text = self.event_time if self.series is None else self.series.last_observed_time
        try:
            return datetime.fromisoformat(text).astimezone(UTC)
        except ValueError:
            return self.deprecated_last_timestamp or self.metadata.creation_timestamp or at_epoch(0)


class LeaseSpec(Struct):
    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: MicroTime = MicroTime("")
    renew_time: MicroTime = MicroTime("")
    lease_transitions: Int32 = 0


class Lease(Struct):
    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()
