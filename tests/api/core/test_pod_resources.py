"""Effective requests of pods."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core import Container, PodSpec, ResourceRequirements
from quorate.api.core.pod_resources import pod_requests
from quorate.api.quantity import Quantity


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
            {"resources": {"requests": {"cpu": "1"}}, "containers": [container(cpu="3", memory="1Mi")]},
            {"cpu": "1", "memory": "1Mi"},
            id="pod-level resources replace the sum",
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
