"""Whether pods fit the hosts below a leaf one by one, against every possible assignment."""

from collections.abc import Mapping
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.core import Toleration
from quorate.api.core.scheduling import Node
from quorate.placement.topology.leaf_hosts import HostRequest, LeafHosts, Pods
from tests.placement.topology.trees import cluster_with
from tests.search import examples

LEAF = ("r1",)


@cache
def fit(sizes: tuple[int, ...], hosts: tuple[int, ...]) -> bool:
    """Return True if some assignment of pods to hosts fits, of all that exist."""
    if not sizes:
        return True
    return any(
        fit(sizes[1:], tuple(sorted((*hosts[:at], room - sizes[0], *hosts[at + 1 :]))))
        for at, room in enumerate(hosts)
        if room >= sizes[0] and room not in hosts[:at]
    )


class Rack:
    """A leaf with hosts, of which each has some cpus."""

    def __init__(self, cpus: Mapping[str, int], tainted: frozenset[str] = frozenset()) -> None:
        self.placed: list[Pods] = []
        self.bound: dict[str, list[dict[str, int]]] = {}
        nodes = [
            codec.convert(
                Node,
                {
                    "metadata": {"name": name},
                    "spec": {"taints": [{"key": "busy", "effect": "NoSchedule"}] if name in tainted else []},
                    "status": {"allocatable": {"cpu": f"{cpu}m"}},
                },
            )
            for name, cpu in cpus.items()
        ]
        self.hosts = LeafHosts(cluster_with(nodes))
        self.hosts.placed = lambda leaf: self.placed if leaf == LEAF else ()
        self.hosts.bound = lambda node: self.bound.get(node, ())
        self.cpus = dict(cpus)
        for node in nodes:
            self.hosts.put(0, LEAF, node)

    def is_feasible(self) -> bool:
        """Return True if the pods that are not bound fit what the bound ones leave."""
        left = {
            name: cpu - sum(pod["cpu"] for pod in self.bound.get(name, ())) for name, cpu in self.cpus.items()
        }
        sizes = [dict(request.per_pod)["cpu"] for request, count in self.placed for _ in range(count)]
        for pods in self.bound.values():
            for pod in pods:
                sizes.remove(pod["cpu"])
        return min(left.values()) >= 0 and fit(
            tuple(sorted(sizes, reverse=True)), tuple(sorted(left.values()))
        )


def a_request(cpu: int, **terms: object) -> HostRequest:
    return HostRequest((("cpu", cpu),), **terms)  # type: ignore[arg-type]


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3), st.booleans(), st.integers(0, 3)), max_size=6),
)
@examples(200)
def test_pods_that_are_taken_fit_beside_the_placed_and_the_bound_ones(
    cpus: list[int], arrivals: list[tuple[int, int, bool, int]]
) -> None:
    rack = Rack({f"h{number}": cpu for number, cpu in enumerate(cpus)})
    for cpu, count, binds, host in arrivals:
        request = a_request(cpu)
        fitting, taken = rack.hosts.fitting(0, request), rack.hosts.takes(0, [(request, count)])
        if not rack.placed:
            assert fitting == sum(each // cpu for each in cpus), "equal pods on empty hosts"
        if fitting >= count or taken:
            was_feasible = rack.is_feasible()
            rack.placed.append((request, count))
            assert rack.is_feasible() or not was_feasible
        if binds and rack.placed:  # by a scheduler that may spread pods
            name = f"h{host % len(cpus)}"
            size = dict(rack.placed[-1][0].per_pod)["cpu"]
            known = sum(pod["cpu"] == size for pods in rack.bound.values() for pod in pods)
            total = sum(number for each, number in rack.placed if dict(each.per_pod)["cpu"] == size)
            if known < total and rack.cpus[name] - sum(p["cpu"] for p in rack.bound.get(name, ())) >= size:
                rack.bound.setdefault(name, []).append({"cpu": size})


def test_a_leader_takes_the_host_that_costs_its_workers_least() -> None:
    rack = Rack({"a": 4, "b": 3, "c": 9}, tainted=frozenset("c"))
    assert rack.hosts.beside_leader(0, a_request(2), a_request(1)) == (1, 3)
    assert rack.hosts.beside_leader(0, a_request(2), a_request(5)) == (0, 3)
    leader = a_request(5, tolerations=(Toleration(key="busy", operator="Exists"),))
    assert rack.hosts.beside_leader(0, a_request(2), leader) == (1, 3)


def test_a_bound_pod_with_other_requests_is_one_of_the_placed_ones() -> None:
    rack = Rack({"a": 4, "b": 4})
    rack.placed.append((a_request(2), 2))
    assert rack.hosts.fitting(0, a_request(4)) == 1
    rack.bound = {"a": [{"cpu": 3}], "b": [{"cpu": 2}]}
    assert rack.hosts.fitting(0, a_request(4)) == 0
    assert rack.hosts.fitting(0, a_request(1)) == 3


def test_the_resource_that_most_hosts_lack_limits_the_pods() -> None:
    rack = Rack({"a": 2, "b": 2})
    assert rack.hosts.limiting(0, a_request(3)) == "cpu"
    assert rack.hosts.limiting(0, HostRequest((("cpu", 1), ("gpu", 1)))) == "gpu"
