"""Manifests of queues that stories of several suites submit jobs to."""

from typing import Final

FLAVOR: Final = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
"""


def queue_of_one_cpu(local_queue: str) -> str:
    """Return a ClusterQueue ``research`` of 1 cpu, and its LocalQueue in namespace ``default``."""
    return f"{FLAVOR}---{cpu_queue('research', 1, f'default/{local_queue}')}"


def cpu_queue(name: str, cpu: int, *local_queues: str, field: str = "") -> str:
    """Return a ClusterQueue with quota of flavor ``default``, and its LocalQueues by ``NAMESPACE/NAME``.

    ``field`` is one more field of its spec.
    """
    cluster_queue = f"""
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: {name}}}
spec:
  namespaceSelector: {{}}
  {field}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{{name: default, resources: [{{name: cpu, nominalQuota: {cpu}}}]}}]
"""
    return "---".join((cluster_queue, *(_local_queue(key, name) for key in local_queues)))


def _local_queue(key: str, cluster_queue: str) -> str:
    namespace, _, name = key.partition("/")
    return f"""
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: {name}, namespace: {namespace}}}
spec: {{clusterQueue: {cluster_queue}}}
"""
