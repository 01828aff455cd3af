"""What a manager keeps of the copies of its workloads: it has one for each nominated worker cluster."""

from functools import lru_cache
from hashlib import blake2b
from sys import intern
from typing import Final

import msgspec
from msgspec.structs import force_setattr, replace

from quorate.api import codec, kueue
from quorate.api.interning import ContentCache, identity_of, intern_time
from quorate.api.kueue import PreemptionGateState, PriorityClassRef, WorkloadSpec
from quorate.api.meta import Condition, ObjectMeta, Struct, epoch
from quorate.api.names.multikueue import PREEMPTION_GATE
from quorate.api.normal_form import normal_form
from quorate.kube.resources import Resource
from quorate.queueing import conditions as c

_READ: Final = frozenset(
    (c.ADMITTED, c.BLOCKED_ON_PREEMPTION_GATES, c.DEACTIVATION_TARGET, c.EVICTED, c.FINISHED)
)


class SpecSummary(Struct):
    """The part of a spec that decides whether two specs are equal: all but the preemption gates."""

    counts: tuple[tuple[str, int], ...] = ()  # pods by pod set
    priority_class_ref: PriorityClassRef | None = None
    priority: int | None = None
    digest: bytes = b""  # of all other fields


class _Places(Struct):
    """The places of the pods, which are not read."""


class _Assignment(Struct):
    name: str = "main"
    topology_assignment: _Places | None = None


class _Admission(Struct):
    pod_set_assignments: tuple[_Assignment, ...] = ()


class _Status(Struct):
    conditions: tuple[Condition, ...] = ()
    admission: _Admission | None = None
    preemption_gates: tuple[PreemptionGateState, ...] = ()


_NO_SPEC: Final = WorkloadSpec()
_NO_STATUS: Final = _Status()


class WorkloadCopy(Struct):
    """A copy as far as dispatch reads it: a write that needs more reads the object.

    ``spec`` and ``status`` are empty once the object is decoded.
    """

    metadata: ObjectMeta  # without labels, annotations, owners and times
    spec: WorkloadSpec = _NO_SPEC
    status: _Status = _NO_STATUS
    summary: SpecSummary = SpecSummary()
    conditions: tuple[Condition, ...] = ()  # those that are read; only Finished has its message
    gate_opened: float | None = None  # when its preemption gate was opened, by our clock; None: it is closed
    placed: tuple[str, ...] = ()  # pod sets of which the pods have places in a topology

    def __post_init__(self) -> None:
        metadata, status = self.metadata, self.status
        kept = identity_of(metadata)
        force_setattr(kept, "name", intern(metadata.name))  # the copies of a workload share it
        force_setattr(kept, "namespace", intern(metadata.namespace))
        force_setattr(kept, "finalizers", _shared(metadata.finalizers))
        conditions = tuple(
            _shortened(condition) for condition in status.conditions if condition.type in _READ
        )
        force_setattr(self, "metadata", kept)
        force_setattr(self, "summary", summary_of(self.spec))
        force_setattr(self, "conditions", conditions)
        force_setattr(self, "gate_opened", _opened(status.preemption_gates))
        if status.admission is not None:
            assignments = status.admission.pod_set_assignments
            placed = tuple(
                assignment.name for assignment in assignments if assignment.topology_assignment is not None
            )
            force_setattr(self, "placed", _shared(placed))
        force_setattr(self, "spec", _NO_SPEC)
        force_setattr(self, "status", _NO_STATUS)


WORKLOAD_COPIES: Final = Resource(kueue.GROUP, kueue.VERSION, "workloads", "Workload", True, WorkloadCopy)


@lru_cache(maxsize=1024)
def _shared(texts: tuple[str, ...]) -> tuple[str, ...]:
    return texts


def _shortened(condition: Condition) -> Condition:
    return Condition(
        type=intern(condition.type),
        status=condition.status,
        reason=intern(condition.reason),
        message=condition.message if condition.type == c.FINISHED else "",
        last_transition_time=intern_time(condition.last_transition_time),
    )


def _opened(gates: tuple[PreemptionGateState, ...]) -> float | None:
    for gate in gates:
        if gate.name == PREEMPTION_GATE and gate.position == "Open":
            return 0.0 if gate.last_transition_time is None else epoch(gate.last_transition_time)
    return None


_summaries: Final[ContentCache[SpecSummary]] = ContentCache()


def summary_of(spec: WorkloadSpec) -> SpecSummary:
    """Return the summary of a spec.

    The controllers of a worker cluster may encode templates anew: a field that is empty counts as absent,
    and amounts are compared as numbers.
    """
    spec = replace(spec, preemption_gates=())
    content = codec.encode(spec)

    def make() -> SpecSummary:
        pod_sets = tuple(replace(pod_set, count=1) for pod_set in spec.pod_sets)
        rest = replace(spec, pod_sets=pod_sets, priority_class_ref=None, priority=None)
        normal = normal_form(msgspec.json.decode(codec.encode(rest)))
        return SpecSummary(
            counts=tuple((intern(pod_set.name), pod_set.count) for pod_set in spec.pod_sets),
            priority_class_ref=spec.priority_class_ref,
            priority=spec.priority,
            digest=blake2b(codec.encode_sorted(normal), digest_size=16).digest(),
        )

    return _summaries.get_or(content, make)
