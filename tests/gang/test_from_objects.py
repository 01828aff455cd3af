"""What the objects of the API mean to the core where they say little, or what nobody knows."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core.scheduling import Pod
from quorate.api.volcano import Queue
from quorate.gang.cache.from_objects import differ_only_in_status, queue_from_object


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, "traverse", id="not said"),
        pytest.param({"dequeueStrategy": "fifo"}, "fifo", id="fifo"),
        pytest.param({"dequeueStrategy": "lifo"}, "traverse", id="what Volcano's definition lets through"),
    ],
)
def test_a_queue_is_kept_in_order_only_if_it_says_so(spec: dict[str, str], want: str) -> None:
    queue = codec.convert(Queue, {"metadata": {"name": "a"}, "spec": spec})
    assert queue_from_object(queue).dequeue == want


def a_pod(**status: Any) -> Pod:
    containers = [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]
    return codec.convert(
        Pod, {"metadata": {"name": "a"}, "spec": {"containers": containers}, "status": status}
    )


@pytest.mark.parametrize(
    ("cpu", "alike"),
    [
        pytest.param("2", True, id="what it asked for"),
        pytest.param("1", True, id="less, so that it may have more again"),
        pytest.param("3", False, id="more, until it is resized"),
    ],
)
def test_of_containers_it_matters_what_they_hold_beyond_what_is_asked(cpu: str, alike: bool) -> None:
    started = a_pod(phase="Running", containerStatuses=[{"name": "main", "allocatedResources": {"cpu": cpu}}])
    assert differ_only_in_status(a_pod(), started) is alike
    assert differ_only_in_status(started, a_pod()) is alike
