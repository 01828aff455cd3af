"""Laws of topology-aware admission on generated worlds in which nodes and workloads come and go."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.kueue import PodSetAssignment, Workload
from quorate.api.meta import Key
from quorate.queueing import conditions as c
from quorate.queueing.decisions import Decision
from quorate.queueing.lifecycle.decided_status import still_applies
from quorate.queueing.model_audit import audit_model
from tests.placement.topology.test_leaf_hosts import fit
from tests.queueing.notation import Json, given_pod_sets
from tests.queueing.world import World, differences
from tests.search import examples

pytestmark = pytest.mark.no_cover  # many generated examples of rules that other tests measure

HOST = "kubernetes.io/hostname"
QUEUES = ("a", "b")
LEVELS = {"hosts": ("block", "rack", HOST), "more-hosts": ("rack", HOST), "racks": ("block", "rack")}
POOLS = {"hosts": "h", "more-hosts": "h", "plain": "h", "racks": "r"}  # flavors of one pool share hosts
STEPS = (
    "cycle",
    "cycle",
    "cycle",
    "create",
    "create",
    "finish",
    "stop",
    "stop",
    "lose",
    "return",
    "fail",
    "taint",
    "check",
)
EVENTS = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 5)), min_size=8, max_size=20)


@st.composite
def nodes(draw: st.DrawFn) -> Json:
    result: Json = {}
    for number in range(draw(st.integers(2, 6))):
        result[f"n{number}"] = node = {
            "labels": {
                "pool": draw(st.sampled_from("hhrr")),
                "block": draw(st.sampled_from(("b0", "b1"))),
                "rack": draw(st.sampled_from(("r0", "r1"))),
            },
            "allocatable": {"cpu": draw(st.integers(2, 6)), "pods": draw(st.integers(3, 7))},
        }
        if draw(st.integers(0, 4)) == 0:
            node["nonTASUsage"] = {"cpu": 1}
        if draw(st.integers(0, 9)) == 0:
            node["taints"] = [{"key": "busy", "effect": "NoSchedule"}]
    return result


@st.composite
def topologies(draw: st.DrawFn, count: int, levels: tuple[str, ...]) -> Json | None:
    """Return a request of a topology with ``levels``; None: the pod set has none."""
    kind = draw(st.sampled_from(("required", "preferred", "unconstrained", "slices", "none")))
    if kind == "none" or not levels:
        return None
    at = draw(st.integers(0, len(levels) - 1))
    request: Json = {}
    match kind:
        case "unconstrained":
            request["unconstrained"] = True
        case "required" | "preferred":
            request[kind] = levels[at]
    if kind == "slices" or (kind != "unconstrained" and draw(st.integers(0, 2)) == 0):
        request["sliceLevel"] = levels[draw(st.integers(at, len(levels) - 1))]
        request["sliceSize"] = draw(st.integers(1, count))
    return request


@st.composite
def pod_sets(draw: st.DrawFn, levels: tuple[str, ...]) -> list[Json]:
    count = draw(st.integers(1, 5))
    workers: Json = {"count": count, "requests": {"cpu": draw(st.integers(1, 2))}}
    if topology := draw(topologies(count, levels)):
        workers["topology"] = topology
    if draw(st.integers(0, 4)) == 0:
        workers["minCount"] = draw(st.integers(1, count))
    shape = draw(st.sampled_from(("one", "one", "two", "group")))
    if shape == "one":
        return [workers]
    second: Json = {"count": draw(st.integers(1, 2)), "requests": {"cpu": draw(st.integers(1, 3))}}
    if shape == "group" and levels:
        together = {draw(st.sampled_from(("required", "preferred"))): draw(st.sampled_from(levels))}
        together["group"] = "g"
        workers = {**workers, "topology": together}
        workers.pop("minCount", None)
        second = {**second, "count": 1, "topology": together}
    elif "topology" in workers:
        second["topology"] = draw(topologies(second["count"], levels)) or {"unconstrained": True}
    return [{"name": "first", **workers}, {"name": "second", **second}]


@st.composite
def worlds(draw: st.DrawFn) -> Json:
    """Return two queues, each of topology flavors or of one that requires room on nodes, and workloads."""
    queues: Json = {}
    for name in QUEUES:
        flavors = draw(st.sampled_from((*((flavor,) for flavor in POOLS), ("hosts", "more-hosts"))))
        queues[name] = {
            "cohort": draw(st.sampled_from(("", "all"))),
            "preemption": {
                "withinClusterQueue": draw(st.sampled_from(("Never", "LowerPriority", "LowerPriority"))),
                "reclaimWithinCohort": draw(st.sampled_from(("Never", "Any"))),
            },
            "quota": [{flavor: {"cpu": draw(st.integers(6, 20))}} for flavor in flavors],
            "admissionChecks": draw(st.sampled_from(((), (), ("prov",)))),
        }
    workloads: list[Json] = []
    for number in range(draw(st.integers(2, 8))):
        queue = draw(st.sampled_from(QUEUES))
        (flavor,) = draw(st.sampled_from(queues[queue]["quota"]))
        workload = {
            "name": f"w{number}",
            "queue": queue,
            "created": number,
            "priority": draw(st.integers(0, 1)) + number // 3,
            "podSets": draw(pod_sets(LEVELS.get(flavor, ()))),
        }
        workloads.append({**workload, "create": "later"} if number > 2 else workload)
    names = ("TASBalancedPlacement", "TASProfileMixed", "TASFailedNodeReplacementFailFast")
    gates = draw(st.dictionaries(st.sampled_from(names), st.booleans()))
    return {
        "config": {"featureGates": gates},
        "topologies": {name: {"levels": list(levels)} for name, levels in LEVELS.items()},
        "flavors": {
            name: {"nodeLabels": {"pool": pool}}
            | ({"topologyName": name} if name in LEVELS else {"nodeFit": "Require"})
            for name, pool in POOLS.items()
        },
        "nodes": draw(nodes()),
        "clusterQueues": queues,
        "workloads": workloads,
    }


def placed(world: World) -> Iterator[tuple[Json, PodSetAssignment, list[tuple[tuple[str, ...], int]]]]:
    """Return each stored assignment of places with its given pod set."""
    for name, workload in world.workloads.items():
        admission = workload.status.admission
        if admission is None or c.is_finished(workload):
            continue
        given_ = {each["name"]: each for each in given_pod_sets(world.given_workload(name))}
        for assigned in admission.pod_set_assignments:
            if (places := assigned.topology_assignment) is not None:
                yield given_[assigned.name], assigned, list(places.domains())


def assert_room(world: World, all_nodes: Json) -> None:
    """Check that no host or rack has more pods than fit, those of other owners included."""
    room: Counter[tuple[str, ...]] = Counter()
    pods: Counter[tuple[str, ...]] = Counter()
    for name, node in all_nodes.items():
        labels = node["labels"]
        key = (name,) if labels["pool"] == "h" else (labels["block"], labels["rack"])
        used = node.get("nonTASUsage")
        room[key] += node["allocatable"]["cpu"] - (used["cpu"] if used else 0)
        pods[key] += node["allocatable"]["pods"] - bool(used)
    for pod_set, _, domains in placed(world):
        for values, count in domains:
            room[values] -= count * pod_set["requests"]["cpu"]
            pods[values] -= count
    assert min(room.values()) >= 0, room
    assert min(pods.values()) >= 0, pods


def assert_hosts(world: World, all_nodes: Json) -> None:
    """Check that the pods of each rack, of which only the rack is decided, fit its hosts one by one."""
    pods: dict[tuple[str, ...], list[int]] = {}
    for pod_set, _, domains in placed(world):
        for values, count in domains:
            if len(values) > 1:
                pods.setdefault(values, []).extend([pod_set["requests"]["cpu"]] * count)
    for rack, sizes in pods.items():
        hosts = [
            node["allocatable"]["cpu"] - (node.get("nonTASUsage") or {"cpu": 0})["cpu"]
            for node in all_nodes.values()
            if node["labels"]["pool"] == "r" and (node["labels"]["block"], node["labels"]["rack"]) == rack
        ]
        assert fit(tuple(sorted(sizes, reverse=True)), tuple(sorted(hosts))), (rack, sizes, hosts)


def assert_counts(world: World) -> None:
    """Check that each pod has a place."""
    for _, assigned, domains in placed(world):
        assert sum(pods for _, pods in domains) == assigned.count, assigned.name


def assert_requests(world: World, all_nodes: Json) -> None:
    """Check that required domains and all slices but one are whole, also after hosts were replaced."""
    for pod_set, assigned, domains in placed(world):
        request = pod_set.get("topology") or {}
        (flavor,) = set(assigned.flavors.values())
        levels = LEVELS.get(flavor, ())
        paths = {values: path_of(values, levels, all_nodes) for values, _ in domains}
        if (required := request.get("required")) in levels:
            depth = levels.index(required) + 1
            assert len({path[:depth] for path in paths.values()}) <= 1
        size = request.get("sliceSize", 1)
        if request.get("sliceLevel") in levels:
            depth = levels.index(request["sliceLevel"]) + 1
            pods: Counter[tuple[str, ...]] = Counter()
            for values, count in domains:
                pods[paths[values][:depth]] += count
            slices = sum(-(-count // size) for count in pods.values())
            assert slices == -(-(assigned.count or 0) // size), pods


def path_of(values: tuple[str, ...], levels: tuple[str, ...], all_nodes: Json) -> tuple[str, ...]:
    """Return the values of all levels of a recorded domain, a host or a rack."""
    if len(values) > 1 or not levels:
        return values
    labels = all_nodes[values[0]]["labels"]
    return (*(labels[level] for level in levels[:-1]), *values)


def stored(world: World) -> dict[str, Any]:
    return {name: workload.status.admission for name, workload in world.workloads.items()}


class Story:
    """Events in a world, each of which leaves the laws true."""

    def __init__(self, given_: Json, world: World | None = None) -> None:
        self.all_nodes = dict(given_["nodes"])
        self.world = world or World(given_)
        self.check()

    def check(self) -> None:
        assert_room(self.world, self.all_nodes)
        assert_hosts(self.world, self.all_nodes)
        assert_counts(self.world)
        assert_requests(self.world, self.all_nodes)
        assert differences(self.world.state, self.world.workloads.values()) == []

    def step(self, step: str, number: int) -> None:
        world, names = self.world, sorted(self.all_nodes)
        node = names[number % len(names)]
        present = world.given["nodes"]
        running = sorted(name for name, each in world.workloads.items() if c.is_admitted(each))
        evicted = [name for name, each in world.workloads.items() if c.is_evicted(each)]
        evicted = [name for name in evicted if c.has_quota_reservation(world.workloads[name])]
        waiting = [each["name"] for each in world.given["workloads"] if each["name"] not in world.workloads]
        match step:
            case "create" if waiting:
                world.run({"create": waiting[: 1 + number % 2]})
            case "finish" if running:
                world.run({"finish": [running[number % len(running)]]})
            case "stop" if evicted:
                world.run({"evictionDone": evicted[: number + 1]})
            case "lose" if node in present:
                world.run({"update": {"nodes": {node: None}}})
            case "return" if node not in present:
                world.run({"update": {"nodes": {node: self.all_nodes[node]}}})
            case "fail":
                used = {
                    name
                    for name in running
                    for assigned in world.workloads[name].status.admission.pod_set_assignments  # type: ignore[union-attr]
                    if assigned.topology_assignment is not None
                    and any(values == (node,) for values, _ in assigned.topology_assignment.domains())
                }
                if used:
                    world.run({"unhealthy": {name: [node] for name in sorted(used)}})
            case "taint" if node in present:
                tainted = not present[node].get("taints")
                taints = [{"key": "busy", "effect": "NoSchedule"}] if tainted else []
                world.run({"update": {"nodes": {node: {"taints": taints}}}})
            case "check":
                open_ = [name for name, each in world.workloads.items() if each.status.admission_checks]
                world.run({"checks": {name: {"prov": "Ready"} for name in open_[: 1 + number]}})
            case "cycle":
                world.run("cycle")
        world.now += 1
        self.check()


@given(worlds(), EVENTS)
@examples(60)
def test_no_domain_is_above_its_capacity_and_counts_add_up(
    given_: Json, steps: list[tuple[str, int]]
) -> None:
    story = Story(given_)
    story.step("cycle", 0)
    for step, number in steps:
        story.step(step, number)


EVENTS_OF_LATE_WRITES = st.lists(
    st.tuples(st.sampled_from((*STEPS, "fail", "fail", "fail", "cycle", *["write"] * 9)), st.integers(0, 5)),
    min_size=20,
    max_size=60,
)


class LateWrites(World):
    """A world in which decisions are written later, those of one workload in their order."""

    def __init__(self, given_: Json) -> None:
        self.unwritten: list[tuple[Decision, Workload]] = []  # with the object that it was decided on
        super().__init__(given_)

    def carry_out(self, decisions: Iterable[Decision]) -> None:
        self.unwritten += [(each, self.workloads[each.key.name]) for each in decisions]

    def write(self, number: int) -> None:
        """Write the first decision of a workload, or undo it if something else has changed its basis."""
        firsts = list(
            {decision.key: at for at, (decision, _) in reversed([*enumerate(self.unwritten)])}.values()
        )
        if not firsts:
            return
        decision, decided_on = self.unwritten.pop(firsts[number % len(firsts)])
        key, name = decision.key, decision.key.name
        later = [at for at, (other, _) in enumerate(self.unwritten) if other.key == key]
        newest = self.workloads[name]
        if not c.is_finished(newest) and still_applies(decision, decided_on, newest):
            super().carry_out((decision,))
            for at in later:
                self.unwritten[at] = self.unwritten[at][0], self.workloads[name]
        elif not later:
            self.state.forget(key)
            self.state.put_workload(newest, self.now)
        self.settle()


@given(worlds(), EVENTS_OF_LATE_WRITES)
@examples(60)
def test_no_domain_is_above_its_capacity_when_writes_are_late(
    given_: Json, steps: list[tuple[str, int]]
) -> None:
    world = LateWrites(given_)
    story = Story(given_, world)
    for step, number in steps:
        if step == "write":
            world.write(number)
            story.check()
        else:
            story.step(step, number)


class StoredNow:
    """The workloads of a world at the moment of each call."""

    def __init__(self, world: World) -> None:
        self._world = world

    def keys(self) -> Iterator[Key]:
        return iter([workload.metadata.key for workload in self._world.workloads.values()])

    def get(self, key: Key) -> Workload | None:
        return self._world.workloads.get(key.name)


@given(worlds(), EVENTS)
@examples(30)
def test_an_audit_during_which_things_change_finds_nothing(
    given_: Json, steps: list[tuple[str, int]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("model_audit.AUDIT_SLICE", "model_audit.QUEUE_AUDIT_SLICE", "nodes.audit.SLICE_SIZE"):
            patch.setattr(f"quorate.queueing.{name}", 1)
        story = Story(given_)
        story.step("cycle", 0)
        remaining = iter(steps)
        for found in audit_model(story.world.state, StoredNow(story.world)):
            assert found == ()
            for step, number in islice(remaining, 1):
                story.step(step, number)


@given(worlds(), st.randoms(use_true_random=False))
@examples(30)
def test_the_order_in_which_objects_arrive_does_not_matter(given_: Json, random: Any) -> None:
    def shuffled(objects: Json) -> Json:
        return dict(random.sample(sorted(objects.items()), len(objects)))

    kinds = ("nodes", "flavors", "topologies", "clusterQueues")
    other = {**given_, **{kind: shuffled(given_[kind]) for kind in kinds}}
    other["workloads"] = random.sample(given_["workloads"], len(given_["workloads"]))
    late = [each["name"] for each in given_["workloads"] if "create" in each]
    one, two = World(given_), World(other)
    for world in (one, two):
        for step in ("cycle", "cycle", {"create": late}, "cycle"):
            world.run(step)
    assert stored(one) == stored(two)


@st.composite
def worlds_of_several_flavors(draw: st.DrawFn) -> Json:
    """Return a world with queues of several flavors, of which some have quota without enough room."""
    given_ = draw(worlds())
    flavors = draw(st.lists(st.sampled_from(sorted(POOLS)), min_size=2, max_size=3, unique=True))
    for queue in given_["clusterQueues"].values():
        queue["quota"] = [{flavor: {"cpu": draw(st.integers(2, 12))}} for flavor in flavors]
        queue["admissionChecks"] = ()
        policy = draw(st.sampled_from(("MayStopSearch", "TryNextFlavor")))
        queue["flavorFungibility"] = {"whenCanPreempt": policy}
    for workload in given_["workloads"]:
        for pod_set in workload["podSets"]:
            if "topology" in pod_set:  # a level that each topology has
                pod_set["topology"] = draw(st.sampled_from(({"unconstrained": True}, {"required": "rack"})))
    return given_


@given(worlds_of_several_flavors())
@examples(40)
def test_preemption_ends_where_nodes_decide_about_flavors(given_: Json) -> None:
    story = Story(given_)
    story.world.run({"create": [each["name"] for each in given_["workloads"] if "create" in each]})
    for _ in range(40):
        story.step("cycle", 0)
        story.step("cycle", 0)
        workloads = story.world.workloads.values()
        if not any(c.is_evicted(each) and c.has_quota_reservation(each) for each in workloads):
            return
        story.step("stop", len(story.world.workloads))
    raise AssertionError("workloads preempt each other again and again")
