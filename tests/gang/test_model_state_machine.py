"""The decisions of sessions keep the invariants of gangs under any sequence of events.

Two worlds get the same events: one keeps its model, the other builds it anew before each session, like a
new leader.  They must never differ.  The invariants are checked against the objects, not the model.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from quorate.api.core.pod import Pod
from quorate.api.meta import Key
from quorate.api.volcano import PodGroup
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.model import Model
from quorate.gang.cache.reservations import node_claim_of, quota_claim_of
from quorate.gang.namespace_quota.evaluation import normalised
from quorate.gang.outcome import Outcome
from quorate.placement.cluster.audit import audit_cluster
from quorate.placement.resources import in_base_units, pod_amounts
from tests.gang.session_invariants import may_remove_ended_pods
from tests.gang.vectors import settings_of
from tests.gang.world import World, key_of, name_of
from tests.search import examples

pytestmark = pytest.mark.no_cover  # many generated examples of rules that other tests measure

Json = dict[str, Any]

CONFIGURATIONS = [
    {
        "actions": "enqueue, allocate, backfill, preempt, reclaim",
        "tiers": [["priority", "gang", "conformance", "proportion", "predicates", "nodeorder"]],
        "configurations": {"enqueue": {"inqueue-timeout": "30s"}},
    },
    {
        "actions": "enqueue, allocate, backfill, preempt",
        "tiers": [["priority", "gang", "conformance", "predicates", "nodeorder"]],
        "configurations": {"enqueue": {"order": "fair", "idle-factor": "1.5"}},
    },
    {
        "actions": "enqueue, allocate, backfill",
        "tiers": [["gang", "predicates", "nodeorder"]],
        "configurations": {"preempt": {"evict-overused": False}},
    },
]
QUEUE_CHANGES: list[Json] = [
    {"state": "Closed"}, {"state": "Open"}, {"maxPodGroups": 1}, {"maxPodGroups": 9}
]  # fmt: skip
GROUPS = ["a", "b", "c", "d"]
SETTLES_WITHIN = 12  # sessions without any outside event: each completes a pipelined gang, and few can follow


def _members(world: World, group: str) -> Iterator[Pod]:
    for pod in world.pods.values():
        if pod.metadata.annotations.get("scheduling.k8s.io/group-name") == group:
            yield pod


def _holds(pod: Pod) -> bool:
    return bool(pod.node_name) and pod.status.phase not in ("Succeeded", "Failed")


def _is_leaving(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def _ready(pods: Iterable[Pod]) -> int:
    return sum(pod.status.phase == "Succeeded" or (_holds(pod) and not _is_leaving(pod)) for pod in pods)


def _has_started(group: PodGroup, pods: Iterable[Pod]) -> bool:
    return group.status.phase in ("Running", "Unknown") or any(
        (pod.node_name and not _is_leaving(pod)) or pod.status.phase in ("Succeeded", "Failed")
        for pod in pods
    )


class SessionStart:
    """The state when a session began, with which the invariants compare."""

    def __init__(self, world: World) -> None:
        model = world.fresh_model()
        self.gangs: Mapping[Key, Gang] = model.gangs
        self.groups = dict(world.groups)
        self.pods = dict(world.pods)
        self.ready = {key: _ready(_members(world, key.name)) for key in world.groups}
        self.started = {
            key for key, group in world.groups.items() if _has_started(group, _members(world, key.name))
        }
        self.claims = {key: dict(node_claim_of(gang)) for key, gang in model.gangs.items() if gang.exists}
        self.quota_claims = {
            key: dict(quota_claim_of(gang, world.now)) for key, gang in model.gangs.items() if gang.exists
        }
        self.evictable = {key: _evictable(model, key, world.settings.actions) for key in world.groups}
        self.room = _room(world)
        self.used = _used(world)
        quotas = model.quotas.values()
        self.quotas = [(normalised(quota.hard), normalised(quota.used)) for quota in quotas]


def _evictable(model: Model, key: Key, actions: Sequence[str]) -> Counter[str]:
    """Return what groups have, or get first, that the configured actions may evict for the group at all."""
    gang = model.gangs[key]
    evictable: Counter[str] = Counter()
    for other in model.gangs.values():
        if other.queue == gang.queue:
            may_lose = "preempt" in actions and other.priority <= gang.priority
        else:
            may_lose = "reclaim" in actions
        if may_lose and other is not gang:
            evictable.update(other.requests.allocated)
            if other.is_active:  # allocate gives its members nodes in the same session
                evictable.update(other.requests.pending)
    return evictable


def _room(world: World) -> Mapping[str, int]:
    factor = world.settings.enqueue.idle_factor
    room: Counter[str] = Counter()
    for node in world.nodes.values():
        room.update(in_base_units(node.status.allocatable))
    room = Counter({name: int(amount * factor) for name, amount in room.items()})
    for pod in world.pods.values():
        if _holds(pod) and not _is_leaving(pod) and pod.node_name in world.nodes:
            room.subtract(pod_amounts(pod.spec))
    return room


def _used(world: World) -> Mapping[str, Counter[str]]:
    used: dict[str, Counter[str]] = {name: Counter() for name in world.nodes}
    for pod in world.pods.values():
        if _holds(pod) and pod.node_name in used:
            used[pod.node_name].update(pod_amounts(pod.spec))
    return used


@dataclass(frozen=True)
class Request:
    """A group that a user submits."""

    queue: str
    cls: str
    least: int
    extra: int  # members beyond the minimum
    cpu: int  # of each member
    reserves: int | None  # the members that its minResources cover at most; None: no minResources


requests = st.builds(
    Request,
    queue=st.sampled_from(["default", "default", "fifo"]),
    cls=st.sampled_from(["", "high", "low"]),
    least=st.sampled_from([1, 2, 2, 3, 0]),
    extra=st.integers(0, 2),
    cpu=st.sampled_from([1, 1, 2, 3, 0]),
    reserves=st.sampled_from([9, 9, 1, None]),
)
cpus = st.integers(0, 4)
groups = st.sampled_from(GROUPS)


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.worlds: list[World] = []
        self.age = 0

    @initialize(
        conf=st.sampled_from(CONFIGURATIONS),
        nodes=st.lists(st.integers(1, 6), min_size=1, max_size=3),
        group_requests=st.lists(requests, min_size=2, max_size=4),
    )
    def begin(self, conf: Json, nodes: list[int], group_requests: list[Request]) -> None:
        given = {
            "priorityClasses": {"high": 10, "low": 1},
            "nodes": [{"name": f"n{index}", "cpu": cpu} for index, cpu in enumerate(nodes)],
            "queues": [
                {"name": "default", "created": 0},
                {"name": "fifo", "created": 1, "dequeueStrategy": "fifo"},
            ],
            "quotas": [{"name": "rq", "hard": {"requests.cpu": 12}, "used": {}}],
        }
        self.worlds = [World(given, settings_of(conf, "design"), restarting=each) for each in (False, True)]
        for name, request in zip(GROUPS, group_requests, strict=False):
            self.add_group(name=name, request=request)

    def do(self, operation: str, argument: Any) -> None:
        removes_ended_pods = may_remove_ended_pods(operation, self.world)
        if removes_ended_pods:
            self._session()
        for world in self.worlds:
            world.do(operation, argument)
        if removes_ended_pods:
            self._session()

    @property
    def world(self) -> World:
        return self.worlds[0]

    # Outside events.

    @rule(name=groups, request=requests)
    def add_group(self, name: str, request: "Request") -> None:
        if key_of(name) in self.world.groups or any(True for _ in _members(self.world, name)):
            return
        self.age += 1
        group: Json = {"name": name, "queue": request.queue, "minMember": request.least, "created": self.age}
        group["priorityClassName"] = request.cls
        if request.reserves is not None:
            group["minResources"] = {"cpu": request.cpu * min(request.least, request.reserves)}
        self.do("addPodGroups", [group])
        pods = {
            "name": f"{name}{self.age}",
            "count": request.least + request.extra,
            "group": name,
            "cpu": request.cpu,
        }
        self.do("delayPods", [pods | {"count": request.least + request.extra}])

    @rule()
    def controller(self) -> None:
        waiting = {name for name in GROUPS if self._phase(name) in (None, "", "Pending")}
        before = set(self.world.pods)
        self.do("controller", None)
        made = [self.world.pods[key] for key in self.world.pods if key not in before]
        assert not {pod.metadata.annotations["scheduling.k8s.io/group-name"] for pod in made} & waiting

    @rule(name=groups)
    def create_early(self, name: str) -> None:
        """Create pods like an operator that does not wait for the admission."""
        self.age += 1
        if key_of(name) in self.world.groups:
            self.do("addPods", [{"name": f"{name}{self.age}-0", "group": name, "cpu": 1}])

    @rule()
    def start(self) -> None:
        self.do("start", "all")

    @rule()
    def reap(self) -> None:
        self.do("reap", "all")

    @rule(data=st.data(), result=st.sampled_from(["Succeeded", "Failed"]))
    def finish(self, data: st.DataObject, result: str) -> None:
        running = [name_of(key) for key, pod in self.world.pods.items() if pod.status.phase == "Running"]
        if running:
            self.do("finish", {"pods": [data.draw(st.sampled_from(running))], "result": result})

    @rule(data=st.data())
    def delete_pod(self, data: st.DataObject) -> None:
        if self.world.pods:
            self.do("deletePods", [name_of(data.draw(st.sampled_from(sorted(self.world.pods))))])

    @rule(name=groups)
    def delete_group(self, name: str) -> None:
        if key_of(name) in self.world.groups:
            self.do("deletePodGroups", [name])

    @rule(cpu=cpus, data=st.data())
    def add_stranger(self, cpu: int, data: st.DataObject) -> None:
        """Add a pod of another scheduler on a node where it fits."""
        self.age += 1
        used = _used(self.world)
        fits = [
            name
            for name, node in self.world.nodes.items()
            if used[name]["cpu"] + cpu * 1000 <= in_base_units(node.status.allocatable)["cpu"]
        ]
        if fits:
            pod = {
                "name": f"web{self.age}",
                "cpu": cpu,
                "phase": "Running",
                "schedulerName": "default-scheduler",
            }
            self.do("addPods", [pod | {"node": data.draw(st.sampled_from(fits))}])

    @rule(cpu=st.integers(1, 6))
    def add_node(self, cpu: int) -> None:
        self.age += 1
        self.do("addNodes", [{"name": f"n{self.age}", "cpu": cpu}])

    @precondition(lambda self: len(self.world.nodes) > 1)
    @rule(data=st.data())
    def lose_node(self, data: st.DataObject) -> None:
        self.do("removeNodes", [data.draw(st.sampled_from(sorted(self.world.nodes)))])

    @rule(change=st.sampled_from(QUEUE_CHANGES))
    def change_queue(self, change: Json) -> None:
        self.do("setQueue", {"name": "default", **change})

    @rule(used=st.integers(0, 12))
    def change_quota(self, used: int) -> None:
        self.do("setQuota", {"name": "rq", "used": {"requests.cpu": used}})

    @rule(seconds=st.sampled_from([1, 10, 60, 600]))
    def pass_time(self, seconds: int) -> None:
        self.do("advance", seconds)

    def _phase(self, name: str) -> str | None:
        group = self.world.groups.get(key_of(name))
        return None if group is None else group.status.phase

    # Sessions.

    @rule()
    def session(self) -> None:
        self._session()

    @rule()
    def live(self) -> None:
        """Run the usual events: pods are created, placed and started, and evicted pods terminate."""
        self.controller()
        self._session()
        self.start()
        self.reap()
        self._session()

    @rule()
    def settle(self) -> None:
        """Check that sessions soon decide nothing more without outside events."""
        for _ in range(SETTLES_WITHIN):
            outcome = self._session()
            if not (outcome.binds or outcome.evictions or outcome.statuses or outcome.nominations):
                return
        raise AssertionError(f"after {SETTLES_WITHIN} sessions there is still news: {outcome}")

    def _session(self) -> Outcome:
        before = SessionStart(self.world)
        for world in self.worlds:
            world.start_step()
        outcome, anew = (world.session() for world in self.worlds)
        assert (outcome.binds, outcome.evictions, outcome.pipelined) == (
            anew.binds,
            anew.evictions,
            anew.pipelined,
        )
        _binds_gangs_whole(before, outcome)
        _fills_no_node_beyond_its_room(before, self.world, outcome)
        _every_eviction_has_a_beneficiary(outcome)
        _leaves_victims_whole(before, self.world, outcome)
        _admits_what_there_is_room_for(before, self.world)
        _admits_what_there_is_quota_for(before, self.world)
        _rolls_back_only_unstarted_groups(before, self.world)
        _admits_the_older_of_equals(before, self.world)
        return outcome

    @invariant()
    def the_model_equals_one_built_from_scratch(self) -> None:
        if not self.worlds:
            return
        kept, anew = self.worlds
        assert kept.groups == anew.groups
        assert kept.pods == anew.pods
        fresh = kept.fresh_model()
        assert not any(audit_cluster(kept.model.cluster))
        assert kept.model.cluster.total == fresh.cluster.total
        assert kept.model.cluster.total_used == fresh.cluster.total_used
        assert kept.model.cluster.total_releasing == fresh.cluster.total_releasing
        assert set(kept.model.gangs) == set(fresh.gangs)
        for key, gang in kept.model.gangs.items():
            assert +gang.requests.allocated == +fresh.gangs[key].requests.allocated
            assert +gang.requests.pending == +fresh.gangs[key].requests.pending
            assert +gang.requests.finished == +fresh.gangs[key].requests.finished
            assert +gang.requests.quota_used == +fresh.gangs[key].requests.quota_used
            assert +gang.task_counts.by_status == +fresh.gangs[key].task_counts.by_status


# The invariants.


def _binds_gangs_whole(before: SessionStart, outcome: Outcome) -> None:
    for gang, bound in Counter(bind.gang for bind in outcome.binds).items():
        least = before.groups[gang].spec.min_member
        assert before.ready[gang] + bound >= least, f"{bound} of {gang} bound, which needs {least}"


def _fills_no_node_beyond_its_room(before: SessionStart, world: World, outcome: Outcome) -> None:
    for node in {bind.node for bind in outcome.binds}:
        used = Counter(before.used[node])
        for bind in outcome.binds:
            if bind.node == node:
                used.update(pod_amounts(world.pods[bind.task].spec))
        room = in_base_units(world.nodes[node].status.allocatable)
        assert all(amount <= room.get(name, 0) for name, amount in used.items()), f"{node}: {used}"


def _every_eviction_has_a_beneficiary(outcome: Outcome) -> None:
    pipelined = {key.name.rstrip("0123456789-").rstrip("0123456789") for key in outcome.pipelined}
    for eviction in outcome.evictions:
        assert eviction.beneficiary.name in pipelined, f"{eviction} has no beneficiary"


def _leaves_victims_whole(before: SessionStart, world: World, outcome: Outcome) -> None:
    for gang in {eviction.gang for eviction in outcome.evictions if not eviction.whole}:
        left = before.ready[gang] - sum(eviction.gang == gang for eviction in outcome.evictions)
        least = before.groups[gang].spec.min_member
        assert left >= min(least, before.ready[gang]), f"{gang} is left with {left} of {least}"


def _active(before: SessionStart, world: World) -> tuple[list[Key], list[Key]]:
    """Return the groups charged by admissions: all, and those that had not started."""
    unstarted = [key for key in before.groups if key not in before.started and _is_inqueue(world, key)]
    started = [
        key
        for key in before.started & set(before.groups)
        if before.groups[key].status.phase in ("Inqueue", "Running", "Unknown")
        and world.groups[key].status.phase != "Pending"  # a gang that has lost all members waits again
    ]
    return [*started, *unstarted], unstarted


def _is_inqueue(world: World, key: Key) -> bool:
    return world.groups[key].status.phase == "Inqueue"


def _admits_what_there_is_room_for(before: SessionStart, world: World) -> None:
    active, unstarted = _active(before, world)
    for resource in {resource for key in unstarted for resource in +Counter(before.claims[key])}:
        claimed = sum(before.claims[key].get(resource, 0) for key in active)
        admitted_anew = [key for key in active if not before.ready[key] and _is_inqueue(world, key)]
        asking = [key for key in (*unstarted, *admitted_anew) if before.claims[key].get(resource)]
        freed = max(before.evictable[key][resource] for key in asking)
        assert claimed <= before.room[resource] + freed, (
            f"{resource}: {claimed} of {before.room[resource]}+{freed}"
        )


def _admits_what_there_is_quota_for(before: SessionStart, world: World) -> None:
    active, unstarted = _active(before, world)
    for hard, used in before.quotas:
        for resource, limit in hard.items():
            if any(before.quota_claims[key].get(resource) for key in unstarted):
                claimed = sum(before.quota_claims[key].get(resource, 0) for key in active)
                assert used.get(resource, 0) + claimed <= limit, (
                    f"{resource}: {used} and {claimed} of {limit}"
                )


def _attempts(group: PodGroup) -> int:
    return int(group.metadata.annotations.get("scheduling.volcano.sh/requeue-attempts", "0"))


def _rolls_back_only_unstarted_groups(before: SessionStart, world: World) -> None:
    for key, group in before.groups.items():
        was, now = group.status.phase, world.groups[key].status.phase
        if _attempts(world.groups[key]) > _attempts(group):
            assert (was, now) == ("Inqueue", "Pending")
            assert key not in before.started, f"{key} had started"
        elif (was, now) == ("Pending", "Inqueue"):
            not_before = before.gangs[key].admission.not_before
            assert not_before is None or not_before <= world.now, f"{key} had to wait until {not_before}"


def _admits_the_older_of_equals(before: SessionStart, world: World) -> None:
    """Of two groups with equal requests, neither of which was refused, the younger is never first."""
    waited = [
        key
        for key, group in before.groups.items()
        if group.status.phase in ("", "Pending")
        and (before.gangs[key].admission.not_before or 0) <= world.now
        and not before.gangs[key].tasks
    ]
    for older in waited:
        for younger in waited:
            one, other = before.groups[older], before.groups[younger]
            if one.metadata.creation_timestamp is None or other.metadata.creation_timestamp is None:
                continue
            is_older = one.metadata.creation_timestamp < other.metadata.creation_timestamp
            if is_older and one.spec == other.spec:
                let_in = world.groups[older].status.phase, world.groups[younger].status.phase
                assert let_in != ("Pending", "Inqueue"), f"{younger} is let in before {older}"


TestMachine = pytest.mark.slow(Machine.TestCase)
TestMachine.settings = examples(100, steps=30)


def test_a_gang_that_lost_all_pods_is_admitted_for_pods_that_are_evicted_for_it() -> None:
    """An example of the search: ``b`` is admitted anew beside ``a``, for the pod of ``c``."""
    machine = Machine()
    two = Request("default", "", least=2, extra=0, cpu=1, reserves=9)
    high, low = replace(two, cls="high", least=1, extra=1), replace(two, cls="low", least=1, extra=2)
    machine.begin(conf=CONFIGURATIONS[1], nodes=[2, 2], group_requests=[two, high, low])
    for _ in range(5):
        machine.live()
    assert [machine._phase(name) for name in "abc"] == ["Inqueue", "Running", "Running"]
    machine.do("deletePods", ["b2-1"])
    machine.do("removeNodes", ["n0"])
    machine.live()
    assert machine._phase("b") == "Inqueue"
