"""Messages of shortages round needs up and available amounts down."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.meta import Key
from quorate.gang.pending_reasons import (
    AwaitsEvictions,
    AwaitsPlannedStart,
    AwaitsUnplannedStart,
    AwaitsVictimSearch,
    Cause,
    GangUnschedulable,
    NamespaceQuotaExceeded,
    NotEnoughNodes,
    NotEnoughResources,
    NotPlanned,
    PendingReason,
    QueueQuotaExceeded,
    ReservedForEarlierGroup,
    equivalence_key,
)
from quorate.gang.pod_group_conditions import stable_part
from quorate.gang.shortage import Shortage, no_fit_message
from quorate.gang.topology_reasons import NetworkTopologyUnsatisfied
from quorate.placement.diagnosis import Diagnosis, InsufficientResource

GI = 1 << 30


@pytest.mark.parametrize(
    ("shortage", "says"),
    [
        pytest.param(Shortage("cpu", 2000, 1800, 9000), "cpu: need 2, have 1800m now", id="cpu, exactly"),
        pytest.param(
            Shortage("cpu", 2000, 1800, 4800, 800),
            "cpu: need 2, have 1800m now (1 without overcommit)",
            id="with overcommit",
        ),
        pytest.param(
            Shortage("cpu", 9000, 500, 4800, 800),
            "cpu: need 9, have 500m now and 4800m at most (4 without overcommit), so it can never fit",
            id="never, with overcommit",
        ),
        pytest.param(
            Shortage("memory", 2 * GI, 300, 9 * GI), "memory: need 2Gi, have 300 now", id="few bytes, exactly"
        ),
        pytest.param(
            Shortage("memory", 40 * GI, 41231686041, 99 * GI),
            "memory: need 40Gi, have 39321Mi now",
            id="the available amount is rounded down",
        ),
        pytest.param(
            Shortage("requests.memory", 41231686042, 41231686041, 41231686041),
            "requests.memory: need 39322Mi, have 39321Mi now and 39321Mi at most, so it can never fit",
            id="what is needed, rounded up",
        ),
    ],
)
def test_a_shortage_in_words(shortage: Shortage, says: str) -> None:
    assert str(shortage) == says


amounts = st.integers(0, 3000)


numbers = st.integers(0, 3)
few = st.integers(1, 2)
shortages = st.builds(
    Shortage, st.sampled_from(["cpu", "memory"]), st.just(2), numbers, numbers, overcommitted=numbers
).map(lambda shortage: (shortage,))
queues = st.just("q")
moments = st.sampled_from([None, 60.0])
not_enough_nodes = st.builds(
    NotEnoughNodes, few, numbers, st.just("cpu"), few, numbers, few, never_fits=st.booleans()
)
topology = st.builds(
    NetworkTopologyUnsatisfied,
    limit=st.just("tier 1"),
    needed=few,
    hyper_nodes=numbers,
    best=st.sampled_from(["s0", "s1"]),
    room=numbers,
    beside_placed=st.booleans(),
    never_fits=st.booleans(),
    by_amounts=numbers,
)
unplaced = st.builds(
    GangUnschedulable, few, few, st.builds(Cause, st.sampled_from(["", "0/2 nodes are available: 2 a"]))
)
rooms = st.builds(NotEnoughResources, shortages) | not_enough_nodes | topology
reasons = (
    rooms
    | st.builds(QueueQuotaExceeded, queues, shortages)
    | st.builds(NamespaceQuotaExceeded, queues, shortages)
    | st.builds(AwaitsEvictions, few, numbers)
    | st.builds(AwaitsPlannedStart, rooms, moments)
    | st.builds(AwaitsUnplannedStart, rooms, st.sampled_from(NotPlanned))
    | st.builds(AwaitsVictimSearch, unplaced, numbers, few)
    | st.builds(ReservedForEarlierGroup, st.just(Key("", "g")), moments, shortages, st.just(True))
)


@given(st.lists(reasons, min_size=2, max_size=100))
def test_messages_of_equivalent_reasons_are_equivalent(of_a_group: list[PendingReason]) -> None:
    """Otherwise a scheduler that starts anew writes the condition of each waiting group again."""
    messages: dict[object, str] = {}
    for reason in of_a_group:
        message = stable_part(str(reason))
        assert messages.setdefault(equivalence_key(reason), message) == message


def test_members_that_fit_no_node_in_words() -> None:
    reason = NotEnoughNodes(members=3, fitting=2, resource="cpu", needed=5000, best=3000, nodes=2)
    assert str(reason) == "nodes: 2 of 3 members fit: cpu: need 5, have 3 on the best of 2 nodes"


def test_a_message_does_not_grow_with_what_a_group_may_name() -> None:
    names = [f"example.com/{number:02}" for number in range(18)]
    message = str(NotEnoughResources(tuple(Shortage(name, 1, 0, 0) for name in names)))
    assert message.count("need 1, have 0 now") == 16
    assert message.endswith(
        "example.com/15: need 1, have 0 now and 0 at most, so it can never fit; and 2 resources more"
    )


@pytest.mark.parametrize(
    ("resources", "end"),
    [
        pytest.param(16, "2 Insufficient example.com/15 (need 1, 0 at most)", id="all are named"),
        pytest.param(3000, ", 2984 resources more", id="the first are named"),
    ],
)
def test_a_message_does_not_grow_with_what_a_pod_may_name(resources: int, end: str) -> None:
    insufficient = tuple(
        InsufficientResource(f"example.com/{number:02}", nodes=2, need=1, at_most=0)
        for number in range(resources)
    )
    message = no_fit_message(Diagnosis(2, (), insufficient, feasible_when_empty=0))
    assert message.startswith("0/2 nodes are available: 2 Insufficient example.com/00 (need 1, 0 at most), ")
    assert message.endswith(end)
    assert len(message) < 1000
