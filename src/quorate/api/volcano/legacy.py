"""Pod groups and queues of the two API versions before v1beta1, and their conversion.

``scheduling.incubator.k8s.io/v1alpha1`` belongs to kube-batch and early Volcano,
``scheduling.sigs.dev/v1alpha2`` to kube-batch 0.5 and Volcano 0.2 and 0.3. Their fields have the same names
and meanings in v1beta1. Fields that a version does not have are dropped, even if v1beta1 has them. Quorate
only reads these versions.
"""

from typing import Final

from quorate.api.core import Resources, check_number_of_resources
from quorate.api.meta import Int32, ObjectMeta, Struct
from quorate.api.volcano import (
    DEFAULT_QUEUE,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    Queue,
    QueueSpec,
    QueueStatus,
)

INCUBATOR: Final = "scheduling.incubator.k8s.io"
SIGS: Final = "scheduling.sigs.dev"
VERSIONS: Final = ((INCUBATOR, "v1alpha1"), (SIGS, "v1alpha2"))  # of both kinds


class LegacyPodGroupSpec(Struct):
    """The spec in both versions; ``min_resources`` is Volcano's."""

    min_member: Int32 = 0
    queue: str = DEFAULT_QUEUE
    priority_class_name: str = ""
    min_resources: Resources | None = None

    def __post_init__(self) -> None:
        check_number_of_resources("minResources", self.min_resources)


class LegacyPodGroup(Struct):
    metadata: ObjectMeta
    spec: LegacyPodGroupSpec = LegacyPodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class IncubatorQueueSpec(Struct):
    weight: Int32 = 1


class IncubatorQueueStatus(Struct):
    unknown: Int32 = 0
    pending: Int32 = 0
    running: Int32 = 0


class IncubatorQueue(Struct):
    metadata: ObjectMeta
    spec: IncubatorQueueSpec = IncubatorQueueSpec()
    status: IncubatorQueueStatus = IncubatorQueueStatus()


class SigsQueueSpec(IncubatorQueueSpec):
    capability: Resources = {}


class SigsQueueStatus(IncubatorQueueStatus):
    inqueue: Int32 = 0


class SigsQueue(Struct):
    metadata: ObjectMeta
    spec: SigsQueueSpec = SigsQueueSpec()
    status: SigsQueueStatus = SigsQueueStatus()


def pod_group_of(legacy: LegacyPodGroup) -> PodGroup:
    spec = legacy.spec
    return PodGroup(
        metadata=legacy.metadata,
        spec=PodGroupSpec(
            min_member=spec.min_member,
            queue=spec.queue,
            priority_class_name=spec.priority_class_name,
            min_resources=spec.min_resources,
        ),
        status=legacy.status,
    )


def queue_of(legacy: IncubatorQueue | SigsQueue) -> Queue:
    """Return a v1beta1 queue, which is open, because the old versions have no states."""
    spec, status = legacy.spec, legacy.status
    return Queue(
        metadata=legacy.metadata,
        spec=QueueSpec(
            weight=spec.weight,
            capability=spec.capability if isinstance(spec, SigsQueueSpec) else {},
        ),
        status=QueueStatus(
            unknown=status.unknown,
            pending=status.pending,
            running=status.running,
            inqueue=status.inqueue if isinstance(status, SigsQueueStatus) else 0,
        ),
    )
