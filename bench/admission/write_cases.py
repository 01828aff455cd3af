"""The types of requests that ``bench.admission.writes`` compares, each with an object of its own.

The workload is that of the scenarios, admitted in one write if the case does not say otherwise.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from bench.admission import objects
from bench.admission.generator import delete_collection
from bench.worlds import BASELINE
from quorate.api import codec
from quorate.api.configuration.feature_gates import DEFAULT_GATES
from quorate.api.kueue import Admission, Workload
from quorate.kube import client
from quorate.kube.client import Client, PatchKind
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    EVENTS,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    WORKLOADS,
)
from quorate.kube.writes import status_patch
from quorate.queueing.decisions import Preempt, Reserve
from quorate.queueing.lifecycle.statuses import admit_status, finish_status, preempt_status, release_status

Json = dict[str, Any]

MANAGER: Final = "quorate"
METADATA_ONLY: Final = {"Accept": client.METADATA_ONLY}
CORE_EVENTS: Final = "/api/v1/namespaces/{}/events"
_MOMENT: Final = "2026-01-01T00:00:00Z"
_AT: Final = 1767225600.0  # the same moment
_PREEMPTED: Final = (
    "Preempted to accommodate a workload (UID: 00000000-0000-4000-8000-000000000000, JobUID: UNKNOWN) due to "
    "prioritization in the ClusterQueue; preemptor path: /research/team-a; preemptee path: /research/team-a"
)
_LARGE_CLASS: Final = BASELINE.classes[-1]


class Request(NamedTuple):
    method: str
    path: str
    body: Any
    headers: Mapping[str, str] = {}


class Case(NamedTuple):
    """``prepare`` makes the object of one request, which is not measured, and returns that request."""

    name: str
    prepare: Callable[[str], Awaitable[Request]]


class Cases:
    """The cases in ``namespace``, which is also the name of its queues and of the flavor."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._queues: list[str] = []  # the cluster queues of single requests

    def all(self) -> tuple[Case, ...]:
        return (
            Case("workload: create", self._create),
            Case("workload: create, answer: metadata", self._create_for_metadata),
            Case("workload: admit by merge patch", self._merge),
            Case("workload: admit by merge patch, answer: metadata", self._merge_for_metadata),
            Case("workload: admit by merge patch, any version", self._merge_any_version),
            Case("workload: admit by JSON patch", self._json_patch),
            Case("workload: admit by apply", self._apply),
            Case("workload: admit by update", self._update),
            Case("workload: admit, created by another manager", self._merge_as_other),
            Case("workload: admit, no managed fields", self._merge_unmanaged),
            Case("workload: admit, 8 pod sets of 4 KB", self._merge_large),
            Case("workload: reserve quota only", self._reserve),
            Case("workload: reserve quota, then: admit", self._admit_reserved),
            Case("workload: finish", self._finish),
            *(
                Case(f"workload preempted once: {step}", partial(self._preempted, place))
                for place, step in enumerate(("evict", "release", "admit again", "finish"))
            ),
            Case("workload: patch without a change", self._unchanged),
            Case("workload: delete", self._delete),
            Case("cluster queue: status by merge patch", self._cluster_queue),
            Case("local queue: status by merge patch", self._local_queue),
            Case("event: create, events.k8s.io/v1", self._event),
            Case("event: create, answer: metadata", self._event_for_metadata),
            Case("event: create, v1", self._core_event),
            Case("event: count in a series", self._series),
        )

    async def create_queues(self) -> None:
        name = self._namespace
        await self._client.create(NAMESPACES, objects.named(name))
        await self._client.create(RESOURCE_FLAVORS, objects.named(name))
        await self._client.create(CLUSTER_QUEUES, objects.cluster_queue(BASELINE, name, name))
        await self._client.create(LOCAL_QUEUES, objects.local_queue(name))

    async def delete_all(self) -> None:
        name = self._namespace
        for path in (WORKLOADS.path(name), EVENTS.path(name), LOCAL_QUEUES.path(name)):
            await delete_collection(self._client, path)
        for path in (
            *(CLUSTER_QUEUES.path("", queue) for queue in (name, *self._queues)),
            RESOURCE_FLAVORS.path("", name),
            NAMESPACES.path("", name),
        ):
            await self._client.request("DELETE", path)

    # Workloads

    def _workload(self, name: str) -> Json:
        workload = objects.workload(self._namespace, _LARGE_CLASS, 0)
        workload["metadata"] |= {"name": name}
        return {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind, **workload}

    async def _stored(self, name: str, workload: Json | None = None, manager: str = MANAGER) -> Json:
        path = WORKLOADS.path(self._namespace)
        body = codec.encode(workload or self._workload(name))
        answer = await self._client.request("POST", path, query={"fieldManager": manager}, body=body)
        return codec.decode(dict[str, Any], answer)

    async def _create(self, name: str) -> Request:
        return Request("POST", WORKLOADS.path(self._namespace), self._workload(name))

    async def _create_for_metadata(self, name: str) -> Request:
        return (await self._create(name))._replace(headers=METADATA_ONLY)

    def _patch_of(self, stored: Json, status: Json) -> Request:
        name, version = stored["metadata"]["name"], stored["metadata"]["resourceVersion"]
        body = {"metadata": {"resourceVersion": version}, "status": status}
        path = WORKLOADS.path(self._namespace, name, "status")
        return Request("PATCH", path, body, {"Content-Type": PatchKind.MERGE.value})

    async def _merge(self, name: str) -> Request:
        return self._patch_of(await self._stored(name), self._admission())

    async def _merge_for_metadata(self, name: str) -> Request:
        request = await self._merge(name)
        return request._replace(headers={**request.headers, **METADATA_ONLY})

    async def _merge_any_version(self, name: str) -> Request:
        request = await self._merge(name)
        return request._replace(body={"status": request.body["status"]})

    async def _json_patch(self, name: str) -> Request:
        request = await self._merge(name)
        version = request.body["metadata"]["resourceVersion"]
        operations = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": "/status", "value": request.body["status"]},
        ]
        return request._replace(body=operations, headers={"Content-Type": PatchKind.JSON.value})

    async def _apply(self, name: str) -> Request:
        request = await self._merge(name)
        head = {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind}
        return request._replace(body=head | request.body, headers={"Content-Type": PatchKind.APPLY.value})

    async def _update(self, name: str) -> Request:
        stored = await self._stored(name)
        return Request(
            "PUT", WORKLOADS.path(self._namespace, name, "status"), stored | {"status": self._admission()}
        )

    async def _merge_as_other(self, name: str) -> Request:
        return self._patch_of(await self._stored(name, manager="jobs"), self._admission())

    async def _merge_unmanaged(self, name: str) -> Request:
        await self._stored(name)
        path, headers = WORKLOADS.path(self._namespace, name), {"Content-Type": PatchKind.MERGE.value}
        body = codec.encode({"metadata": {"managedFields": [{}]}})
        answer = await self._client.request("PATCH", path, body=body, headers=headers)
        return self._patch_of(codec.decode(dict[str, Any], answer), self._admission())

    async def _merge_large(self, name: str) -> Request:
        workload = self._workload(name)
        (pod_set,) = workload["spec"]["podSets"]
        variables = [{"name": f"VARIABLE_{number}", "value": "x" * 32} for number in range(64)]
        pod_set["template"]["spec"]["containers"][0]["env"] = variables
        names = [f"set-{number}" for number in range(8)]
        workload["spec"]["podSets"] = [pod_set | {"name": name} for name in names]
        return self._patch_of(await self._stored(name, workload), self._admission(*names))

    async def _reserve(self, name: str) -> Request:
        return self._patch_of(await self._stored(name), self._reservation())

    async def _admit_reserved(self, name: str) -> Request:
        reserve = await self._reserve(name)
        conditions = {"conditions": self._admission()["conditions"]}
        return self._patch_of(await self._answer(reserve), conditions)

    async def _finish(self, name: str) -> Request:
        admitted = await self._answer(await self._merge(name))
        finished = _condition("Finished", "Succeeded", "Job finished successfully")
        return self._patch_of(admitted, {"conditions": [*admitted["status"]["conditions"], finished]})

    async def _preempted(self, place: int, name: str) -> Request:
        """Return the write at ``place`` in the life of a workload after its first admission."""
        request = await self._merge(name)
        admission = Admission()
        for number in range(place + 1):
            workload = codec.decode(Workload, await send(self._client, request))
            admission = workload.status.admission or admission
            metadata = workload.metadata
            decided: Any = {
                "key": metadata.key, "uid": metadata.uid, "resource_version": metadata.resource_version
            }  # fmt: skip
            match number:
                case 0:
                    preempt = Preempt(
                        **decided, reason="InClusterQueue", message=_PREEMPTED, preemptor=metadata.key
                    )
                    status = preempt_status(workload, preempt, _AT)
                case 1:
                    status = release_status(workload, _AT, DEFAULT_GATES)
                case 2:
                    queue = self._namespace
                    reserve = Reserve(
                        **decided, cluster_queue=queue, admission=admission, admitted=True, waited_s=0.0
                    )
                    status = admit_status(workload, reserve, _AT)
                case _:
                    status = finish_status(workload, "Succeeded", "Job finished successfully", _AT)
            (patch,) = status_patch(WORKLOADS, workload, status)
            request = self._patch_of(codec.decode(Json, codec.encode(workload)), patch.body["status"])
        return request

    async def _unchanged(self, name: str) -> Request:
        admitted = await self._answer(await self._merge(name))
        return self._patch_of(admitted, {"conditions": admitted["status"]["conditions"]})

    async def _delete(self, name: str) -> Request:
        await self._stored(name)
        options = {"apiVersion": "v1", "kind": "DeleteOptions"}
        return Request("DELETE", WORKLOADS.path(self._namespace, name), options)

    async def _answer(self, request: Request) -> Json:
        return codec.decode(dict[str, Any], await send(self._client, request))

    def _reservation(self, *pod_sets: str) -> Json:
        flavor, usage = {"cpu": self._namespace}, {"cpu": str(_LARGE_CLASS.cpu)}
        assignments = [
            {"name": name, "count": 1, "flavors": flavor, "resourceUsage": usage}
            for name in pod_sets or ("main",)
        ]
        reserved = _condition(
            "QuotaReserved", "QuotaReserved", f"Quota reserved in ClusterQueue {self._namespace}"
        )
        return {
            "admission": {"clusterQueue": self._namespace, "podSetAssignments": assignments},
            "conditions": [reserved],
        }

    def _admission(self, *pod_sets: str) -> Json:
        status = self._reservation(*pod_sets)
        admitted = _condition("Admitted", "Admitted", "The workload is admitted")
        return status | {"conditions": [*status["conditions"], admitted]}

    # Queues: the server repeats concurrent writes of one object, so each request has a queue of its own.

    async def _cluster_queue(self, name: str) -> Request:
        queue = f"{self._namespace}-{name}"
        await self._client.create(CLUSTER_QUEUES, objects.cluster_queue(BASELINE, queue, self._namespace))
        self._queues.append(queue)
        usage = [
            {
                "name": self._namespace,
                "resources": [{"name": "cpu", "total": str(_serial(name)), "borrowed": "0"}],
            }
        ]
        status = {"flavorsReservation": usage, "flavorsUsage": usage, **_counts(name)}
        path = CLUSTER_QUEUES.path("", queue, "status")
        return Request("PATCH", path, {"status": status}, {"Content-Type": PatchKind.MERGE.value})

    async def _local_queue(self, name: str) -> Request:
        queue = objects.local_queue(self._namespace)
        await self._client.create(LOCAL_QUEUES, {**queue, "metadata": {**queue["metadata"], "name": name}})
        path = LOCAL_QUEUES.path(self._namespace, name, "status")
        return Request("PATCH", path, {"status": _counts(name)}, {"Content-Type": PatchKind.MERGE.value})

    # Events

    async def _event(self, name: str) -> Request:
        note = f"Quota reserved in ClusterQueue {self._namespace}, wait time since queued was 1s"
        body = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": f"{name}.1", "namespace": self._namespace},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "type": "Normal",
            "reason": "QuotaReserved",
            "action": "QuotaReserved",
            "note": note,
            "regarding": self._reference(name),
            "reportingController": "quorate-controllers",
            "reportingInstance": "quorate-controllers",
        }
        return Request("POST", EVENTS.path(self._namespace), body)

    async def _event_for_metadata(self, name: str) -> Request:
        return (await self._event(name))._replace(headers=METADATA_ONLY)

    async def _core_event(self, name: str) -> Request:
        message = f"Quota reserved in ClusterQueue {self._namespace}, wait time since queued was 1s"
        body = {
            "apiVersion": "v1",
            "kind": EVENTS.kind,
            "metadata": {"name": f"{name}.1", "namespace": self._namespace},
            "firstTimestamp": _MOMENT,
            "lastTimestamp": _MOMENT,
            "count": 1,
            "type": "Normal",
            "reason": "QuotaReserved",
            "message": message,
            "involvedObject": self._reference(name),
            "source": {"component": "quorate-controllers"},
            "reportingComponent": "quorate-controllers",
        }
        return Request("POST", CORE_EVENTS.format(self._namespace), body)

    async def _series(self, name: str) -> Request:
        event = await self._event(name)
        await send(self._client, event)
        body = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}}
        path = EVENTS.path(self._namespace, event.body["metadata"]["name"])
        return Request("PATCH", path, body, {"Content-Type": PatchKind.MERGE.value})

    def _reference(self, name: str) -> Json:
        return {
            "apiVersion": WORKLOADS.api_version,
            "kind": WORKLOADS.kind,
            "namespace": self._namespace,
            "name": name,
            "uid": "00000000-0000-4000-8000-000000000000",
        }


async def send(client: Client, request: Request) -> bytes:
    return await client.request(
        request.method,
        request.path,
        query={"fieldManager": MANAGER} if request.method != "DELETE" else {},
        body=codec.encode(request.body),
        headers=request.headers,
    )


def _condition(type_: str, reason: str, message: str) -> Json:
    return {
        "type": type_,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": _MOMENT,
        "observedGeneration": 1,
    }


def _serial(name: str) -> int:
    return int(name.rpartition("-")[2])


def _counts(name: str) -> Json:
    return {"pendingWorkloads": _serial(name), "reservingWorkloads": 1, "admittedWorkloads": 1}
