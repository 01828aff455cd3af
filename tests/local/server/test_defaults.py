"""Defaults of built-in kinds."""

from typing import Any

import pytest

from quorate.local.server.registry.defaults import cluster, pod_resources, pods, workloads

Json = dict[str, Any]


def a_job(**spec: Any) -> Json:
    return {"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"spec": {}}} | spec}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, {"parallelism": 1, "completions": 1}, id="one pod"),
        pytest.param({"completions": 4}, {"parallelism": 1, "completions": 4}, id="one pod at a time"),
        pytest.param({"parallelism": 4}, {"parallelism": 4}, id="a work queue has no completions"),
        pytest.param(
            {"backoffLimitPerIndex": 1},
            {"backoffLimit": 2**31 - 1},
            id="a backoff limit per index lifts the total limit",
        ),
        pytest.param(
            {"podFailurePolicy": {"rules": []}},
            {"podReplacementPolicy": "Failed"},
            id="a failure policy replaces failed pods only",
        ),
    ],
)
def test_job_defaults(spec: Json, want: Json) -> None:
    job = a_job(**spec)
    workloads.default_job(job)
    assert want.items() <= job["spec"].items()
    assert ("completions" in job["spec"]) == (spec != {"parallelism": 4})
    again = a_job(**spec)
    workloads.default_job(again)
    workloads.default_job(again)
    assert again == job


def test_a_new_job_selects_its_pods_by_its_uid() -> None:
    job = a_job()
    workloads.default_job(job)
    workloads.prepare_job_for_create(job)
    workloads.default_job_on_read(job)
    assert job["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}
    labels = job["spec"]["template"]["metadata"]["labels"]
    assert labels == job["metadata"]["labels"]
    assert labels == {
        "batch.kubernetes.io/controller-uid": "u",
        "batch.kubernetes.io/job-name": "j",
        "controller-uid": "u",
        "job-name": "j",
    }


@pytest.mark.parametrize(
    ("image", "want"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("busybox:1.36", "IfNotPresent"),
        ("host:5000/busybox", "Always"),
        ("busybox@sha256:0", "IfNotPresent"),
    ],
)
def test_the_pull_policy_depends_on_the_image_tag(image: str, want: str) -> None:
    assert pods.pull_policy(image) == want


@pytest.mark.parametrize(
    ("resources", "want"),
    [
        pytest.param([{}], "BestEffort", id="no requests"),
        pytest.param([{"requests": {"cpu": "1"}}], "Burstable", id="a request without a limit"),
        pytest.param(
            [{"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1", "memory": "1"}}],
            "Guaranteed",
            id="limits equal requests everywhere",
        ),
        pytest.param(
            [{"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1", "memory": "1"}}, {}],
            "Burstable",
            id="one container without limits",
        ),
        pytest.param(
            [{"limits": {"example.com/gpu": "1"}}], "BestEffort", id="extended resources do not count"
        ),
    ],
)
def test_qos_class(resources: list[Json], want: str) -> None:
    containers = [{"name": str(n), "resources": requests} for n, requests in enumerate(resources)]
    assert pod_resources.qos_class({"containers": containers}) == want


def test_a_limit_is_the_default_of_the_request() -> None:
    limits = {"cpu": "2", "memory": "1Gi"}
    container = {"name": "c", "resources": {"limits": limits, "requests": {"cpu": "1"}}}
    pod: Json = {"metadata": {}, "spec": {"containers": [container]}}
    pods.default_pod(pod)
    requests = pod["spec"]["containers"][0]["resources"]
    assert requests == {"limits": limits, "requests": {"cpu": "1", "memory": "1Gi"}}


def test_string_data_of_a_secret_becomes_data() -> None:
    secret: Json = {"metadata": {}, "data": {"a": "eA=="}, "stringData": {"b": "y"}}
    cluster.default_secret(secret)
    assert secret == {"metadata": {}, "type": "Opaque", "data": {"a": "eA==", "b": "eQ=="}}


def test_limit_range_items_default_from_their_bounds() -> None:
    item = {"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}}
    limits: Json = {"spec": {"limits": [item, {"type": "Pod", "max": {"cpu": "4"}}]}}
    cluster.default_limit_range(limits)
    container, pod = limits["spec"]["limits"]
    assert (container["default"], container["defaultRequest"]) == (
        {"cpu": "2"},
        {"cpu": "2", "memory": "1Mi"},
    )
    assert pod == {"type": "Pod", "max": {"cpu": "4"}}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, ["IPv4"], id="a cluster IP"),
        pytest.param({"clusterIP": "None", "selector": {"a": "b"}}, ["IPv4"], id="headless with a selector"),
        pytest.param({"clusterIP": "None"}, ["IPv4", "IPv6"], id="headless without a selector"),
    ],
)
def test_service_ip_families(spec: Json, want: list[str]) -> None:
    service = {"spec": spec}
    cluster.default_service(service)
    cluster.prepare_service_for_create(service)
    assert service["spec"]["ipFamilies"] == want


def test_the_pod_cidr_of_a_node_becomes_its_first_pod_cidr() -> None:
    node: Json = {"spec": {"podCIDR": "10.0.0.0/24"}}
    cluster.default_node(node)
    assert node["spec"]["podCIDRs"] == ["10.0.0.0/24"]


def test_a_status_update_without_qos_class_keeps_it() -> None:
    new: Json = {"status": {"phase": "Running"}}
    pods.prepare_pod_for_status_update(new, {"status": {"qosClass": "BestEffort"}})
    assert new["status"] == {"phase": "Running", "qosClass": "BestEffort"}
