"""The objects a new cluster has before anybody asks for any."""

from typing import Any

from quorate.local.server.call import Context
from quorate.local.server.store import Key

Json = dict[str, Any]

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
PRIORITY_CLASSES = (
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster,"
        " but can be moved to another node if necessary.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
)


async def prepare(context: Context) -> None:
    """Create what is missing; what is there stays as it is."""
    for name in NAMESPACES:
        labels = {"kubernetes.io/metadata.name": name}
        obj = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }
        await _ensure(context, Key("namespaces", "", name), obj)
    for name, value, description in PRIORITY_CLASSES:
        obj = {
            "metadata": {"name": name, "generation": 1},
            "value": value,
            "description": description,
            "preemptionPolicy": "PreemptLowerPriority",
        }
        await _ensure(context, Key("priorityclasses.scheduling.k8s.io", "", name), obj)


async def _ensure(context: Context, key: Key, obj: Json) -> None:
    if context.store.get(key) is None:
        obj["metadata"] |= {"uid": context.new_uid(), "creationTimestamp": context.timestamp()}
        await context.store.create(key, obj)
