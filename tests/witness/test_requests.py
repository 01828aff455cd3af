"""Requests as the kubelet counts them: what a pod takes from its node."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.witness.pods import WitnessedPod

Json = dict[str, Any]


def container(cpu: str, name: str = "main", **fields: Any) -> Json:
    return {"name": name, "resources": {"requests": {"cpu": cpu}}, **fields}


def sidecar(cpu: str, name: str) -> Json:
    return container(cpu, name, restartPolicy="Always")


def resized(allocated: str, actual: str) -> Json:
    reported = {"name": "main", "allocatedResources": {"cpu": allocated}}
    return {"containerStatuses": [{**reported, "resources": {"requests": {"cpu": actual}}}]}


def whole(allocated: str, actual: str) -> Json:
    """Return the status of a pod that is resized as a whole."""
    return {"allocatedResources": {"cpu": allocated}, "resources": {"requests": {"cpu": actual}}}


POD_LEVEL: Json = {"containers": [container("1")], "resources": {"requests": {"cpu": "2"}}}
INFEASIBLE = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}


@pytest.mark.parametrize(
    ("spec", "status", "cpu"),
    [
        pytest.param(
            {"containers": [container("1"), container("2", "b")]}, {}, 3.0, id="containers: the sum"
        ),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("2", "i"), container("3", "j")]},
            {},
            3.0,
            id="init containers run one after the other",
        ),
        pytest.param(
            {"containers": [container("1")], "initContainers": [sidecar("2", "s"), container("3", "i")]},
            {},
            5.0,
            id="an init container runs beside the sidecars before it",
        ),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("2", "i"), sidecar("3", "s")]},
            {},
            4.0,
            id="containers run beside all sidecars",
        ),
        pytest.param(
            {"containers": [container("1")], "resources": {"requests": {"cpu": "4"}}},
            {},
            4.0,
            id="pod-level requests replace the sum",
        ),
        pytest.param(
            {"containers": [container("1")], "overhead": {"cpu": "250m"}}, {}, 1.25, id="with the overhead"
        ),
        pytest.param({"containers": [container("2")]}, resized("1", "1"), 2.0, id="a larger request"),
        pytest.param({"containers": [container("1")]}, resized("3", "1"), 3.0, id="a larger allocation"),
        pytest.param({"containers": [container("1")]}, resized("1", "4"), 4.0, id="a larger amount in force"),
        pytest.param(
            {"containers": [container("9")]},
            {**resized("1", "2"), **INFEASIBLE},
            2.0,
            id="a request that the node can never give",
        ),
        pytest.param(POD_LEVEL, whole("1", "1"), 2.0, id="a larger request of the pod"),
        pytest.param(POD_LEVEL, whole("3", "2"), 3.0, id="a larger allocation of the pod"),
        pytest.param(POD_LEVEL, whole("2", "4"), 4.0, id="a larger amount of the pod in force"),
        pytest.param(
            POD_LEVEL, {**whole("1", "1.5"), **INFEASIBLE}, 1.5, id="the node can never give it to the pod"
        ),
    ],
)
def test_requests(spec: Json, status: Json, cpu: float) -> None:
    pod = codec.convert(WitnessedPod, {"metadata": {"name": "p"}, "spec": spec, "status": status})
    assert pod.requests == {"cpu": round(cpu * 1e9)}
