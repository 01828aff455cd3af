"""Operations on jobs as the user of the page: submit a job, read the log of a pod, read manifests."""

import asyncio
import shlex
from http import HTTPStatus

import yaml
from aiohttp import web

from quorate.api import codec
from quorate.api.meta import Key
from quorate.dashboard import schema as s
from quorate.dashboard.limits import LOG_BYTES, MANIFEST_BYTES, MOST_LOG_LINES
from quorate.dashboard.login.authorization import Authorization
from quorate.dashboard.login.sessions import Caller
from quorate.dashboard.model.model import DashboardModel
from quorate.dashboard.responses import Refused, bad_request, read_body
from quorate.dashboard.serving import parameters as p
from quorate.dashboard.serving.reads import Handler
from quorate.dashboard.simulation.what_if import WhatIf
from quorate.dashboard.submission_schema import SubmissionAnswer, SubmissionQueue, SubmissionRequest
from quorate.inspect.connection import Connection
from quorate.inspect.errors import UsageError
from quorate.inspect.job_names import OwnerResolver
from quorate.inspect.submitting import check_objects, create_job, in_queue, new_name
from quorate.inspect.would_start import Outlook
from quorate.kube.errors import Forbidden, NotFound
from quorate.kube.log import logger
from quorate.kube.resources import JOBS, PODS, WORKLOADS, Json, metadata_of, untyped
from quorate.submission.objects import objects_of
from quorate.submission.request import DEFAULT_IMAGE, InvalidRequest, JobRequest, parse_time


class Submissions:
    def __init__(self, model: DashboardModel, authorization: Authorization, what_if: WhatIf) -> None:
        self._model = model
        self._authorization = authorization
        self._what_if = what_if

    def handlers(self) -> dict[str, Handler]:
        return {
            "listSubmissionQueues": self._queues,
            "submitJob": self._submit,
            "getPodLog": _log,
            "getManifests": _manifests,
        }

    async def _queues(self, request: web.Request, caller: Caller) -> tuple[SubmissionQueue, ...]:
        queues = [key for key, _ in self._model.data.local_queues(caller.viewer)]
        namespaces = {queue.namespace for queue in queues}
        allowed = await self._authorization.creatable(caller.session.user, JOBS, namespaces)
        return tuple(
            SubmissionQueue(namespace=queue.namespace, name=queue.name)
            for queue in queues
            if allowed is None or queue.namespace in allowed
        )

    async def _submit(self, request: web.Request, caller: Caller) -> SubmissionAnswer:
        requested = await read_body(request, SubmissionRequest)
        connection = Connection(caller.session.client, requested.namespace)
        if not requested.namespace:
            raise bad_request("namespace: a job needs one")
        try:
            job = await in_queue(connection, _job_request(requested))
            objects = objects_of(job)
            if requested.dry_run:
                await check_objects(connection, objects)
            else:
                await create_job(connection, objects)
        except (InvalidRequest, UsageError) as error:
            raise bad_request(str(error)) from error
        if requested.dry_run:
            outlook = await self._what_if.outlook(requested.namespace, objects[0], caller)
        else:
            outlook = Outlook(starts="Unknown", message="it is created")
            key = Key(requested.namespace, job.name)
            logger(__name__).info("submitted", object=key, user=caller.session.user.name)
        return SubmissionAnswer(
            name=job.name,
            manifests=yaml.safe_dump_all(objects, sort_keys=False),
            starts=outlook.starts,
            message=outlook.message,
            enough=outlook.enough,
            estimate=outlook.estimate,
            planned=outlook.planned,
        )


def _job_request(requested: SubmissionRequest) -> JobRequest:
    """Return the job as for ``quorate submit``.  Raises ``InvalidRequest``."""
    try:
        command = tuple(shlex.split(requested.command))
    except ValueError as error:
        raise InvalidRequest(f"command: {error}") from error
    return JobRequest(
        name=requested.name or new_name(command[0] if command else ""),
        command=command,
        image=requested.image or DEFAULT_IMAGE,
        local_queue=requested.local_queue,
        pods=requested.pods,
        min_pods=requested.min_pods,
        cpus=requested.cpus,
        memory=requested.memory,
        gpus=requested.gpus,
        time_limit_s=parse_time(requested.time_limit) if requested.time_limit else None,
        gang=requested.gang,
    )


async def _log(request: web.Request, caller: Caller) -> s.PodLog:
    names = request.match_info
    query = {"tailLines": str(MOST_LOG_LINES), "limitBytes": str(LOG_BYTES)}
    if container := p.text(request, "container"):
        query["container"] = container
    path = PODS.path(names["namespace"], names["name"], "log")
    text = await caller.session.client.request("GET", path, query=query)
    return s.PodLog(text=text[:LOG_BYTES].decode(errors="replace"))


async def _manifests(request: web.Request, caller: Caller) -> tuple[s.Manifest, ...]:
    client, names = caller.session.client, request.match_info
    namespace = names["namespace"]
    kind = untyped(WORKLOADS.group, WORKLOADS.version, WORKLOADS.plural, WORKLOADS.kind, True)
    workload = await client.get(kind, Key(namespace, names["name"]))
    documents, owners = [workload], OwnerResolver(client)
    for owner in metadata_of(workload).owner_references:
        resource = await owners.resource_of(owner)
        if resource is not None:
            try:
                documents.insert(0, await client.get(resource, Key(namespace, owner.name)))
            except (NotFound, Forbidden):  # it is shown what the user may read
                continue
    return tuple([await asyncio.to_thread(_manifest, document) for document in documents])


def _manifest(document: Json) -> s.Manifest:
    document["metadata"].pop("managedFields", None)
    kind = document["kind"]
    if len(codec.encode(document)) > MANIFEST_BYTES:
        problem = f"the {kind} is too large to show (use kubectl)"
        raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "TooLarge", problem)
    document = {"apiVersion": document["apiVersion"], **document}  # first, as people write it
    return s.Manifest(kind=kind, text=yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
