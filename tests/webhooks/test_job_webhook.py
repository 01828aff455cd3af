"""Jobs are held back, put into the default queue, and refused: one way for all kinds."""

import asyncio
from typing import Any

import msgspec
import pytest

from quorate.api.configuration import Configuration, default_configuration
from quorate.api.configuration.feature_gates import WebhookGates
from quorate.api.meta import Uid
from quorate.controllers.jobs.batch import BatchJob
from quorate.controllers.jobs.jobset import JobSet
from quorate.webhooks.job_webhook import JobWebhook
from tests.webhooks.admission_requests import Place, a_request, patched, refusals

Json = dict[str, Any]
QUEUE = "kueue.x-k8s.io/queue-name"
CLASS = "kueue.x-k8s.io/priority-class"
DEFAULTS = default_configuration()
MANAGE_ALL = msgspec.structs.replace(DEFAULTS, manage_jobs_without_queue_name=True)
DEFAULT_CLASSES = msgspec.structs.replace(DEFAULTS, webhook_gates=WebhookGates(default_priority_class=True))
OWNED = [{"apiVersion": "batch/v1", "kind": "Job", "name": "parent", "uid": "1", "controller": True}]


def a_job(queue: str = "", namespace: str = "team", suspend: bool = False, **metadata: Any) -> Json:
    labels = {QUEUE: queue} if queue else {}
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "j",
            "namespace": namespace,
            **({"labels": labels} if labels else {}),
            **metadata,
        },
        "spec": {"parallelism": 4, "suspend": suspend, "template": template, "unknownToUs": 1.50},
    }


def mutated(job: Json, place: Place, configuration: Configuration = DEFAULTS) -> Json:
    webhook = JobWebhook(BatchJob(), place, configuration)
    return patched(job, asyncio.run(webhook.mutate(a_request(job))))


def changes(job: Json, place: Place, configuration: Configuration = DEFAULTS) -> tuple[bool, Json]:
    """Whether the job is suspended afterwards, and its labels; nothing else may have changed."""
    after = mutated(job, place, configuration)
    labels = after["metadata"].get("labels", {})
    restored = {**after, "spec": {**after["spec"], "suspend": job["spec"]["suspend"]}}
    restored["metadata"] = {**after["metadata"], "labels": job["metadata"].get("labels", {})}
    assert restored == {**job, "metadata": {**job["metadata"], "labels": job["metadata"].get("labels", {})}}
    return after["spec"]["suspend"], labels


@pytest.mark.parametrize(
    ("job", "place", "configuration", "want"),
    [
        pytest.param(a_job("q"), Place(), DEFAULTS, (True, {QUEUE: "q"}), id="a job of a queue is suspended"),
        pytest.param(a_job(), Place(), DEFAULTS, (False, {}), id="one of no queue runs"),
        pytest.param(
            a_job(annotations={QUEUE: "q"}), Place(), DEFAULTS, (True, {}), id="the older form of the name"
        ),
        pytest.param(
            a_job("q", namespace="system"), Place(), DEFAULTS, (False, {QUEUE: "q"}), id="nobody's namespace"
        ),
        pytest.param(a_job(), Place(), MANAGE_ALL, (True, {}), id="all jobs are managed"),
        pytest.param(a_job(), Place(managed=False), MANAGE_ALL, (False, {}), id="all jobs but here"),
        pytest.param(
            a_job(), Place(default_queue=True), DEFAULTS, (True, {QUEUE: "default"}), id="the default queue"
        ),
        pytest.param(
            a_job("q"), Place(default_queue=True), DEFAULTS, (True, {QUEUE: "q"}), id="a queue of its own"
        ),
        pytest.param(
            a_job(ownerReferences=OWNED), Place(default_queue=True), DEFAULTS, (False, {}),
            id="no default for what a job made",
        ),
        pytest.param(
            a_job("q", ownerReferences=OWNED), Place(managers={"parent": Uid("1")}), DEFAULTS,
            (False, {QUEUE: "q"}), id="a part of a managed job is its business",
        ),
        pytest.param(
            a_job("q", ownerReferences=OWNED), Place(), DEFAULTS, (True, {QUEUE: "q"}),
            id="a part of a job that is not managed stands for itself",
        ),
        pytest.param(
            a_job("q"), Place(default_class=True), DEFAULT_CLASSES, (True, {QUEUE: "q", CLASS: "default"}),
            id="the default class",
        ),
        pytest.param(
            a_job("q"), Place(default_class=True), DEFAULTS, (True, {QUEUE: "q"}),
            id="no class without its gate",
        ),
        pytest.param(
            a_job(), Place(default_class=True), DEFAULT_CLASSES, (False, {}), id="no class without a queue"
        ),
    ],
)  # fmt: skip
def test_a_new_job(job: Json, place: Place, configuration: Configuration, want: tuple[bool, Json]) -> None:
    assert changes(job, place, configuration) == want


JOB_SET_SPEC: Json = {"replicatedJobs": [], "network": {"enableDNSHostnames": True}}


def test_a_kind_of_another_project_is_suspended_where_it_says_so_itself() -> None:
    job_set = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "s", "namespace": "team", "labels": {QUEUE: "q"}},
        "spec": JOB_SET_SPEC,
    }
    answer = asyncio.run(JobWebhook(JobSet(), Place(), DEFAULTS).mutate(a_request(job_set)))
    assert patched(job_set, answer)["spec"] == {**JOB_SET_SPEC, "suspend": True}


def test_an_elastic_job_has_its_pods_held_as_well() -> None:
    job = a_job("q", annotations={"kueue.x-k8s.io/elastic-job": "true"})
    spec = mutated(job, Place())["spec"]
    assert spec["suspend"]
    assert spec["template"]["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/elastic-job"}]
    rigid = msgspec.structs.replace(DEFAULTS, webhook_gates=WebhookGates(elastic_jobs=False))
    assert "schedulingGates" not in mutated(job, Place(), rigid)["spec"]["template"]["spec"]


@pytest.mark.parametrize("spec", [None, [], "text", {"suspend": 7}, {"replicatedJobs": "many"}])
def test_what_a_kind_cannot_read_is_left_to_its_schema(spec: Any) -> None:
    odd = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
           "metadata": {"name": "s", "namespace": "team", "labels": {QUEUE: "q"}}, "spec": spec}  # fmt: skip
    webhook = JobWebhook(JobSet(), Place(), DEFAULTS)
    assert asyncio.run(webhook.mutate(a_request(odd))).findings == ()
    assert asyncio.run(webhook.validate(a_request(odd))).findings == ()


def judged(new: Json, old: Json | None = None, place: Place | None = None) -> list[str]:
    webhook = JobWebhook(BatchJob(), place or Place(), DEFAULTS)
    return refusals(asyncio.run(webhook.validate(a_request(new, old))))


def test_a_new_job_is_judged_by_general_rules_and_by_those_of_its_kind() -> None:
    job = a_job("@q", annotations={"kueue.x-k8s.io/job-min-parallelism": "9"})
    assert judged(job) == [
        f"metadata.labels[{QUEUE}]: '@q' is not the name of a LocalQueue "
        "(lower case letters, digits, '-' and '.')",
        "metadata.annotations[kueue.x-k8s.io/job-min-parallelism]: 9 should be between 0 and 3",
    ]


def test_a_change_is_judged_by_what_was_there() -> None:
    assert judged(a_job("r"), a_job("q")) == [
        f"metadata.labels[{QUEUE}]: 'r' cannot change while the job is not suspended (it was q)"
    ]
    assert judged(a_job("r", suspend=True), a_job("q")) == []


def test_a_job_cannot_leave_its_queue_where_there_is_a_default_one() -> None:
    place = Place(default_queue=True)
    assert judged(a_job(suspend=True), a_job("q", suspend=True), place) == [
        f"metadata.labels[{QUEUE}]: '' is missing: queue-name must not be empty in namespace "
        "with default queue"
    ]


def test_the_older_form_of_the_queue_name_is_warned_of() -> None:
    job = a_job(annotations={QUEUE: "q"})
    answer = asyncio.run(JobWebhook(BatchJob(), Place(), DEFAULTS).validate(a_request(job)))
    assert answer.warnings == (
        f"the queue is set by annotation {QUEUE}, which is deprecated (set the label instead)",
    )
