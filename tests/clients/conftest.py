"""``make test-clients``: other clients on local clusters.  Without ``--clients`` none is installed."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from quorate.testing.server import LocalCluster

OPTION = "--clients"
QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: research}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: 1}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: research, namespace: default}
spec: {clusterQueue: research}
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, action="store_true", help="install other Kubernetes clients and run their tests")


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    return None if config.getoption(OPTION, default=False) else True


@pytest.fixture
def queue(quorate_cluster: "LocalCluster") -> "LocalCluster":
    """Return a fresh cluster with local queue ``research``, which has 1 cpu."""
    quorate_cluster.apply(QUEUES)
    return quorate_cluster
