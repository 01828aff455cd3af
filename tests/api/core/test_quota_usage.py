"""Usage of resource quotas by one pod."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core import PodSpec
from quorate.api.core.pod_resources import quota_usage


def container(requests: dict[str, str], limits: dict[str, str] | None = None) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests, "limits": limits or {}}}


ONE_POD = {"pods": "1", "count/pods": "1"}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"containers": [container({})]}, {}, id="a pod without requests counts as one pod"),
        pytest.param(
            {"containers": [container({"cpu": "1", "memory": "1Gi"}, {"cpu": "2"}), container({"cpu": "1"})]},
            {
                "cpu": "2", "requests.cpu": "2", "limits.cpu": "2",
                "memory": "1Gi", "requests.memory": "1Gi",
            },
            id="requests under both names, limits where there are any",
        ),
        pytest.param(
            {"containers": [container({}, {"nvidia.com/gpu": "8"})]},
            {"nvidia.com/gpu": "8", "requests.nvidia.com/gpu": "8"},
            id="a device under both names, and never as a limit",
        ),
        pytest.param(
            {"containers": [container({"ephemeral-storage": "1Gi"}, {"ephemeral-storage": "2Gi"})]},
            {
                "ephemeral-storage": "1Gi", "requests.ephemeral-storage": "1Gi",
                "limits.ephemeral-storage": "2Gi",
            },
            id="storage of containers",
        ),
        pytest.param(
            {
                "overhead": {"cpu": "250m", "memory": "64Mi"},
                "containers": [container({"cpu": "1"}, {"cpu": "2"})],
            },
            {
                "cpu": "1250m", "requests.cpu": "1250m", "limits.cpu": "2250m",
                "memory": "64Mi", "requests.memory": "64Mi",
            },
            id="overhead adds to a limit but creates none",
        ),
    ],
)  # fmt: skip
def test_quota_usage(spec: dict[str, Any], want: dict[str, str]) -> None:
    usage = quota_usage(codec.convert(PodSpec, spec))
    assert codec.to_builtins(usage) == want | ONE_POD
