"""The status of a Deployment: counts, and the conditions Available, Progressing and ReplicaFailure."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from quorate.api.meta import ConditionStatus, at_epoch, epoch, find_condition
from quorate.local.controllers.apps.replica_set import REPLICA_FAILURE
from quorate.local.controllers.apps.rollout import surge_and_unavailable
from quorate.local.controllers.apps.types import Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet

COMPLETE: Final = "NewReplicaSetAvailable"
TIMED_OUT: Final = "ProgressDeadlineExceeded"
PAUSED: Final = "DeploymentPaused"
RESUMED: Final = "DeploymentResumed"
PROGRESSING: Final = "Progressing"
NO_DEADLINE: Final = 2**31 - 1  # seconds


def deployment_status(
    deployment: Deployment,
    new: ReplicaSet | None,
    old: Sequence[ReplicaSet],
    now: float,
    *,
    is_rollout: bool = False,
) -> DeploymentStatus:
    """``is_rollout``: the Deployment is neither paused nor scaled, so that its progress counts."""
    every = [*old, *([new] if new is not None else [])]
    available = sum(replica_set.status.available_replicas for replica_set in every)
    status = DeploymentStatus(
        replicas=sum(replica_set.status.replicas for replica_set in every),
        updated_replicas=0 if new is None else new.status.replicas,
        ready_replicas=sum(replica_set.status.ready_replicas for replica_set in every),
        available_replicas=available,
        unavailable_replicas=max(sum(replica_set.spec.replicas for replica_set in every) - available, 0),
        terminating_replicas=sum(replica_set.status.terminating_replicas or 0 for replica_set in every),
        observed_generation=deployment.metadata.generation,
        collision_count=deployment.status.collision_count,
        conditions=deployment.status.conditions,
    )
    enough = available >= deployment.spec.replicas - surge_and_unavailable(deployment)[1]
    status = _with_condition(
        status,
        "Available",
        "True" if enough else "False",
        "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        f"Deployment {'has' if enough else 'does not have'} minimum availability.",
        now,
    )
    if is_rollout:
        status = _with_replica_failure(_progressed(deployment, status, new, now), new, every)
    return status


def has_deadline(deployment: Deployment) -> bool:
    return deployment.spec.progress_deadline_seconds != NO_DEADLINE


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    desired = deployment.spec.replicas
    is_current = status.observed_generation >= deployment.metadata.generation
    return is_current and status.updated_replicas == status.replicas == status.available_replicas == desired


def paused_status(deployment: Deployment, now: float) -> DeploymentStatus:
    """Return the status with the condition of a Deployment that was just paused or resumed."""
    condition = find_condition(deployment.status.conditions, PROGRESSING)
    reason = "" if condition is None else condition.reason
    if reason == TIMED_OUT or deployment.spec.paused == (reason == PAUSED):
        return deployment.status
    reason, verb = (PAUSED, "paused") if deployment.spec.paused else (RESUMED, "resumed")
    return with_progress(deployment, deployment.status, "Unknown", reason, f"Deployment is {verb}", now)


def with_progress(
    deployment: Deployment,
    status: DeploymentStatus,
    value: ConditionStatus,
    reason: str,
    message: str,
    now: float,
) -> DeploymentStatus:
    """Return the status with a condition Progressing, if the Deployment has a deadline for its progress."""
    if not has_deadline(deployment):
        return status
    return _with_condition(status, PROGRESSING, value, reason, message, now)


def with_new_replica_set(
    deployment: Deployment, name: str, now: float, *, was_created: bool
) -> DeploymentStatus:
    """Return the status with the condition of a ReplicaSet that was created, or seen for the first time."""
    status = deployment.status
    if was_created:
        reason, message = "NewReplicaSetCreated", f'Created new replica set "{name}"'
    elif find_condition(status.conditions, PROGRESSING) is None:
        reason, message = "FoundNewReplicaSet", f'Found new replica set "{name}"'
    else:
        return status
    return with_progress(deployment, status, "True", reason, message, now)


def progress_deadline(deployment: Deployment, status: DeploymentStatus) -> float | None:
    """Return when a rollout without progress has timed out; None if it is complete, or has no deadline."""
    condition = find_condition(status.conditions, PROGRESSING)
    if not has_deadline(deployment) or condition is None or condition.last_update_time is None:
        return None
    if condition.reason == TIMED_OUT or is_complete(deployment, status):
        return None
    return epoch(condition.last_update_time) + deployment.spec.progress_deadline_seconds + 1


def _progressed(
    deployment: Deployment, status: DeploymentStatus, new: ReplicaSet | None, now: float
) -> DeploymentStatus:
    if not has_deadline(deployment):
        return _without_condition(status, PROGRESSING)
    name = f'Deployment "{deployment.metadata.name}"' if new is None else f'ReplicaSet "{new.metadata.name}"'
    before = find_condition(status.conditions, PROGRESSING)
    if status.replicas == status.updated_replicas and before is not None and before.reason == COMPLETE:
        return status
    if is_complete(deployment, status):
        return _with_condition(
            status, PROGRESSING, "True", COMPLETE, f"{name} has successfully progressed.", now
        )
    if _has_progressed(deployment.status, status):
        message = f"{name} is progressing."
        return _with_updated_condition(status, PROGRESSING, "True", "ReplicaSetUpdated", message, now)
    end = progress_deadline(deployment, status)
    if before is not None and before.reason != COMPLETE and end is not None and now >= end - 1:
        return _with_condition(
            status, PROGRESSING, "False", TIMED_OUT, f"{name} has timed out progressing.", now
        )
    return status


def _has_progressed(before: DeploymentStatus, after: DeploymentStatus) -> bool:
    return (
        after.updated_replicas > before.updated_replicas
        or after.replicas - after.updated_replicas < before.replicas - before.updated_replicas
        or after.ready_replicas > before.ready_replicas
        or after.available_replicas > before.available_replicas
    )


def _with_replica_failure(
    status: DeploymentStatus, new: ReplicaSet | None, every: Iterable[ReplicaSet]
) -> DeploymentStatus:
    """Return the status with the condition ReplicaFailure of the ReplicaSets."""
    sets = [*([new] if new is not None else []), *every]
    failure = find_condition(
        (condition for replica_set in sets for condition in replica_set.status.conditions), REPLICA_FAILURE
    )
    rest = _without_condition(status, REPLICA_FAILURE)
    if failure is None:
        return rest
    known = find_condition(status.conditions, REPLICA_FAILURE)
    if known is not None and known.reason == failure.reason:
        return status
    condition = DeploymentCondition(
        type=REPLICA_FAILURE,
        status=failure.status,
        reason=failure.reason,
        message=failure.message,
        last_update_time=failure.last_transition_time,
        last_transition_time=failure.last_transition_time,
    )
    return replace(rest, conditions=(*rest.conditions, condition))


def _with_condition(
    status: DeploymentStatus, type_: str, value: ConditionStatus, reason: str, message: str, now: float
) -> DeploymentStatus:
    """Return the status with a condition; a condition with the same status and reason stays as it is."""
    before = find_condition(status.conditions, type_)
    if before is not None and (before.status, before.reason) == (value, reason):
        return status
    return _with_updated_condition(status, type_, value, reason, message, now)


def _with_updated_condition(
    status: DeploymentStatus, type_: str, value: ConditionStatus, reason: str, message: str, now: float
) -> DeploymentStatus:
    """Return the status with a condition, which moves to the end of the conditions."""
    before = find_condition(status.conditions, type_)
    since = before.last_transition_time if before is not None and before.status == value else at_epoch(now)
    condition = DeploymentCondition(
        type=type_,
        status=value,
        reason=reason,
        message=message,
        last_update_time=at_epoch(now),
        last_transition_time=since,
    )
    rest = _without_condition(status, type_)
    return replace(rest, conditions=(*rest.conditions, condition))


def _without_condition(status: DeploymentStatus, type_: str) -> DeploymentStatus:
    others = tuple(condition for condition in status.conditions if condition.type != type_)
    return replace(status, conditions=others)
