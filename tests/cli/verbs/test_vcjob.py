"""The file of ``quorate vcjob run -f`` holds one Volcano Job."""

from pathlib import Path

import pytest

from quorate.cli.verbs.vcjob import job_in
from quorate.inspect.configuration_files import InvalidFiles

JOB = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: a}\n"


def test_the_job_of_a_file() -> None:
    assert job_in(Path("job.yaml"), f"---\n{JOB}")["metadata"] == {"name": "a"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("", "job.yaml:1: is not one Volcano Job", id="empty"),
        pytest.param(f"{JOB}---\n{JOB}", "is not one Volcano Job", id="two documents"),
        pytest.param("- a", "is not one Volcano Job", id="a list"),
        pytest.param("kind: Job", "is not one Volcano Job", id="no metadata"),
        pytest.param(JOB.replace("kind: Job", "kind: Queue"), "Queue is no Volcano Job", id="another kind"),
        pytest.param(
            JOB.replace("batch.volcano.sh/v1alpha1", "batch/v1"), "batch/v1 Job is no", id="another group"
        ),
        pytest.param("a: {", "job.yaml:1: ", id="no YAML"),
    ],
)
def test_other_files_are_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidFiles) as refusal:
        job_in(Path("job.yaml"), text)
    assert problem in str(refusal.value)
