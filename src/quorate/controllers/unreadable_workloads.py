"""What can be read of a workload that cannot be used as a whole, so that its quota is not given twice.

A workload becomes unreadable while its job runs if a definition without a schema lets a client store fields
of other types.  Its quota stays reserved and its job goes on until the workload is readable or deleted.
"""

from typing import Any, Final, TypeVar

import msgspec

from quorate.api import codec
from quorate.api.kueue import Admission, PodSet, Workload, WorkloadSpec, WorkloadStatus
from quorate.api.meta import Condition, ObjectMeta
from quorate.kube.object_faults import ObjectFault
from quorate.queueing.cluster_queue import counts_quota

T = TypeVar("T")

_Fields = dict[str, msgspec.Raw]
_MISSING: Final = msgspec.Raw(b"null")


def reserving_part(fault: ObjectFault, last_admission: Admission | None = None) -> Workload | None:
    """Return the readable fields of a workload; None if the workload has no valid quota reservation.

    ``last_admission`` is assumed if the admission cannot be read.  The pod sets are those of the admission,
    and none of their pods are reclaimable, which counts rather too much than too little.
    """
    workload = fault.obj if isinstance(fault.obj, Workload) else _readable_part(fault)
    admission = workload.status.admission or last_admission
    if admission is None or not counts_quota(workload):
        return None
    pod_sets = tuple(
        PodSet(name=assigned.name, count=1 if assigned.count is None else assigned.count)
        for assigned in admission.pod_set_assignments
    )
    return msgspec.structs.replace(
        workload,
        spec=msgspec.structs.replace(workload.spec, pod_sets=pod_sets),
        status=WorkloadStatus(conditions=workload.status.conditions, admission=admission),
    )


def _readable_part(fault: ObjectFault) -> Workload:
    document = _decoded(_Fields, msgspec.Raw(fault.raw), {})
    identity = ObjectMeta(
        name=fault.key.name,
        namespace=fault.key.namespace,
        uid=fault.uid,
        resource_version=fault.resource_version,
    )
    spec = _decoded(_Fields, document.get("spec", _MISSING), {})
    status = _decoded(_Fields, document.get("status", _MISSING), {})
    conditions = _decoded(list[msgspec.Raw], status.get("conditions", _MISSING), [])
    nothing = WorkloadSpec()
    return Workload(
        metadata=_decoded(ObjectMeta, document.get("metadata", _MISSING), identity),
        spec=WorkloadSpec(
            queue_name=_decoded(str, spec.get("queueName", _MISSING), nothing.queue_name),
            priority=_decoded(int, spec.get("priority", _MISSING), nothing.priority),
            active=_decoded(bool, spec.get("active", _MISSING), nothing.active),
        ),
        status=WorkloadStatus(
            conditions=tuple(
                condition for raw in conditions if (condition := _decoded(Condition, raw, None)) is not None
            ),
            admission=_decoded(Admission, status.get("admission", _MISSING), None),
        ),
    )


def _decoded(type_: type[T] | Any, raw: msgspec.Raw, default: Any) -> Any:
    try:
        return codec.decode(type_, raw)
    except msgspec.DecodeError:
        return default
