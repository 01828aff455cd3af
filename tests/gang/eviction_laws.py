"""The laws of the actions that evict, in small worlds without outside events.

1. A gang that is admitted, and fits idle nodes and its queue's share as a whole, is bound before the world is
   at rest.
2. No pods are evicted twice for the same gang, unless it lost pods to another one in between; so evictions
   end.  Without the plugin ``gang`` its pods start one by one, and this holds for each of them.
3. A gang for which pods were evicted starts.
4. Without any single victim, the tasks for which others were evicted do not fit.
5. The members of a gang with a hard ``networkTopology`` are within one HyperNode; it fits nodes only there.
6. In profile ``design`` with the plugin ``gang`` another session, on the world that a session has left,
   evicts nothing and binds only gangs that were pipelined.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st

from quorate.api.meta import Key
from quorate.api.volcano import INQUEUE
from quorate.gang.actions.ordering import tasks_to_place
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.model import Model
from quorate.gang.cache.task import ALLOCATED_STATUSES, Task
from quorate.gang.outcome import Eviction, Outcome
from quorate.gang.session.session import Session
from quorate.gang.session.statement import Statement
from quorate.gang.session_opening import open_session
from quorate.placement.framework import Capacity
from quorate.placement.node_finder import Choice
from tests.gang.eviction_loops import group_of, play
from tests.gang.generated_worlds import sometimes
from tests.gang.loop_search import CONFIGURATIONS
from tests.gang.world import World

Json = dict[str, Any]

TOP = ["priority", "gang", "conformance"]
NODES = ["predicates", "nodeorder"]
TIERS: tuple[list[list[str]], ...] = (
    [[*TOP, *NODES]],
    [[*TOP, "proportion", *NODES]],
    [[*TOP, "capacity", *NODES]],
    [TOP, ["overcommit", "drf", "proportion", *NODES]],
    [TOP, ["capacity", *NODES]],
    [["priority", "conformance"], ["capacity", *NODES]],
    [["priority", "conformance", "capacity", *NODES]],
)


class Case(NamedTuple):
    given: Json
    conf: Json
    profile: str
    one_by_one: bool


@st.composite
def cases(draw: st.DrawFn, *, has_hyper_nodes: bool = False) -> Case:
    """Draw a world of up to 4 nodes, 3 queues and 4 gangs, and any order of the actions."""
    actions = draw(st.permutations(["allocate", "preempt", "reclaim", "backfill", "enqueue"]))
    left_out = draw(st.sampled_from(([], ["enqueue"], ["preempt"], ["reclaim"], ["enqueue", "backfill"])))
    conf = {
        "actions": ", ".join(action for action in actions if action not in left_out),
        "tiers": draw(st.sampled_from(TIERS)),
        "configurations": CONFIGURATIONS,
    }
    profile = draw(st.sampled_from(("compat", "design")))
    delays_pods = "enqueue" not in left_out
    given = draw(worlds(delays_pods=delays_pods, has_hyper_nodes=has_hyper_nodes))
    return Case(given, conf, profile, draw(st.booleans()))


@st.composite
def worlds(draw: st.DrawFn, *, delays_pods: bool, has_hyper_nodes: bool) -> Json:
    """Draw a world where the first gangs run, as far as they fit, and the others wait.

    With HyperNodes, some of those that wait must be within one.
    """
    nodes: list[Json] = [
        {"name": f"n{index}", "cpu": draw(st.integers(1, 4)), "labels": {"zone": "xyx"[index % 3]}}
        for index in range(draw(st.integers(2, 4)) if has_hyper_nodes else draw(st.integers(1, 3)))
    ]
    has_memory = sometimes(draw, 3)
    for node in nodes if has_memory else ():
        node["memory"] = draw(st.integers(1, 4))
    has_gpus = sometimes(draw, 3)
    if has_gpus:
        nodes[0]["scalars"] = {"nvidia.com/gpu": draw(st.integers(1, 2))}
    queues = [draw(queue_of(f"q{index}", has_memory=has_memory)) for index in range(draw(st.integers(1, 3)))]
    names = [queue["name"] for queue in queues]
    free = {node["name"]: _amounts(node) for node in nodes}
    groups, pods = [], []
    count = draw(st.integers(2, 4))
    running = draw(st.integers(1, count - 1))
    for index in range(count):
        group, members = draw(
            gang_of(f"g{index}", names, high=index >= running, has_gpus=has_gpus, has_memory=has_memory)
        )
        nodes_left = {name: amounts.copy() for name, amounts in free.items()}
        placed = [pod for pod in members if index < running and _place(pod, nodes_left)]
        if len(placed) < max(1, group["minMember"]):
            for pod in placed:
                del pod["node"], pod["phase"]
            if has_hyper_nodes and not sometimes(draw, 3):
                group["networkTopology"] = {"highestTierAllowed": draw(st.integers(1, 2))}
            group["phase"] = "Pending" if delays_pods else "Inqueue"
        else:
            free = nodes_left
            group["phase"] = "Running"
        groups.append({**group, "created": index})
        pods += members
    return {
        "priorityClasses": {"low": 1, "high": 2},
        "nodes": nodes,
        **({"hyperNodes": draw(hyper_nodes([node["name"] for node in nodes]))} if has_hyper_nodes else {}),
        "queues": queues,
        "podGroups": groups,
        "pods": pods,
    }


@st.composite
def hyper_nodes(draw: st.DrawFn, nodes: Sequence[str]) -> list[Json]:
    """Draw two HyperNodes of tier 1, and one of tier 2 that contains them; a node may be in neither."""
    leaf_of = {name: draw(st.sampled_from(("l0", "l1", "l0", "l1", ""))) for name in nodes}
    leaves: list[Json] = [
        {"name": leaf, "tier": 1, "nodes": " ".join(name for name in nodes if leaf_of[name] == leaf)}
        for leaf in ("l0", "l1")
    ]
    return [*leaves, {"name": "top", "tier": 2, "hyperNodes": "l0 l1"}]


def _place(pod: Json, free: dict[str, Counter[str]]) -> bool:
    """Have ``pod`` run on the first node that it fits; return False if there is none."""
    request = _amounts(pod)
    for name, amounts in free.items():
        if request <= amounts and "nodeSelector" not in pod:
            amounts.subtract(request)
            pod.update(node=name, phase="Running")
            return True
    return False


def _amounts(given: Json) -> Counter[str]:
    return Counter({"cpu": given["cpu"], "memory": given.get("memory", 0), **given.get("scalars", {})})


@st.composite
def queue_of(draw: st.DrawFn, name: str, *, has_memory: bool) -> Json:
    queue: Json = {
        "name": name,
        "weight": draw(st.integers(1, 3)),
        "deserved": {"cpu": draw(st.integers(0, 4))},
    }
    if has_memory and draw(st.booleans()):
        queue["deserved"]["memory"] = draw(st.integers(0, 4))
    if sometimes(draw, 4):
        queue["capability"] = {"cpu": draw(st.integers(1, 4))}
        queue["deserved"]["cpu"] = min(queue["deserved"]["cpu"], queue["capability"]["cpu"])
    if sometimes(draw, 6):
        queue["reclaimable"] = False
    return queue


@st.composite
def gang_of(
    draw: st.DrawFn, name: str, queues: Sequence[str], *, high: bool, has_gpus: bool, has_memory: bool
) -> tuple[Json, list[Json]]:
    """Draw a gang of up to 4 members.  ``high``: more often with high priority than not."""
    members, cpu = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    minimum = draw(st.integers(1, members))
    group: Json = {
        "name": name,
        "queue": draw(st.sampled_from(queues)),
        "minMember": minimum,
        "priorityClassName": draw(st.sampled_from(("low", *(["high"] * (3 if high else 1))))),
    }
    pods: list[Json] = [{"name": f"{name}-{index}", "group": name, "cpu": cpu} for index in range(members)]
    if has_memory:
        memory = draw(st.integers(0, 2))
        for pod in pods:
            pod["memory"] = memory
    if sometimes(draw, 8):
        pods[-1]["cpu"] = 3
    if has_gpus and sometimes(draw, 3):
        pods[0]["scalars"] = {"nvidia.com/gpu": 1}
    if sometimes(draw, 8):
        pods[-1]["nodeSelector"] = {"zone": draw(st.sampled_from("xy"))}
    if sometimes(draw, 8):
        for pod in pods:
            pod["preemptionPolicy"] = "Never"
    if draw(st.booleans()):
        group["minResources"] = {"cpu": minimum * cpu}
    return group, pods


def broken_laws(case: Case) -> list[str]:
    """Return how the run of ``case`` breaks the laws; empty if it keeps them."""
    observed = _Observed()
    result = play(case.given, case.conf, case.profile, one_by_one=case.one_by_one, observer=observed.observe)
    if result.loop:
        return [f"evictions without end: {', '.join(result.loop)}"]
    return [*observed.found, *observed.at_rest()]


class _Observed:
    """What happened to gangs in the sessions so far."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._world: World | None = None
        # Evicted for, and not evicted from since: the tasks that were to get nodes by it, and wait.
        self._helped: dict[Key, set[Key]] = {}
        self._waiting: set[Key] = set()  # evicted for, and without enough members since

    def observe(self, world: World, before: World, outcome: Outcome, allocated: Mapping[Key, str]) -> None:
        self._world = world
        if outcome.evictions:
            self._observe_evictions(world, before.fresh_model(), outcome, allocated)
        if world.settings.profile != "compat" and world.settings.has_plugin("gang"):
            self.found += _decided_late(world, outcome)
        if any(group.spec.network_topology is not None for group in world.groups.values()):
            self.found += _spread_gangs(world)
        bound = {each.task for each in outcome.binds}
        for tasks in self._helped.values():
            tasks.difference_update(bound)
        for eviction in outcome.evictions:
            self._helped.pop(eviction.gang, None)
        beneficiaries = {eviction.beneficiary for eviction in outcome.evictions}
        self._waiting = (self._waiting | beneficiaries) - {bind.gang for bind in outcome.binds}

    def _observe_evictions(
        self, world: World, before: Model, outcome: Outcome, allocated: Mapping[Key, str]
    ) -> None:
        has_minima = world.settings.has_plugin("gang")
        nominated = {nomination.task for nomination in outcome.nominations}
        for key in sorted({eviction.beneficiary for eviction in outcome.evictions}):
            if key in self._helped and (has_minima or self._helped[key] & nominated):
                self.found.append(f"evicted for {key.name} again")
            tasks = outcome.pipelined.keys() & before.gangs[key].tasks.keys()
            self._helped[key] = self._helped.get(key, set()) | tasks
        for eviction in outcome.evictions:
            if not _is_needed(world, before, outcome, allocated, eviction):
                self.found.append(f"{eviction.task.name} was not needed for {eviction.beneficiary.name}")

    def at_rest(self) -> list[str]:
        assert self._world is not None, "no session ran"
        found = [f"evicted for {key.name}, which does not start" for key in sorted(self._waiting)]
        session = self._world.open_session()
        waiting = [gang for gang in session.gangs if not gang.is_pending and not session.is_ready(gang)]
        return found + [f"{gang.key.name} fits and waits" for gang in waiting if _fits_idle(session, gang)]


def _decided_late(world: World, outcome: Outcome) -> list[str]:
    """Return what another session decides in ``world``, which the session of ``outcome`` has left."""
    again = world.copied()
    again.model = again.fresh_model()
    pipelined = {group_of(again.pods[key]) for key in outcome.pipelined}
    second = again.session()
    return [
        *(f"{each.task.name} is evicted for {each.beneficiary.name} late" for each in second.evictions),
        *(f"{bind.task.name} is bound late" for bind in second.binds if bind.gang.name not in pipelined),
    ]


def _spread_gangs(world: World) -> list[str]:
    """Return the gangs that must be within one HyperNode, and are not."""
    session = world.open_session()
    nodes: dict[Key, set[str]] = {}
    for gang in session.gangs:
        nodes[gang.key] = {task.node for task in gang.tasks.values() if task.node}
    return [
        f"{gang.key.name} is not within one HyperNode"
        for gang in session.gangs
        if nodes[gang.key] and not any(nodes[gang.key] <= domain for domain in _domains(session, gang))
    ]


def _domains(session: Session, gang: Gang) -> list[frozenset[str]]:
    """Return the sets of nodes of which ``gang`` must be within one: HyperNodes, or all nodes."""
    limit = None if gang.topology is None else gang.topology.limit
    if limit is None:
        return [frozenset(session.cluster.names())]
    index = session.domain_search.index
    names = [
        name for tier in index.tiers if limit.tier is None or tier.number <= limit.tier for name in tier.names
    ]
    return [frozenset(map(session.cluster.name, index.nodes(name).tolist())) for name in names]


def _best(session: Session, task: Task, domain: frozenset[str]) -> Choice | None:
    """Return the best node of ``domain`` for ``task``."""
    finder = session.node_finder
    for wanted in Capacity:
        for node in finder.nodes_by_score(task.shape):
            if node in domain and finder.capacity_on(task.shape, node) is wanted:
                return Choice(node, wanted)
    return None


def _fits_idle(session: Session, gang: Gang) -> bool:
    queue = session.queue_of(gang)
    if session.is_overused(queue) or session.invalid_reason(gang) is not None:
        return False
    for domain in _domains(session, gang):
        with session.statement() as statement:
            for task in tasks_to_place(session, gang, best_effort=True):
                choice = _best(session, task, domain)
                is_idle = choice is not None and choice.capacity is Capacity.IDLE
                if choice is not None and is_idle and session.allocatable(queue, task):
                    statement.allocate(task, choice.node)
            if session.is_ready(gang):
                return True
    return False


def _is_needed(
    world: World, before: Model, outcome: Outcome, allocated: Mapping[Key, str], eviction: Eviction
) -> bool:
    """Return True if the beneficiary's tasks do not fit without the victim, or the victim's whole gang.

    ``allocated``: the nodes of tasks that were not bound.
    """
    session = open_session(before, world.settings, world.now)
    for admitted in outcome.admitted:
        before.gangs[admitted.gang].phase = INQUEUE
    tasks = {task.key: task for gang in before.gangs.values() for task in gang.tasks.values()}
    beneficiaries = [each.beneficiary for each in outcome.evictions]
    last = len(beneficiaries) - beneficiaries[::-1].index(eviction.beneficiary)
    with session.statement() as statement:
        for other in outcome.evictions[:last]:  # later plans were made on top of this one
            spared = other.gang == eviction.gang if eviction.whole else other is eviction
            if not spared:
                statement.evict(tasks[other.task])
        for bind in outcome.binds:
            statement.allocate(tasks[bind.task], bind.node)
        for key, node in allocated.items():
            statement.allocate(tasks[key], node)
        of_beneficiary = []
        for key, node in outcome.pipelined.items():
            if tasks[key].gang == eviction.beneficiary:
                of_beneficiary.append(tasks[key])
            elif tasks[key].gang not in beneficiaries[last:]:
                statement.pipeline(tasks[key], node)
        before_tasks = len(statement.moves)
        gang = session.gang_of(of_beneficiary[0])
        used = {task.node for task in gang.with_status(*ALLOCATED_STATUSES)}
        for domain in _domains(session, gang):
            if used <= domain and all(_pipeline(session, statement, task, domain) for task in of_beneficiary):
                return False
            statement.undo_after(before_tasks)
        return True


def _pipeline(session: Session, statement: Statement, task: Task, domain: frozenset[str]) -> bool:
    choice = _best(session, task, domain)
    if choice is None or not session.allocatable(session.queue_of(session.gang_of(task)), task):
        return False
    statement.pipeline(task, choice.node)
    return True
