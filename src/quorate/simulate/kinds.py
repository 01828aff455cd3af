"""The kinds of objects that a snapshot of a cluster is made of."""

from typing import Any, Final

from quorate.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    NAMESPACES,
    RESERVATIONS,
    RESOURCE_FLAVORS,
    RUNTIME_CLASSES,
    TOPOLOGIES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)

KINDS: Final[tuple[Resource[Any], ...]] = (
    NAMESPACES,
    LIMIT_RANGES,
    RUNTIME_CLASSES,
    TOPOLOGIES,
    RESOURCE_FLAVORS,
    ADMISSION_CHECKS,
    WORKLOAD_PRIORITY_CLASSES,
    COHORTS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    RESERVATIONS,
    WORKLOADS,
)
