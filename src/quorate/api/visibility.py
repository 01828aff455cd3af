"""Kueue's visibility API (``visibility.kueue.x-k8s.io``): who waits in a queue, and in which place."""

from typing import Final

from quorate.api.meta import ObjectMeta, Struct

GROUP: Final = "visibility.kueue.x-k8s.io"
VERSION: Final = "v1beta2"


class PendingWorkload(Struct, omit_defaults=False):
    """Positions count from 0, over everybody who waits in the cluster queue or in the local queue."""

    metadata: ObjectMeta  # name, namespace, creation, and owners
    priority: int
    local_queue_name: str
    position_in_cluster_queue: int
    position_in_local_queue: int


class PendingWorkloadsSummary(Struct, omit_defaults=False):
    api_version: str = f"{GROUP}/{VERSION}"
    kind: str = "PendingWorkloadsSummary"
    metadata: dict[str, str] = {}
    items: tuple[PendingWorkload, ...] = ()
