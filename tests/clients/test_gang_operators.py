"""Operators that create PodGroups for the gang scheduler."""

from pathlib import Path

import pytest

from quorate.testing.server import LocalCluster
from tests.clients.operators import BUILT_WITHIN_S, running

RAY_CLUSTER = """
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: %s}
spec:
  headGroupSpec:
    rayStartParams: {}
    template: {spec: {containers: [{name: head, image: ray, resources: {requests: {cpu: 2}}}]}}
  workerGroupSpecs:
  - groupName: workers
    replicas: 2
    minReplicas: 2
    maxReplicas: 2
    rayStartParams: {}
    template: {spec: {containers: [{name: worker, image: ray, resources: {requests: {cpu: 2}}}]}}
"""


@pytest.mark.timeout(BUILT_WITHIN_S + 120)
@pytest.mark.quorate(cpu="8")
def test_all_pods_of_a_ray_cluster_start_or_none(quorate_cluster: LocalCluster) -> None:
    assert quorate_cluster.kubeconfig is not None
    with running("kuberay", Path(quorate_cluster.kubeconfig), "-batch-scheduler=volcano"):
        quorate_cluster.apply(RAY_CLUSTER % "first")
        quorate_cluster.wait_for("raycluster", "first", "status.state=ready")
        quorate_cluster.apply(RAY_CLUSTER % "second")
        group = quorate_cluster.wait_for("podgroup", "ray-second-pg", "status.phase=Pending")
        assert group is not None
        assert group["spec"]["minMember"] == 3
        pods = quorate_cluster.list("pods", label_selector="ray.io/cluster=second")
        assert not any(pod["spec"].get("nodeName") for pod in pods), "2 cpu are free, and 6 are needed"
        quorate_cluster.delete("raycluster", "first")
        quorate_cluster.wait_for("raycluster", "second", "status.state=ready")
