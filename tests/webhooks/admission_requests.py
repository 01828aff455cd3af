"""AdmissionReviews as the API server sends them, and a reader with literal values."""

import base64
import json
from dataclasses import dataclass, field
from typing import Any

import jsonpatch

from quorate.api.meta import Key, ObjectMeta, Uid
from quorate.kube.resources import Resource
from quorate.webhooks.admission_review import (
    AdmissionRequest,
    AdmissionResponse,
    encode_response,
    read_review,
)

Json = dict[str, Any]


def a_review(new: Json | None, old: Json | None = None, **request: Any) -> bytes:
    """Return the body of a review: create ``new``, or update ``old`` to ``new``."""
    document = new or old or {}
    group, _, version = document.get("apiVersion", "v1").rpartition("/")
    metadata = document.get("metadata", {})
    admission_request = {
        "uid": "7",
        "kind": {"group": group, "version": version, "kind": document.get("kind", "")},
        "operation": "CREATE" if old is None else "UPDATE",
        "name": metadata.get("name", ""),
        "namespace": metadata.get("namespace", ""),
        "userInfo": {"username": "ada"},
        "object": new,
        "oldObject": old,
        **request,
    }
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": admission_request}
    ).encode()


def a_request(new: Json | None, old: Json | None = None, **request: Any) -> AdmissionRequest:
    return read_review(a_review(new, old, **request)).request


def patched(document: Json, response: AdmissionResponse) -> Json:
    """Return ``document`` with the encoded patch applied, by an independent implementation."""
    encoded = json.loads(encode_response(a_request(document), response))["response"]
    assert encoded["allowed"]
    patch = json.loads(base64.b64decode(encoded.get("patch", base64.b64encode(b"[]"))))
    result: Json = jsonpatch.apply_patch(document, patch)
    return result


def refusals(response: AdmissionResponse) -> list[str]:
    return [str(finding) for finding in response.findings]


@dataclass
class FakeReader:
    """A cluster reader with literal values; namespace ``team`` is managed by default."""

    managed: bool = True
    default_queue: bool = False
    default_class: bool = False
    managers: dict[str, Uid] = field(default_factory=dict)  # by the name of the controlling owner
    jobs: tuple[str, ...] = ("Job", "JobSet", "AppWrapper")
    with_pods: tuple[str, ...] = ()  # uids of objects that control pods
    delegated: tuple[str, ...] = ()  # local queues of which worker clusters run the jobs
    native_queues: dict[str, str] = field(default_factory=dict)  # by the name of the native pod group

    async def manages_namespace(self, name: str) -> bool:
        return self.managed and name == "team"

    async def managing_ancestor(
        self, metadata: ObjectMeta, resource: Resource[Any] | None = None
    ) -> Uid | None:
        owner = metadata.controller
        return None if owner is None else self.managers.get(owner.name)

    def has_job_owner(self, metadata: ObjectMeta) -> bool:
        return metadata.controller is not None and metadata.controller.kind in self.jobs

    async def has_default_queue(self, namespace: str) -> bool:
        return self.default_queue

    async def has_pods(self, uid: Uid, namespace: str) -> bool:
        return uid in self.with_pods

    async def has_default_priority_class(self) -> bool:
        return self.default_class

    async def is_delegated(self, namespace: str, queue: str) -> bool:
        return queue in self.delegated

    async def native_queue(self, group: Key) -> str:
        return self.native_queues.get(group.name, "")
