"""The job and the workload of the example run one after the other, each whole."""

from pathlib import Path

import pytest

from tests.e2e.commands import cluster, kubectl, needs_kubectl, poll, rows

EXAMPLE = Path(__file__).parents[2] / "examples" / "native-groups"


def test_the_readme_lists_all_files() -> None:
    readme = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in sorted(EXAMPLE.glob("*.yaml")) if f"`{path.name}`" not in readme] == []


@pytest.mark.slow
@needs_kubectl()
def test_the_examples_complete_one_after_the_other(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with cluster(data, "--nodes", "2", "--node-cpu", "4", "--config", str(EXAMPLE / "controllers.yaml")):
        kubectl(data, "create", "-f", str(EXAMPLE / "queues.yaml"))
        jobs = ("-f", str(EXAMPLE / "1-job.yaml"), "-f", str(EXAMPLE / "2-workload.yaml"))
        kubectl(data, "create", *jobs)

        def scheduled() -> dict[str, str]:
            groups = rows(kubectl(data, "get", "podgroups.scheduling.k8s.io"))
            return {group[0]: group[3] for group in groups}

        def workloads() -> list[tuple[str, ...]]:
            listed = rows(kubectl(data, "get", "workloads.kueue.x-k8s.io"))
            return sorted((name.split("-")[1], *columns[:3]) for name, *columns in listed)

        poll(scheduled, lambda found: set(found.values()) == {"Scheduled"} and len(found) == 3, 60)
        poll(workloads, lambda found: len(found) == 2 and all("True" in row for row in found), 60)
        poll(
            lambda: [row[2] for row in rows(kubectl(data, "get", "pods"))],
            lambda found: found == ["Completed"] * 6,
            60,
        )
