"""Effective requests of pods."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core import Container, PodSpec, ResourceRequirements
from quorate.api.core.pod import Pod
from quorate.api.core.pod_resources import pod_limits, pod_requests, quota_usage
from quorate.api.quantity import Quantity, parse_quantity


def container(**requests: str) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests}}


def sidecar(**requests: str) -> dict[str, Any]:
    return container(**requests) | {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"containers": [container()]}, {}, id="nothing"),
        pytest.param(
            {"containers": [container(cpu="1", memory="1Gi"), container(cpu="500m")]},
            {"cpu": "1500m", "memory": "1Gi"},
            id="containers run together",
        ),
        pytest.param(
            {"initContainers": [container(cpu="3"), container(cpu="1")], "containers": [container(cpu="2")]},
            {"cpu": "3"},
            id="init containers run one after the other",
        ),
        pytest.param(
            {
                "initContainers": [container(cpu="3"), sidecar(cpu="1"), container(cpu="4")],
                "containers": [container(cpu="2")],
            },
            {"cpu": "5"},
            id="a sidecar runs alongside later init containers",
        ),
        pytest.param(
            {"initContainers": [container(cpu="1"), sidecar(cpu="2")], "containers": [container(cpu="2")]},
            {"cpu": "4"},
            id="and alongside the containers",
        ),
        pytest.param(
            {"containers": [{"resources": {"limits": {"cpu": "2"}, "requests": {"memory": "1"}}}]},
            {"cpu": "2", "memory": "1"},
            id="a limit alone is also the request",
        ),
        pytest.param(
            {"resources": {"requests": {"cpu": "4"}}, "containers": [container(cpu="3", memory="1Mi")]},
            {"cpu": "4", "memory": "1Mi"},
            id="pod-level requests are more than the sum",
        ),
        pytest.param(
            {"resources": {"requests": {"cpu": "1"}}, "containers": [container(cpu="3")]},
            {"cpu": "3"},
            id="or less, which the API server refuses",
        ),
        pytest.param(
            {
                "resources": {"limits": {"cpu": "4", "memory": "1Gi", "example.com/gpu": "1"}},
                "containers": [container(cpu="1")],
            },
            {"cpu": "1", "memory": "1Gi"},
            id="a pod-level limit is the request of what no container requests",
        ),
        pytest.param(
            {"overhead": {"cpu": "250m"}, "containers": [container(cpu="1")]},
            {"cpu": "1250m"},
            id="overhead is added",
        ),
    ],
)  # fmt: skip
def test_pod_requests(spec: dict[str, Any], want: dict[str, str]) -> None:
    got = pod_requests(codec.convert(PodSpec, spec))
    assert {name: str(amount) for name, amount in got.items()} == want


def status(name: str, cpu: str, allocated: str = "") -> dict[str, Any]:
    own: dict[str, Any] = {"name": name, "resources": {"requests": {"cpu": cpu}}}
    return own | ({"allocatedResources": {"cpu": allocated}} if allocated else {})


INFEASIBLE = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
DEFERRED = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]
A = {"name": "a", "resources": {"requests": {"cpu": "2"}}}
SIDECAR = sidecar(cpu="1") | {"name": "s"}


@pytest.mark.parametrize(
    ("spec", "state", "want"),
    [
        pytest.param({}, {}, "2", id="a pod without container statuses"),
        pytest.param({}, {"containerStatuses": [status("a", "3")]}, "3", id="the actual amount is larger"),
        pytest.param({}, {"containerStatuses": [status("a", "1", "3")]}, "3", id="the allocated amount is"),
        pytest.param({}, {"containerStatuses": [status("a", "1", "1")]}, "2", id="the requested amount is"),
        pytest.param(
            {}, {"containerStatuses": [status("a", "1", "1")], "conditions": DEFERRED}, "2", id="later"
        ),
        pytest.param(
            {}, {"containerStatuses": [status("a", "1", "1")], "conditions": INFEASIBLE}, "1", id="never"
        ),
        pytest.param({}, {"conditions": INFEASIBLE}, "2", id="never, and nothing is known"),
        pytest.param(
            {"initContainers": [SIDECAR]}, {"initContainerStatuses": [status("s", "2")]}, "4", id="a sidecar"
        ),
        pytest.param(
            {"initContainers": [SIDECAR | {"restartPolicy": ""}]},
            {"initContainerStatuses": [status("s", "5")]},
            "2",
            id="an init container is not resized",
        ),
        pytest.param(
            {"resources": {"requests": {"cpu": "3"}}},
            {"resources": {"requests": {"cpu": "4", "memory": "1"}}, "allocatedResources": {"cpu": "5"}},
            "5",
            id="pod-level requests",
        ),
        pytest.param(
            {"resources": {"requests": {"cpu": "6"}}},
            {"resources": {"requests": {"cpu": "4"}}, "conditions": INFEASIBLE},
            "4",
            id="pod-level requests that never fit",
        ),
        pytest.param({}, {"resources": {"requests": {"cpu": "4"}}}, "2", id="no pod-level requests"),
    ],
)
def test_a_pod_resized_in_place_requests_the_larger_amount(
    spec: dict[str, Any], state: dict[str, Any], want: str
) -> None:
    body = {"metadata": {}, "spec": {"nodeName": "n", "containers": [A], **spec}, "status": state}
    pod = codec.convert(Pod, body)
    assert pod_requests(pod.spec, pod.status) == {"cpu": parse_quantity(want)}
    assert codec.convert(Pod, body).requests == {"cpu": parse_quantity(want)}
    assert quota_usage(pod.spec, pod.status)["requests.cpu"] == parse_quantity(want)


def test_pod_level_limits_replace_those_of_the_containers() -> None:
    limited = [{"name": name, "resources": {"limits": {"cpu": "3", "memory": "0"}}} for name in "ab"]
    spec = {
        "containers": limited,
        "resources": {"limits": {"cpu": "4"}},
        "overhead": {"cpu": "1", "memory": "1"},
    }
    assert pod_limits(codec.convert(PodSpec, spec)) == {"cpu": Quantity.of_units(5), "memory": Quantity(0)}
    resized = {"containerStatuses": [{"name": "a", "resources": {"limits": {"memory": "5"}}}]}
    pod = codec.convert(Pod, {"metadata": {}, "spec": spec, "status": resized})
    assert pod_limits(pod.spec, pod.status)["memory"] == Quantity.of_units(6)


class CountedKey(str):
    """The name of a resource that counts how often it is put into a map or looked up there."""

    __slots__ = ()
    hashes = 0

    def __hash__(self) -> int:
        CountedKey.hashes += 1
        return super().__hash__()


@pytest.mark.parametrize("restart_policy", ["", "Always"])
def test_many_init_containers_with_resources_of_their_own_are_added_in_one_pass(restart_policy: str) -> None:
    most = 2000
    containers = tuple(
        Container(
            resources=ResourceRequirements(requests={CountedKey(f"example.com/{at}"): Quantity.of_units(1)}),
            restart_policy=restart_policy,
        )
        for at in range(most)
    )
    CountedKey.hashes = 0
    requests = pod_requests(PodSpec(containers=containers, init_containers=containers))
    assert CountedKey.hashes < 30 * most
    assert set(requests.values()) == {Quantity.of_units(2 if restart_policy else 1)}
    assert len(requests) == most
