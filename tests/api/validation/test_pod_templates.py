"""Validation of the pod templates of Volcano Jobs."""

import msgspec
import pytest

from quorate.api.validation.pod_templates import pod_template_findings, whole_cpu_findings
from tests import fast_yaml


def template_of(spec: str) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode({"spec": fast_yaml.load(spec)}))


def refusals(spec: str) -> list[str]:
    return [str(finding) for finding in pod_template_findings("t", template_of(spec))]


NAMED = "name: main, image: busybox"


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param(f"{{containers: [{{{NAMED}}}]}}", [], id="a plain template"),
        pytest.param("{}", ["t.spec.containers: [] is empty, must list at least one container"],
                     id="no container"),
        pytest.param("{containers: [{name: main}]}",
                     ["t.spec.containers[0].image: '' is missing (write the image to run)"], id="no image"),
        pytest.param("{containers: [{image: busybox}]}",
                     ["t.spec.containers[0].name: '' is not the name of a container "
                      "(at most 63 lower case letters, digits and '-')"], id="no name"),
        pytest.param(f"{{initContainers: [{{{NAMED}}}], containers: [{{{NAMED}}}]}}",
                     ["t.spec.containers[0].name: 'main' is given already in t.spec.initContainers[0] "
                      "(name it otherwise)"], id="the same name twice"),
        pytest.param(f"{{containers: [{{{NAMED}}}], restartPolicy: Sometimes}}",
                     ["t.spec.restartPolicy: 'Sometimes' is not a restart policy of pods "
                      "(write Always, OnFailure, Never)"], id="restart policy"),
    ],
)  # fmt: skip
def test_templates(spec: str, want: list[str]) -> None:
    assert refusals(spec) == want


@pytest.mark.parametrize(
    ("container", "want"),
    [
        pytest.param("resources: {requests: {cpu: 500m, memory: 0}, limits: {cpu: 1}}", [], id="amounts"),
        pytest.param(
            "resources: {requests: {cpu: -1}, limits: {memory: -1Mi}}",
            [".resources.requests.cpu: '-1' is negative, must be at least 0",
             ".resources.limits.memory: '-1Mi' is negative, must be at least 0"],
            id="negative",
        ),
        pytest.param("resources: {requests: {cpu: 10x}}", [".resources.requests"], id="not a quantity"),
        pytest.param("ports: here", [".ports"], id="not ports"),
    ],
)  # fmt: skip
def test_amounts_and_types(container: str, want: list[str]) -> None:
    got = refusals(f"{{containers: [{{{NAMED}, {container}}}]}}")
    path = "t.spec.containers[0]"
    assert len(got) == len(want)
    assert all(one.startswith(f"{path}{start}") for one, start in zip(got, want, strict=True))


@pytest.mark.parametrize(
    ("resources", "refused"),
    [
        pytest.param("{requests: {cpu: 2}}", False, id="whole CPUs"),
        pytest.param("{limits: {cpu: 2}}", False, id="limits count without requests"),
        pytest.param("{requests: {cpu: 1500m}}", True, id="a fraction"),
        pytest.param("{}", True, id="none"),
        pytest.param("{requests: {memory: 1Gi}, limits: {cpu: 2}}", True, id="requests without CPUs"),
    ],
)
def test_whole_cpus(resources: str, refused: bool) -> None:
    raw = template_of(f"{{containers: [{{{NAMED}, resources: {resources}}}]}}")
    assert [each.path for each in whole_cpu_findings("t", raw)] == [
        "t.spec.containers[0].resources.requests.cpu"
    ] * refused
