"""The exhaustive search for eviction loops in families of small worlds.

    python -m tests.gang.loop_search                       every world of every family, on all processors
    python -m tests.gang.loop_search reclaim --every 10    a tenth of the worlds of one family

Each world of a family has three gangs of up to three equal members, in every distribution over queues and
priorities; the first one or two of them run initially, as far as they fit.  In families with the action
``enqueue`` the others have no pods before they are admitted.

In the end no group may be *stuck*: admitted, or owed resources by its priority, without ever running.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement, product
from multiprocessing.pool import Pool
from typing import Any, Final, NamedTuple

from rich.progress import Progress

from tests.gang.eviction_loops import RunResult, play
from tests.loop_searches import selection_of

Json = dict[str, Any]

ONE_TIER: Final = [["priority", "gang", "conformance", "proportion", "predicates", "nodeorder"]]
CAPACITY: Final = [["priority", "gang", "conformance", "capacity", "predicates", "nodeorder"]]
BY_ANCESTOR: Final[list[list[Any]]] = [
    ["priority", "gang", "conformance"],
    [
        {"name": "capacity", "enableHierarchy": True, "arguments": {"ancestorReclaimLevel": 1}},
        "predicates",
        "nodeorder",
    ],
]
ONE_EACH: Final = [["priority"], ["gang"], ["conformance"], ["predicates", "nodeorder"]]
NO_SHARES: Final = [["priority", "gang", "conformance", "predicates", "nodeorder"]]
CONFIGURATIONS: Final = {
    "enqueue": {"inqueue-timeout": 0, "requeue-backoff-base": 0.5, "requeue-backoff-max": 0.5}
}
NODES: Final = ((4,), (2, 2))
SIZES: Final = ((1, 1), (2, 1), (2, 2), (3, 1), (3, 3))  # members and minMember


class GangKind(NamedTuple):
    """The attributes in which the gangs of a world differ."""

    members: int
    minimum: int
    priority: int
    queue: str
    has_min_resources: bool


class Case(NamedTuple):
    given: Json
    conf: Json
    profile: str
    one_by_one: bool


class Family(NamedTuple):
    actions: str
    tiers: list[list[Any]]
    profiles: tuple[str, ...]
    queues: tuple[Json, ...]
    priorities: tuple[int, ...]
    min_resources: tuple[bool, ...]

    def cases(self) -> Iterator[Case]:
        conf = {"actions": self.actions, "tiers": self.tiers, "configurations": CONFIGURATIONS}
        parents = {queue.get("parent") for queue in self.queues}
        names = tuple(queue["name"] for queue in self.queues if queue["name"] not in parents)
        kinds = [
            GangKind(members, minimum, priority, queue, claims)
            for members, minimum in SIZES
            for priority, queue, claims in product(self.priorities, names, self.min_resources)
        ]
        for gangs in combinations_with_replacement(kinds, 3):
            for order in sorted({(gangs[first], *gangs[:first], *gangs[first + 1 :]) for first in range(3)}):
                for nodes, running, profile, one_by_one in product(
                    NODES, (1, 2), self.profiles, (False, True)
                ):
                    delays_pods = "enqueue" in self.actions
                    given = world(nodes, self.queues, order, running, delays_pods=delays_pods)
                    yield Case(given, conf, profile, one_by_one)


def world(
    nodes: Sequence[int],
    queues: Sequence[Json],
    gangs: Sequence[GangKind],
    running: int,
    *,
    delays_pods: bool,
) -> Json:
    """Return a world where the first ``running`` gangs run, as far as they fit."""
    free = list(nodes)
    given: Json = {
        "priorityClasses": {"low": 1, "high": 2},
        "nodes": [{"name": f"n{index}", "cpu": cpu} for index, cpu in enumerate(nodes)],
        "queues": list(queues),
        "podGroups": [],
        "pods": [],
    }
    for index, gang in enumerate(gangs):
        name = "abc"[index]
        group: Json = {
            "name": name,
            "queue": gang.queue,
            "minMember": gang.minimum,
            "created": index,
            "priorityClassName": ("low", "high")[gang.priority],
            "phase": "Pending" if delays_pods else "Inqueue",
        }
        if gang.has_min_resources:
            group["minResources"] = {"cpu": gang.minimum}
        given["podGroups"].append(group)
        starts = index < running and sum(free) >= gang.minimum
        for member in range(gang.members):
            pod: Json = {"name": f"{name}-{member}", "group": name, "cpu": 1}
            where = next((number for number, cpu in enumerate(free) if cpu), None)
            if starts and where is not None:
                free[where] -= 1
                pod |= {"node": f"n{where}", "phase": "Running"}
                group["phase"] = "Running"
            given["pods"].append(pod)
    return given


FAMILIES: Final = {
    "preempt": Family(
        "allocate, backfill, preempt",
        NO_SHARES,
        ("compat", "design"),
        ({"name": "q1"},),
        (0, 1),
        (False, True),
    ),
    "reclaim": Family(
        "allocate, backfill, reclaim",
        ONE_TIER,
        ("compat", "design"),
        ({"name": "q1"}, {"name": "q2"}),
        (0,),
        (False,),
    ),
    "weights": Family(
        "allocate, backfill, preempt, reclaim",
        ONE_TIER,
        ("design",),
        ({"name": "q1", "weight": 1}, {"name": "q2", "weight": 3}),
        (0, 1),
        (False,),
    ),
    "capacity": Family(
        "allocate, backfill, preempt, reclaim",
        CAPACITY,
        ("compat", "design"),
        ({"name": "q1", "deserved": {"cpu": 1}}, {"name": "q2", "deserved": {"cpu": 3}}),
        (0,),
        (False,),
    ),
    "ancestors": Family(
        "allocate, backfill, reclaim",
        BY_ANCESTOR,
        ("compat", "design"),
        (
            {"name": "d1", "deserved": {"cpu": 4}},
            {"name": "q1", "parent": "d1", "deserved": {"cpu": 2}},
            {"name": "q2", "parent": "d1"},
            {"name": "q3", "parent": "d1"},
        ),
        (0,),
        (False,),
    ),
    "enqueue and preempt": Family(
        "enqueue, allocate, preempt, backfill",
        NO_SHARES,
        ("design",),
        ({"name": "q1"},),
        (0, 1),
        (True,),
    ),
    "enqueue and reclaim": Family(
        "enqueue, allocate, preempt, reclaim, backfill",
        ONE_TIER,
        ("design",),
        ({"name": "q1", "weight": 1}, {"name": "q2", "weight": 3}),
        (0, 1),
        (True,),
    ),
    "enqueue and capacity": Family(
        "enqueue, allocate, preempt, reclaim, backfill",
        CAPACITY,
        ("design",),
        ({"name": "q1", "deserved": {"cpu": 1}}, {"name": "q2", "deserved": {"cpu": 3}}),
        (0,),
        (True,),
    ),
    "one plugin a tier": Family(
        "allocate, backfill, preempt, reclaim",
        ONE_EACH,
        ("compat", "design"),
        ({"name": "q1"}, {"name": "q2"}),
        (0, 1),
        (False,),
    ),
}


class Finding(NamedTuple):
    case: Case
    result: RunResult


def stuck_groups(case: Case, result: RunResult) -> list[str]:
    """Return the groups that never run although idle resources and groups of lower priority suffice.

    Pods of one cpu each fit wherever cpus are free, so the sums tell.  Only in one queue: with several, what
    a group is owed depends on the shares of all.
    """
    groups = {group["name"]: group for group in case.given["podGroups"]}
    if result.loop or "enqueue" not in case.conf["actions"]:
        return []
    idle = sum(node["cpu"] for node in case.given["nodes"]) - sum(result.running.values())
    stuck = []
    for name, group in groups.items():
        if result.running[name]:
            continue
        lower = sum(
            result.running[other]
            for other in groups
            if groups[other]["priorityClassName"] == "low" and group["priorityClassName"] == "high"
        )
        owed = len(case.given["queues"]) == 1 and group["minMember"] <= idle + lower
        if owed or result.phases[name] == "Inqueue":
            stuck.append(f"{name} is {result.phases[name]}")
    return stuck


def run(case: Case) -> RunResult:
    return play(case.given, case.conf, case.profile, one_by_one=case.one_by_one)


def search(pool: Pool, family: str, every: int, progress: Progress) -> int:
    """Run the worlds of ``family``, print the results, and return the number of loops."""
    began = time.monotonic()
    runs = evicting = 0
    found: list[tuple[Finding, Sequence[str]]] = []
    cases = list(FAMILIES[family].cases())[::every]
    results = progress.track(pool.imap(run, cases, chunksize=16), total=len(cases), description=family)
    for case, result in zip(cases, results, strict=True):
        runs += 1
        evicting += result.evictions > 0
        problem: Sequence[str] = result.loop or stuck_groups(case, result)
        if problem:
            found.append((Finding(case, result), problem))
    seconds = time.monotonic() - began
    progress.console.print(
        f"{family}: {runs:,} runs, {evicting:,} with evictions, {len(found):,} loops or stuck groups, "
        f"{seconds:.0f} s"
    )
    for finding, problem in found[:5]:
        story = (f"  {describe(finding.case)}", *(f"    {event}" for event in problem))
        progress.console.print(*story, sep="\n", markup=False)
    return len(found)


def describe(case: Case) -> str:
    """Return the world in one line."""
    gangs = []
    for group in case.given["podGroups"]:
        pods = [pod for pod in case.given["pods"] if pod["group"] == group["name"]]
        running = sum("node" in pod for pod in pods)
        claims = " with minResources" if "minResources" in group else ""
        gangs.append(
            f"{group['name']} of {group['queue']}, {group['priorityClassName']}{claims}: "
            f"{running} of {len(pods)} run, {group['minMember']} needed"
        )
    nodes = "+".join(str(node["cpu"]) for node in case.given["nodes"])
    leaving = "one by one" if case.one_by_one else "at once"
    return f"{case.profile}, {nodes} cpus, {'; '.join(gangs)}; evicted pods leave {leaving}"


def main() -> int:
    selection = selection_of(__doc__, FAMILIES)
    with Pool() as pool, Progress() as progress:
        found = [search(pool, family, selection.every, progress) for family in selection.families]
    return 1 if sum(found) else 0


if __name__ == "__main__":
    sys.exit(main())
