"""The example's jobs as processes: Python servers that call each other by name."""

import io
import tempfile
from pathlib import Path

import pytest
from rich.console import Console

from quorate.cli.run.command import run_directory
from quorate.cli.run.report import Completed, Outcome, TimedOut
from quorate.kube.client import Client
from quorate.processes.local.cluster_description import ClusterDescription
from quorate.processes.local.observation import ObservedCluster
from quorate.processes.local.pod_runtime import Runtime, RuntimeOptions
from tests.local.runtime.world import runs_in_namespaces

EXAMPLE = Path(__file__).parents[2] / "examples" / "all-or-nothing"

pytestmark = [pytest.mark.slow, runs_in_namespaces]


def run_example(
    configuration: str, timeout_s: float, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Outcome, list[str], ObservedCluster]:
    """Return the outcome, the first lines of workers 0 about all workers, and the last observation."""
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    messages: set[str] = set()
    seen: list[ObservedCluster] = []

    async def collect(client: Client, cluster: ObservedCluster) -> None:
        messages.update(messages_about_all(directory))
        seen[:] = [cluster]

    outcome = run_directory(
        EXAMPLE,
        EXAMPLE / configuration,
        ClusterDescription(),
        1.0,
        timeout_s,
        Console(file=io.StringIO()),
        on_observed=collect,
        runtime_options=RuntimeOptions(Runtime.PROCESS),
    )
    return outcome, sorted(message.rpartition(": ")[2] for message in messages), seen[0]


def messages_about_all(directory: Path) -> set[str]:
    """Return what workers have logged about all workers, with the directory of each."""
    found = set()
    for log in directory.glob("quorate-run-*/runtime/pods/*/containers/main/0.log"):
        lines = log.read_text().splitlines()
        found |= {f"{log.parent}: {line.split(':')[-1]}" for line in lines if "All workers" in line}
    return found


def test_both_jobs_complete_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome, messages, _ = run_example("with-pods-ready.yaml", 200, tmp_path, monkeypatch)
    assert isinstance(outcome.ending, Completed)
    assert messages == ["All workers running"] * 2 + ["All workers stopped"] * 2


@pytest.mark.long  # half a minute in which nothing changes
def test_without_pods_ready_neither_job_gets_all_of_its_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome, messages, cluster = run_example("without-pods-ready.yaml", 30, tmp_path, monkeypatch)
    assert isinstance(outcome.ending, TimedOut)
    assert outcome.ending.left == ("job1", "job2")
    assert messages == []
    running = {job.name: job.count.running for job in cluster.jobs}
    assert running["job1"] + running["job2"] == 26
    assert all(0 < running[name] < 20 for name in ("job1", "job2"))
