"""Remedies of generated waits, played: the objects are changed as a remedy says, and the core is run.

The other workloads that wait are deactivated first if an explanation counts any as rivals.
"""

import copy
from collections.abc import Iterator
from datetime import timedelta
from typing import Final, NamedTuple

from quorate.api.explanation import Change, Explanation, Remedy
from quorate.api.quantity import parse_quantity
from quorate.queueing import conditions as c
from quorate.queueing.explain import pending_facts, run
from quorate.queueing.explanation.workload import explain_workload
from tests.queueing.notation import Json, given_pod_sets
from tests.queueing.resting_histories import CHECKS, History, HistoryKind
from tests.queueing.resting_world import RestingWorld

MAX_CYCLES: Final = 12  # until a workload starts that preempts others


class Wait(NamedTuple):
    """A pending workload of a generated world, and its explanation."""

    seed: int
    world: RestingWorld
    name: str
    explanation: Explanation


def generated_waits(seed: int, kind: HistoryKind) -> Iterator[Wait]:
    """Yield the waits of one random world: after its history, and at rest."""
    history = History(seed, kind)
    world = RestingWorld(copy.deepcopy(history.given))
    for step in copy.deepcopy(history.steps):
        world.run(step)
    yield from _waits(seed, world)
    world.rest()
    yield from _waits(seed, world)


def _waits(seed: int, world: RestingWorld) -> Iterator[Wait]:
    for key in list(world.state.ledger.entries):
        explanation = explained(world, key.name)
        if explanation is not None:
            yield Wait(seed, world, key.name, explanation)


def explained(world: RestingWorld, name: str) -> Explanation | None:
    workload = world.workloads[name]
    facts = run(pending_facts(world.state, workload.metadata.key))
    return None if facts is None else explain_workload(world.state, workload, facts)


def false_remedies(wait: Wait) -> list[str]:
    """Return the remedies after which the workload does not start."""
    return [
        f"{wait.seed} {wait.name}: {remedy.text} ({[reason.code for reason in wait.explanation.reasons]})"
        for remedy in wait.explanation.remedies
        if not starts_after(wait, remedy)
    ]


def starts_after(wait: Wait, remedy: Remedy) -> bool:
    world = wait.world.fresh()
    if wait.explanation.rivals:
        ledger = world.state.ledger
        others = [key.name for key in (*ledger.entries, *ledger.second_pass.waiting) if key.name != wait.name]
        world.run({"active": dict.fromkeys(others, False)})
    for change in remedy.all_of:
        _apply(world, wait.name, change)
    return _pods_started(world, wait.name) >= remedy.pods


def _pods_started(world: RestingWorld, name: str) -> int:
    """Return with how many pods the workload starts."""
    for _ in range(MAX_CYCLES):
        workload = world.workloads[name]
        if c.has_quota_reservation(workload) and not c.is_evicted(workload):
            admission = workload.status.admission
            assert admission is not None
            return sum(each.count or 0 for each in admission.pod_set_assignments)
        world.run({"run": None})
        world.run({"stop": sorted(world.workloads)})
    return -1


def _apply(world: RestingWorld, name: str, change: Change) -> None:
    match change.action:
        case "FreeQuota" | "RaiseQuota":
            _raise_quota(world, change)
        case "CoverResource":
            groups = _groups(world, change)
            groups[0]["covered"] = [*groups[0]["covered"], change.resource]
            for flavor in groups[0]["flavors"]:
                flavor["quotas"][change.resource] = {"nominal": change.amount}
            _update_queue(world, change, {"resourceGroups": groups})
        case "CreateFlavor":
            world.run({"update": {"flavors": {change.object.name if change.object else "": {}}}})
        case "AddToleration" | "SelectFlavor" | "LowerRequests":
            _change_pods(world, name, change)
        case "RaisePriority":
            world.run({"update": {"workloads": {name: {"priority": int(change.amount)}}}})
        case "ResumeQueue" if change.object is not None and change.object.kind == "LocalQueue":
            world.given["localQueues"][change.object.name]["stopPolicy"] = "None"
            world.put_local_queue(change.object.namespace, change.object.name)  # none of another namespace
            world.settle()
        case "ResumeQueue":
            _update_queue(world, change, {"stopPolicy": "None"})
        case "SetQueue":
            assert change.object is not None
            world.run({"update": {"workloads": {name: {"queue": change.object.name}}}})
        case "CreateQueue" | "ReplaceQueue":
            assert change.object is not None
            world.given["localQueues"][change.object.name] = {"clusterQueue": change.value}
            world.put_local_queue(change.object.namespace, change.object.name)
            world.settle()
        case "ProvideNodes":
            assert change.nodes is not None
            for number in range(change.nodes.count):
                own = dict.fromkeys(change.nodes.levels, f"more-{number}")
                labels = {**own, **dict.fromkeys(change.nodes.same, "more"), **change.nodes.labels}
                node = {"labels": labels, "allocatable": {**change.nodes.free}}
                world.run({"update": {"nodes": {f"more-{change.pod_set}-{number}": node}}})
        case "SelectNamespace":
            _update_queue(world, change, {"namespaceSelector": {}})
        case "EndPods":
            world.run({"stop": sorted(world.workloads)})
        case "ReadyPods":
            checks = dict.fromkeys(CHECKS, "Ready")
            world.run({"checks": dict.fromkeys(sorted(world.workloads), checks)})
            world.run({"podsReady": dict.fromkeys(sorted(world.workloads), True)})
            reservations = world.state.ledger.reservations.values()
            world.run({"finish": [one.key.name for one in reservations if not one.ready]})
        case "Wait":
            if change.until is not None:
                later = change.until + timedelta(seconds=1)
                world.run({"advance": max(0.0, later.timestamp() - world.now)})
        case _:
            raise AssertionError(f"no step plays {change.action}")


def _update_queue(world: RestingWorld, change: Change, fields: Json) -> None:
    assert change.object is not None, change
    world.run({"update": {"clusterQueues": {change.object.name: fields}}})


def _groups(world: RestingWorld, change: Change) -> list[Json]:
    assert change.object is not None, change
    groups: list[Json] = copy.deepcopy(world.given["clusterQueues"][change.object.name]["resourceGroups"])
    return groups


def _raise_quota(world: RestingWorld, change: Change) -> None:
    groups = _groups(world, change)
    for group in groups:
        for flavor in group["flavors"]:
            if flavor["name"] == change.flavor and change.resource in flavor["quotas"]:
                quota = flavor["quotas"][change.resource]
                nominal = parse_quantity(str(quota["nominal"])).nanos + parse_quantity(change.amount).nanos
                quota["nominal"] = f"{nominal // 1_000_000}m"
    _update_queue(world, change, {"resourceGroups": groups})


def _change_pods(world: RestingWorld, name: str, change: Change) -> None:
    pod_sets = copy.deepcopy(given_pod_sets(world.given_workload(name)))
    (pod_set,) = [each for each in pod_sets if each["name"] == change.pod_set]
    if change.action == "LowerRequests":
        pod_set["requests"][change.resource] = change.amount
    elif change.action == "AddToleration":
        key, _, rest = change.value.partition("=")
        value, _, effect = rest.partition(":")
        toleration = {"key": key, "operator": "Equal", "value": value, "effect": effect}
        pod_set["tolerations"] = [*pod_set.get("tolerations", []), toleration]
    else:
        labels = world.given["flavors"][change.flavor].get("nodeLabels", {})
        pod_set["nodeSelector"] = pod_set.get("nodeSelector", {}) | labels
    world.run({"update": {"workloads": {name: {"podSets": pod_sets, "active": True}}}})
