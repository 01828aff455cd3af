"""Vectors of kind ``admission``: requests to the webhooks, from objects in short form."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from quorate.api import codec
from quorate.api.configuration.gang import GangScheduling, PodGroupWebhooks
from quorate.api.core import Namespace
from quorate.api.core.quota_scopes import ScopeAttributes
from quorate.api.meta import Key
from quorate.api.volcano import PodGroup, Queue
from quorate.gang.cache.from_objects import quota_amounts, quota_from_object
from quorate.gang.namespace_quota.evaluation import Amounts, QuotaTotals, normalised
from quorate.gang.namespace_quota.ledger import PodQuotaUsage, QuotaLedger
from quorate.gang.namespace_quota.quota import NamespaceQuota
from quorate.webhooks.admission_review import AdmissionResponse
from quorate.webhooks.volcano.quota_pod import QuotaPod, pod_quota_usage
from quorate.webhooks.volcano.volcano_reader import QuotaView, group_quota_minimum
from quorate.webhooks.volcano.volcano_webhooks import VolcanoWebhooks
from tests.gang import objects
from tests.webhooks.admission_requests import a_request, patched

Json = dict[str, Any]

NAMES = GangScheduling().scheduler_names
SWITCHES = {
    "rejectPodsOfPendingGroups": "reject_pods_of_pending_groups",
    "maxPodGroupsHard": "max_pod_groups_hard",
    "refuseDeletionOfUsedQueues": "refuse_deletion_of_used_queues",
    "maxQueueDepth": "max_queue_depth",
}
METADATA = ("name", "namespace", "annotations", "labels", "ownerReferences")
AMOUNTS = ("capability", "deserved", "minResources")
STATUS = ("phase", "state", "allocated")


def run_admission(given: Json, expect: Json) -> list[str]:
    """Return the differences from the expected response."""
    webhook, operation = given["webhook"], given.get("operation", "CREATE")
    options = {**given, **given.get("options", {})}
    switches = {field: options[name] for name, field in SWITCHES.items() if name in options}
    rules = PodGroupWebhooks(min_resources=options.get("mode", "default"), **switches)
    document = _document(webhook, given["object"])
    before = given.get("oldObject", given.get("old"))
    old = None if before is None else _document(webhook, before)
    if operation == "DELETE":
        old = old or document
    request = a_request(None if operation == "DELETE" else document, old, operation=operation)
    webhooks = VolcanoWebhooks(Given(given), rules, NAMES)

    async def opened() -> AdmissionResponse:
        return await webhooks.handlers()[f"/{webhook}"](request)

    return list(_differences(document, asyncio.run(opened()), expect))


def _differences(document: Json, answer: AdmissionResponse, expect: Json) -> Iterator[str]:
    allowed = not answer.findings
    if allowed is not expect["allowed"]:
        said = "; ".join(str(finding) for finding in answer.findings) or "allowed"
        yield f"allowed: expected {expect['allowed']}, got {allowed} ({said})"
        return
    if "reason" in expect and (reason := answer.findings[0].reason) != expect["reason"]:
        yield f"reason: expected {expect['reason']}, got {reason}"
    if "patch" in expect:
        changes = dict(_changes("", document, patched(document, answer)))
        if changes != expect["patch"]:
            yield f"patch: expected {expect['patch']}, got {changes}"


def _changes(path: str, old: Any, new: Any) -> Iterator[tuple[str, Any]]:
    match old, new:
        case dict(), dict():
            for key in {**old, **new}:
                yield from _changes(f"{path}.{key}".removeprefix("."), old.get(key), new.get(key))
        case list(), list() if len(old) == len(new):
            for at, pair in enumerate(zip(old, new, strict=True)):
                yield from _changes(f"{path}[{at}]", *pair)
        case None, dict():
            yield from _changes(path, {}, new)
        case _ if old != new:
            yield path, new


# Of tasks, which have no pods in the short form.
A_TEMPLATE: Final = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}


def _document(webhook: str, short: Mapping[str, Any]) -> Json:
    """Return the object as a user submits it, without fields that the short form omits."""
    if webhook.startswith("pods/"):
        return _pod(short)
    metadata = {key: short[key] for key in METADATA if key in short}
    if not webhook.startswith("queues/"):
        metadata.setdefault("namespace", "default")
    fields = {key: value for key, value in short.items() if key not in (*METADATA, "kind")}
    fields |= {key: objects.quantities(fields[key]) for key in AMOUNTS if fields.get(key)}
    if "guarantee" in fields:
        fields["guarantee"] = {"resource": objects.quantities(fields["guarantee"])}
    status = {key: fields.pop(key) for key in STATUS if key in fields}
    if webhook.startswith("jobs/"):
        fields["tasks"] = [{"template": A_TEMPLATE, **task} for task in fields.get("tasks", ())]
    return {"metadata": metadata, "spec": fields, **({"status": status} if status else {})}


def _pod(short: Mapping[str, Any]) -> Json:
    scheduler = objects.OUR_SCHEDULER if "group" in short else "default-scheduler"
    placeable = next(objects.pods({"schedulerName": scheduler, **short}, {}))
    pod: Json = {"metadata": codec.to_builtins(placeable.metadata), "spec": codec.to_builtins(placeable.spec)}
    pod["metadata"] |= {key: short[key] for key in METADATA if key in short and key != "annotations"}
    return pod


class Given:
    """The stored objects of a case."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        queues = given.get("queues", [{"name": "default"}])
        self._queues = {queue["name"]: objects.queue(queue) for queue in queues}
        self._groups = [objects.pod_group(group) for group in given.get("podGroups", [])]
        self._quotas = [quota_from_object(objects.quota(quota)) for quota in given.get("quotas", [])]
        self._annotations = {
            namespace["name"]: namespace.get("annotations", {}) for namespace in given.get("namespaces", [])
        }
        self._ledger = QuotaLedger()
        for group, short in zip(self._groups, given.get("podGroups", []), strict=True):
            self._ledger.set_group(group.metadata.key, group_quota_minimum(group))
            if "podRequests" in short:
                self._ledger.set_pod(
                    Key(group.metadata.namespace, f"members of {group.metadata.name}"),
                    _members(group.metadata.name, short["podRequests"]),
                )
        for pods in given.get("pods", []):
            for pod in objects.pods(pods, {}):
                counted = codec.convert(QuotaPod, codec.to_builtins(pod))
                use = pod_quota_usage(counted, NAMES)
                self._ledger.set_pod(counted.metadata.key, use)

    def queues(self) -> Mapping[str, Queue]:
        return self._queues

    async def list_queues(self) -> Mapping[str, Queue]:
        return self._queues

    def pod_group(self, key: Key) -> PodGroup | None:
        return next((group for group in self._groups if group.metadata.key == key), None)

    def pod_groups(self, namespace: str) -> Sequence[PodGroup]:
        return [group for group in self._groups if group.metadata.namespace == namespace]

    def pod_groups_in_queue(self, queue: str) -> Sequence[PodGroup]:
        return [group for group in self._groups if group.spec.queue == queue]

    def quota(self, namespace: str) -> QuotaView:
        return View(
            [quota for quota in self._quotas if quota.key.namespace == namespace], self._ledger, namespace
        )

    def delays_pod_creation(self) -> bool:
        return True

    async def namespace(self, name: str) -> Namespace:
        metadata = {"name": name, "annotations": self._annotations.get(name, {})}
        return codec.convert(Namespace, {"metadata": metadata})


def _members(group: str, requests: Mapping[str, Any]) -> PodQuotaUsage:
    """Return all members of a group as one pod."""
    amounts = codec.convert(
        PodGroup, {"metadata": {}, "spec": {"minResources": objects.quantities(requests)}}
    )
    usage = normalised(quota_amounts(amounts.spec.min_resources or {}))
    return PodQuotaUsage(group, ScopeAttributes(), usage, terminated=False)


class View:
    def __init__(self, quotas: Sequence[NamespaceQuota], ledger: QuotaLedger, namespace: str) -> None:
        self.quotas = quotas
        self.reserved: QuotaTotals = ledger.reserved(namespace)
        self.claims: Mapping[str, tuple[ScopeAttributes, Amounts]] = ledger.claims(namespace)
