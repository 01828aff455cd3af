"""The finalizer that keeps an object while something of ours depends on it."""

from collections.abc import Iterable
from typing import Any

from quorate.api.configuration.feature_gates import Gates
from quorate.api.kueue import Workload
from quorate.api.meta import ObjectMeta
from quorate.api.names.kueue import RESOURCE_IN_USE
from quorate.kube.resources import WORKLOADS, Resource
from quorate.kube.writes import Patch, Write, status_patch
from quorate.queueing.conditions import OWNER_NOT_FOUND, OWNER_NOT_FOUND_TEXT
from quorate.queueing.lifecycle.statuses import finish_status


def add_finalizer(resource: Resource[Any], metadata: ObjectMeta) -> tuple[Patch, ...]:
    """Return the patch that adds our finalizer; none if it exists or deletion has begun."""
    if RESOURCE_IN_USE in metadata.finalizers or metadata.deletion_timestamp is not None:
        return ()
    return (_with_finalizers(resource, metadata, (*metadata.finalizers, RESOURCE_IN_USE)),)


def remove_finalizer(resource: Resource[Any], metadata: ObjectMeta) -> tuple[Patch, ...]:
    """Return the patch that removes our finalizer; none if it is not there."""
    if RESOURCE_IN_USE not in metadata.finalizers:
        return ()
    left = tuple(finalizer for finalizer in metadata.finalizers if finalizer != RESOURCE_IN_USE)
    return (_with_finalizers(resource, metadata, left),)


def finish_orphans(workloads: Iterable[Workload], gates: Gates, now: float) -> tuple[Write, ...]:
    """Finish workloads without an existing owner and remove their finalizers.

    Without the gate ``FinishOrphanedWorkloads``, and for workloads that are being deleted, only the
    finalizer is removed.
    """
    writes: list[Write] = []
    for workload in workloads:
        if gates.finish_orphaned_workloads and workload.metadata.deletion_timestamp is None:
            finished = finish_status(workload, OWNER_NOT_FOUND, OWNER_NOT_FOUND_TEXT, now)
            writes += status_patch(WORKLOADS, workload, finished)
        writes += remove_finalizer(WORKLOADS, workload.metadata)
    return tuple(writes)


def _with_finalizers(resource: Resource[Any], metadata: ObjectMeta, finalizers: tuple[str, ...]) -> Patch:
    body = {"metadata": {"finalizers": finalizers or None}}
    return Patch(resource, metadata.key, metadata.resource_version, body)
