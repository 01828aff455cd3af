"""The sizes of the ReplicaSets of a Deployment, and its status, as functions of the objects.

Sizes change by rolling updates, Recreate, and scaling in proportion. The status has counts, and the
conditions Available, Progressing and ReplicaFailure.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from quorate.api.meta import ConditionStatus, at_epoch, epoch, find_condition, scaled_value
from quorate.local.controllers.apps.replica_set import REPLICA_FAILURE
from quorate.local.controllers.apps.types import Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet

_PREFIX: Final = "deployment.kubernetes.io/"
REVISION: Final = f"{_PREFIX}revision"
REVISION_HISTORY: Final = f"{_PREFIX}revision-history"
DESIRED: Final = f"{_PREFIX}desired-replicas"  # replicas of the Deployment when the ReplicaSet was scaled
MAXIMUM: Final = f"{_PREFIX}max-replicas"  # the same with maxSurge


class Sizes(msgspec.Struct, frozen=True):
    """Replicas of the new ReplicaSet (None: it does not exist), and of the old ones, the oldest first."""

    new: int | None
    old: tuple[int, ...]


def surge_and_unavailable(deployment: Deployment) -> tuple[int, int]:
    """Return how many pods above and how many pods below the desired number a rollout may have."""
    strategy, desired = deployment.spec.strategy, deployment.spec.replicas
    if strategy.type != "RollingUpdate":
        return 0, 0
    surge = scaled_value(strategy.rolling_update.max_surge, desired, round_up=True)
    unavailable = scaled_value(strategy.rolling_update.max_unavailable, desired, round_up=False)
    if not surge and not unavailable:
        unavailable = 1
    return surge, min(unavailable, desired)


def replica_annotations(deployment: Deployment) -> dict[str, str]:
    desired = deployment.spec.replicas
    return {DESIRED: str(desired), MAXIMUM: str(desired + surge_and_unavailable(deployment)[0])}


def size_of_new(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> int:
    """Return the size to which the new ReplicaSet may grow now, or that with which it is created."""
    desired, present = deployment.spec.replicas, 0 if new is None else new.spec.replicas
    if deployment.spec.strategy.type != "RollingUpdate" or present > desired:
        return desired
    room = desired + surge_and_unavailable(deployment)[0] - present - _total(old)
    return min(desired, present + max(room, 0))


def rolling_sizes(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> Sizes:
    """Return the next sizes of a rolling update.

    The new ReplicaSet is created or grows first.  If it does not, unavailable pods of old ReplicaSets are
    removed, and then as many available pods as ``maxUnavailable`` allows.
    """
    sizes = [replica_set.spec.replicas for replica_set in old]
    grown = size_of_new(deployment, new, old)
    if new is None:
        return Sizes(grown, tuple(sizes))
    minimum = deployment.spec.replicas - surge_and_unavailable(deployment)[1]
    waiting = new.spec.replicas - new.status.available_replicas
    removable = new.spec.replicas + sum(sizes) - minimum - waiting
    if grown != new.spec.replicas or removable <= 0:
        return Sizes(grown, tuple(sizes))
    for index, replica_set in enumerate(old):
        less = min(removable, max(sizes[index] - replica_set.status.available_replicas, 0))
        sizes[index] -= less
        removable -= less
    spare = sum(replica_set.status.available_replicas for replica_set in (*old, new)) - minimum
    for index, size in enumerate(sizes):
        less = min(size, max(spare, 0))
        sizes[index] -= less
        spare -= less
    return Sizes(grown, tuple(sizes))


def recreate_sizes(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], *, has_old_pods: bool
) -> Sizes:
    """Return the next sizes of Recreate: new pods are created once no old pod is left."""
    if _total(old) or has_old_pods:
        return Sizes(None if new is None else new.spec.replicas, (0,) * len(old))
    return Sizes(deployment.spec.replicas, (0,) * len(old))


def is_scaled(deployment: Deployment, sets: Sequence[ReplicaSet]) -> bool:
    """Return True if the Deployment has other replicas than when its ReplicaSets were scaled."""
    return any(
        replica_set.metadata.annotations.get(DESIRED, desired) != desired
        for desired in (str(deployment.spec.replicas),)
        for replica_set in sets
        if replica_set.spec.replicas > 0
    )


def scaled_sizes(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> Sizes:
    """Return the sizes after a Deployment was scaled or paused: active ReplicaSets keep their shares."""
    every = [*old, *((new,) if new is not None else ())]  # the oldest first
    sizes = [replica_set.spec.replicas for replica_set in every]
    active = [index for index, size in enumerate(sizes) if size > 0]
    desired = deployment.spec.replicas
    if len(active) <= 1 and every:
        sizes[active[0] if active else -1] = desired
    elif new is not None and _is_saturated(deployment, new):
        sizes[:-1] = [0] * len(old)
    elif active and deployment.spec.strategy.type == "RollingUpdate":
        sizes = _shares(deployment, every, sizes)
    return Sizes(sizes[-1] if new is not None else None, tuple(sizes[: len(old)]))


def _shares(deployment: Deployment, every: Sequence[ReplicaSet], sizes: list[int]) -> list[int]:
    desired = deployment.spec.replicas
    allowed = desired + surge_and_unavailable(deployment)[0] if desired > 0 else 0
    to_add = added = allowed - sum(sizes)
    by_size = sorted(
        (index for index, size in enumerate(sizes) if size > 0),
        key=lambda index: (-sizes[index], -index if to_add > 0 else index),
    )
    result = list(sizes)
    for index in by_size:
        share = _share(deployment, every[index], sizes[index])
        share = max(min(share, added), 0) if to_add > 0 else min(max(share, added), 0)
        result[index] += share
        added -= share
    result[by_size[0]] = max(result[by_size[0]] + added, 0)  # what rounding left
    return result


def _share(deployment: Deployment, replica_set: ReplicaSet, size: int) -> int:
    """Return the change that keeps a ReplicaSet's fraction of the maximum."""
    desired = deployment.spec.replicas
    if desired == 0:
        return -size
    text = replica_set.metadata.annotations.get(MAXIMUM, "")
    before = (int(text) if text.isdecimal() else 0) or deployment.status.replicas
    if before == 0:
        return 0
    wanted = size * (desired + surge_and_unavailable(deployment)[0]) / before
    return int(wanted + 0.5) - size


def _is_saturated(deployment: Deployment, new: ReplicaSet) -> bool:
    desired = deployment.spec.replicas
    return new.spec.replicas == new.status.available_replicas == desired and new.metadata.annotations.get(
        DESIRED
    ) == str(desired)


def _total(sets: Sequence[ReplicaSet]) -> int:
    return sum(replica_set.spec.replicas for replica_set in sets)


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
    stored = find_condition(status.conditions, REPLICA_FAILURE)
    if stored is not None and stored.reason == failure.reason:
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
