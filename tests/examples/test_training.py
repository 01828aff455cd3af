"""The training is preempted by a higher priority and goes on from its checkpoint."""

import io
import tempfile
from pathlib import Path

import pytest
from rich.console import Console

from quorate.api.decoding.documents import read_documents
from quorate.cli.run.command import run_directory
from quorate.cli.run.report import Completed
from quorate.kube.client import Client
from quorate.kube.resources import untyped
from quorate.processes.local.cluster_description import ClusterDescription
from quorate.processes.local.observation import ObservedCluster
from quorate.processes.local.pod_runtime import Runtime, RuntimeOptions
from tests.local.runtime.world import runs_in_namespaces

EXAMPLE = Path(__file__).parents[2] / "examples" / "training"
JOBS = untyped("batch", "v1", "jobs", "Job", True)


def copy_with_checkpoints(directory: Path, checkpoints: Path) -> None:
    directory.mkdir()
    for file in EXAMPLE.glob("*.yaml"):
        text = file.read_text().replace("/tmp/quorate-training", str(checkpoints))
        (directory / file.name).write_text(text)


def logs(directory: Path) -> str:
    return "".join(
        log.read_text() for log in directory.glob("quorate-run-*/runtime/pods/*/containers/worker/0.log")
    )


@pytest.mark.slow
@runs_in_namespaces
def test_training_resumes_after_a_preemption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    copy_with_checkpoints(tmp_path / "example", tmp_path / "checkpoints")
    [urgent] = read_documents((EXAMPLE / "later/urgent.yaml").read_text())
    seen: set[str] = set()

    async def observe(client: Client, cluster: ObservedCluster) -> None:
        seen.update(logs(tmp_path).splitlines())
        if "urgent" not in {job.name for job in cluster.jobs} and any("step 5:" in line for line in seen):
            await client.create(JOBS, urgent.value, "default")

    outcome = run_directory(
        tmp_path / "example",
        None,
        ClusterDescription(),
        1.0,
        200,
        Console(file=io.StringIO()),
        on_observed=observe,
        runtime_options=RuntimeOptions(Runtime.PROCESS),
    )
    assert isinstance(outcome.ending, Completed)
    assert {record.name for record in outcome.records} == {"train", "urgent"}
    lines = [line.split(" ", 3)[3] for line in seen]
    assert any(line.startswith("resumed from the checkpoint of step ") for line in lines)
    assert "trained" in lines
    [last] = {line for line in lines if line.startswith("step 60:")}
    assert float(last.split()[-1]) < 0.05
