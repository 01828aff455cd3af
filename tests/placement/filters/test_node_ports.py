"""Host ports."""

from typing import Any

import pytest

from quorate.api.scheduler_configuration.plugins import PredicateArguments
from quorate.placement.cluster import AllocationState
from quorate.placement.filters.failures import PORT_CONFLICT, Remedy
from quorate.placement.framework import Capacity, InvalidationScope
from tests.placement.filters.world import World, pod


def port(text: str) -> dict[str, Any]:
    """``[address:]port[/protocol]``"""
    rest, _, protocol = text.partition("/")
    address, _, number = rest.rpartition(":")
    wanted: dict[str, Any] = {"hostPort": int(number), "containerPort": 1, "protocol": protocol or "TCP"}
    return wanted | ({"hostIP": address} if address else {})


@pytest.mark.parametrize(
    ("used", "wanted", "free"),
    [
        pytest.param("80", "80", False, id="the same port"),
        pytest.param("80", "81", True, id="another port"),
        pytest.param("80", "80/UDP", True, id="another protocol"),
        pytest.param("10.0.0.1:80", "10.0.0.1:80", False, id="the same address"),
        pytest.param("10.0.0.1:80", "10.0.0.2:80", True, id="another address"),
        pytest.param("80", "10.0.0.1:80", False, id="every address is taken"),
        pytest.param("10.0.0.1:80", "80", False, id="every address is wanted"),
        pytest.param("10.0.0.1:80", "0.0.0.0:80", False, id="0.0.0.0 is every address"),
    ],
)
def test_a_port_is_had_by_one_pod_at_a_time(used: str, wanted: str, free: bool) -> None:
    world = World("n", "other")
    world.put(pod("there", ports=[port(used)]), "n")
    reasons = world.failures(pod("new", ports=[port(wanted)]))
    assert reasons == ({} if free else {"n": PORT_CONFLICT})


def test_ports_of_sidecars_count_and_those_of_other_init_containers_do_not() -> None:
    def with_init(name: str, **init: Any) -> Any:
        return pod(name, initContainers=[{"name": "i", "ports": [port("80")], **init}])

    world = World("n")
    world.put(with_init("sidecar", restartPolicy="Always"), "n")
    assert world.passing(with_init("another", restartPolicy="Always")) == ""
    assert world.passing(with_init("setup")) == "n"


def test_a_port_is_free_when_its_last_user_is_gone() -> None:
    world = World("n")
    wanted = pod("new", ports=[port("80")])
    world.put(pod("one", ports=[port("10.0.0.1:80")]), "n")
    world.put(pod("two", ports=[port("10.0.0.2:80")]), "n")
    world.take("one")
    assert world.passing(wanted) == ""
    world.take("two")
    assert world.passing(wanted) == "n"


def test_a_pod_that_leaves_keeps_its_port_until_it_is_gone() -> None:
    world = World("n")
    world.put(pod("leaving", ports=[port("80")]), "n", AllocationState.RELEASING)
    wanted = pod("new", ports=[port("80")])
    assert world.passing(wanted, Capacity.IDLE) == ""
    assert world.passing(wanted, Capacity.FUTURE_IDLE) == "n"


def test_who_was_promised_a_place_has_its_port() -> None:
    world = World("n")
    world.put(pod("promised", ports=[port("80")]), "n", AllocationState.PIPELINED)
    assert world.passing(pod("new", ports=[port("80")]), Capacity.FUTURE_IDLE) == ""


def test_eviction_frees_a_port() -> None:
    assert PORT_CONFLICT.remedy is Remedy.PREEMPTION


def test_pods_with_a_port_keep_each_other_off_their_node_only() -> None:
    assert (
        World("n").filter_result(pod("p", ports=[port("80")])).invalidation_scope
        is InvalidationScope.ONE_PER_NODE
    )
    off = World("n", switches=PredicateArguments(node_ports=False))
    assert off.filter_result(pod("p", ports=[port("80")])).invalidation_scope is InvalidationScope.NONE
