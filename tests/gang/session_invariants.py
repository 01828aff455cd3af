"""The invariants of every session, and the comparison of two sessions."""

from collections import Counter
from typing import Any

from quorate.api.meta import Key, is_true
from quorate.api.volcano import COMPLETED, UNSCHEDULABLE
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import EVICTABLE_STATUSES
from quorate.gang.outcome import Outcome
from quorate.gang.pending_reasons import GangUnschedulable
from tests.gang.world import World

Json = dict[str, Any]


class SessionStart:
    """The state of gangs when a session began."""

    def __init__(self, world: World) -> None:
        gangs = world.fresh_model().gangs
        self.ready = {key: gang.task_counts.ready for key, gang in gangs.items()}
        self.status = {task.key: task.status for gang in gangs.values() for task in gang.tasks.values()}
        self.pods = dict(world.pods)
        # Completed groups of which no member waits or runs, so that only their phase can reserve anything.
        self.over = {
            key for key, gang in gangs.items() if gang.phase == COMPLETED and not gang.task_counts.unfinished
        }


def violations(world: World, before: SessionStart, outcome: Outcome) -> list[str]:
    """Return the invariants that ``outcome`` breaks."""
    gangs = world.fresh_model().gangs
    return [
        *_partial_gangs(world, before, outcome, gangs),
        *_overfull_nodes(world),
        *_vain_evictions(before, outcome, gangs),
        *_broken_victims(world, before, outcome, gangs),
        *_wrong_numbers(world),
        *(
            f"{key} was over and is {gangs[key].phase}"
            for key in before.over
            if gangs[key].phase != COMPLETED
        ),
        *(
            f"{key} is over, and said to be unschedulable"
            for key, group in world.groups.items()
            if world.settings.profile == "design"
            and group.status.phase == COMPLETED
            and is_true(group.status.conditions, UNSCHEDULABLE)
        ),
    ]


def _partial_gangs(world: World, before: SessionStart, outcome: Outcome, gangs: dict[Key, Gang]) -> list[str]:
    found = []
    for key in {bind.gang for bind in outcome.binds}:
        gang = gangs[key]
        is_whole = gang.is_ready(with_best_effort=world.settings.profile == "compat")
        if not is_whole:
            found.append(f"{key} was bound in part: {gang.task_counts.ready} of {gang.min_member}")
    return found


def _wrong_numbers(world: World) -> list[str]:
    reasons = {key: gang.reported.reason for key, gang in world.model.gangs.items()}
    return [
        f"{key} waits although it lacks no member: {reason}"
        for key, reason in reasons.items()
        if isinstance(reason, GangUnschedulable) and reason.missing < 1
    ]


def _overfull_nodes(world: World) -> list[str]:
    cluster = world.fresh_model().cluster
    return [
        f"{name} holds more than it has"
        for name in cluster.names()
        if (cluster.used[:, cluster.index(name)] > cluster.allocatable[:, cluster.index(name)]).any()
    ]


def _vain_evictions(before: SessionStart, outcome: Outcome, gangs: dict[Key, Gang]) -> list[str]:
    pipelined = Counter(before_gang(before, key) for key in outcome.pipelined)
    found = []
    for eviction in outcome.evictions:
        if not pipelined[eviction.beneficiary]:
            found.append(f"{eviction.task} was evicted for {eviction.beneficiary}, which is promised nothing")
        gang = gangs[eviction.beneficiary]
        if gang.task_counts.ready + pipelined[gang.key] + gang.task_counts.best_effort < gang.min_member:
            found.append(f"{eviction.task} was evicted for {eviction.beneficiary}, which cannot start")
        if before.status[eviction.task] not in EVICTABLE_STATUSES:
            found.append(f"{eviction.task} was evicted, which did not run")
    return found


def before_gang(before: SessionStart, task: Key) -> Key:
    pod = before.pods[task]
    return Key(task.namespace, pod.metadata.annotations["scheduling.k8s.io/group-name"])


def _broken_victims(
    world: World, before: SessionStart, outcome: Outcome, gangs: dict[Key, Gang]
) -> list[str]:
    """Return broken victims, unless a later tier may overrule the plugin gang (profile compat)."""
    if world.settings.profile == "compat" and len(world.settings.tiers) > 1:
        return []
    found = []
    for eviction in outcome.evictions:
        gang = gangs[eviction.gang]
        if eviction.whole:
            if gang.with_status(*EVICTABLE_STATUSES):
                found.append(f"{eviction.gang} was to go whole, and some stay")
        elif gang.task_counts.ready < min(gang.min_member, before.ready[gang.key]):
            found.append(f"{eviction.gang} is below its minimum since {eviction.task} was evicted")
    return found


def may_remove_ended_pods(operation: str, world: World) -> bool:
    """Return True if the operation may remove pods that ended since the last session.

    A leader that starts afterwards cannot know that their group has completed.
    """
    return operation in ("deletePods", "removeNodes", "reap") and any(
        pod.status.phase in ("Succeeded", "Failed") for pod in world.pods.values()
    )


def comparable(outcome: Outcome) -> Json:
    """Return the comparable parts of an outcome."""
    return {
        "binds": [(str(bind.task), bind.node) for bind in outcome.binds],
        "evictions": [(str(each.task), str(each.beneficiary), each.whole) for each in outcome.evictions],
        "nominations": [(str(each.task), each.node) for each in outcome.nominations],
        "promised": {str(key): node for key, node in sorted(outcome.pipelined.items())},
        "verdicts": {
            str(key): str(pending_reason) for key, pending_reason in sorted(outcome.pending_reasons.items())
        },
    }
