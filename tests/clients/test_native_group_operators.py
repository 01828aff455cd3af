"""Operators with pods in pod groups of Kubernetes: queued jobs of theirs are counted once."""

from pathlib import Path

import pytest

from quorate.testing.server import LocalCluster
from tests.clients.operators import BUILT_WITHIN_S, running
from tests.e2e.queue_manifests import queue_of_one_cpu

JOB_SET = """
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {name: ring}
spec: {schedulingPolicy: {gang: {minCount: 4}}}
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, labels: {kueue.x-k8s.io/queue-name: research}}
spec:
  suspend: true
  replicatedJobs:
  - name: workers
    replicas: 2
    template:
      spec:
        parallelism: 2
        completions: 2
        template:
          metadata:
            labels: {kueue.x-k8s.io/queue-name: research}
            annotations: {simulate.quorate.dev/duration: 1s}
          spec:
            schedulingGroup: {podGroupName: ring}
            schedulerName: quorate
            restartPolicy: Never
            containers: [{name: main, image: train, resources: {requests: {cpu: 250m}}}]
"""


@pytest.mark.timeout(BUILT_WITHIN_S + 120)
@pytest.mark.quorate(cpu="8", configuration="deploy/configuration.yaml")
def test_a_job_set_in_a_native_group_is_counted_once(quorate_cluster: LocalCluster) -> None:
    assert quorate_cluster.kubeconfig is not None
    quorate_cluster.apply(queue_of_one_cpu("research"))
    with running("jobset", Path(quorate_cluster.kubeconfig)):
        quorate_cluster.apply(JOB_SET)
        quorate_cluster.wait_for("jobset", "train", "condition=Completed")
        (workload,) = quorate_cluster.list("workloads.kueue.x-k8s.io")
        assert [pod_set["count"] for pod_set in workload["spec"]["podSets"]] == [4]
        pods = quorate_cluster.list("pods")
        assert [pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods] == ["ring"] * 4
