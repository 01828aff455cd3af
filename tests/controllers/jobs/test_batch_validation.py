"""Validation of the annotations of a batch Job."""

from typing import Any

import msgspec
import pytest

from quorate.api import codec
from quorate.api.batch import Job
from quorate.controllers.jobframework.interface import ValidationScope
from quorate.controllers.jobs.batch import BatchJob
from tests.controllers.objects import CONTAINER, a_job

MINIMUM = "kueue.x-k8s.io/job-min-parallelism"
SYNC = "kueue.x-k8s.io/job-completions-equal-parallelism"
SYNCED = {"completionMode": "Indexed", "completions": 3}


def findings_of(old: Job | None, new: Job, elastic: bool = False) -> list[str]:
    return [
        str(each) for each in BatchJob().findings(old, new, ValidationScope(queued=True, elastic=elastic))
    ]


def job(annotations: dict[str, str] | None = None, **spec: Any) -> Job:
    return a_job(annotations=annotations, **spec)


@pytest.mark.parametrize(
    ("annotations", "spec", "want"),
    [
        pytest.param({}, {}, [], id="no annotation"),
        pytest.param({MINIMUM: "2"}, {}, [], id="fewer pods"),
        pytest.param(
            {MINIMUM: "2"},
            {"completions": 2},
            ["2 should be between 1 and 1"],
            id="the minimum exceeds the completions",
        ),
        pytest.param({MINIMUM: "3"}, {}, ["3 should be between 1 and 2"], id="all pods"),
        pytest.param({MINIMUM: "0"}, {}, ["0 should be between 1 and 2"], id="no pods"),
        pytest.param({MINIMUM: "few"}, {}, ["'few' is not a whole number"], id="not a number"),
        pytest.param(
            {MINIMUM: "3000000000"}, {}, ["'3000000000' should be between 1 and 2"], id="above int32"
        ),
        pytest.param({SYNC: "T"}, SYNCED, [], id="as many completions as pods"),
        pytest.param({SYNC: "f"}, {}, [], id="the annotation is false"),
        pytest.param({SYNC: "yes"}, {}, ["'yes' is neither true nor false"], id="not a boolean"),
        pytest.param(
            {SYNC: "true"},
            {"completions": 3},
            ["'true' should not be enabled for NonIndexed jobs"],
            id="as many completions, not indexed",
        ),
        pytest.param(
            {SYNC: "true"},
            {**SYNCED, "completions": 4},
            [f"4 should be equal to parallelism when metadata.annotations[{SYNC}] is true"],
            id="more completions than pods",
        ),
    ],
)
def test_validation_of_a_new_job(annotations: dict[str, str], spec: dict[str, Any], want: list[str]) -> None:
    found = findings_of(None, job(annotations, **spec))
    assert [each.partition(": ")[2] for each in found] == want


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(
            job({MINIMUM: "2"}, suspend=False),
            job({MINIMUM: "2"}, suspend=False, parallelism=2),
            [
                "spec.parallelism: 2 cannot change when partial admission is enabled "
                "and the job is not suspended"
            ],
            id="a running partially admitted job keeps its size",
        ),
        pytest.param(
            job({MINIMUM: "2"}), job({MINIMUM: "2"}, parallelism=2), [], id="an unchanged minimum"
        ),
        pytest.param(
            job({MINIMUM: "2"}),
            job({MINIMUM: "5"}),
            [f"metadata.annotations[{MINIMUM}]: 5 should be between 1 and 2"],
            id="a changed minimum",
        ),
        pytest.param(
            job({SYNC: "true"}, suspend=False, **SYNCED),
            job({SYNC: "false"}, suspend=False, **SYNCED),
            [f"metadata.annotations[{SYNC}]: 'false' is immutable while the job is not suspended"],
            id="the annotation is immutable while the job runs",
        ),
        pytest.param(
            job({SYNC: "true"}, suspend=False, **SYNCED),
            job({SYNC: "false"}, **SYNCED),
            [],
            id="the annotation can be removed with the suspension",
        ),
    ],
)  # fmt: skip
def test_validation_of_an_update(old: Job, new: Job, want: list[str]) -> None:
    assert findings_of(old, new) == want


def test_an_elastic_job_has_neither_a_minimum_nor_a_topology() -> None:
    topology = "kueue.x-k8s.io/podset-required-topology"
    pods = {
        "metadata": {"annotations": {topology: "rack"}},
        "spec": {"containers": [CONTAINER]},
    }
    elastic = "kueue.x-k8s.io/elastic-job"
    assert findings_of(None, job({MINIMUM: "2"}), elastic=True) == [
        f"metadata.annotations[{MINIMUM}]: '2' cannot be used together with {elastic}"
    ]
    assert findings_of(None, a_job(template=msgspec.Raw(codec.encode(pods))), elastic=True) == [
        f"spec.template.metadata.annotations[{topology}]: 'rack' is not supported "
        f"together with metadata.annotations[{elastic}]"
    ]
