"""What pod sets request of a topology, as the API stores it."""

import msgspec

from quorate.api.kueue import PodSet, PodSetAssignment
from quorate.api.kueue.topology import PodSetTopologyRequest


def test_a_request_keeps_the_labels_that_rank_its_pods() -> None:
    stored = {
        "required": "example.com/rack",
        "podIndexLabel": "batch.kubernetes.io/job-completion-index",
        "subGroupIndexLabel": "jobset.sigs.k8s.io/job-index",
        "subGroupCount": 3,
    }
    request = PodSetTopologyRequest(
        required="example.com/rack",
        pod_index_label="batch.kubernetes.io/job-completion-index",
        sub_group_index_label="jobset.sigs.k8s.io/job-index",
        sub_group_count=3,
    )
    assert msgspec.convert({"topologyRequest": stored}, PodSet).topology_request == request
    assert msgspec.to_builtins(request) == stored


def test_an_assignment_tells_whether_its_topology_is_delayed() -> None:
    assignment = msgspec.convert({"name": "main", "delayedTopologyRequest": "Pending"}, PodSetAssignment)
    assert assignment.delayed_topology_request == "Pending"
    assert msgspec.convert({"name": "main"}, PodSetAssignment).delayed_topology_request is None
