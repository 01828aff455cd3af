"""The domains of gated pods: by rank where possible, otherwise greedily."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.codec import convert
from quorate.api.kueue import Workload
from quorate.queueing.topology.ungating import (
    PodPlace,
    Ranks,
    Values,
    choose_domains,
    pod_rank,
    pod_set_ranks,
)

X, Y = ("x",), ("y",)
PLAIN = Ranks("index", size=4)
GROUPS = Ranks("index", size=4, sub_group_label="group", sub_groups=2)


@pytest.mark.parametrize(
    ("labels", "ranks", "rank"),
    [
        ({"index": "0"}, PLAIN, 0),
        ({"index": "3"}, PLAIN, 3),
        ({"index": "4"}, PLAIN, None),
        ({}, PLAIN, None),
        ({"index": "-1"}, PLAIN, None),
        ({"index": "9" * 5000}, PLAIN, None),
        ({"index": "\u0663"}, PLAIN, None),
        ({"index": "1"}, PLAIN._replace(offset=1), 0),
        ({"index": "0"}, PLAIN._replace(offset=1), None),
        ({"index": "1", "group": "1"}, GROUPS, 3),
        ({"index": "2", "group": "0"}, GROUPS, None),
        ({"index": "0", "group": "2"}, GROUPS, None),
        ({"index": "0"}, GROUPS, None),
    ],
)
def test_a_rank_is_valid_or_absent(labels: dict[str, str], ranks: Ranks, rank: int | None) -> None:
    assert pod_rank(labels, ranks) == rank


@pytest.mark.parametrize(
    ("leaders", "workers", "annotation", "leader_offset", "worker_offset"),
    [
        pytest.param(1, 3, None, 0, 1, id="workers continue the indices of the leader"),
        pytest.param(3, 1, None, 1, 0, id="the larger pod set continues, whatever its name"),
        pytest.param(1, 1, None, 0, 1, id="the first of two equal ones begins"),
        pytest.param(1, 3, "2", 2, 3, id="an offset adds to that"),
        pytest.param(1, 3, "two", None, None, id="a malformed offset leaves no ranks"),
    ],
)
def test_offsets_of_a_group(
    leaders: int,
    workers: int,
    annotation: str | None,
    leader_offset: int | None,
    worker_offset: int | None,
) -> None:
    request = {"podIndexLabel": "index", "podSetGroupName": "g"}
    counts = {"leader": leaders, "worker": workers}
    spec = {"podSets": [{"name": name, "count": 9, "topologyRequest": request} for name in counts]}
    assigned = [{"name": name, "count": count} for name, count in counts.items()]
    status = {"admission": {"clusterQueue": "q", "podSetAssignments": assigned}}
    workload = convert(Workload, {"metadata": {"name": "w"}, "spec": spec, "status": status})
    for name, offset in (("leader", leader_offset), ("worker", worker_offset)):
        expected = None if offset is None else Ranks("index", size=counts[name], offset=offset)
        assert pod_set_ranks(workload, name, annotation) == expected


CASES = {
    "by rank": ([("a", 2, None), ("b", 0, None), ("c", 1, None)], {"a": Y, "b": X, "c": X}),
    "by rank beside a running pod": ([("a", 2, Y), ("b", 1, None)], {"b": X}),
    "a rank is missing": ([("a", 2, None), ("b", None, None)], {"a": X, "b": X}),
    "a rank occurs twice": ([("a", 2, None), ("b", 2, None)], {"a": X, "b": X}),
    "a rank is too large": ([("a", 3, None)], {"a": X}),
    "a running pod is elsewhere": ([("a", 2, X), ("b", 0, None), ("c", 1, None)], {"b": X, "c": Y}),
    "names out of order": ([("a", 2, X), ("c", 0, None), ("b", 1, None)], {"c": X, "b": Y}),
    "a full domain": ([("a", None, X), ("b", None, X), ("c", None, None)], {"c": Y}),
    "a domain with too many": ([(n, None, X) for n in "abc"] + [("d", None, None)], {"d": Y}),
    "more pods than places": ([(n, None, None) for n in "abcd"], {"a": X, "b": X, "c": Y}),
}


@pytest.mark.parametrize(("pods", "chosen"), CASES.values(), ids=CASES)
def test_domains_of_two_and_one_pod(
    pods: list[tuple[str, int | None, tuple[str, ...] | None]], chosen: dict[str, tuple[str, ...]]
) -> None:
    assert choose_domains([(X, 2), (Y, 1)], [PodPlace(*pod) for pod in pods]) == chosen


@pytest.mark.parametrize(
    ("ended", "running", "chosen"),
    [
        pytest.param([X], [X], {"a": Y}, id="a retried pod comes back to its own place"),
        pytest.param([X, X, Y], [Y], {"a": X}, id="fewer pods run at a time than complete"),
    ],
)
def test_places_that_ended_pods_have_left_come_last(
    ended: list[Values], running: list[Values], chosen: dict[str, Values]
) -> None:
    """They may be the places of other workloads by now."""
    pods = [PodPlace("a", None, None), *(PodPlace(f"r{at}", None, here) for at, here in enumerate(running))]
    assert choose_domains([(X, 2), (Y, 1)], pods, ended=Counter(ended)) == chosen


def test_pods_of_an_unhealthy_host_stay_gated() -> None:
    pods = [PodPlace(name, None, None) for name in "abc"]
    assert choose_domains([(X, 2), (Y, 1)], pods, frozenset("x")) == {"c": Y}


def test_counts_need_not_fit_into_memory() -> None:
    assert choose_domains([(X, 10**18), (Y, 1)], [PodPlace("a", 10**18, None)]) == {"a": Y}


_VALUES = st.sampled_from([("x",), ("y",), ("z",)])
_RANKS = st.none() | st.integers(-1, 6)
_PODS = st.dictionaries(st.text("abc", max_size=3), st.tuples(_RANKS, st.none() | _VALUES), max_size=8)


@given(
    st.lists(st.tuples(_VALUES, st.integers(0, 3)), max_size=3, unique_by=lambda d: d[0]), _PODS, st.randoms()
)
def test_no_domain_gets_more_pods_than_assigned(domains, given_pods, random) -> None:  # type: ignore[no-untyped-def]
    pods = [PodPlace(name, *rest) for name, rest in given_pods.items()]
    chosen = choose_domains(domains, pods)
    running = Counter(pod.values for pod in pods if pod.values is not None)
    for values, added in Counter(chosen.values()).items():
        assert running[values] + added <= dict(domains)[values]
    random.shuffle(pods)
    assert choose_domains(domains, pods) == chosen
