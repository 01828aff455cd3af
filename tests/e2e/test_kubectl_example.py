"""The deadlock of the all-or-nothing example with the real kubectl."""

from pathlib import Path

import pytest

from tests.e2e.commands import EXAMPLE, cluster, kubectl, needs_kubectl, poll, rows

pytestmark = [
    pytest.mark.slow,
    needs_kubectl(),
]

WORKLOADS = "workloads.kueue.x-k8s.io"
NODES = ("--nodes", "2", "--node-memory", "4315648Ki")


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


def create(data_dir: Path, *names: str) -> None:
    for name in names:
        assert "created" in kubectl(data_dir, "create", "-f", str(EXAMPLE / f"{name}.yaml"))


def phases(data_dir: Path, job: str) -> list[str]:
    return [row[2] for row in rows(kubectl(data_dir, "get", "pods", "-l", f"job-name={job}"))]


def test_partial_gangs_deadlock_on_quota(data_dir: Path) -> None:
    without = str(EXAMPLE / "without-pods-ready.yaml")
    with cluster(data_dir, *NODES, "--config", without):
        create(data_dir, "cluster-queues", "1-quick-job", "2-job1", "3-job2")
        poll(
            lambda: phases(data_dir, "job1") + phases(data_dir, "job2"),
            lambda seen: seen.count("Running") == 26 and seen.count("Pending") == 14,
            within_s=30,
        )
        workloads = rows(kubectl(data_dir, "get", WORKLOADS))
        assert sorted(row[1:4] for row in workloads)[:2] == [["user-queue", "cluster-queue", "True"]] * 2

        wide = kubectl(data_dir, "get", "clusterqueue", "-o", "wide")
        assert wide.split()[:6] == ["NAME", "COHORT", "STRATEGY", "PENDING", "WORKLOADS", "ADMITTED"]
        assert "BestEffortFIFO" in wide

        described = kubectl(data_dir, "describe", WORKLOADS, workloads[0][0])
        assert "Quota reserved in ClusterQueue cluster-queue" in described
        assert "Nominal Quota:  16858Mi" in kubectl(data_dir, "describe", "clusterqueue", "cluster-queue")

        for name in ("1-quick-job", "2-job1", "3-job2"):
            assert "deleted" in kubectl(data_dir, "delete", "-f", str(EXAMPLE / f"{name}.yaml"))
        poll(lambda: rows(kubectl(data_dir, "get", "pods")), lambda seen: not seen, within_s=30)
        poll(
            lambda: rows(kubectl(data_dir, "get", WORKLOADS)),
            lambda seen: not seen,
            within_s=30,
        )
