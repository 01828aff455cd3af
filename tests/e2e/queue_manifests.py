"""Manifests of a queue that stories of several suites submit jobs to."""


def queue_of_one_cpu(local_queue: str) -> str:
    """Return a ClusterQueue ``research`` of 1 cpu, and its LocalQueue in namespace ``default``."""
    return f"""
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {{name: default}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: research}}
spec:
  namespaceSelector: {{}}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{{name: default, resources: [{{name: cpu, nominalQuota: 1}}]}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: {local_queue}, namespace: default}}
spec: {{clusterQueue: research}}
"""
