"""A large object does not hold the event loop: each webhook works in steps, and in few calls of its own."""

import random
import sys
from collections.abc import Coroutine, Iterator
from types import FrameType
from typing import Any, Final

import msgspec
import pytest

from quorate.api.configuration import default_configuration
from quorate.api.limits import LARGE_BYTES
from quorate.controllers.integrations import FRAMEWORK_KINDS
from quorate.webhooks.admission_review import AdmissionResponse, AdmissionWebhook
from quorate.webhooks.process import webhooks_by_route
from quorate.webhooks.routes import route_of
from tests.fuzz.kinds import KINDS
from tests.webhooks.admission_requests import FakeReader, a_request

Json = dict[str, Any]

QUEUE: Final = "kueue.x-k8s.io/queue-name"
DEFAULTS: Final = default_configuration()
FRAMEWORKS: Final = (*FRAMEWORK_KINDS, "pod", "deployment", "statefulset")
CONFIGURATION: Final = msgspec.structs.replace(
    DEFAULTS, integrations=msgspec.structs.replace(DEFAULTS.integrations, frameworks=frozenset(FRAMEWORKS))
)
CONTAINERS: Final = 3000
CALLS_PER_CONTAINER: Final = 6  # the role of a pod is a hash of all its containers


def webhooks() -> dict[str, AdmissionWebhook]:
    routes = webhooks_by_route(CONFIGURATION, FakeReader())
    return {route.kind: webhook for route, webhook in routes.items() if webhook is not None}


def grown(document: Json, containers: int) -> Json:
    """Return a copy in which every list of containers has so many more."""

    def copied(value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {key: copied(inner, key) for key, inner in value.items()}
        if not isinstance(value, list):
            return value
        more = [{"name": f"c-{number}", "image": "i"} for number in range(containers)]
        return [copied(each) for each in value] + (more if name == "containers" else [])

    result: Json = copied(document)
    return result


def documents() -> Iterator[tuple[str, Json]]:
    for kind in KINDS:
        if route_of(kind.resource).kind in webhooks() and kind.resource.version != "v1beta1":
            body = kind.build(random.Random(1))
            if "suspend" in body.get("spec", {}):
                body["spec"]["suspend"] = False
            metadata = {"name": "j", "namespace": "team", "labels": {QUEUE: "q"}}
            head = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind}
            yield kind.resource.kind, {**head, **body, "metadata": metadata}


DOCUMENTS: Final = dict(documents())
OF_JOBS: Final = sorted(kind for kind in DOCUMENTS if not kind.endswith(("Queue", "Flavor", "Cohort")))


def steps_and_calls(review: Coroutine[Any, Any, AdmissionResponse]) -> tuple[int, int, AdmissionResponse]:
    """Return how often the webhook lets the loop go on, the calls of functions of ours, and the response."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call" and "/quorate/" in frame.f_code.co_filename

    steps = 0
    sys.setprofile(count)
    try:
        while True:
            review.send(None)
            steps += 1
    except StopIteration as done:
        return steps, calls, done.value
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("kind", OF_JOBS)
def test_a_large_object_is_changed_in_steps_of_bounded_work(kind: str) -> None:
    webhook, counted = webhooks()[kind], []
    for containers in (0, CONTAINERS):
        request = a_request(grown(DOCUMENTS[kind], containers))
        steps, calls, response = steps_and_calls(webhook.mutate(request))
        assert (steps > 1) == (len(request.object) > LARGE_BYTES)
        counted.append((calls, [step.path for step in response.patch]))
    (few, patch), (many, same_patch) = counted
    assert same_patch == patch
    assert many - few <= CALLS_PER_CONTAINER * CONTAINERS * ("containers" in str(DOCUMENTS[kind]))


@pytest.mark.parametrize("kind", sorted(DOCUMENTS))
def test_a_large_update_is_validated_in_steps(kind: str) -> None:
    document = DOCUMENTS[kind]
    document = {**document, "metadata": {**document["metadata"], "annotations": {"text": "x" * LARGE_BYTES}}}
    steps, _, _ = steps_and_calls(webhooks()[kind].validate(a_request(document, document)))
    decoded = {"Pod": 6, "StatefulSet": 6, "Deployment": 4, "LeaderWorkerSet": 4}.get(kind, 2)
    assert steps >= 2 * decoded  # before and after each decoding
