"""What jobs refuse, each case by field and reason: new ones, updates, status."""

from typing import Any

import pytest

from quorate.local.server.registry.strategies import STRATEGIES
from quorate.local.server.registry.validation.workloads import count_indexes
from tests.local.server.validation.objects import a_container, a_job, show

Json = dict[str, Any]
JOB = STRATEGIES["jobs.batch"]


@pytest.mark.parametrize(
    ("job", "want"),
    [
        pytest.param(a_job(), [], id="nothing wrong"),
        pytest.param(
            a_job(template={"restartPolicy": "Always"}),
            ["spec.template.spec.restartPolicy Required"],
            id="pods that never end",
        ),
        pytest.param(
            a_job(completionMode="Indexed", parallelism=2),
            ["spec.completions Required"],
            id="how many indexes",
        ),
        pytest.param(a_job(parallelism=-1), ["spec.parallelism Invalid"], id="negative"),
        pytest.param(
            a_job(backoffLimitPerIndex=1),
            ["spec.backoffLimitPerIndex Invalid"],
            id="indexes of no indexed job",
        ),
    ],
)
def test_a_job(job: Json, want: list[str]) -> None:
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
            id="a suspended job is sent elsewhere as it starts",
        ),
        pytest.param(
            a_job(),
            a_job(template=ELSEWHERE),
            ["spec.template Invalid"],
            id="a started job stays where it is",
        ),
        pytest.param(
            a_job(suspend=True, status={"startTime": "2024-01-01T00:00:00Z", "active": 1}),
            a_job(suspend=True, template=ELSEWHERE),
            ["spec.template Invalid"],
            id="and one whose pods still run",
        ),
        pytest.param(
            a_job(suspend=True),
            a_job(suspend=True, template={"containers": [a_container(image="c")]}),
            ["spec.template.spec Invalid"],
            id="what runs never changes",
        ),
        pytest.param(
            a_job(**INDEXED),
            a_job(**INDEXED | {"completions": 5, "parallelism": 5}),
            [],
            id="an indexed job grows",
        ),
        pytest.param(
            a_job(**INDEXED),
            a_job(**INDEXED | {"completions": 5}),
            ["spec.completions Invalid"],
            id="with its parallelism only",
        ),
    ],
)
def test_a_jobs_update(old: Json, new: Json, want: list[str]) -> None:
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
        ({"managedBy": "nobody"}, "spec.managedBy Invalid"),
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
def test_a_jobs_spec(spec: Json, want: str) -> None:
    assert [*dict.fromkeys(show(JOB.validate(a_job(**spec))))][:1] == ([want] if want else [])


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param({}, {"managedBy": "a.b/c"}, ["spec.managedBy Invalid"], id="who runs it"),
        pytest.param({}, {"completions": 2}, ["spec.completions Invalid"], id="how much there is to do"),
        pytest.param(
            {"completions": 3},
            {"parallelism": 2, "backoffLimit": 1},
            [],
            id="how much at once, how often again",
        ),
    ],
)
def test_what_may_change_in_a_job(old: Json, new: Json, want: list[str]) -> None:
    assert show(JOB.validate_update(a_job(**old | new), a_job(**old))) == want


def test_a_job_that_ran_is_sent_elsewhere_once_it_says_that_it_is_suspended() -> None:
    started = {"startTime": "2024-01-01T00:00:00Z"}
    stopped = started | {"conditions": [{"type": "Suspended", "status": "True"}]}
    for status, want in ((started, ["spec.template Invalid"]), (stopped, [])):
        old, new = a_job(suspend=True, status=status), a_job(suspend=True, template=ELSEWHERE)
        assert show(JOB.validate_update(new, old)) == want


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("0", 1), ("0,2-4", 4), ("2,1", None), ("4-2", None), ("9", None), ("a", None)],
)
def test_indexes_rise_and_stay_below_the_completions(text: str, count: int | None) -> None:
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
        pytest.param({}, a_status("FailureTarget", "Failed", startTime=T1), [], id="or fails"),
        pytest.param(
            {"startTime": T1, "active": 2},
            a_status("Complete", startTime=T1, active=2),
            ["status.conditions Invalid", "status.completionTime Required", "status.active Invalid"],
            id="all that is missing is told",
        ),
        pytest.param(
            COMPLETE, a_status(succeeded=1, startTime=T1), ["status.conditions Invalid"] * 2, id="it stays so"
        ),
        pytest.param({}, {"active": -1}, ["status.active Invalid"], id="negative"),
        pytest.param(
            {"active": 2}, {"active": 2, "ready": 3}, ["status.ready Invalid"], id="ready, not active"
        ),
        pytest.param(
            {"failed": 2}, {"failed": 1}, ["status.failed Invalid"], id="failures are not forgotten"
        ),
        pytest.param(
            {"startTime": T1}, {"startTime": T2}, ["status.startTime Invalid"], id="it started once"
        ),
        pytest.param({"startTime": T1}, {}, ["status.startTime Invalid"], id="and did start"),
        pytest.param(
            {}, {"completedIndexes": "0"}, ["status.completedIndexes Invalid"], id="no indexes here"
        ),
        pytest.param(
            {},
            {"uncountedTerminatedPods": {"succeeded": ["u"], "failed": ["u"]}},
            ["status.uncountedTerminatedPods.failed[0] Duplicate"],
            id="a pod ends once",
        ),
    ],
)
def test_a_jobs_status(old: Json, new: Json, want: list[str]) -> None:
    assert show(JOB.validate_status(a_job(status=new), a_job(status=old))) == want


def test_a_suspended_job_forgets_when_it_started() -> None:
    old, new = a_job(suspend=True, status={"startTime": T1}), a_job(suspend=True)
    assert JOB.validate_status(new, old) == []
