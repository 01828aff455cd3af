"""Validation of jobs: creation, updates, status; cases list field and reason."""

from typing import Any

import pytest

from quorate.local.server.registry.validation.workloads import count_indexes
from tests.local.server.validation.objects import a_container, a_job, show
from tests.local.server.validation.strategies import STRATEGIES

Json = dict[str, Any]
JOB = STRATEGIES["jobs.batch"]


@pytest.mark.parametrize(
    ("job", "want"),
    [
        pytest.param(a_job(), [], id="a valid object"),
        pytest.param(
            a_job(template={"restartPolicy": "Always"}),
            ["spec.template.spec.restartPolicy Required"],
            id="restartPolicy Always",
        ),
        pytest.param(
            a_job(completionMode="Indexed", parallelism=2),
            ["spec.completions Required"],
            id="an indexed job without completions",
        ),
        pytest.param(a_job(parallelism=-1), ["spec.parallelism Invalid"], id="negative"),
        pytest.param(
            a_job(backoffLimitPerIndex=1),
            ["spec.backoffLimitPerIndex Invalid"],
            id="a backoff limit per index without indexes",
        ),
    ],
)
def test_jobs(job: Json, want: list[str]) -> None:
    assert show(JOB.validate(job)) == want


ELSEWHERE: Json = {"nodeSelector": {"zone": "b"}}
INDEXED: Json = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(
            a_job(suspend=True),
            a_job(suspend=False, template=ELSEWHERE),
            [],
            id="scheduling directives change as a suspended job starts",
        ),
        pytest.param(
            a_job(),
            a_job(template=ELSEWHERE),
            ["spec.template Invalid"],
            id="not after it has started",
        ),
        pytest.param(
            a_job(suspend=True, status={"startTime": "2024-01-01T00:00:00Z", "active": 1}),
            a_job(suspend=True, template=ELSEWHERE),
            ["spec.template Invalid"],
            id="nor while its pods still run",
        ),
        pytest.param(
            a_job(suspend=True),
            a_job(suspend=True, template={"containers": [a_container(image="c")]}),
            ["spec.template.spec Invalid"],
            id="the image is immutable",
        ),
        pytest.param(
            a_job(**INDEXED),
            a_job(**INDEXED | {"completions": 5, "parallelism": 5}),
            [],
            id="completions of an elastic indexed job",
        ),
        pytest.param(
            a_job(**INDEXED),
            a_job(**INDEXED | {"completions": 5}),
            ["spec.completions Invalid"],
            id="only together with parallelism",
        ),
    ],
)
def test_job_updates(old: Json, new: Json, want: list[str]) -> None:
    assert show(JOB.validate_update(new, old)) == want


def failing(**rule: Any) -> Json:
    return {"podFailurePolicy": {"rules": [{"action": "FailJob"} | rule]}}


def exiting(*values: int, **more: str) -> Json:
    return failing(onExitCodes={"operator": "In", "values": list(values)} | more)


def succeeding(**rule: Any) -> Json:
    return INDEXED | {"successPolicy": {"rules": [rule]}}


RULE = "spec.podFailurePolicy.rules[0]"
SUCCESS = "spec.successPolicy.rules[0]"


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"managedBy": "unqualified"}, "spec.managedBy Invalid"),
        ({"managedBy": f"a.b/{'c' * 63}"}, "spec.managedBy TooLong"),
        ({"completionMode": "X"}, "spec.completionMode NotSupported"),
        ({"podReplacementPolicy": "X"}, "spec.podReplacementPolicy NotSupported"),
        (INDEXED | {"parallelism": 100_001}, "spec.parallelism Invalid"),
        (INDEXED | {"maxFailedIndexes": 1}, "spec.backoffLimitPerIndex Required"),
        (INDEXED | {"backoffLimitPerIndex": 1, "maxFailedIndexes": 4}, "spec.maxFailedIndexes Invalid"),
        (INDEXED | {"backoffLimitPerIndex": 1, "completions": 100_001}, "spec.maxFailedIndexes Required"),
        (exiting(1, 3), ""),
        (exiting(), f"{RULE}.onExitCodes.values Invalid"),
        (exiting(0), f"{RULE}.onExitCodes.values[0] Invalid"),
        (exiting(3, 3), f"{RULE}.onExitCodes.values[1] Duplicate"),
        (exiting(3, 1), f"{RULE}.onExitCodes.values Invalid"),
        (exiting(1, containerName="other"), f"{RULE}.onExitCodes.containerName Invalid"),
        (exiting(1, operator="Not"), f"{RULE}.onExitCodes.operator NotSupported"),
        (failing(), f"{RULE} Invalid"),
        (failing(action="FailIndex", onPodConditions=[{"type": "a"}]), f"{RULE}.action Invalid"),
        (failing(action="Panic", onPodConditions=[{"type": "a"}]), f"{RULE}.action NotSupported"),
        (failing(onPodConditions=[{"type": ""}]), f"{RULE}.onPodConditions[0].type Invalid"),
        (succeeding(succeededIndexes="0,2"), ""),
        (succeeding(), f"{SUCCESS} Required"),
        (succeeding(succeededIndexes="3"), f"{SUCCESS}.succeededIndexes Invalid"),
        (succeeding(succeededCount=4), f"{SUCCESS}.succeededCount Invalid"),
        (succeeding(succeededCount=2, succeededIndexes="1"), f"{SUCCESS}.succeededCount Invalid"),
        ({"successPolicy": {}}, "spec.successPolicy Invalid"),
    ],
)
def test_job_specs(spec: Json, want: str) -> None:
    assert [*dict.fromkeys(show(JOB.validate(a_job(**spec))))][:1] == ([want] if want else [])


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param({}, {"managedBy": "a.b/c"}, ["spec.managedBy Invalid"], id="managedBy is immutable"),
        pytest.param({}, {"completions": 2}, ["spec.completions Invalid"], id="completions are immutable"),
        pytest.param(
            {"completions": 3},
            {"parallelism": 2, "backoffLimit": 1},
            [],
            id="parallelism and backoffLimit are mutable",
        ),
    ],
)
def test_mutable_fields_of_a_job(old: Json, new: Json, want: list[str]) -> None:
    assert show(JOB.validate_update(a_job(**old | new), a_job(**old))) == want


def test_the_template_of_a_job_is_mutable_once_it_is_suspended() -> None:
    started = {"startTime": "2024-01-01T00:00:00Z"}
    stopped = started | {"conditions": [{"type": "Suspended", "status": "True"}]}
    for status, want in ((started, ["spec.template Invalid"]), (stopped, [])):
        old, new = a_job(suspend=True, status=status), a_job(suspend=True, template=ELSEWHERE)
        assert show(JOB.validate_update(new, old)) == want


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("0", 1), ("0,2-4", 4), ("2,1", None), ("4-2", None), ("9", None), ("a", None)],
)
def test_indexes_are_increasing_and_below_completions(text: str, count: int | None) -> None:
    if count is None:
        with pytest.raises(ValueError, match=r"is not below|does not rise|is no index"):
            count_indexes(text, 9)
    else:
        assert count_indexes(text, 9) == count


def a_status(*conditions: str, **fields: Any) -> Json:
    return {"conditions": [{"type": name, "status": "True"} for name in conditions]} | fields


T1, T2 = "2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"
COMPLETE = a_status("SuccessCriteriaMet", "Complete", startTime=T1, completionTime=T2, succeeded=1)


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param({}, COMPLETE, [], id="a job completes"),
        pytest.param({}, a_status("FailureTarget", "Failed", startTime=T1), [], id="a job fails"),
        pytest.param(
            {"startTime": T1, "active": 2},
            a_status("Complete", startTime=T1, active=2),
            ["status.conditions Invalid", "status.completionTime Required", "status.active Invalid"],
            id="all inconsistencies are reported",
        ),
        pytest.param(
            COMPLETE,
            a_status(succeeded=1, startTime=T1),
            ["status.conditions Invalid"] * 2,
            id="a terminal condition cannot be removed",
        ),
        pytest.param({}, {"active": -1}, ["status.active Invalid"], id="negative"),
        pytest.param(
            {"active": 2},
            {"active": 2, "ready": 3},
            ["status.ready Invalid"],
            id="more ready than active pods",
        ),
        pytest.param(
            {"failed": 2}, {"failed": 1}, ["status.failed Invalid"], id="the failed counter cannot decrease"
        ),
        pytest.param(
            {"startTime": T1}, {"startTime": T2}, ["status.startTime Invalid"], id="startTime is immutable"
        ),
        pytest.param({"startTime": T1}, {}, ["status.startTime Invalid"], id="startTime cannot be removed"),
        pytest.param(
            {},
            {"completedIndexes": "0"},
            ["status.completedIndexes Invalid"],
            id="completed indexes of a job without indexes",
        ),
        pytest.param(
            {},
            {"uncountedTerminatedPods": {"succeeded": ["u"], "failed": ["u"]}},
            ["status.uncountedTerminatedPods.failed[0] Duplicate"],
            id="a pod counted twice",
        ),
    ],
)
def test_job_statuses(old: Json, new: Json, want: list[str]) -> None:
    assert show(JOB.validate_status(a_job(status=new), a_job(status=old))) == want


def test_a_suspended_job_may_lose_its_start_time() -> None:
    old, new = a_job(suspend=True, status={"startTime": T1}), a_job(suspend=True)
    assert JOB.validate_status(new, old) == []
