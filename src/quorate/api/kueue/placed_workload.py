"""Workloads as holders of room on nodes: the places of their pods, for a scheduler.

A scheduler reads every workload of a cluster, so only the places are kept, and the templates of their pods.
"""

from typing import NamedTuple

import msgspec

from quorate.api.core import Resources
from quorate.api.core.pod import Pod
from quorate.api.core.pod_templates import template_pod
from quorate.api.interning import identity_of
from quorate.api.kueue import Admission, PodSet, ReclaimablePod
from quorate.api.kueue.topology import HOSTNAME
from quorate.api.meta import Condition, ObjectMeta, Struct, Uid, find_condition
from quorate.api.names.kueue import SLICE_NAME
from quorate.api.quantity import Quantity


class HeldHost(NamedTuple):
    """Equal pods that have their place on one host."""

    pod_set: str
    host: str
    pods: int


class HeldPod(NamedTuple):
    """A pod of one pod set, and what the admission counts for it."""

    pod: Pod
    counted: Resources


class _Spec(Struct):
    pod_sets: tuple[PodSet, ...] = ()
    active: bool = True


class _Status(Struct):
    admission: Admission | None = None
    conditions: tuple[Condition, ...] = ()
    reclaimable_pods: tuple[ReclaimablePod, ...] = ()


class PlacedWorkload(Struct):
    """``hosts`` is empty if the workload holds no places on hosts.

    Slices of elastic workloads hold none here: their pods do not name the slice that has their place.
    """

    metadata: ObjectMeta
    spec: _Spec = _Spec()
    status: _Status = _Status()
    owner: Uid = Uid("")  # of the job or pod group that the workload is of
    hosts: tuple[HeldHost, ...] = ()
    pods: dict[str, HeldPod] = {}  # by pod set
    needed: dict[str, int] = {}  # pods that may still run, of the pod sets of which others have ended

    def __post_init__(self) -> None:
        metadata, admission = self.metadata, self.status.admission
        if admission is not None and self._holds():
            self._read(admission)
        owner = metadata.job_owner
        msgspec.structs.force_setattr(self, "metadata", identity_of(metadata))
        if owner is not None:
            msgspec.structs.force_setattr(self, "owner", owner.uid)
        msgspec.structs.force_setattr(self, "spec", _NO_SPEC)
        msgspec.structs.force_setattr(self, "status", _NO_STATUS)

    def _holds(self) -> bool:
        finished = find_condition(self.status.conditions, "Finished")
        is_finished = finished is not None and finished.status == "True"
        return self.spec.active and not is_finished and SLICE_NAME not in self.metadata.annotations

    def _read(self, admission: Admission) -> None:
        templates = {pod_set.name: pod_set.template for pod_set in self.spec.pod_sets}
        sizes = {pod_set.name: pod_set.count for pod_set in self.spec.pod_sets}
        ended = {
            reclaimable.name: reclaimable.count
            for reclaimable in self.status.reclaimable_pods
            if reclaimable.count
        }
        hosts: list[HeldHost] = []
        pods: dict[str, HeldPod] = {}
        needed: dict[str, int] = {}
        for assigned in admission.pod_set_assignments:
            places = assigned.topology_assignment
            if places is None or places.levels[-1:] != (HOSTNAME,) or assigned.name not in templates:
                continue
            count = max(1, assigned.count or 1)
            usage = {
                resource: Quantity(-(-amount.nanos // count))
                for resource, amount in assigned.resource_usage.items()
            }
            pods[assigned.name] = HeldPod(
                template_pod(self.metadata.namespace, templates[assigned.name]), usage
            )
            hosts += (HeldHost(assigned.name, values[-1], n) for values, n in places.domains() if n > 0)
            if assigned.name in ended:
                needed[assigned.name] = max(0, max(count, sizes[assigned.name]) - ended[assigned.name])
        msgspec.structs.force_setattr(self, "hosts", tuple(hosts))
        msgspec.structs.force_setattr(self, "pods", pods)
        msgspec.structs.force_setattr(self, "needed", needed)


_NO_SPEC = _Spec()
_NO_STATUS = _Status()
