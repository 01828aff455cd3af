"""The pods that are deleted when their pod group is suspended."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.names.volcano import GROUP_NAME
from quorate.controllers.volcano.pod_groups.pod_group_controller import group_of_placed

OF_VOLCANO_JOB = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "1"}
OF_BATCH_JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1"}


def a_pod(
    group: str = "g", node: str = "n1", phase: str = "Running", owner: dict[str, Any] | None = None
) -> Pod:
    owners = [] if owner is None else [{**owner, "controller": True}]
    annotations = {GROUP_NAME: group} if group else {}
    metadata = {"name": "p", "namespace": "ns", "annotations": annotations, "ownerReferences": owners}
    spec = {"nodeName": node, "containers": []} if node else {"containers": []}
    return codec.decode(Pod, codec.encode({"metadata": metadata, "spec": spec, "status": {"phase": phase}}))


@pytest.mark.parametrize(
    ("pod", "jobs_are_queued", "want"),
    [
        pytest.param(a_pod(), True, True, id="a plain pod"),
        pytest.param(a_pod(owner=OF_BATCH_JOB), True, True, id="of a Job that names the group"),
        pytest.param(a_pod(node=""), True, False, id="without a node: it waits"),
        pytest.param(a_pod(phase="Succeeded"), True, False, id="it has ended"),
        pytest.param(a_pod(group=""), True, False, id="without a group"),
        pytest.param(
            a_pod(group="podgroup-1"), True, False, id="the group was made for the pod, and has an index"
        ),
        pytest.param(a_pod(owner=OF_VOLCANO_JOB), True, False, id="of a Volcano Job, which is queued"),
        pytest.param(a_pod(owner=OF_VOLCANO_JOB), False, True, id="of a Volcano Job: its group is queued"),
    ],
)
def test_pods_with_a_node_are_deleted(pod: Pod, jobs_are_queued: bool, want: bool) -> None:
    found = group_of_placed(pod, jobs_are_queued=jobs_are_queued)
    assert found == ((pod.group_key,) if want else ())
