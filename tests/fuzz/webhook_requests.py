"""Requests to the port of the webhooks: reviews and conversions with hostile objects, and malformed ones."""

import json
import random
from typing import Any, Final

from quorate.kube.resources import Resource
from quorate.webhooks.routes import CONVERT_PATH, route_of

Json = dict[str, Any]

LARGE: Final = 20 * 2**20
MALFORMED: Final = (
    b"", b"null", b"[]", b"{", b"\xff\xfe", b'{"request": null}', b'{"request": {"uid": 7}}', b"[" * 100_000,
    b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {}}',
    b'{"a":' * 5000 + b"1" + b"}" * 5000, b'"' + b"x" * LARGE + b'"', b'{"a": 1e999, "a": NaN}',
)  # fmt: skip
PATHS: Final = (
    CONVERT_PATH, "/validate-kueue-x-k8s-io-v1beta2-workload", "/mutate-batch-v1-job", "/jobs/validate",
    "/podgroups/mutate", "/queues/validate", "/pods/mutate",
)  # fmt: skip


def webhook_request(
    rng: random.Random, resource: Resource[Any], body: Json, old: Json | None
) -> tuple[str, bytes]:
    """Return the path and the body of a request about an object."""
    turn = rng.random()
    if turn < 0.15:
        return rng.choice(PATHS), rng.choice(MALFORMED)
    if turn < 0.35 and resource.group == "kueue.x-k8s.io":
        return CONVERT_PATH, _conversion(rng, body)
    return _review_path(rng, resource), _review(rng, resource, body, old)


def _review_path(rng: random.Random, resource: Resource[Any]) -> str:
    if resource.group.endswith("volcano.sh"):
        return f"/{resource.plural}/{rng.choice(('mutate', 'validate'))}"
    return route_of(resource).path(rng.choice(("mutate", "validate")))


def _review(rng: random.Random, resource: Resource[Any], body: Json, old: Json | None) -> bytes:
    request: Json = {
        "uid": "1",
        "kind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "resource": {"group": resource.group, "version": resource.version, "resource": resource.plural},
        "name": body["metadata"].get("name", ""),
        "namespace": body["metadata"].get("namespace", ""),
        "operation": "UPDATE" if old is not None else rng.choice(("CREATE", "DELETE", "CONNECT")),
        "userInfo": {"username": "fuzz"},
        "object": body,
        "oldObject": old,
    }
    for name in rng.sample(list(request), rng.choice((0, 0, 0, 1))):
        request[name] = rng.choice((None, "", {}, 7))
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    ).encode()


def _conversion(rng: random.Random, body: Json) -> bytes:
    version = rng.choice(("v1beta1", "v1beta2", "v1beta3", ""))
    request = {
        "uid": "1",
        "desiredAPIVersion": f"kueue.x-k8s.io/{version}",
        "objects": [body] * rng.choice((1, 2, 500)),
    }
    review = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
    return json.dumps(review).encode()
