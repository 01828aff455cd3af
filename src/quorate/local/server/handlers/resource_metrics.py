"""metrics.k8s.io: what nodes and pods use, for `kubectl top` and autoscalers.

The usage of a node's pods comes from a ``UsageSource``, such as a kubelet's /stats/summary. Simulated pods
use what they request, or what an annotation says.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from quorate.api.codec import Json
from quorate.api.quantity import parse_quantity
from quorate.local.nodes.behavior import USAGE
from quorate.local.server.requests import responses, selectors
from quorate.local.server.requests.context import RequestContext
from quorate.local.server.requests.responses import ApiResponse
from quorate.local.server.requests.usage import ContainerUsage, PodUsage
from quorate.local.server.storage.store import Entry, Key

WINDOW: Final = "15s"
NANOS: Final = 10**9
MAX_NANOS: Final = NANOS * 2**60


async def list_pods(context: RequestContext) -> ApiResponse:
    pods = _selected(context, context.server.store.entries("pods", context.namespace))
    return _list(context, await _pod_metrics(context, pods))


async def get_pod(context: RequestContext) -> ApiResponse:
    entry = context.server.store.get(Key("pods", context.namespace, context.name))
    metrics = await _pod_metrics(context, [entry] if entry else [])
    if not metrics:
        raise context.not_found()
    return responses.document(context, _typed(context, metrics[0]))


async def list_nodes(context: RequestContext) -> ApiResponse:
    nodes = _selected(context, context.server.store.entries("nodes"))
    return _list(context, await _node_metrics(context, nodes))


async def get_node(context: RequestContext) -> ApiResponse:
    entry = context.server.store.get(Key("nodes", "", context.name))
    if entry is None:
        raise context.not_found()
    (metrics,) = await _node_metrics(context, [entry])
    return responses.document(context, _typed(context, metrics))


def _selected(context: RequestContext, entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries that the selectors of the request match."""
    query = context.query
    selector = selectors.parse(context.kind, query.get("labelSelector", ""), query.get("fieldSelector", ""))
    return [entry for entry in entries if selector.matches(entry)]


def _list(context: RequestContext, items: list[Json]) -> ApiResponse:
    version = str(context.server.store.revision)
    return responses.document(
        context,
        {
            "kind": context.kind.list_kind,
            "apiVersion": context.kind.api_version,
            "metadata": {"resourceVersion": version},
            "items": items,
        },
    )


def _typed(context: RequestContext, metrics: Json) -> Json:
    return {"kind": context.kind.kind, "apiVersion": context.kind.api_version} | metrics


async def _pod_metrics(context: RequestContext, entries: Sequence[Entry]) -> list[Json]:
    """Return the metrics of the running pods among stored ones."""
    pods = await _running(context, entries)
    usage = await _usage_by_pod(context, pods)
    common = {"timestamp": context.server.timestamp(), "window": WINDOW}
    return [
        {
            "metadata": _metadata(pod),
            **common,
            "containers": [
                {"name": container.name, "usage": _amounts(container.cpu_nanos, container.memory_bytes)}
                for container in usage[_name(pod)]
            ],
        }
        for pod in pods
    ]


async def _node_metrics(context: RequestContext, nodes: Sequence[Entry]) -> list[Json]:
    names = {entry.key.name for entry in nodes}
    running = await _running(context, context.server.store.entries("pods"))
    pods = [pod for pod in running if pod["spec"]["nodeName"] in names]
    usage = await _usage_by_pod(context, pods)
    totals: dict[str, tuple[int, int]] = {}
    for pod in pods:
        cpu, memory = totals.get(pod["spec"]["nodeName"], (0, 0))
        containers = usage[_name(pod)]
        cpu += sum(container.cpu_nanos for container in containers)
        memory += sum(container.memory_bytes for container in containers)
        totals[pod["spec"]["nodeName"]] = cpu, memory
    common = {"timestamp": context.server.timestamp(), "window": WINDOW}
    return [
        {
            "metadata": _metadata(entry.decode()),
            **common,
            "usage": _amounts(*totals.get(entry.key.name, (0, 0))),
        }
        for entry in nodes
    ]


async def _running(context: RequestContext, entries: Sequence[Entry]) -> list[Json]:
    size = sum(len(entry.data) for entry in entries)
    return await context.compute(size, _running_pods, entries)


def _running_pods(entries: Iterable[Entry]) -> list[Json]:
    pods = (entry.decode() for entry in entries)
    return [
        pod for pod in pods if pod.get("status", {}).get("phase") == "Running" and pod["spec"].get("nodeName")
    ]


async def _usage_by_pod(
    context: RequestContext, pods: Sequence[Json]
) -> dict[tuple[str, str], Sequence[ContainerUsage]]:
    measured: dict[str, PodUsage | None] = {}
    for node in sorted({pod["spec"]["nodeName"] for pod in pods}):
        measured[node] = await context.server.usage(node)
    usage: dict[tuple[str, str], Sequence[ContainerUsage]] = {}
    for pod in pods:
        of_node = measured[pod["spec"]["nodeName"]]
        usage[_name(pod)] = simulated_usage(pod) if of_node is None else of_node.get(_name(pod), ())
    return usage


def simulated_usage(pod: Json) -> tuple[ContainerUsage, ...]:
    """Return what the containers of a simulated pod use: their requests, or the annotation's amounts."""
    given = _annotated((pod["metadata"].get("annotations") or {}).get(USAGE, ""))
    return tuple(
        ContainerUsage(
            container["name"],
            given.get("cpu", _requested(container, "cpu")),
            given.get("memory", _requested(container, "memory")) // NANOS,
        )
        for container in pod["spec"]["containers"]
    )


def _requested(container: Json, resource: str) -> int:
    text = container.get("resources", {}).get("requests", {}).get(resource, "0")
    return min(parse_quantity(text).nanos, MAX_NANOS)


def _annotated(text: str) -> dict[str, int]:
    """Return amounts in nano-units of ``cpu=250m,memory=1Gi``; what cannot be read is left out."""
    amounts: dict[str, int] = {}
    for part in text.split(","):
        name, _, amount = part.strip().partition("=")
        with suppress(ValueError):
            amounts[name] = min(parse_quantity(amount).nanos, MAX_NANOS)
    return amounts


def _name(pod: Json) -> tuple[str, str]:
    return pod["metadata"].get("namespace", ""), pod["metadata"]["name"]


def _metadata(obj: Json) -> Json:
    names = ("name", "namespace", "labels", "creationTimestamp")
    return {name: obj["metadata"][name] for name in names if name in obj["metadata"]}


def _amounts(cpu_nanos: int, memory_bytes: int) -> Json:
    return {"cpu": f"{cpu_nanos}n", "memory": f"{memory_bytes // 1024}Ki"}


HANDLERS = {
    ("pods.metrics.k8s.io", "", "get"): get_pod,
    ("pods.metrics.k8s.io", "", "list"): list_pods,
    ("nodes.metrics.k8s.io", "", "get"): get_node,
    ("nodes.metrics.k8s.io", "", "list"): list_nodes,
}
"""By resource, subresource and verb."""
