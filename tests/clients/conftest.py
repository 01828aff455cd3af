"""``make test-clients``: other clients on local clusters.  Without ``--clients`` none is installed."""

from typing import TYPE_CHECKING

import pytest

from tests.e2e.queue_manifests import queue_of_one_cpu

if TYPE_CHECKING:
    from quorate.testing.server import LocalCluster

OPTION = "--clients"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, action="store_true", help="install other Kubernetes clients and run their tests")


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    return None if config.getoption(OPTION, default=False) else True


@pytest.fixture
def queue(quorate_cluster: "LocalCluster") -> "LocalCluster":
    """Return a fresh cluster with local queue ``research``, which has 1 cpu."""
    quorate_cluster.apply(queue_of_one_cpu("research"))
    return quorate_cluster
