"""The feeds of the queueing model: its kinds, and the call that each change makes.

The admission driver and the followers subscribe these feeds to informers; a command that needs the model
once loads them from lists.
"""

from collections.abc import Callable
from typing import Any

from quorate.api.configuration import Configuration
from quorate.api.core import Namespace
from quorate.api.kueue import Admission, Workload
from quorate.api.meta import Key
from quorate.controllers.informers import reserving_part
from quorate.kube.feed import Feed, cluster_feed
from quorate.kube.object_faults import ObjectFault
from quorate.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    DEVICE_CLASSES,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    NAMESPACES,
    RESERVATIONS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_FLAVORS,
    RESOURCE_SLICES,
    RUNTIME_CLASSES,
    TOPOLOGIES,
    WORKLOADS,
)
from quorate.queueing.state import State


def counts_devices(configuration: Configuration) -> bool:
    """Return True if claim templates, device classes and resource slices are read."""
    return configuration.gates.count_device_claims and configuration.resources.counts_devices


def queueing_feeds(state: State, now: Callable[[], float]) -> tuple[Feed[Any], ...]:
    """Return the feeds of ``state``, in the order of a load: referenced kinds come first."""

    def put_namespace(namespace: Namespace) -> None:
        state.put_namespace(namespace.metadata.name, namespace.metadata.labels)

    removed: dict[Key, Admission] = {}  # the last reservation that was removed: an unreadable one may follow

    def remove_workload(key: Key) -> None:
        removed.clear()
        if (reservation := state.ledger.reservations.get(key)) is not None:
            removed[key] = reservation.admission
        state.remove_workload(key)

    def set_aside_workload(key: Key, fault: ObjectFault | None) -> None:
        """Keep the quota of a workload that cannot be read."""
        reserving = None if fault is None else reserving_part(fault, removed.get(key))
        if reserving is None:
            state.remove_unreadable(key)
        else:
            state.put_unreadable(reserving)

    def put_workload(workload: Workload) -> None:
        state.put_workload(workload, now())

    devices: tuple[Feed[Any], ...] = ()
    requests = state.request_updates
    if counts_devices(state.configuration):
        devices = (
            Feed(RESOURCE_CLAIM_TEMPLATES, requests.put_claim_template, requests.remove_claim_template),
            cluster_feed(DEVICE_CLASSES, requests.put_device_class, requests.remove_device_class),
            cluster_feed(RESOURCE_SLICES, requests.put_resource_slice, requests.remove_resource_slice),
        )
    return (
        *devices,
        cluster_feed(NAMESPACES, put_namespace, state.remove_namespace),
        Feed(LIMIT_RANGES, requests.put_limit_range, requests.remove_limit_range),
        cluster_feed(RUNTIME_CLASSES, requests.put_runtime_class, requests.remove_runtime_class),
        cluster_feed(RESOURCE_FLAVORS, state.put_flavor, state.remove_flavor),
        cluster_feed(TOPOLOGIES, state.put_topology, state.remove_topology),
        cluster_feed(RESERVATIONS, state.put_window, state.remove_window),
        cluster_feed(COHORTS, state.put_cohort, state.remove_cohort),
        cluster_feed(ADMISSION_CHECKS, state.put_admission_check, state.remove_admission_check),
        cluster_feed(CLUSTER_QUEUES, state.put_cluster_queue, state.remove_cluster_queue),
        Feed(LOCAL_QUEUES, state.put_local_queue, state.remove_local_queue),
        Feed(WORKLOADS, put_workload, remove_workload, set_aside=set_aside_workload),
    )
