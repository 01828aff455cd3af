"""Notations: pods as ``leader=gated worker=running``, plans as ``ungate leader; +Started``."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from quorate.api import codec
from quorate.api.core.pod import Pod, PodCondition, PodMeta, PodStatus
from quorate.api.kueue import Admission, PodSet, PodSetAssignment, Workload, WorkloadSpec, WorkloadStatus
from quorate.api.meta import Condition, ConditionStatus, ObjectMeta, Uid, at_epoch
from quorate.controllers.executor import Plan
from quorate.controllers.pods import constants
from quorate.controllers.pods.group_workload import owner_reference
from quorate.kube.writes import Apply, Create, Delete, Patch, Write

NOW = 1_000_000.0
START = datetime(2026, 1, 1, tzinfo=UTC)

_PHASES = {"running": "Running", "succeeded": "Succeeded", "failed": "Failed"}


def a_pod(
    name: str,
    state: str = "gated",
    *,
    role: str = "main",
    group: str = "train",
    total: str = "2",
    queue: str = "queue",
    has_finalizer: bool = True,
    age: int = 0,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
) -> Pod:
    """Return a pod; ``state``: gated, pending, running, succeeded or failed, with ``-gone`` if deleted.

    ``age``: smaller is older.  ``role``: empty if the annotation is missing.
    """
    phase, _, deleted = state.partition("-")
    spec: dict[str, Any] = {"containers": [{"name": "main"}]}
    if phase == "gated":
        spec["schedulingGates"] = [{"name": constants.ADMISSION_GATE}]
    elif phase != "pending":
        spec["nodeName"] = "node-1"
    in_group = {constants.TOTAL_COUNT: total} if group else {}
    return Pod(
        metadata=PodMeta(
            name=name,
            namespace="default",
            uid=Uid(f"uid-{name}"),
            resource_version="1",
            labels={
                constants.MANAGED: "true",
                "kueue.x-k8s.io/queue-name": queue,
                **({constants.GROUP_NAME: group} if group else {}),
                **(labels or {}),
            },
            annotations={**({constants.ROLE_HASH: role} if role else {}), **in_group, **(annotations or {})},
            finalizers=(constants.MANAGED,) if has_finalizer else (),
            creation_timestamp=START + timedelta(seconds=age),
            deletion_timestamp=at_epoch(NOW + 30) if deleted else None,
        ),
        written=msgspec.Raw(codec.encode(spec)),
        status=PodStatus(
            phase=_PHASES.get(phase, "Pending"),
            conditions=(PodCondition(type="Ready", status="True" if phase == "running" else "False"),),
        ),
    )


def with_spec(pod: Pod, spec: msgspec.Raw) -> Pod:
    return Pod(metadata=pod.metadata, written=spec, status=pod.status)


def pods(line: str, **common: Any) -> list[Pod]:
    """Return pods written ``name=state`` or ``name=state/role``, the oldest first."""
    made = []
    for age, word in enumerate(line.split()):
        name, _, state = word.partition("=")
        state, _, role = state.partition("/")
        made.append(a_pod(name, state, age=age, role=role or "main", **common))
    return made


def a_group_workload(
    roles: str = "main=2",
    conditions: str = "",
    *,
    owners: list[Pod] | None = None,
    name: str = "train",
    **metadata: Any,
) -> Workload:
    """Return a group workload; ``conditions``: types with optional reasons, as ``Evicted:Preempted``."""
    counts = {role: int(count) for role, _, count in (word.partition("=") for word in roles.split())}
    found = [_condition(word) for word in conditions.split()]
    reserved = any(each.type == "QuotaReserved" and each.status == "True" for each in found)
    assignments = tuple(
        PodSetAssignment(name=role, flavors={}, count=count) for role, count in counts.items()
    )
    return Workload(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=Uid("uid-workload"),
            resource_version="1",
            annotations={constants.IS_GROUP: "true"},
            finalizers=("kueue.x-k8s.io/resource-in-use",),
            owner_references=tuple(map(owner_reference, owners or ())),
            **metadata,
        ),
        spec=WorkloadSpec(
            pod_sets=tuple(PodSet(name=role, count=count) for role, count in counts.items()),
            queue_name="queue",
        ),
        status=WorkloadStatus(
            conditions=tuple(found),
            admission=Admission(cluster_queue="research", pod_set_assignments=assignments)
            if reserved
            else None,
        ),
    )


def _condition(word: str) -> Condition:
    type_, _, reason = word.partition(":")
    status: ConditionStatus = "False" if type_.startswith("not-") else "True"
    return Condition(
        type=type_.removeprefix("not-"),
        status=status,
        reason=reason or "Why",
        message=f"because {reason or 'so'}",
        last_transition_time=START,
    )


def show(plan: Plan) -> str:
    """Return writes, events with ``+`` (``!``: a warning) and the missing dependency, joined by ``; ``."""
    words = [word for sequence in plan.concurrent for word in _pod_words(sequence)]
    words += [_workload_word(write) for write in plan.writes]
    words += [f"{'+' if each.event.type == 'Normal' else '!'}{each.event.reason}" for each in plan.events]
    if plan.missing_dependency:
        words.append(f"missing {plan.missing_dependency}")
    return "; ".join(words)


def _pod_words(writes: tuple[Write, ...]) -> list[str]:
    words = []
    for write in writes:
        match write:
            case Apply(key=key, body=body):
                words.append(f"end {key.name} {body['status']['conditions'][0]['reason']}")
            case Delete(key=key):
                words.append(f"delete {key.name}")
            case Patch(key=key, body=body):
                words.append(f"{'ungate' if 'spec' in body else 'release'} {key.name}")
            case _:
                raise AssertionError(write)
    return words


def _workload_word(write: Write) -> str:
    match write:
        case Create(body=Workload() as made):
            sets = " ".join(f"{each.name}={each.count}" for each in made.spec.pod_sets)
            return f"create {made.metadata.name} {sets}"
        case Delete():
            return "delete workload"
        case Patch(subresource="status", body=body):
            return " ".join(["status", *_status_words(body["status"])])
        case Patch(body=body):
            if "spec" in body:
                return f"spec {' '.join(sorted(body['spec']))}"
            return "own" if "ownerReferences" in body["metadata"] else "release workload"
        case _:
            raise AssertionError(write)


def _status_words(status: dict[str, Any]) -> list[str]:
    """Return the conditions that changed now, and the reclaimable pods."""
    words = [
        f"{each['type']}={each['status']}:{each['reason']}"
        for each in status.get("conditions") or ()
        if each["lastTransitionTime"] == codec.to_builtins(at_epoch(NOW))
    ]
    words += [f"reclaim {each['name']}={each['count']}" for each in status.get("reclaimablePods") or ()]
    return words
