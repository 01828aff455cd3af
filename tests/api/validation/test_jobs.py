"""Validation of the labels and annotations of jobs at creation and update."""

import msgspec
import pytest

from quorate.api import codec
from quorate.api.meta import ObjectMeta
from quorate.api.validation.jobs import JobInfo, job_findings, job_update_findings
from tests import fast_yaml

OWN = "kueue.x-k8s.io"
QUEUE = f"metadata.labels[{OWN}/queue-name]"
PREBUILT = f"metadata.labels[{OWN}/prebuilt-workload-name]"
LIMIT = f"metadata.labels[{OWN}/max-exec-time-seconds]"
CLASS = f"metadata.labels[{OWN}/priority-class]"
ELASTIC = f"metadata.annotations[{OWN}/elastic-job]"


def a_job(text: str, kind: str = "Job") -> JobInfo:
    """Build a job from ``queue-name: q, suspend: true``; annotations have the prefix ``a:``."""
    given = {name: str(value) for name, value in (fast_yaml.load(f"{{{text}}}") or {}).items()}
    suspended = given.pop("suspend", "True") == "True"
    labels = {f"{OWN}/{name}": value for name, value in given.items() if not name.startswith("a:")}
    annotations = {f"{OWN}/{name[2:]}": value for name, value in given.items() if name.startswith("a:")}
    metadata = codec.convert(ObjectMeta, {"name": "j", "labels": labels, "annotations": annotations})
    able = kind == "Job"
    queue = labels.get(f"{OWN}/queue-name", "")
    return JobInfo(kind, metadata, queue, suspended, supports_prebuilt=able, supports_elastic=able)


@pytest.mark.parametrize(
    ("kind", "text", "want"),
    [
        pytest.param("Job", "", [], id="no Kueue labels"),
        pytest.param(
            "Job", "queue-name: q, max-exec-time-seconds: 10, a:elastic-job: 'true'", [], id="all labels"
        ),
        pytest.param(
            "Job", "queue-name: '@q', prebuilt-workload-name: A_b",
            [
                f"{QUEUE}: '@q' is not the name of a LocalQueue (lower case letters, digits, '-' and '.')",
                f"{PREBUILT}: 'A_b' is not the name of a Workload (lower case letters, digits, '-' and '.')",
            ], id="invalid names",
        ),
        pytest.param(
            "Job", "queue-name: ''",
            [f"{QUEUE}: '' is empty (name a LocalQueue, or leave the label out)"], id="an empty queue name",
        ),
        pytest.param(
            "SparkApplication", "prebuilt-workload-name: w, a:elastic-job: 'true'",
            [
                f"{PREBUILT}: 'w' is not supported for kind SparkApplication (leave it out)",
                f"{ELASTIC}: 'true' is not supported for kind SparkApplication (leave it out)",
            ], id="features that the kind lacks",
        ),
        pytest.param(
            "Job", "max-exec-time-seconds: 0",
            [f"{LIMIT}: '0' is not a number of seconds (write 1 or more)"], id="a time limit of zero",
        ),
        pytest.param(
            "Job", "max-exec-time-seconds: ten",
            [f"{LIMIT}: 'ten' is not a number of seconds (write 1 or more)"], id="a time limit in words",
        ),
        pytest.param(
            "Job", "a:admission-gated-by: plain",
            [
                f"metadata.annotations[{OWN}/admission-gated-by]: 'plain' is not a gate "
                "(write example.com/name, at most 63 characters)"
            ], id="a gate",
        ),
    ],
)  # fmt: skip
def test_a_new_job(kind: str, text: str, want: list[str]) -> None:
    assert [str(finding) for finding in job_findings(a_job(text, kind))] == want


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param("queue-name: q", "queue-name: r", [], id="another queue while suspended"),
        pytest.param(
            "queue-name: q", "queue-name: r, suspend: false",
            [f"{QUEUE}: 'r' cannot change while the job is not suspended (it was q)"],
            id="another queue while starting",
        ),
        pytest.param("queue-name: q, suspend: false", "queue-name: r", [], id="another queue while stopping"),
        pytest.param(
            "queue-name: q", "queue-name: '@r'",
            [f"{QUEUE}: '@r' is not the name of a LocalQueue (lower case letters, digits, '-' and '.')"],
            id="an invalid name",
        ),
        pytest.param(
            "queue-name: q", "",
            [f"{QUEUE}: '' is missing: queue-name must not be empty in namespace with default queue"],
            id="leaving the queue with a default queue",
        ),
        pytest.param(
            "suspend: false", "suspend: false, prebuilt-workload-name: w",
            [f"{PREBUILT}: 'w' cannot change while the job is not suspended (it was not set)"],
            id="a prebuilt workload while running",
        ),
        pytest.param("", "prebuilt-workload-name: w", [], id="a prebuilt workload while suspended"),
        pytest.param(
            "suspend: false", "max-exec-time-seconds: 5",
            [f"{LIMIT}: '5' cannot change while the job is not suspended (it was not set)"],
            id="a limit while stopping",
        ),
        pytest.param("", "max-exec-time-seconds: 5", [], id="a limit while suspended"),
        pytest.param(
            "suspend: false", "suspend: false, priority-class: high",
            [f"{CLASS}: 'high' cannot be added while the job is not suspended (suspend it first)"],
            id="a class while running",
        ),
        pytest.param(
            "priority-class: low, suspend: false", "priority-class: high, suspend: false", [],
            id="another class while running",
        ),
        pytest.param(
            "priority-class: low", "",
            [f"{CLASS}: '' cannot be taken away (it was low; name another class)"], id="removing the class",
        ),
        pytest.param(
            "a:elastic-job: 'true'", "", [f"{ELASTIC}: null cannot change (it was true)"],
            id="no longer elastic",
        ),
    ],
)  # fmt: skip
def test_an_update_of_a_job(old: str, new: str, want: list[str]) -> None:
    findings = job_update_findings(a_job(old), a_job(new), has_default_queue=True)
    assert [str(finding) for finding in findings] == want


def test_a_job_may_leave_its_queue_without_a_default_queue() -> None:
    assert not list(job_update_findings(a_job("queue-name: q"), a_job(""), has_default_queue=False))


TIMEOUTS = "kueue.x-k8s.io/wait-for-pods-ready"


def with_timeouts(text: str | None, *, suspended: bool, longest_s: float | None = 60.0) -> JobInfo:
    job = a_job("queue-name: q")
    metadata = msgspec.structs.replace(job.metadata, annotations={TIMEOUTS: text} if text else {})
    return msgspec.structs.replace(job, metadata=metadata, suspended=suspended, longest_timeout_s=longest_s)


@pytest.mark.parametrize(
    ("text", "longest_s", "rule"),
    [
        pytest.param('{"timeoutSeconds": 60}', 60.0, "", id="as long as allowed"),
        pytest.param(
            '{"timeoutSeconds": 9, "recoveryTimeoutSeconds": 61}',
            60.0,
            "is more than maxTimeoutOnWorkload, which is 60s (write less)",
            id="too long",
        ),
        pytest.param("soon", 60.0, "is not valid: JSON is malformed", id="not JSON"),
        pytest.param("soon", None, "", id="without the gate"),
    ],
)
def test_timeouts_of_a_new_job(text: str, longest_s: float | None, rule: str) -> None:
    found = [each.rule for each in job_findings(with_timeouts(text, suspended=True, longest_s=longest_s))]
    assert [each.startswith(rule) for each in found] == ([True] if rule else [])


def test_timeouts_change_only_while_the_job_is_suspended() -> None:
    def rules(new: str | None, *, suspended: bool) -> list[str]:
        old, changed = (with_timeouts(text, suspended=suspended) for text in ('{"timeoutSeconds": 9}', new))
        return [each.rule for each in job_update_findings(old, changed, has_default_queue=False)]

    was = 'cannot change while the job is not suspended (it was {"timeoutSeconds": 9})'
    assert rules('{"timeoutSeconds": 8}', suspended=True) == []
    assert rules('{"timeoutSeconds": 61}', suspended=True) != []
    assert rules(None, suspended=False) == rules('{"timeoutSeconds": 8}', suspended=False) == [was]


def test_a_running_elastic_job_may_change_its_prebuilt_workload() -> None:
    elastic = "a:elastic-job: 'true', suspend: false"
    changed = a_job(f"prebuilt-workload-name: w, {elastic}")
    assert not list(job_update_findings(a_job(elastic), changed, has_default_queue=False))
