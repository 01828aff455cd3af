"""One worker cluster at a time preempts for a workload."""

from typing import Any

import pytest

from quorate.controllers.multikueue.dispatch.plan import SINGLE_CLUSTER_S, NextGate, RemoteState, next_gate
from tests.controllers.multikueue.dispatch.dispatch_objects import NOW, a_copy, local, remote
from tests.controllers.objects import CREATED_AT

WORKLOAD = local()


def asks(at: float) -> RemoteState:
    return remote(a_copy(WORKLOAD, f"BlockedOnPreemptionGates@{at}"))


def opened(at: float) -> RemoteState:
    return remote(a_copy(WORKLOAD, gate=at))


QUIET = remote(a_copy(WORKLOAD))
RECENT = NOW - CREATED_AT - 10


@pytest.mark.parametrize(
    ("remotes", "cluster", "wakes_in_s"),
    [
        ({"a": QUIET, "b": remote()}, "", None),
        ({"a": QUIET, "b": asks(5)}, "b", SINGLE_CLUSTER_S),
        ({"a": asks(7), "b": asks(5)}, "b", SINGLE_CLUSTER_S),
        ({"b": asks(5), "a": asks(5)}, "b", SINGLE_CLUSTER_S),  # in the configured order
        ({"a": opened(RECENT), "b": asks(5)}, "", SINGLE_CLUSTER_S - 10),
        ({"a": opened(1), "b": asks(5)}, "b", SINGLE_CLUSTER_S),
        ({"a": opened(1), "b": opened(RECENT), "c": asks(5)}, "", SINGLE_CLUSTER_S - 10),
        ({"a": opened(RECENT), "b": QUIET}, "", None),
        ({"a": remote(is_busy=True), "b": asks(5)}, "", None),  # perhaps its gate is being opened
    ],
)
def test_the_first_that_asks_may_preempt(remotes: Any, cluster: str, wakes_in_s: float | None) -> None:
    wake_at = None if wakes_in_s is None else NOW + wakes_in_s
    assert next_gate(remotes, NOW) == NextGate(cluster, wake_at)
