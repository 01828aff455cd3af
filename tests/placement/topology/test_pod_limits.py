"""How many pods hosts take by filters that read other pods, against the filters asked for each pod."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.placement.framework import Capacity
from quorate.placement.shapes import Shape
from quorate.placement.topology.pod_limits import PodLimits, limit_pods
from tests.placement.filters.inter_pod.test_pod_affinity import required_anti_affinity, term
from tests.placement.filters.inter_pod.test_topology_spread import spread, spreading
from tests.placement.filters.world import World, pod
from tests.steps import steps_of

PORT = {"ports": [{"hostPort": 80, "containerPort": 80}]}


class Case(NamedTuple):
    world: World
    room: list[int]  # by node
    shape: Shape
    keys: list[str]  # of the constraints

    def limits(self, count: int) -> PodLimits:
        cluster, hosts = self.world.cluster, np.arange(len(self.room))
        accepted, room = np.ones(len(hosts), np.bool_), np.array(self.room)
        return limit_pods(cluster, self.world.engine, self.shape, hosts, accepted, room, count)

    def passing(self) -> list[bool]:
        passes: list[bool] = self.world.engine.filter(self.shape).passing(Capacity.IDLE).tolist()
        return passes[: len(self.room)]

    def place(self, host: int, pods: int) -> None:
        cluster = self.world.cluster
        cluster.hold(host, self.shape, cluster.name(host), cluster.held_pods(host) + pods)

    def domain(self, host: int) -> str:
        node = self.world.cluster.nodes[host]
        assert node is not None
        return node.metadata.labels[self.keys[0]]


def case_of(nodes: list[str], placed: list[str], room: list[int], spec: dict[str, Any]) -> Case:
    world = World(*nodes)
    incoming = pod("p app=web", **spec)
    world.filter_result(incoming)  # so that its selectors exist
    for number, node in enumerate(placed):
        world.put(pod(f"placed-{number} app=web"), node)
    keys = [each["topologyKey"] for each in spec.get("topologySpreadConstraints", ())]
    return Case(world, room, world.shapes.of(incoming), keys)


SPREADS = st.builds(
    spread,
    st.sampled_from(("zone", "rack", "hostname")),
    st.integers(1, 3),
    app=st.sampled_from(("web", "web", "db")),
    minDomains=st.sampled_from((1, 1, 2, 4)),
    nodeTaintsPolicy=st.sampled_from(("Ignore", "Honor")),
    nodeAffinityPolicy=st.sampled_from(("Ignore", "Honor")),
)


@st.composite
def cases(draw: st.DrawFn, constraints: int, most: int) -> Case:
    labels = st.sampled_from(("zone=1 rack=1", "zone=1 rack=2", "zone=2 rack=3", "zone=3 rack=1", "zone=3"))
    nodes = [f"n{number} {draw(labels)}" for number in range(draw(st.integers(1, 6)))]
    names = [node.split()[0] for node in nodes]
    placed = draw(st.lists(st.sampled_from(names), max_size=5))
    room = [draw(st.integers(0, most)) for _ in nodes]
    given = draw(st.lists(SPREADS, min_size=constraints, max_size=constraints))
    others: tuple[dict[str, Any], ...] = (
        {},
        {},
        {"nodeSelector": {"zone": "1"}},
        PORT,
        required_anti_affinity(term("web", "hostname")),
    )
    return case_of(nodes, placed, room, spreading(*given, **draw(st.sampled_from(others))))


def one_after_the_other(case: Case, count: int) -> list[int]:
    """Return the pods by host if each round places one in each domain, on the host with the least room."""
    placed = [0] * len(case.room)
    while count:
        free = [room - pods for room, pods in zip(case.room, placed, strict=True)]
        chosen: dict[str, int] = {}
        for host in [host for host, passes in enumerate(case.passing()) if passes and free[host] > 0]:
            before = chosen.setdefault(case.domain(host), host)
            if free[host] < free[before]:
                chosen[case.domain(host)] = host
        if not chosen:
            break
        for host in list(chosen.values())[:count]:
            case.place(host, 1)
            placed[host] += 1
            count -= 1
    return placed


@given(case=cases(1, 6), count=st.integers(1, 30))
def test_pods_of_one_constraint_are_placed_in_rounds(case: Case, count: int) -> None:
    limits = case.limits(count)
    want = one_after_the_other(case, count)
    if case.world.engine.filter(case.shape).invalidation_scope.name == "OTHER_NODES":
        assert limits.pods.tolist() == want
    taken = np.minimum(limits.pods, case.room)
    assert min(int(taken.sum()), count) == sum(want)
    if sum(want) < count:
        assert_is_result_of_filters(case, limits)


@given(case=cases(2, 2), count=st.integers(1, 8))
def test_pods_of_several_constraints_can_be_placed_in_some_order(case: Case, count: int) -> None:
    limits = case.limits(count)
    taken = tuple(np.minimum(limits.pods, case.room).tolist())
    if sum(taken) > count:
        return  # the pods do not affect each other
    assert taken in set(reachable(case, taken))
    if sum(taken) < count:
        for host, pods in enumerate(taken):
            case.place(host, pods)
        free = [passes and case.room[host] > taken[host] for host, passes in enumerate(case.passing())]
        assert not any(free), "a host takes one more"
        assert_is_result_of_filters(case, limits)


def reachable(case: Case, most: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield all numbers of pods by host, up to ``most``, that the filters allow one after the other."""
    waiting = [tuple(0 for _ in most)]
    known = set(waiting)
    while waiting:
        placed = waiting.pop()
        yield placed
        for host, pods in enumerate(placed):
            case.place(host, pods)
        passing = case.passing()
        for host, pods in enumerate(placed):
            case.place(host, -pods)
        for host in range(len(most)):
            following = (*placed[:host], placed[host] + 1, *placed[host + 1 :])
            if passing[host] and placed[host] < most[host] and following not in known:
                known.add(following)
                waiting.append(following)


def assert_is_result_of_filters(case: Case, limits: PodLimits) -> None:
    """Compare what is said about hosts that reject pods with the filters, once all limits are placed."""
    result = case.world.engine.filter(case.shape)
    counts = result.failure_counts(Capacity.IDLE, case.world.existing())
    assert limits.failures == tuple((failure.reason, number) for failure, number in counts)
    assert limits.passing is not None
    assert limits.passing.tolist() == case.passing()


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(PORT, id="a port of the host"),
        pytest.param(required_anti_affinity(term("web", "hostname")), id="anti-affinity by host"),
    ],
)
def test_hosts_that_take_one_pod_reject_the_next_one_as_if_it_was_placed(spec: dict[str, Any]) -> None:
    nodes, placed = ["a zone=1", "b zone=1", "c zone=2", "d"], [] if spec is PORT else ["b"]
    case = case_of(nodes, placed, [2, 2, 0, 1], spec)
    limits = case.limits(4)
    for host, pods in enumerate(np.minimum(limits.pods, case.room).tolist()):
        case.place(host, pods)
    assert_is_result_of_filters(case, limits)


def steps_for(keys: tuple[str, ...], nodes: int, count: int) -> int:
    names = [f"n{number} zone={number // 10 % 4} rack={number // 10}" for number in range(nodes)]
    case = case_of(names, [], [1_000] * nodes, spreading(*map(spread, keys)))
    assert int(case.limits(count).pods.sum()) == count
    return steps_of(lambda: case.limits(count))


@pytest.mark.parametrize("key", ["zone", "rack", "hostname"])
def test_the_steps_for_one_constraint_do_not_grow_with_the_pods(key: str) -> None:
    assert steps_for((key,), 100, 10_000) < 1.5 * steps_for((key,), 100, 100)


@pytest.mark.parametrize("keys", [("zone", "hostname"), ("rack", "zone")])
def test_the_steps_for_two_constraints_do_not_grow_with_the_hosts(keys: tuple[str, ...]) -> None:
    assert steps_for(keys, 400, 2_000) < 1.5 * steps_for(keys, 40, 200)


@pytest.mark.parametrize(
    ("placed", "constraints", "count", "want"),
    [
        pytest.param("", [spread()], 5, [2, 0, 2, 1], id="a pod in each zone in turn"),
        pytest.param("", [spread()], 9, [3, 0, 3, 3], id="hosts with the least room of a zone first"),
        pytest.param("", [spread()], 30, [4, 3, 7, 6], id="a full zone limits the others to its pods and 1"),
        pytest.param("", [spread(skew=2)], 30, [4, 4, 8, 6], id="or to its pods and a larger skew"),
        pytest.param("", [spread(minDomains=4)], 30, [1, 0, 1, 1], id="too few zones for minDomains"),
        pytest.param("aaaaa", [spread(skew=3)], 11, [2, 0, 5, 4], id="a zone waits while it has too many"),
        pytest.param("aaaaa", [spread(skew=3)], 8, [1, 0, 4, 3], id="until the minimum allows it"),
        pytest.param("", [spread(), spread("hostname")], 30, [2, 1, 2, 2], id="a zone and a host"),
    ],
)
def test_pods_by_host(placed: str, constraints: list[Any], count: int, want: list[int]) -> None:
    nodes = ["a zone=1", "b zone=1", "c zone=2", "d zone=3"]
    case = case_of(nodes, list(placed), [4, 5, 9, 6], spreading(*constraints))
    assert case.limits(count).pods.tolist() == want
