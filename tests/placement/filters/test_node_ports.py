"""Host ports."""

from typing import Any

import pytest

from quorate.api.scheduler_configuration.plugins import PredicateArguments
from quorate.placement.cluster.occupants import AllocationState
from quorate.placement.failures import PORT_CONFLICT, Remedy
from quorate.placement.framework import Capacity, InvalidationScope
from tests.placement.filters.world import World, pod


def port(text: str) -> dict[str, Any]:
    """Parse ``[address:]port[/protocol]``."""
    rest, _, protocol = text.partition("/")
    address, _, number = rest.rpartition(":")
    parsed: dict[str, Any] = {"hostPort": int(number), "containerPort": 1, "protocol": protocol or "TCP"}
    return parsed | ({"hostIP": address} if address else {})


@pytest.mark.parametrize(
    ("used", "wanted", "free"),
    [
        pytest.param("80", "80", False, id="the same port"),
        pytest.param("80", "81", True, id="another port"),
        pytest.param("80", "80/UDP", True, id="another protocol"),
        pytest.param("10.0.0.1:80", "10.0.0.1:80", False, id="the same address"),
        pytest.param("10.0.0.1:80", "10.0.0.2:80", True, id="another address"),
        pytest.param("80", "10.0.0.1:80", False, id="a pod on this address while all are in use"),
        pytest.param("10.0.0.1:80", "80", False, id="a pod on all addresses while one is in use"),
        pytest.param("10.0.0.1:80", "0.0.0.0:80", False, id="0.0.0.0 is all addresses"),
    ],
)
def test_one_pod_at_a_time_uses_a_port(used: str, wanted: str, free: bool) -> None:
    world = World("n", "other")
    world.put(pod("placed", ports=[port(used)]), "n")
    reasons = world.failures(pod("new", ports=[port(wanted)]))
    assert reasons == ({} if free else {"n": PORT_CONFLICT})


def test_ports_of_sidecars_count_but_not_of_other_init_containers() -> None:
    def with_init(name: str, **init: Any) -> Any:
        return pod(name, initContainers=[{"name": "i", "ports": [port("80")], **init}])

    world = World("n")
    world.put(with_init("sidecar", restartPolicy="Always"), "n")
    assert world.passing(with_init("another", restartPolicy="Always")) == ""
    assert world.passing(with_init("setup")) == "n"


def test_a_port_is_free_when_no_pod_uses_it() -> None:
    world = World("n")
    wanted = pod("new", ports=[port("80")])
    world.put(pod("one", ports=[port("10.0.0.1:80")]), "n")
    world.put(pod("two", ports=[port("10.0.0.2:80")]), "n")
    world.take("one")
    assert world.passing(wanted) == ""
    world.take("two")
    assert world.passing(wanted) == "n"


def test_a_releasing_pod_uses_its_port_at_idle_capacity_only() -> None:
    world = World("n")
    world.put(pod("releasing", ports=[port("80")]), "n", AllocationState.RELEASING)
    wanted = pod("new", ports=[port("80")])
    assert world.passing(wanted, Capacity.IDLE) == ""
    assert world.passing(wanted, Capacity.FUTURE_IDLE) == "n"


def test_a_pipelined_pod_uses_its_port() -> None:
    world = World("n")
    world.put(pod("pipelined", ports=[port("80")]), "n", AllocationState.PIPELINED)
    assert world.passing(pod("new", ports=[port("80")]), Capacity.FUTURE_IDLE) == ""


def test_preemption_resolves_a_port_conflict() -> None:
    assert PORT_CONFLICT.remedy is Remedy.PREEMPTION


def test_invalidation_scope_of_a_host_port() -> None:
    assert (
        World("n").filter_result(pod("p", ports=[port("80")])).invalidation_scope
        is InvalidationScope.ONE_PER_NODE
    )
    off = World("n", enabled=PredicateArguments(node_ports=False))
    assert off.filter_result(pod("p", ports=[port("80")])).invalidation_scope is InvalidationScope.NONE
