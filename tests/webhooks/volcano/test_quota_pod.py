"""Cached pods keep only what quotas count, and share equal values."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core.quota_scopes import ScopeAttributes
from quorate.webhooks.volcano.quota_pod import QuotaPod, pod_quota_usage, scope_attributes

NAMES = ("quorate", "volcano")


def a_pod(name: str = "p", cpu: str = "500m", group: str = "a", **spec: Any) -> QuotaPod:
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    body = {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": name,
            "labels": {"app": name},
            "annotations": {"scheduling.k8s.io/group-name": group, "note": name},
        },
        "spec": {"schedulerName": "volcano", "containers": [container], **spec},
    }
    return codec.decode(QuotaPod, codec.encode(body))


def test_a_cached_pod_shares_values_with_equal_pods() -> None:
    one, other = a_pod("p", nodeName="n1"), a_pod("q", nodeName="n2")
    assert one.spec is other.spec
    assert one.metadata.labels == {}
    assert one.metadata.annotations == {"scheduling.k8s.io/group-name": "a"}
    assert pod_quota_usage(one, NAMES).usage is pod_quota_usage(other, NAMES).usage


def test_a_pod_that_names_many_resources_is_not_kept_for_others() -> None:
    requests = {f"example.com/{number}": "1" for number in range(100)}
    containers = [{"name": "c", "resources": {"requests": requests}}]
    one, other = (pod_quota_usage(a_pod(name, containers=containers), NAMES).usage for name in "pq")
    assert one == other
    assert one is not other


def test_usage_is_by_normalized_name_in_base_units() -> None:
    use = pod_quota_usage(a_pod(), NAMES)
    assert use.usage == {"cpu": 500, "pods": 1, "count/pods": 1}
    assert (use.group, use.attributes, use.terminated) == ("a", ScopeAttributes(best_effort=False), False)


def test_a_pod_resized_in_place_uses_what_it_has_not_released() -> None:
    pod = a_pod()
    current = {"name": "c", "resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "1"}}
    conditions = [{"type": "Ready", "status": "True"}, {"type": "PodResizePending", "status": "True"}]
    status = {"conditions": conditions, "containerStatuses": [current]}
    body = {
        "metadata": codec.to_builtins(pod.metadata),
        "spec": codec.to_builtins(pod.spec),
        "status": status,
    }
    resized = codec.convert(QuotaPod, body)
    assert pod_quota_usage(resized, NAMES).usage["cpu"] == 2000
    assert [condition.type for condition in resized.status.conditions] == ["PodResizePending"]


def test_a_pod_of_another_scheduler_has_no_group() -> None:
    assert pod_quota_usage(a_pod(schedulerName="default-scheduler"), NAMES).group == ""


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, ScopeAttributes(), id="default"),
        pytest.param({"priorityClassName": "high"}, ScopeAttributes("high"), id="priority class"),
        pytest.param({"activeDeadlineSeconds": 0}, ScopeAttributes(terminating=True), id="deadline"),
        pytest.param({"containers": [{"name": "c"}]}, ScopeAttributes(best_effort=True), id="no requests"),
        pytest.param(
            {"containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "1", "cpu": "0"}}}]},
            ScopeAttributes(best_effort=True),
            id="requests only other resources",
        ),
        pytest.param(
            {"containers": [{"name": "c"}], "initContainers": [{"resources": {"limits": {"memory": "1"}}}]},
            ScopeAttributes(),
            id="requests of an init container",
        ),
    ],
)
def test_attributes_for_quota_scopes(spec: dict[str, Any], want: ScopeAttributes) -> None:
    assert scope_attributes(a_pod(**spec).spec) == want
