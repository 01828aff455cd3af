"""Stop and resume, with the credentials of the user: the API server decides whether it may."""

from typing import Any

from aiohttp import web

from quorate.api.meta import Key
from quorate.dashboard.login.caller import Caller
from quorate.kube.log import logger
from quorate.kube.resources import CLUSTER_QUEUES, WORKLOADS, Resource


async def stop_workload(request: web.Request, caller: Caller) -> None:
    await _patch(caller, WORKLOADS, _workload(request), {"active": False}, "stopped")


async def resume_workload(request: web.Request, caller: Caller) -> None:
    await _patch(caller, WORKLOADS, _workload(request), {"active": True}, "resumed")


async def stop_cluster_queue(request: web.Request, caller: Caller) -> None:
    await _patch(caller, CLUSTER_QUEUES, _queue(request), {"stopPolicy": "HoldAndDrain"}, "stopped")


async def resume_cluster_queue(request: web.Request, caller: Caller) -> None:
    await _patch(caller, CLUSTER_QUEUES, _queue(request), {"stopPolicy": "None"}, "resumed")


def _workload(request: web.Request) -> Key:
    return Key(request.match_info["namespace"], request.match_info["name"])


def _queue(request: web.Request) -> Key:
    return Key("", request.match_info["name"])


async def _patch(caller: Caller, resource: Resource[Any], key: Key, spec: dict[str, Any], done: str) -> None:
    await caller.session.client.patch_metadata(resource, key, {"spec": spec})
    logger(__name__).info(done, kind=resource.kind, object=key, user=caller.session.user.name)
