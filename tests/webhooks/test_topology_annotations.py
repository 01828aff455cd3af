"""Webhooks refuse topology annotations that are invalid, if pods get places in topologies."""

import asyncio
from typing import Any

import msgspec
import pytest

from quorate.api.configuration import Configuration
from quorate.api.configuration.feature_gates import TopologyGates
from quorate.controllers.jobs.batch import BatchJob
from quorate.controllers.jobs.trainjob import TrainJob
from quorate.webhooks.admission_review import AdmissionWebhook
from quorate.webhooks.job_webhook import JobWebhook
from quorate.webhooks.pod_webhooks import pod_webhooks
from tests.webhooks.admission_requests import FakeReader, a_request, refusals
from tests.webhooks.test_pod_webhooks import ALL

Json = dict[str, Any]
PODS = {"containers": [{"name": "c", "image": "i"}]}
SIZE = {"kueue.x-k8s.io/podset-slice-required-topology": "rack", "kueue.x-k8s.io/podset-slice-size": "none"}
FINDING = "annotations[kueue.x-k8s.io/podset-slice-size]: 'none' must be a numeric value"


def webhook(kind: str, configuration: Configuration) -> AdmissionWebhook:
    match kind:
        case "Job":
            return JobWebhook(BatchJob(), FakeReader(), configuration)
        case "TrainJob":
            return JobWebhook(TrainJob(), FakeReader(), configuration)
        case _:
            webhooks = pod_webhooks(FakeReader(), configuration)
            return next(each for resource, each in webhooks.items() if resource.kind == kind)


def an_object(kind: str, annotations: Json, **labels: str) -> Json:
    metadata = {"name": "x", "namespace": "team", "labels": labels}
    template = {"metadata": {"annotations": annotations}, "spec": PODS}
    match kind:
        case "Pod":
            return {"kind": kind, "metadata": {**metadata, "annotations": annotations}, "spec": PODS}
        case "LeaderWorkerSet":
            spec: Json = {"leaderWorkerTemplate": {"size": 2, "workerTemplate": template}}
        case "TrainJob":
            spec = {"runtimeRef": {"name": "torch"}}
        case _:
            spec = {"template": template}
    return {"kind": kind, "metadata": metadata, "spec": spec}


def findings(kind: str, new: Json, old: Json | None = None, *, on: bool = True) -> list[str]:
    configuration = msgspec.structs.replace(ALL, topology_gates=TopologyGates() if on else None)
    return refusals(asyncio.run(webhook(kind, configuration).validate(a_request(new, old))))


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("Job", "spec.template.metadata."),
        ("Pod", "metadata."),
        ("StatefulSet", "spec.template.metadata."),
        ("LeaderWorkerSet", "spec.leaderWorkerTemplate.workerTemplate.metadata."),
    ],
)
def test_a_request_that_cannot_be_understood_is_refused(kind: str, path: str) -> None:
    invalid = an_object(kind, SIZE)
    assert findings(kind, invalid) == [f"{path}{FINDING}"]
    assert findings(kind, invalid, an_object(kind, {})) == [f"{path}{FINDING}"], "an update"
    assert findings(kind, an_object(kind, SIZE, more="labels"), invalid) == [], "it was invalid before"
    assert findings(kind, invalid, on=False) == []


def test_the_runtime_of_a_train_job_is_not_known_here() -> None:
    assert findings("TrainJob", an_object("TrainJob", {})) == []
