"""batch/v1 Job: pod sets, outcome, start and stop."""

import json
from typing import Any

import pytest

from quorate.api.core import Toleration
from quorate.api.kueue import PodSet
from quorate.controllers.jobframework.interface import Outcome, Stop
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo
from quorate.controllers.jobs.batch import BatchJob
from quorate.kube.writes import Patch
from tests.controllers.objects import STORED_LABELS, a_job, template

KIND = BatchJob()


@pytest.mark.parametrize(
    ("suspend", "stopping", "want"),
    [
        pytest.param(True, "", True, id="suspended"),
        pytest.param(False, "", False, id="running"),
        pytest.param(True, "true", False, id="a stop in progress"),
    ],
)
def test_is_suspended(suspend: bool, stopping: str, want: bool) -> None:
    annotations = {"kueue.x-k8s.io/stopping": stopping} if stopping else {}
    assert KIND.is_suspended(a_job(suspend=suspend, annotations=annotations)) is want


@pytest.mark.parametrize(
    ("parallelism", "completions", "want"),
    [
        pytest.param(3, None, 3, id="parallelism alone"),
        pytest.param(3, 10, 3, id="fewer parallel pods than completions"),
        pytest.param(3, 2, 2, id="not more than the completions"),
    ],
)
def test_the_count_is_the_number_of_parallel_pods(
    parallelism: int, completions: int | None, want: int
) -> None:
    spec: dict[str, Any] = {} if completions is None else {"completions": completions}
    (pod_set,) = KIND.pod_sets(a_job(parallelism=parallelism, **spec))
    assert (pod_set.name, pod_set.count) == ("main", want)


def test_the_pod_set_has_no_labels_that_identify_one_job() -> None:
    (pod_set,) = KIND.pod_sets(a_job(template=template({**STORED_LABELS, "team": "a"}, hostNetwork=True)))
    assert json.loads(bytes(pod_set.template)) == {
        "metadata": {"labels": {"batch.kubernetes.io/job-name": "train", "team": "a"}},
        "spec": {
            "containers": [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}],
            "hostNetwork": True,
        },
    }


def test_the_minimum_parallelism_is_the_min_count() -> None:
    def minimum(text: str) -> object:
        (pod_set,) = KIND.pod_sets(a_job(annotations={"kueue.x-k8s.io/job-min-parallelism": text}))
        return pod_set.min_count if isinstance(pod_set.min_count, int) else None

    assert (minimum("2"), minimum("two")) == (2, None)


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        pytest.param([], None, id="not yet"),
        pytest.param([("Complete", "True", "Reached")], Outcome(True, "Reached"), id="complete"),
        pytest.param([("Failed", "True", "Backoff")], Outcome(False, "Backoff"), id="failed"),
        pytest.param([("FailureTarget", "True", "Backoff")], None, id="the failure target is not a failure"),
        pytest.param([("Complete", "False", "")], None, id="a false condition"),
    ],
)
def test_finished(conditions: list[tuple[str, str, str]], want: Outcome | None) -> None:
    stored = [{"type": type_, "status": status, "message": message} for type_, status, message in conditions]
    assert KIND.finished(a_job(status={"conditions": stored})) == want


def info(count: int = 3, **injected: Any) -> PodSetInfo:
    return PodSetInfo(name="main", count=count, **injected)


def body_of(start: tuple[Patch, ...] | InjectionConflict) -> Any:
    assert not isinstance(start, InjectionConflict)
    (patch,) = start
    assert patch.resource_version == "7"
    return patch.body


def test_start_is_one_patch_that_unsuspends_and_injects() -> None:
    job = a_job(template=template({"team": "a"}, tolerations=[{"key": "old", "operator": "Exists"}]))
    spot = Toleration(key="spot", operator="Exists", effect="NoSchedule")
    patch = KIND.start(job, [info(node_selector={"pool": "spot"}, labels={"x": "y"}, tolerations=(spot,))])
    assert body_of(patch) == {
        "spec": {
            "suspend": False,
            "template": {
                "metadata": {"labels": {"x": "y"}},
                "spec": {
                    "nodeSelector": {"pool": "spot"},
                    "tolerations": [
                        {"key": "old", "operator": "Exists"},
                        {"key": "spot", "operator": "Exists", "effect": "NoSchedule"},
                    ],
                },
            },
        }
    }


def test_fields_that_the_template_has_are_not_injected_again() -> None:
    job = a_job(template=template(nodeSelector={"pool": "spot"}))
    assert body_of(KIND.start(job, [info(node_selector={"pool": "spot"})])) == {"spec": {"suspend": False}}


def test_another_value_of_a_node_selector_is_a_conflict() -> None:
    job = a_job(template=template(nodeSelector={"pool": "spot"}))
    assert KIND.start(job, [info(node_selector={"pool": "dear"})]) == InjectionConflict(
        "pod set main: nodeSelector[pool] is 'spot' in the pod template "
        "but 'dear' is required where it was admitted"
    )


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("annotations", ("workload", "workload-slice-name")),
        ("labels", ("podset", "local-queue-name", "cluster-queue-name")),
    ],
)
def test_what_an_earlier_admission_left_in_the_template_is_replaced(
    kind: str, names: tuple[str, ...]
) -> None:
    left: dict[str, Any] = {kind: {f"kueue.x-k8s.io/{name}": "first" for name in names}}
    wanted: dict[str, Any] = {kind: dict.fromkeys(left[kind], "second")}
    patch = KIND.start(a_job(template=template(**left)), [info(**wanted)])
    assert body_of(patch)["spec"]["template"] == {"metadata": wanted}


def test_a_wrong_number_of_pod_sets_is_a_conflict() -> None:
    assert isinstance(KIND.start(a_job(), []), InjectionConflict)


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        pytest.param({}, {}, id="without partial admission the size stays"),
        pytest.param({"job-min-parallelism": "1"}, {"parallelism": 2}, id="partial admission"),
        pytest.param(
            {"job-min-parallelism": "1", "job-completions-equal-parallelism": "T"},
            {"parallelism": 2, "completions": 2},
            id="completions equal parallelism by annotation",
        ),
    ],
)
def test_start_with_fewer_pods(annotations: dict[str, str], want: dict[str, int]) -> None:
    keyed = {f"kueue.x-k8s.io/{name}": value for name, value in annotations.items()}
    job = a_job(annotations=keyed, parallelism=3, completions=3)
    assert body_of(KIND.start(job, [info(count=2)])) == {"spec": {"suspend": False, **want}}


STARTED = template({**STORED_LABELS, "x": "y"}, nodeSelector={"pool": "spot"}, tolerations=[{"key": "spot"}])
ORIGINAL = PodSet(count=3, template=template({"batch.kubernetes.io/job-name": "train"}))
BEGIN = {"metadata": {"annotations": {"kueue.x-k8s.io/stopping": "true"}}, "spec": {"suspend": True}}
CLEAR_START_TIME = {"status": {"startTime": None}}
RESTORE = {
    "metadata": {"annotations": {"kueue.x-k8s.io/stopping": None}},
    "spec": {
        "template": {
            "metadata": {"labels": {"x": None}},
            "spec": {"nodeSelector": None, "tolerations": None},
        }
    },
}


@pytest.mark.parametrize(
    ("suspend", "stopping", "start_time", "want"),
    [
        pytest.param(False, False, True, [BEGIN, CLEAR_START_TIME, RESTORE], id="from the beginning"),
        pytest.param(True, True, True, [CLEAR_START_TIME, RESTORE], id="resumed after the first patch"),
        pytest.param(True, True, False, [RESTORE], id="resumed after the second"),
        pytest.param(True, False, False, [], id="complete"),
        pytest.param(True, False, True, [], id="suspended by another client"),
    ],
)
def test_a_stop_is_resumed_at_the_next_step(
    suspend: bool, stopping: bool, start_time: bool, want: list[dict[str, Any]]
) -> None:
    job = a_job(
        suspend=suspend,
        annotations={"kueue.x-k8s.io/stopping": "true"} if stopping else {},
        template=STARTED,
        status={"startTime": "2024-01-01T00:00:00Z"} if start_time else {},
    )
    stop = KIND.stop(job, [ORIGINAL])
    assert [patch.body for patch in stop.patches] == want
    assert stop.begins is (not suspend)
    assert [patch.subresource for patch in stop.patches if "status" in patch.body] == ["status"] * (
        CLEAR_START_TIME in want
    )


def test_a_stop_with_nothing_to_restore_is_one_patch() -> None:
    stop = KIND.stop(
        a_job(suspend=False, template=STARTED, status={"startTime": "2024-01-01T00:00:00Z"}), None
    )
    assert [patch.body for patch in stop.patches] == [{"spec": {"suspend": True}}]
    assert stop.begins


@pytest.mark.parametrize(("suspend", "want"), [(False, [BEGIN]), (True, [])])
def test_a_template_is_restored_when_the_last_pod_is_gone(suspend: bool, want: list[Any]) -> None:
    annotations = {"kueue.x-k8s.io/stopping": "true"} if suspend else {}
    status = {"startTime": "2024-01-01T00:00:00Z", "active": 1}
    stop = KIND.stop(
        a_job(suspend=suspend, annotations=annotations, template=STARTED, status=status), [ORIGINAL]
    )
    assert [patch.body for patch in stop.patches] == want
    assert stop.waits_for_pods


@pytest.mark.parametrize("decided", ["SuccessCriteriaMet", "FailureTarget"])
@pytest.mark.parametrize(
    "suspend", [pytest.param(False, id="runs"), pytest.param(True, id="is being stopped")]
)
def test_a_job_of_which_the_end_is_decided_keeps_its_start_time(suspend: bool, decided: str) -> None:
    """Without a start time the API server refuses the status with which the Job controller finishes it."""
    condition = {"type": decided, "status": "True", "reason": "R", "message": ""}
    job = a_job(
        suspend=suspend,
        annotations={"kueue.x-k8s.io/stopping": "true"} if suspend else {},
        template=STARTED,
        status={"startTime": "2024-01-01T00:00:00Z", "conditions": [condition]},
    )
    assert KIND.stop(job, [ORIGINAL]) == Stop(waits_for_pods=True)


def test_a_stop_is_completed_without_the_original_pod_sets() -> None:
    stopping = {"kueue.x-k8s.io/stopping": "true"}
    stop = KIND.stop(a_job(annotations=stopping, template=STARTED), None)
    assert [patch.body for patch in stop.patches] == [
        {"metadata": {"annotations": {"kueue.x-k8s.io/stopping": None}}}
    ]


def test_the_start_time_is_removed_before_the_template_changes() -> None:
    job = a_job(status={"startTime": "2024-01-01T00:00:00Z"})
    start = KIND.start(job, [info(node_selector={"pool": "spot"})])
    assert not isinstance(start, InjectionConflict)
    assert [(patch.subresource, patch.body) for patch in start] == [
        ("status", CLEAR_START_TIME),
        ("", {"spec": {"suspend": False, "template": {"spec": {"nodeSelector": {"pool": "spot"}}}}}),
    ]
