"""Agreement with Kueue's scheduler: small worlds that were generated from seeds and played through it.

``kueue-worlds.jsonl`` has what Kueue's scheduler, queues and caches decided in August 2026, shortly before
0.20, in worlds with cohorts, flavors, limits, preemption, fair sharing, partial admission and topologies,
while workloads arrive, finish and are evicted.  Each line is one world, ``given`` as in
``admission-cases.yaml``; its steps have the workloads of which the admission or the preemption changed.  The
worlds in which we decide otherwise are in ``kueue-differences.yaml``, with the reason.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from quorate.queueing import conditions as c
from tests.queueing.world import World

Json = dict[str, Any]

HERE: Final = Path(__file__).parent
WORLDS: Final[list[Json]] = [
    json.loads(line) for line in (HERE / "kueue-worlds.jsonl").read_text().splitlines()
]
DIFFERENCES: Final[list[Json]] = yaml.safe_load((HERE / "kueue-differences.yaml").read_text())
DIFFERING: Final = {world for difference in DIFFERENCES for world in difference["worlds"]}
LEAST_AGREEMENT: Final = 0.9  # of the worlds of each kind


def first_difference(recorded: Json) -> str:
    """Return the first step after which a workload is not as Kueue left it; empty: all are."""
    world, wanted = World(recorded["given"]), dict(_given(recorded["given"]))
    for index, step in enumerate(recorded["steps"]):
        _take(world, step["do"])
        wanted |= step.get("changed", {})
        if step["do"] != "cycle":
            continue  # what is evicted or arrives is decided on in the next cycle
        found = dict(_outcomes(world))
        names = [name for name in found | wanted if found.get(name, {}) != wanted.get(name, {})]
        pending = [name for name in names if not c.is_finished(world.workloads[name])]
        if pending:
            return "; ".join(
                f"step {index}: {name}: want {wanted.get(name, {})}, got {found.get(name, {})}"
                for name in pending
            )
    return ""


def _take(world: World, step: str | Mapping[str, Any]) -> None:
    preempted = world.preempted()
    match step:
        case {"evictionDone": _}:
            left = [name for name in sorted(preempted) if c.has_quota_reservation(world.workloads[name])]
            world.run({"evictionDone": left})
        case {"finish": names}:
            running = [name for name in names if name not in preempted and _holds_quota(world, name)]
            world.run({"finish": running})
        case _:
            world.run(step)


def _holds_quota(world: World, name: str) -> bool:
    workload = world.workloads.get(name)
    return workload is not None and c.has_quota_reservation(workload) and not c.is_finished(workload)


def _given(given: Json) -> Iterator[tuple[str, Json]]:
    """Yield the workloads that hold quota at the beginning."""
    for workload in given["workloads"]:
        if "admitted" in workload:
            yield workload["name"], {"admitted": workload["admitted"]["podSets"]}


def _outcomes(world: World) -> Iterator[tuple[str, Json]]:
    """Yield each workload that holds quota or is preempted, in the notation of the file."""
    preempted = world.preempted()
    for name, workload in world.workloads.items():
        outcome: Json = {"preempted": preempted[name]} if name in preempted else {}
        admission = workload.status.admission
        if admission is not None and c.has_quota_reservation(workload):
            outcome["admitted"] = {pods.name: _pods(pods) for pods in admission.pod_set_assignments}
        if outcome:
            yield name, outcome


def _pods(pods: Any) -> Json:
    found: Json = {"count": pods.count, "flavors": dict(pods.flavors)}
    if pods.topology_assignment is not None:
        domains = pods.topology_assignment.domains()
        found["topology"] = {",".join(values): count for values, count in domains}
    return found


@pytest.mark.parametrize("kind", ["classical", "fair", "topology"])
def test_workloads_get_quota_and_are_preempted_as_with_kueue(kind: str) -> None:
    worlds = {world["world"]: world for world in WORLDS if world["world"].startswith(kind)}
    differing = {name: found for name, world in worlds.items() if (found := first_difference(world))}
    assert differing.keys() == {name for name in worlds if name in DIFFERING}, differing
    assert len(differing) <= (1 - LEAST_AGREEMENT) * len(worlds)


def test_the_worlds_hold_what_they_are_to_show() -> None:
    """Preemptions of each kind, fewer pods than asked for and places occur in them."""
    text = "\n".join(json.dumps(world["steps"]) for world in WORLDS)
    reasons = (
        "InClusterQueue",
        "InCohortReclamation",
        "InCohortReclaimWhileBorrowing",
        "InCohortFairSharing",
    )
    assert all(text.count(reason) >= 3 for reason in reasons)
    assert text.count('"topology"') > 100
    assert any(_starts_smaller(world) for world in WORLDS)


def _starts_smaller(world: Json) -> bool:
    counts = {
        (workload["name"], pod_set["name"]): pod_set["count"]
        for workload in world["given"]["workloads"]
        for pod_set in workload["podSets"]
    }
    return any(
        pods["count"] < counts[name, pod_set]
        for step in world["steps"]
        for name, outcome in step.get("changed", {}).items()
        for pod_set, pods in outcome.get("admitted", {}).items()
    )


def test_what_waits_for_quota_would_start_alone() -> None:
    """Of each workload with one pod set, which says of all flavors why it does not start."""
    checked = dict.fromkeys((c.WAITING_FOR_QUOTA, c.EXCEEDS_MAX_QUOTA), 0)
    for recorded in WORLDS:
        given = recorded["given"]
        if recorded["world"].startswith("topology"):
            continue
        world = World(given)
        world.cycle(4)
        for name in world.workloads:
            (pod_set, *others) = world.given_workload(name)["podSets"]
            reserved = world.condition(name, c.QUOTA_RESERVED)
            if others or "minCount" in pod_set or reserved is None or reserved.reason not in checked:
                continue
            workload = {**world.given_workload(name)}
            workload.pop("admitted", None)
            alone = World({**given, "workloads": [workload]})
            alone.cycle(2)
            starts = c.has_quota_reservation(alone.workloads[name])
            assert starts == (reserved.reason == c.WAITING_FOR_QUOTA), f"{recorded['world']}: {name}"
            checked[reserved.reason] += 1
    assert min(checked.values()) >= 15, checked
