"""The members that a pod group is expected to have once it is admitted.

Before that its pods do not exist, or have scheduling gates.  A session that has to know what would happen to
them adds *expected members* to the model for a while:

* for each member with gates, the same without gates;
* for each further member up to the minimum, an equal part of what ``minResources`` has beyond the members.

Nothing else is known of pods that do not exist.  They are expected to tolerate every taint and to have no
other constraints, so that a group does not wait because of constraints that its pods do not have.
"""

from collections import Counter
from typing import Final

import msgspec

from quorate.api.core import Toleration
from quorate.api.core.pod import Pod, PodMeta
from quorate.api.meta import Key, Uid
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.reservations import node_claim_of
from quorate.gang.cache.task import Task
from quorate.placement.shapes import Shape
from quorate.quota.amount import PODS

TOLERATES_ALL: Final = (Toleration(operator="Exists"),)


def expected_members(gang: Gang, *, may_preempt: bool) -> list[Task]:
    """Return the pending tasks that ``gang``, which has not started, lacks for its minimum.

    ``may_preempt``: whether pods of its priority class may preempt.  The names are no names of pods.
    """
    gated = [task for task in gang.tasks.values() if task.gated]
    members = [_without_gates(task) for task in sorted(gated, key=lambda task: task.key)]
    roles = [role for role, number in missing_by_role(gang).items() for _ in range(number)]
    if not roles:
        return members
    left = Counter(node_claim_of(gang))
    left.subtract(gang.requests.pending)
    parts: dict[tuple[tuple[str, int], ...], Shape] = {}
    for index, role in enumerate(roles):
        amounts = {
            resource: amount // len(roles) + (index < amount % len(roles))
            for resource, amount in left.items()
            if amount > 0
        }
        shape = parts.setdefault(
            tuple(amounts.items()), Shape(amounts=amounts | {PODS: 1}, tolerations=TOLERATES_ALL)
        )
        members.append(_member(gang, index, role, shape, may_preempt=may_preempt))
    return members


def count_missing(gang: Gang) -> int:
    """Return how many members ``gang`` lacks for its minimum, whatever number that is."""
    return sum(missing_by_role(gang).values())


def missing_by_role(gang: Gang) -> dict[str, int]:
    """Return how many members do not exist, by role in order; the last key, "", means any role."""
    missing = {
        role: max(0, minimum - gang.role(role).valid) for role, minimum in sorted(gang.role_minima.items())
    }
    of_any_role = gang.min_member - gang.task_counts.valid - sum(missing.values())
    missing[""] = missing.get("", 0) + max(0, of_any_role)
    return missing


def _without_gates(task: Task) -> Task:
    key = Key(task.key.namespace, f"{task.key.name} without gates")
    return msgspec.structs.replace(
        task,
        key=key,
        uid=Uid(str(key)),
        gated=False,
        gated_after_admission=False,
        nominated_node="",
        quota_usage={},
    )


def _member(gang: Gang, index: int, role: str, shape: Shape, *, may_preempt: bool) -> Task:
    key = Key(gang.key.namespace, f"{gang.key.name} expected member {index}")
    uid = Uid(str(key))
    return Task(
        pod=Pod(metadata=PodMeta(name=key.name, namespace=key.namespace, uid=uid)),
        key=key,
        uid=uid,
        gang=gang.key,
        role=role,
        shape=shape,
        priority=gang.priority,
        created=gang.created,
        preemptable=True,
        may_preempt=may_preempt,
        critical=False,
        gated=False,
        gated_after_admission=False,
        nominated_node="",
        quota_usage={},
    )
