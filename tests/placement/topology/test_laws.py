"""Laws of placement in small topologies, against an oracle and against every possible placement."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.core import PreferredSchedulingTerm
from quorate.api.core.scheduling import Node
from quorate.api.kueue.topology import HOSTNAME
from quorate.placement.cluster.occupants import AllocationState
from quorate.placement.shapes import Shape
from quorate.placement.topology.assignment import place
from quorate.placement.topology.counting import Capacity
from quorate.placement.topology.request import PodSetRequest, Profile, SliceLayer, TopologyRequest
from quorate.placement.topology.search import PlacementFailure
from quorate.placement.topology.tree import DomainTree
from tests.placement.topology.oracle import Asked, Domain, Oracle, every_placement, satisfies
from tests.placement.topology.trees import cluster_with
from tests.search import examples

pytestmark = pytest.mark.no_cover  # many generated examples of rules that other tests measure

LEVELS = ("block", "rack", HOSTNAME)
KINDS = ("required", "preferred", "unconstrained")
Hosts = dict[Domain, int]
Placed = dict[Domain, tuple[int, int]]  # pods and leaders by host


@st.composite
def trees(draw: st.DrawFn, most: int = 5) -> Hosts:
    """Return cpus by host: one or two blocks of one or two racks, in which names do not tell the order."""
    hosts: Hosts = {}
    names = iter(draw(st.permutations([f"h{number}" for number in range(12)])))
    for block in range(draw(st.integers(1, 2))):
        for rack in range(draw(st.integers(1, 2))):
            for _ in range(draw(st.integers(1, 3))):
                hosts[f"b{block}", f"r{rack}", next(names)] = draw(st.integers(0, most))
    return hosts


@st.composite
def requests(
    draw: st.DrawFn, most: int = 10, kinds: Sequence[str] = KINDS, leaders: bool = True, whole: bool = True
) -> Asked:
    """Return a request for ``most`` pods at most, or one slice; ``whole``: in whole slices only."""
    level = draw(st.integers(0, 2))
    layers: list[tuple[int, int]] = []
    if draw(st.booleans()):
        at, size = level, 1
        for _ in range(draw(st.integers(1, 3))):
            if at <= 2:
                at = draw(st.integers(at, 2))
                size *= draw(st.integers(1, 3))
                layers.append((at, size))
                at += 1
        sizes = [size for _, size in reversed(layers)]  # the outermost layer has the largest
        layers = [(at, sizes[number]) for number, (at, _) in enumerate(layers)]
    size = layers[0][1] if layers else 1
    kind = draw(st.sampled_from(kinds))
    count = size * draw(st.integers(1, max(1, most // size))) if whole else draw(st.integers(1, most))
    return Asked(
        count=count,
        required=level if kind == "required" else None,
        preferred=level if kind == "preferred" else None,
        layers=tuple(layers),
        pod=draw(st.integers(1, 2)),
        leader=draw(st.integers(1, 3))
        if leaders and kind != "unconstrained" and draw(st.booleans())
        else None,
        mixed=draw(st.booleans()),
    )


def a_node(domain: Domain, cpu: int, score: int = 0, leads: bool = True, **devices: int) -> Node:
    labels = {**dict(zip(LEVELS, domain, strict=True)), "leads": str(leads)}
    metadata = {"name": domain[-1], "labels": {**labels, "score": str(score)}}
    amounts = {"cpu": str(cpu), **{f"example.com/{name}": number for name, number in devices.items()}}
    return codec.convert(Node, {"metadata": metadata, "status": {"allocatable": amounts}})


def topology_of(asked: Asked) -> TopologyRequest:
    return TopologyRequest(
        required="" if asked.required is None else LEVELS[asked.required],
        preferred="" if asked.preferred is None else LEVELS[asked.preferred],
        unconstrained=True
        if asked.required is None and asked.preferred is None and not asked.layers
        else None,
        layers=tuple(SliceLayer(LEVELS[level], size) for level, size in asked.layers),
    )


def placed(
    hosts: Hosts,
    asked: Asked,
    scores: Mapping[Domain, int] = {},
    *,
    balanced: bool = False,
    leading: Collection[Domain] | None = None,
    lossy: Collection[Domain] = (),
) -> Placed | None:
    """Return what the product decides.

    ``leading``: the hosts that accept the leader, None for all.  ``lossy``: the hosts with one device, of
    which other pods use three.
    """
    nodes = [
        a_node(host, cpu, scores.get(host, 0), leading is None or host in leading, npu=int(host in lossy))
        for host, cpu in hosts.items()
    ]
    cluster = cluster_with(nodes)
    tree = DomainTree("dc", LEVELS, cluster, nodes)
    for host in lossy:
        cluster.add_pod(host, Shape(amounts={"example.com/npu": 3}), host[-1], AllocationState.USED)
    terms = [
        {
            "weight": weight,
            "preference": {"matchExpressions": [{"key": "score", "operator": "In", "values": [str(weight)]}]},
        }
        for weight in sorted({weight for weight in scores.values() if weight})
    ]
    workers = PodSetRequest(
        name="workers",
        count=asked.count,
        per_pod={"cpu": asked.pod * 1000},
        topology=topology_of(asked),
        preferred_affinity=tuple(codec.convert(PreferredSchedulingTerm, term) for term in terms),
    )
    leader = (
        None
        if asked.leader is None
        else PodSetRequest(
            name="leader",
            count=1,
            per_pod={"cpu": asked.leader * 1000},
            node_selector={} if leading is None else {"leads": "True"},
        )
    )
    profile = Profile(mixed=asked.mixed, balanced=balanced, preferred_affinity=bool(scores))
    found = place(Capacity(tree), workers, leader, profile=profile)
    if isinstance(found, PlacementFailure):
        return None
    result: Placed = {}
    for each in found.workers:
        result[tree.paths[-1][each.leaf]] = (each.pods, 0)
    for each in found.leader:
        host = tree.paths[-1][each.leaf]
        result[host] = (result.get(host, (0, 0))[0], each.pods)
    return result


def by_domain(found: Placed, level: int) -> Counter[Domain]:
    """Return the pods of each domain of a level, leaders aside."""
    pods: Counter[Domain] = Counter()
    for host, (number, _) in found.items():
        pods[host[: level + 1]] += number
    return +pods


def assert_slices(workers: Mapping[Domain, int], asked: Asked) -> None:
    """Check that the pods of each slice, by their ranks in the listed order, are in one domain."""
    ranks = [host for host, pods in workers.items() for _ in range(pods)]
    for level, size in asked.layers:
        slices = [ranks[first : first + size] for first in range(0, asked.count, size)]
        assert all(len({host[: level + 1] for host in hosts}) == 1 for hosts in slices), (level, size, ranks)


def assert_sound(hosts: Hosts, asked: Asked, found: Placed) -> None:
    """Check counts, capacity, the required domain, and that no slice has pods in two domains of its level."""
    assert sum(pods for pods, _ in found.values()) == asked.count
    assert sum(leaders for _, leaders in found.values()) == (asked.leader is not None)
    for host, (pods, leaders) in found.items():
        assert pods * asked.pod + leaders * (asked.leader or 0) <= hosts[host], host
    if asked.required is not None:
        assert len({host[: asked.required + 1] for host in found}) == 1
    workers = {host: pods for host, (pods, _) in found.items()}
    assert_slices(workers, asked)


@given(trees(), requests(), st.lists(st.integers(0, 2), min_size=12, max_size=12))
@examples(200)
def test_places_are_those_of_the_oracle(hosts: Hosts, asked: Asked, weights: list[int]) -> None:
    scores = {host: weight for host, weight in zip(hosts, weights, strict=False) if any(weights[:3])}
    found = placed(hosts, asked, scores)
    want = Oracle(hosts, asked, scores).place()
    assert found == want
    if found is not None:
        assert_sound(hosts, asked, found)


@given(trees(most=3), requests(most=7))
@examples(100)
def test_pods_are_placed_if_any_placement_satisfies_the_request(hosts: Hosts, asked: Asked) -> None:
    possible = any(satisfies(hosts, asked, placement) for placement in every_placement(hosts, asked))
    assert (placed(hosts, asked) is not None) == possible


@given(trees(most=3), requests(most=7), st.lists(st.booleans(), min_size=12, max_size=12))
@examples(200)
def test_leader_gets_a_host_that_accepts_it_in_the_domain_of_its_workers(
    hosts: Hosts, asked: Asked, accepts: list[bool]
) -> None:
    leading = {host for host, leads in zip(sorted(hosts), accepts, strict=False) if leads}
    possible = any(satisfies(hosts, asked, each, leading) for each in every_placement(hosts, asked))
    found = placed(hosts, asked, leading=leading)
    assert (found is not None) == possible
    if found is not None:
        assert_sound(hosts, asked, found)
        assert all(host in leading for host, (_, leaders) in found.items() if leaders)


NINE_PLACES = {
    ("b0", "r0", "h0"): 2,
    ("b0", "r0", "h1"): 2,
    ("b0", "r1", "h2"): 2,
    ("b0", "r1", "h3"): 2,
    ("b1", "r2", "h4"): 1,
}


@given(trees(most=3), requests(most=7, whole=False))
@example({("b0", "r0", "h0"): 1, ("b0", "r0", "h1"): 2}, Asked(3, required=0, layers=((2, 2),), leader=1))
@example(NINE_PLACES, Asked(count=9, layers=((1, 4), (2, 2))))
@example(NINE_PLACES, Asked(count=9, layers=((0, 8), (1, 4), (2, 2))))
@examples(150)
def test_a_smaller_slice_needs_the_room_of_its_own_pods(hosts: Hosts, asked: Asked) -> None:
    """It is enough that some placement satisfies the request."""
    found = placed(hosts, asked)
    if found is not None:
        assert_sound(hosts, asked, found)
    else:
        assert not any(satisfies(hosts, asked, placement) for placement in every_placement(hosts, asked))


@given(trees(), requests(), st.lists(st.booleans(), min_size=12, max_size=12))
@examples(100)
def test_lost_devices_do_not_matter_to_pods_that_request_none(
    hosts: Hosts, asked: Asked, loses: list[bool]
) -> None:
    lossy = {host for host, is_lossy in zip(hosts, loses, strict=False) if is_lossy}
    assert placed(hosts, asked, lossy=lossy) == placed(hosts, asked)


@given(trees(), requests(kinds=("preferred",), leaders=False))
@examples(100)
def test_preferred_pods_use_one_domain_of_the_lowest_level_or_the_fewest_blocks(
    hosts: Hosts, asked: Asked
) -> None:
    assert asked.preferred is not None
    found = placed(hosts, asked)
    size = asked.layers[0][1] if asked.layers else 1
    room = {
        domain: slices_in(hosts, asked, domain) * size
        for level in (0, 1, 2)
        for domain in {host[: level + 1] for host in hosts}
    }
    for level in range(asked.preferred, -1, -1):
        if any(room[domain] >= asked.count for domain in room if len(domain) == level + 1):
            assert found is not None
            assert len(by_domain(found, level)) == 1
            return
    blocks = sorted((room[domain] for domain in room if len(domain) == 1), reverse=True)
    fewest = [number for number in range(1, len(blocks) + 1) if sum(blocks[:number]) >= asked.count]
    assert (found is not None) == bool(fewest)
    assert found is None or len(by_domain(found, 0)) == fewest[0]


def slices_in(hosts: Hosts, asked: Asked, domain: Domain) -> int:
    """Return how many slices of the outermost layer a domain can hold, by its definition."""
    layers = asked.layers or ((2, 1),)

    def pods(of: Domain, within: int) -> int:
        """Return the pods that a domain can hold in whole slices of layers ``within`` and below it."""
        if within == len(layers):
            return sum(max(0, room // asked.pod) for host, room in hosts.items() if host[: len(of)] == of)
        level, size = layers[within]
        parts = {host[: level + 1] for host in hosts if host[: len(of)] == of}
        return sum(pods(part, within + 1) // size * size for part in parts)

    return pods(domain, 0) // layers[0][1] if len(domain) - 1 <= layers[0][0] else 0


@given(trees(), requests(kinds=("preferred",)))
@examples(200)
def test_balanced_pods_are_sound_and_evenly_distributed(hosts: Hosts, asked: Asked) -> None:
    """Either as without balancing, or each used part has at least the share that a greedy choice allows."""
    plain, found = placed(hosts, asked), placed(hosts, asked, balanced=True)
    assert (found is None) == (plain is None)
    if found is None:
        return
    assert_sound(hosts, asked, found)
    if found == plain or asked.leader is not None or asked.layers:
        return
    assert asked.preferred is not None
    level = asked.preferred
    assert len(by_domain(found, level - 1)) == 1 or level == 0
    parent = next(iter(found))[:level]
    unit = min(level + 1, 2)  # the children of the domains of the level, if it has any
    rooms = [
        sum(max(0, room // asked.pod) for host, room in hosts.items() if host[: unit + 1] == domain)
        for domain in {host[: unit + 1] for host in hosts if host[:level] == parent}
    ]
    rooms.sort(reverse=True)
    used = next(number for number in range(1, len(rooms) + 1) if sum(rooms[:number]) >= asked.count)
    threshold = min(asked.count // used, rooms[used - 1])
    assert min(by_domain(found, unit).values()) >= threshold
