"""The operations of the dashboard's API, version 1, and its OpenAPI document, which this module prints."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final, Literal

import msgspec

from quorate.api.open_api import components, json_content
from quorate.dashboard import schema as s
from quorate.dashboard.history.series import Range
from quorate.dashboard.queries import ListQuery, PodGroupQuery, WorkloadQuery
from quorate.dashboard.schema import LoginMethods, Problem
from quorate.dashboard.submission_schema import SubmissionAnswer, SubmissionQueue, SubmissionRequest

PREFIX: Final = "/api/v1"
CSRF_HEADER: Final = "X-CSRF-Token"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter; one of type ``dict`` stands for all parameters without a name of their own."""

    name: str
    type: Any = str


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path below ``PREFIX``; names in braces are parts of the path."""

    method: Literal["GET", "POST", "DELETE"]
    id: str  # in camelCase; ``app`` has a handler of the same name
    path: str
    summary: str
    answer: Any = None  # None: without a body (204)
    body: Any = None
    parameters: tuple[Parameter, ...] = ()
    needs_session: bool = True
    content_type: str = "application/json"

    @property
    def changes(self) -> bool:
        """Return True if the request must prove that the page sent it."""
        return self.method != "GET"

    @property
    def path_parameters(self) -> Iterator[str]:
        for part in self.path.split("/"):
            if part.startswith("{"):
                yield part.strip("{}")


# The pods of a gang, and by resource what each of them requests: pods=8&cpu=4&memory=16Gi&nvidia.com/gpu=1.
_GANG: Final = (Parameter("pods", int), Parameter("requests", dict[str, str]))


def _of_query(type_: type[ListQuery]) -> tuple[Parameter, ...]:
    return tuple(Parameter(field.encode_name, field.type) for field in msgspec.structs.fields(type_))


_get: Final = partial(Operation, "GET")
_post: Final = partial(Operation, "POST")
_delete: Final = partial(Operation, "DELETE")
OPERATIONS: Final = (
    _get("getSession", "/session", "The session of the caller.", s.Session),
    _post(
        "login", "/session", "Log in with a Kubernetes token.", s.Session, s.TokenLogin, needs_session=False
    ),
    _delete("logout", "/session", "Log out."),
    _get("getOverview", "/overview", "Cohorts, counts and the most frequent reasons.", s.Overview),
    _get(
        "listClusterQueues",
        "/cluster-queues",
        "The cluster queues, by name.",
        tuple[s.ClusterQueueSummary, ...],
    ),
    _get("getClusterQueue", "/cluster-queues/{name}", "A cluster queue.", s.ClusterQueueDetail),
    _post(
        "stopClusterQueue",
        "/cluster-queues/{name}/stop",
        "Stop a cluster queue: admit no workloads and evict admitted ones.",
    ),
    _post("resumeClusterQueue", "/cluster-queues/{name}/resume", "Resume a cluster queue."),
    _get(
        "listLocalQueues",
        "/local-queues",
        "The local queues, by namespace and name.",
        tuple[s.LocalQueueSummary, ...],
    ),
    _get(
        "listWorkloads",
        "/workloads",
        "A page of the workloads that match.",
        s.WorkloadPage,
        parameters=_of_query(WorkloadQuery),
    ),
    _get("getWorkload", "/workloads/{namespace}/{name}", "A workload.", s.WorkloadDetail),
    _post(
        "stopWorkload",
        "/workloads/{namespace}/{name}/stop",
        "Stop a workload: evict it, and keep it out of the queue.",
    ),
    _post("resumeWorkload", "/workloads/{namespace}/{name}/resume", "Queue a stopped workload again."),
    _get(
        "getManifests",
        "/workloads/{namespace}/{name}/manifests",
        "The jobs of a workload, and the workload, as YAML.",
        tuple[s.Manifest, ...],
    ),
    _get(
        "getPodLog",
        "/pods/{namespace}/{name}/log",
        "The last lines that a container of a pod has written.",
        s.PodLog,
        parameters=(Parameter("container"),),
    ),
    _get(
        "listSubmissionQueues",
        "/submission-queues",
        "The local queues to which the caller may submit jobs.",
        tuple[SubmissionQueue, ...],
    ),
    _post(
        "submitJob",
        "/submissions",
        "Create a job, or say whether and when it would start.",
        SubmissionAnswer,
        SubmissionRequest,
    ),
    _get(
        "listPodGroups",
        "/pod-groups",
        "A page of the pod groups that match.",
        s.PodGroupPage,
        parameters=_of_query(PodGroupQuery),
    ),
    _get("getPodGroup", "/pod-groups/{namespace}/{name}", "A pod group.", s.PodGroupDetail),
    _get("listGangQueues", "/gang-queues", "The queues of pod groups.", tuple[s.GangQueueRow, ...]),
    _get(
        "getNodes",
        "/nodes",
        "The nodes as a tree, with the largest gangs that fit.",
        s.NodesView,
        parameters=(Parameter("topology"), *_GANG),
    ),
    _get(
        "placeGang",
        "/gang-placement",
        "Where a gang of equal pods would go now.",
        s.GangPlacement,
        parameters=_GANG,
    ),
    _get(
        "search",
        "/search",
        "Objects by name, job, label or namespace.",
        s.SearchResult,
        parameters=(Parameter("q"), Parameter("limit", int)),
    ),
    _get(
        "getOverviewHistory",
        "/history/overview",
        "Samples of the whole cluster.",
        s.Series,
        parameters=(Parameter("range", Range),),
    ),
    _get(
        "getClusterQueueHistory",
        "/history/cluster-queues/{name}",
        "Samples of a cluster queue.",
        s.Series,
        parameters=(Parameter("range", Range),),
    ),
    _get(
        "listTransitions",
        "/transitions",
        "The latest evictions and preemptions, newest first.",
        tuple[s.Transition, ...],
        parameters=(Parameter("clusterQueue"), Parameter("limit", int)),
    ),
    _get(
        "getForecast",
        "/forecast",
        "When the waiting workloads of a cluster queue would start.",
        s.Forecast,
        parameters=(Parameter("clusterQueue"),),
    ),
    _post(
        "whatIf",
        "/what-if",
        "Simulate the cluster as it is, and with manifests applied.",
        s.WhatIfAnswer,
        s.WhatIfRequest,
    ),
    _get(
        "streamEvents",
        "/events",
        "What to read again, as events named change.",
        s.ChangeNotice,
        content_type="text/event-stream",
    ),
    _get("getOpenApi", "/openapi.json", "This document.", dict[str, Any], needs_session=False),
)


@cache
def open_api_document() -> dict[str, Any]:
    """Return the document in the form of OpenAPI 3.1, with JSON schemas."""
    types = [Problem, LoginMethods]
    types += [type_ for one in OPERATIONS for type_ in (one.answer, one.body) if type_ is not None]
    references, schemas = components(types)
    by_type = dict(zip(map(repr, types), references, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        described = _described(operation, by_type)
        paths.setdefault(f"{PREFIX}{operation.path}", {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {"title": "Quorate dashboard", "version": "v1"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _described(operation: Operation, by_type: dict[str, Any]) -> dict[str, Any]:
    problem = {"description": "Refused.", "content": json_content(by_type[repr(Problem)])}
    responses: dict[str, Any] = {"default": problem}
    if operation.answer is None:
        responses["204"] = {"description": "Done."}
    else:
        content = {operation.content_type: {"schema": by_type[repr(operation.answer)]}}
        responses["200"] = {"description": "OK", "content": content}
    if operation.needs_session:
        content = json_content(by_type[repr(LoginMethods)])
        responses["401"] = {"description": "Without a session: how to log in.", "content": content}
    described: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "parameters": list(_parameters(operation)),
        "responses": responses,
    }
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": json_content(by_type[repr(operation.body)])}
    return described


def _parameters(operation: Operation) -> Iterator[dict[str, Any]]:
    for name in operation.path_parameters:
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
    for parameter in operation.parameters:
        (schema,), _ = components([parameter.type])
        yield {"name": parameter.name, "in": "query", "schema": schema}
    if operation.changes and operation.needs_session:
        yield {"name": CSRF_HEADER, "in": "header", "required": True, "schema": {"type": "string"}}


if __name__ == "__main__":
    encoded = msgspec.json.format(msgspec.json.encode(open_api_document()), indent=2)
    sys.stdout.buffer.write(encoded + b"\n")
