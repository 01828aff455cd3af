"""The pods of admitted workloads that have no node yet, for the clock that runs for them, and their gates.

Only these are watched: a pod drops out of the selection as soon as it is bound.
"""

from quorate.api.kueue import POD_SET, SLICE_NAME, WORKLOAD_ANNOTATION
from quorate.api.meta import Key, ObjectMeta, Struct, epoch
from quorate.kube.client import Client
from quorate.kube.informer import Informer
from quorate.kube.resources import Resource

_WORKLOAD = "of workload"
_SLICES = "of slices"


class UnscheduledPod(Struct):
    metadata: ObjectMeta


UNSCHEDULED_PODS = Resource("", "v1", "pods", "Pod", True, UnscheduledPod)


def unscheduled_pods(client: Client) -> Informer[UnscheduledPod]:
    pods = Informer(
        client,
        UNSCHEDULED_PODS,
        label_selector=POD_SET,
        field_selector="spec.nodeName=,status.phase=Pending",
    )
    pods.add_index(_WORKLOAD, workloads_of)
    pods.add_index(_SLICES, lambda pod: slices_of(pod.metadata))
    return pods


def workloads_of(pod: UnscheduledPod) -> tuple[Key, ...]:
    name = pod.metadata.annotations.get(WORKLOAD_ANNOTATION)
    return () if name is None else (Key(pod.metadata.namespace, name),)


def slices_of(metadata: ObjectMeta) -> tuple[Key, ...]:
    """By what the workloads that an elastic job has one after the other, and its pods, find each other."""
    name = metadata.annotations.get(SLICE_NAME)
    return () if name is None else (Key(metadata.namespace, name),)


def unscheduled_of_slices(pods: Informer[UnscheduledPod], slices: Key) -> list[UnscheduledPod]:
    return pods.by_index(_SLICES, slices)


def unscheduled_since(pods: Informer[UnscheduledPod], workload: Key) -> float | None:
    """When the oldest of them was created (epoch seconds); None if all have a node."""
    created = [
        epoch(pod.metadata.creation_timestamp)
        for pod in pods.by_index(_WORKLOAD, workload)
        if pod.metadata.creation_timestamp is not None
    ]
    return min(created, default=None)
