"""Names that the shell completes: those of the objects in the cluster that the line leads to."""

import asyncio
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import typer

from quorate.api import codec
from quorate.api.meta import ObjectMeta, Struct
from quorate.cli.errors import user_message
from quorate.kube.client import Client
from quorate.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, NAMESPACES, POD_GROUPS, WORKLOADS, Resource
from quorate.kube.rest.config import load_rest_config

Complete = Callable[[typer.Context, str], list[str]]

WITHIN_S: Final = 2.0  # who has pressed the key is waiting
_MOST: Final = "500"  # more names than that help nobody


class _Named(Struct):
    metadata: ObjectMeta


class _List(Struct):
    items: tuple[_Named, ...] = ()


def workloads(ctx: typer.Context, incomplete: str) -> list[str]:
    return _starting_with(incomplete, _names(ctx, WORKLOADS))


def namespaces(ctx: typer.Context, incomplete: str) -> list[str]:
    return _starting_with(incomplete, _names(ctx, NAMESPACES))


def cluster_queues(ctx: typer.Context, incomplete: str) -> list[str]:
    return _starting_with(incomplete, _names(ctx, CLUSTER_QUEUES))


def local_queues(ctx: typer.Context, incomplete: str) -> list[str]:
    return _starting_with(incomplete, _names(ctx, LOCAL_QUEUES))


def pod_groups(ctx: typer.Context, incomplete: str) -> list[str]:
    return _starting_with(incomplete, _names(ctx, POD_GROUPS))


def queues(ctx: typer.Context, incomplete: str) -> list[str]:
    """Of the kind that the line says."""
    if ctx.params.get("local"):
        return local_queues(ctx, incomplete)
    prefix = incomplete[: incomplete.find("/") + 1]
    found = _names(ctx, LOCAL_QUEUES if prefix == "lq/" else CLUSTER_QUEUES)
    return _starting_with(incomplete, (f"{prefix}{name}" for name in found))


def _starting_with(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _names(ctx: typer.Context, resource: Resource[Any]) -> list[str]:
    """None when the cluster does not answer, or not in time: there is no place to say why."""
    given = ctx.params
    kubeconfig, context, namespace = (given.get(key) or "" for key in ("kubeconfig", "context", "namespace"))
    path = Path(kubeconfig) if kubeconfig else None
    everywhere = bool(given.get("all_namespaces"))
    try:
        return asyncio.run(_asked(path, context, namespace, everywhere, resource))
    except TimeoutError:
        return []
    except Exception as error:
        if user_message(error) is None:
            raise
        return []


async def _asked(
    kubeconfig: Path | None, context: str, namespace: str, everywhere: bool, resource: Resource[Any]
) -> list[str]:
    async with asyncio.timeout(WITHIN_S):
        cluster = await load_rest_config(kubeconfig, context)
        place = "" if everywhere or not resource.namespaced else namespace or cluster.namespace
        async with Client(cluster, random.Random(), deadline_s=WITHIN_S) as client:
            body = await client.request("GET", resource.path(place), query={"limit": _MOST})
    return sorted(each.metadata.name for each in codec.decode(_List, body).items)
