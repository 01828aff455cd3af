"""The sizes of the ReplicaSets of a Deployment: rolling updates, Recreate, and scaling in proportion."""

from collections.abc import Sequence
from typing import Final

import msgspec

from quorate.api.meta import scaled_value
from quorate.local.controllers.apps.types import Deployment, ReplicaSet

_PREFIX: Final = "deployment.kubernetes.io/"
REVISION: Final = f"{_PREFIX}revision"
REVISION_HISTORY: Final = f"{_PREFIX}revision-history"
DESIRED: Final = f"{_PREFIX}desired-replicas"  # replicas of the Deployment when the ReplicaSet was scaled
MAXIMUM: Final = f"{_PREFIX}max-replicas"  # the same with maxSurge


class Sizes(msgspec.Struct, frozen=True):
    """Replicas of the new ReplicaSet, if there is one, and of the old ones, the oldest first."""

    new: int | None
    old: tuple[int, ...]


def surge_and_unavailable(deployment: Deployment) -> tuple[int, int]:
    """Return the pods above the desired number, and those below it, that a rollout may have."""
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
    """Return the next sizes of Recreate: no old pod may be there when new ones are created."""
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
