"""Stop and resume, with the credentials of the user: the API server decides whether it may."""

from typing import Any

from starlette.requests import Request

from quorate.api.meta import Key
from quorate.dashboard.login.caller import Caller
from quorate.kube.log import logger
from quorate.kube.resources import CLUSTER_QUEUES, WORKLOADS, Resource


async def stop_workload(request: Request, caller: Caller) -> None:
    await _patch(caller, WORKLOADS, _workload(request), {"active": False}, "stopped")


async def resume_workload(request: Request, caller: Caller) -> None:
    await _patch(caller, WORKLOADS, _workload(request), {"active": True}, "resumed")


async def stop_cluster_queue(request: Request, caller: Caller) -> None:
    await _patch(caller, CLUSTER_QUEUES, _queue(request), {"stopPolicy": "HoldAndDrain"}, "stopped")


async def resume_cluster_queue(request: Request, caller: Caller) -> None:
    await _patch(caller, CLUSTER_QUEUES, _queue(request), {"stopPolicy": "None"}, "resumed")


def _workload(request: Request) -> Key:
    return Key(request.path_params["namespace"], request.path_params["name"])


def _queue(request: Request) -> Key:
    return Key("", request.path_params["name"])


async def _patch(caller: Caller, resource: Resource[Any], key: Key, spec: dict[str, Any], done: str) -> None:
    await caller.session.client.patch_metadata(resource, key, {"spec": spec})
    logger(__name__).info(done, kind=resource.kind, object=key, user=caller.session.user.name)
