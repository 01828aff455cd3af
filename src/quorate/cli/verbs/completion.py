"""Shell completion of object names, read from the cluster that the command line selects."""

import asyncio
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import typer

from quorate.api.meta import ObjectMeta
from quorate.inspect.connection import listed_metadata
from quorate.inspect.errors import user_message
from quorate.kube.client import Client
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    NAMESPACES,
    POD_GROUPS,
    QUEUES,
    VOLCANO_JOBS,
    WORKLOADS,
    Resource,
)
from quorate.kube.rest.config import load_rest_config

Complete = Callable[[typer.Context, str], list[str]]

TIMEOUT_S: Final = 2.0  # the user is waiting for the completion
_MAX_NAMES: Final = 500


def _names_of(resource: Resource[Any]) -> Complete:
    return lambda ctx, incomplete: _starting_with(incomplete, _names(ctx, resource))


namespaces = _names_of(NAMESPACES)
cluster_queues = _names_of(CLUSTER_QUEUES)
local_queues = _names_of(LOCAL_QUEUES)
pod_groups = _names_of(POD_GROUPS)
volcano_jobs = _names_of(VOLCANO_JOBS)
volcano_queues = _names_of(QUEUES)


def workloads(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete names of workloads and of their jobs; after ``TYPE/`` names of the jobs of that type."""
    prefix = incomplete[: incomplete.find("/") + 1]
    type_ = prefix.rstrip("/").partition(".")[0].lower()
    listed = _metadata(ctx, WORKLOADS)
    names = set[str]() if prefix else {metadata.name for metadata in listed}
    for metadata in listed:
        names |= {owner.name for owner in metadata.owner_references if type_ in ("", owner.kind.lower())}
    return _starting_with(incomplete, (f"{prefix}{name}" for name in sorted(names)))


def queues(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete queues of the kind that the prefix or ``--local`` selects."""
    if ctx.params.get("local"):
        return local_queues(ctx, incomplete)
    prefix = incomplete[: incomplete.find("/") + 1]
    names = _names(ctx, LOCAL_QUEUES if prefix == "lq/" else CLUSTER_QUEUES)
    return _starting_with(incomplete, (f"{prefix}{name}" for name in names))


def _starting_with(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _names(ctx: typer.Context, resource: Resource[Any]) -> list[str]:
    return sorted(metadata.name for metadata in _metadata(ctx, resource))


def _metadata(ctx: typer.Context, resource: Resource[Any]) -> list[ObjectMeta]:
    """Return the metadata of the objects; none on an error or timeout: completion shows no messages."""
    params = ctx.params
    kubeconfig, context, namespace = (params.get(key) or "" for key in ("kubeconfig", "context", "namespace"))
    path = Path(kubeconfig) if kubeconfig else None
    all_namespaces = bool(params.get("all_namespaces"))
    try:
        return asyncio.run(_list(path, context, namespace, all_namespaces, resource))
    except TimeoutError:
        return []
    except Exception as error:
        if user_message(error) is None:
            raise
        return []


async def _list(
    kubeconfig: Path | None, context: str, namespace: str, all_namespaces: bool, resource: Resource[Any]
) -> list[ObjectMeta]:
    async with asyncio.timeout(TIMEOUT_S):
        cluster = await load_rest_config(kubeconfig, context)
        selected = "" if all_namespaces or not resource.namespaced else namespace or cluster.namespace
        async with Client(cluster, random.Random(), deadline_s=TIMEOUT_S) as client:
            return await listed_metadata(client, resource.path(selected), _MAX_NAMES)
