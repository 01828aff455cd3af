"""The encoding of topology assignments: slices of domains, with what they have in common stored once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.kueue.conversion import V1BETA1, V1BETA2, convert_version
from quorate.api.kueue.topology import (
    MAX_SLICES,
    AssignmentSlice,
    Domain,
    IndividualValues,
    LevelValues,
    PodCounts,
    TopologyAssignment,
    topology_assignment,
)

HOST = "kubernetes.io/hostname"


def domains(text: str) -> list[Domain]:
    """Return domains written ``value/value:pods``."""
    pairs = (word.rpartition(":") for word in text.split())
    return [(tuple(values.split("/")), int(pods)) for values, _, pods in pairs]


def show(assignment: TopologyAssignment) -> list[str]:
    """Return each slice as its levels, ``prefix{root,root}suffix`` or one value, and its numbers of pods."""
    return [
        " ".join([*map(_level, part.values_per_level), _counts(part.pod_counts), f"of {part.domain_count}"])
        for part in assignment.slices
    ]


def _level(level: LevelValues) -> str:
    own = level.individual
    return str(level.universal) if own is None else f"{own.prefix}{{{','.join(own.roots)}}}{own.suffix}"


def _counts(counts: PodCounts) -> str:
    return f"*{counts.universal}" if counts.universal is not None else ",".join(map(str, counts.individual))


@pytest.mark.parametrize(
    ("levels", "text", "want"),
    [
        pytest.param("rack", "", [], id="no domains"),
        pytest.param("rack host", "r1/x1:3", ["r1 x1 *3 of 1"], id="one domain"),
        pytest.param("rack host", "r1/x1:3 r1/y2:3", ["r1 {x1,y2} *3 of 2"], id="a common value"),
        pytest.param("rack host", "r1/x1:3 r2/x2:4", ["r{1,2} x{1,2} 3,4 of 2"], id="common beginnings"),
        pytest.param("host", "a.example:1 bb.example:1", ["{a,bb}.example *1 of 2"], id="a common end"),
        pytest.param("host", "n123:1 n12:1 n1:1 n13:1", ["n1{23,2,,3} *1 of 4"], id="one is the beginning"),
        pytest.param("host", "123n:1 23n:1 3n:1", ["{12,2,}3n *1 of 3"], id="one is the end"),
        pytest.param("host", "xyx:1 xyxyx:1", ["{,xy}xyx *1 of 2"], id="beginning and end overlap"),
        pytest.param("host", "xyxyx:1 xyx:1", ["{xy,}xyx *1 of 2"], id="and in the other order"),
        pytest.param("host", "qwqeqrq:1 qwqeqeqrq:1", ["qw{,qe}qeqrq *1 of 2"], id="they overlap in part"),
        pytest.param(
            HOST, "pool-a-1:1 pool-a-2:1 pool-b-1:1", ["pool-{a-1,a-2,b-1} *1 of 3"],
            id="one slice of few hosts is shorter",
        ),
        pytest.param("host", "pool-a-1:1 pool-b-1:2", ["pool-{a,b}-1 1,2 of 2"], id="no host level"),
    ],
)  # fmt: skip
def test_domains_as_slices(levels: str, text: str, want: list[str]) -> None:
    assert show(topology_assignment(tuple(levels.split()), domains(text))) == want


def pools(*pools: str, nodes: int = 10) -> list[Domain]:
    """Return the hosts ``pool-0`` to ``pool-9`` of each pool, with one pod each."""
    return [((f"{pool}-{node:04}",), 1) for pool in pools for node in range(nodes)]


@pytest.mark.parametrize(
    ("hosts", "want"),
    [
        pytest.param(
            pools("cluster-group-of-nodes-a-hash", "cluster-group-of-nodes-b-hash"),
            ["cluster-group-of-nodes-a-hash-000{", "cluster-group-of-nodes-b-hash-000{"],
            id="a slice for each pool",
        ),
        pytest.param(
            pools("cluster-group-of-nodes-a-hash", "b", "cluster-group-of-nodes-a-hash2"),
            ["cluster-group-of-nodes-a-hash-000{", "b-000{", "cluster-group-of-nodes-a-hash2-000{"],
            id="pools keep their order",
        ),
        pytest.param(
            [
                host
                for pair in zip(pools("long-name-of-pool-a"), pools("long-name-of-pool-b"), strict=True)
                for host in pair
            ],
            ["long-name-of-pool-{"], id="alternating pools make one slice, which is shorter",
        ),
        pytest.param(
            [((f"{name}-node",), 1) for name in "abcdefgh"], ["{"], id="no prefix occurs twice"
        ),
        pytest.param([((f"{name}-",), 1) for name in "abcdefgh"], ["{"], id="nothing follows the hyphen"),
    ],
)  # fmt: skip
def test_hosts_of_one_pool_form_a_slice(hosts: list[Domain], want: list[str]) -> None:
    found = topology_assignment((HOST,), hosts)
    assert [text.partition("{")[0] + "{" for text in show(found)] == want
    assert list(found.domains()) == hosts


def test_one_slice_without_the_gate() -> None:
    hosts = pools("cluster-group-of-nodes-a-hash", "cluster-group-of-nodes-b-hash")
    assert len(topology_assignment((HOST,), hosts, by_host_prefix=False).slices) == 1


def test_shorter_prefixes_are_taken_where_the_longest_make_too_many_slices() -> None:
    prefix = "a-very-long-beginning-of-the-names"
    inner = [((f"{prefix}-{'xy'[at % 2]}-{at:04}",), 1) for at in range(MAX_SLICES)]
    hosts = [*inner, *pools("other-beginning-of-the-names", nodes=500)]
    found = topology_assignment((HOST,), hosts)
    assert [text.partition("{")[0] for text in show(found)] == [
        f"{prefix}-",
        "other-beginning-of-the-names-0",
    ]
    assert list(found.domains()) == hosts


def test_no_prefixes_are_taken_where_all_make_too_many_slices() -> None:
    hosts = [((f"{'xy'[at % 2]}-{at:04}",), 1) for at in range(MAX_SLICES + 1)]
    found = topology_assignment((HOST,), hosts)
    assert len(found.slices) == 1
    assert list(found.domains()) == hosts


values = st.text(st.sampled_from("ab-."), max_size=5)
assignments = st.lists(
    st.tuples(st.tuples(values, values), st.integers(1, 3)), max_size=12, unique_by=lambda each: each[0]
)


@given(assignments, st.sampled_from(["host", HOST]), st.booleans())
def test_an_assignment_can_be_read_again(given: list[Domain], level: str, by_host_prefix: bool) -> None:
    written = codec.encode(topology_assignment(("rack", level), given, by_host_prefix=by_host_prefix))
    assert list(codec.decode(TopologyAssignment, written).domains()) == given


@given(assignments)
def test_conversion_keeps_the_domains(given: list[Domain]) -> None:
    topology = codec.to_builtins(topology_assignment(("rack", HOST), given))
    status = {"admission": {"podSetAssignments": [{"name": "main", "topologyAssignment": topology}]}}
    newer = {"apiVersion": V1BETA2, "kind": "Workload", "metadata": {"name": "w"}, "status": status}
    older = convert_version(newer, V1BETA1)
    (assignment,) = older["status"]["admission"]["podSetAssignments"]
    assert assignment["topologyAssignment"] == {
        "levels": ["rack", HOST],
        "domains": [{"values": list(each), "count": count} for each, count in given],
    }
    assert convert_version(older, V1BETA2) == newer


def test_an_empty_list_of_slices_is_written_because_the_schema_requires_it() -> None:
    assert codec.to_builtins(topology_assignment(("rack",), [])) == {"levels": ["rack"], "slices": []}


ROOTS = LevelValues(individual=IndividualValues(prefix="n", roots=("1", "2", "3")))


@pytest.mark.parametrize(
    ("part", "want"),
    [
        pytest.param(
            AssignmentSlice(domain_count=2, values_per_level=(ROOTS,), pod_counts=PodCounts(universal=4)),
            "n1:4 n2:4", id="more roots than domains",
        ),
        pytest.param(
            AssignmentSlice(
                domain_count=2_000_000_000, values_per_level=(ROOTS,), pod_counts=PodCounts(individual=(4, 5))
            ),
            "n1:4 n2:5 n3:0", id="more domains than roots and counts",
        ),
        pytest.param(
            AssignmentSlice(
                domain_count=3, values_per_level=(LevelValues(universal="r"),),
                pod_counts=PodCounts(universal=4),
            ),
            "r:12", id="equal domains are one",
        ),
        pytest.param(
            AssignmentSlice(
                domain_count=2, values_per_level=(LevelValues(universal="r"),),
                pod_counts=PodCounts(individual=(4, 5, 6)),
            ),
            "r:9", id="with different numbers of pods",
        ),
        pytest.param(AssignmentSlice(domain_count=-1, values_per_level=(ROOTS,)), "", id="a negative number"),
        pytest.param(AssignmentSlice(domain_count=0, values_per_level=(LevelValues(),)), "", id="no domain"),
    ],
)  # fmt: skip
def test_reading_is_limited_by_what_is_stored(part: AssignmentSlice, want: str) -> None:
    assert list(part.domains()) == domains(want)


def test_prefixes_of_very_many_hosts_are_not_looked_for() -> None:
    """A search over a large object would block the event loop."""
    hosts = [((f"a-long-name-of-a-pool-{'ab'[at // 5000]}-node-{at}",), 1) for at in range(10_000)]
    found = topology_assignment((HOST,), hosts)
    assert len(found.slices) == 1
    assert list(found.domains()) == hosts
    assert len(topology_assignment((HOST,), hosts[4_500:5_500]).slices) == 2
