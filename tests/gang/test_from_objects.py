"""The conversion of objects with missing or unknown values."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.volcano import Queue
from quorate.gang.cache.from_objects import differ_only_in_status, queue_from_object
from quorate.gang.cache.model import Model
from tests.gang import objects

PREEMPTABLE = "volcano.sh/preemptable"


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, "traverse", id="not set"),
        pytest.param({"dequeueStrategy": "fifo"}, "fifo", id="fifo"),
        pytest.param({"dequeueStrategy": "lifo"}, "traverse", id="a value that Volcano's definition permits"),
    ],
)
def test_only_the_strategy_fifo_keeps_the_order_of_a_queue(spec: dict[str, str], want: str) -> None:
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
        pytest.param("2", True, id="what was requested"),
        pytest.param("1", True, id="less than requested"),
        pytest.param("3", False, id="more than requested"),
    ],
)
def test_container_resources_matter_only_beyond_the_request(cpu: str, alike: bool) -> None:
    running = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    started = a_pod(phase="Running", containerStatuses=[running])
    assert differ_only_in_status(a_pod(), started) is alike
    assert differ_only_in_status(started, a_pod()) is alike


@pytest.mark.parametrize(
    ("annotations", "labels", "want"),
    [
        pytest.param({}, {}, True, id="neither"),
        pytest.param({}, {PREEMPTABLE: "false"}, False, id="a label alone"),
        pytest.param({PREEMPTABLE: "true"}, {PREEMPTABLE: "false"}, True, id="the annotation comes first"),
        pytest.param({PREEMPTABLE: "0"}, {}, False, id="false in a notation of Go"),
        pytest.param({PREEMPTABLE: "T"}, {}, True, id="true in a notation of Go"),
        pytest.param({PREEMPTABLE: "no"}, {}, False, id="what is neither protects"),
    ],
)
def test_annotation_or_label_say_whether_pods_and_groups_are_preemptable(
    annotations: dict[str, str], labels: dict[str, str], want: bool
) -> None:
    model, marks = Model(("volcano",)), {"annotations": annotations, "labels": labels}
    group = objects.pod_group({"name": "g", **marks})
    model.set_group(group)
    (pod,) = objects.pods({"name": "p", "group": "g", **marks}, {})
    model.set_pod(pod)
    gang = model.gangs[group.metadata.key]
    assert (gang.metadata.preemptable, gang.tasks[pod.metadata.key].preemptable) == (want, want)
