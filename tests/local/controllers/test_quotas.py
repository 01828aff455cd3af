"""How much of each limited name a namespace uses."""

import pytest

from quorate.api import codec
from quorate.api.core import Pod
from quorate.local.usage import usage


def a_pod(phase: str = "Running") -> Pod:
    amounts = {"requests": {"cpu": "500m", "memory": "1Gi", "gpu": "1"}, "limits": {"cpu": "2"}}
    wire = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "main", "resources": amounts}]},
        "status": {"phase": phase},
    }
    return codec.decode(Pod, codec.encode(wire))


PODS = [a_pod(), a_pod("Pending"), a_pod("Succeeded")]


@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param("pods", "2", id="pods that have not ended"),
        pytest.param("cpu", "1", id="plain names are requests"),
        pytest.param("requests.memory", "2Gi", id="requests"),
        pytest.param("requests.gpu", "2", id="requests of an extended resource"),
        pytest.param("limits.cpu", "4", id="limits"),
        pytest.param("limits.memory", "0", id="no limit at all"),
        pytest.param("configmaps", "7", id="objects by their old name"),
        pytest.param("count/jobs.batch", "3", id="objects of any kind"),
        pytest.param("count/secrets", "0", id="none of them"),
    ],
)
def test_usage(name: str, want: str) -> None:
    used = usage([name], PODS, {"configmaps": 7, "jobs.batch": 3})
    assert {limited: str(amount) for limited, amount in used.items()} == {name: want}


def test_what_nobody_counts_is_left_out() -> None:
    assert usage(["services.nodeports"], PODS, {}) == {}
