"""Kueue's visibility API (``visibility.kueue.x-k8s.io``): positions of workloads."""

from typing import Any, Final

from quorate.api.meta import ObjectMeta, Struct
from quorate.api.open_api import api_group, group_documents

GROUP: Final = "visibility.kueue.x-k8s.io"
VERSION: Final = "v1beta2"  # the preferred version
VERSIONS: Final = (VERSION, "v1beta1")  # the schemas are equal


class PendingWorkload(Struct, omit_defaults=False):
    """A pending workload; positions count from 0 within the cluster queue and the local queue."""

    metadata: ObjectMeta  # name, namespace, creation time and owners
    priority: int
    local_queue_name: str
    position_in_cluster_queue: int
    position_in_local_queue: int


class PendingWorkloadsSummary(Struct, omit_defaults=False):
    api_version: str = f"{GROUP}/{VERSION}"
    kind: str = "PendingWorkloadsSummary"
    metadata: dict[str, str] = {}
    items: tuple[PendingWorkload, ...] = ()


def discovery() -> dict[str, dict[str, Any]]:
    """Return the discovery documents of the aggregated API, by path."""
    group = api_group(GROUP, VERSIONS)
    groups = {"/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]}}
    return groups | group_documents(
        group,
        (
            ("clusterqueues", "", "ClusterQueue", False, []),
            ("clusterqueues/pendingworkloads", "", "PendingWorkloadsSummary", False, ["get"]),
            ("localqueues", "", "LocalQueue", True, []),
            ("localqueues/pendingworkloads", "", "PendingWorkloadsSummary", True, ["get"]),
        ),
    )
