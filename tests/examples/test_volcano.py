"""The examples of Volcano Jobs are valid, and complete on a local cluster."""

from pathlib import Path
from typing import Any

import pytest

from quorate.api.codec import convert
from quorate.api.decoding.documents import read_documents
from quorate.api.validation.volcano_jobs import volcano_job_findings
from quorate.api.volcano.job import Job, with_defaults
from quorate.controllers.volcano.job.plugins import plugins_of
from tests.e2e.commands import cluster, kubectl, needs_kubectl, poll, rows

EXAMPLE = Path(__file__).parents[2] / "examples" / "volcano"
JOBS = ("mpi.yaml", "pytorch.yaml", "retries.yaml")


def objects_of(name: str) -> list[dict[str, Any]]:
    documents = read_documents((EXAMPLE / name).read_text(encoding="utf-8"))
    assert not any(document.findings for document in documents)
    return [document.value for document in documents]


def test_the_readme_lists_all_files() -> None:
    readme = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in sorted(EXAMPLE.glob("*.yaml")) if f"`{path.name}`" not in readme] == []


@pytest.mark.parametrize("name", JOBS)
def test_a_job_is_valid_and_its_plugins_are_known(name: str) -> None:
    (value,) = objects_of(name)
    job = with_defaults(convert(Job, value))
    assert list(volcano_job_findings(job)) == []
    assert plugins_of(job)[1] == []


@pytest.mark.slow
@needs_kubectl()
def test_the_examples_complete(tmp_path: Path) -> None:
    with cluster(tmp_path / "data", "--nodes", "2", "--node-cpu", "8", "--speed", "4"):
        kubectl(tmp_path / "data", "create", "-f", str(EXAMPLE))

        def phases() -> dict[str, str]:
            jobs = rows(kubectl(tmp_path / "data", "get", "vcjob"))
            (batch,) = rows(kubectl(tmp_path / "data", "get", "job", "whole"))
            return {**{job[0]: job[1] for job in jobs}, batch[0]: batch[1]}

        ended = dict.fromkeys(("mpi", "pytorch", "retries"), "Completed") | {"whole": "Complete"}
        poll(phases, lambda found: found == ended, 60)
