"""The objects of a new cluster: namespaces, priority classes, RBAC roles and bindings."""

import asyncio
from collections.abc import Coroutine, Iterator
from functools import cache
from importlib.resources import files

import yaml

from quorate.api.codec import Json
from quorate.local.server.auth.authorization import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, GROUP, ROLES
from quorate.local.server.requests.context import ServerContext
from quorate.local.server.storage.store import Entry, Key

AUTO_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"
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


API_SERVICE = Key("services", "default", "kubernetes")
API_SERVICE_ADDRESS = "10.96.0.1"


async def create_bootstrap_objects(server: ServerContext) -> None:
    """Create the missing bootstrap objects; existing ones stay as they are, except for missing rules."""
    writes: list[Coroutine[None, None, Entry]] = []  # committed as one group
    for key, obj in (*_basic_objects(), *_bootstrap_roles()):
        entry = server.store.get(key)
        if entry is None:
            obj["metadata"] |= {"uid": server.new_uid(), "creationTimestamp": server.timestamp()}
            writes.append(server.store.create(key, obj))
        elif (completed := _with_missing_rules(entry.decode(), obj)) != entry.decode():
            writes.append(server.store.update(key, completed, entry.revision))
    await asyncio.gather(*writes)


def _basic_objects() -> Iterator[tuple[Key, Json]]:
    for name in NAMESPACES:
        labels = {"kubernetes.io/metadata.name": name}
        obj = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }
        yield Key("namespaces", "", name), obj
    for name, value, description in PRIORITY_CLASSES:
        obj = {
            "metadata": {"name": name, "generation": 1},
            "value": value,
            "description": description,
            "preemptionPolicy": "PreemptLowerPriority",
        }
        yield Key("priorityclasses.scheduling.k8s.io", "", name), obj
    yield API_SERVICE, _api_service()


def _api_service() -> Json:
    """Return the service through which pods reach the API server."""
    port = {"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}
    return {
        "metadata": {
            "name": API_SERVICE.name,
            "namespace": API_SERVICE.namespace,
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": API_SERVICE_ADDRESS,
            "clusterIPs": [API_SERVICE_ADDRESS],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
            "ports": [port],
            "sessionAffinity": "None",
        },
        "status": {"loadBalancer": {}},
    }


@cache
def _roles_of_the_file() -> Json:
    text = files(__package__).joinpath("bootstrap_roles.yaml").read_text("utf-8")
    document: Json = yaml.load(text, Loader=yaml.CSafeLoader)
    return document


def _bootstrap_roles() -> Iterator[tuple[Key, Json]]:
    """Yield the bootstrap roles and bindings of kube-apiserver."""
    document = _roles_of_the_file()
    for name, role in document["cluster-roles"].items():
        obj: Json = {"metadata": _metadata(name, role.get("labels", {})), "rules": None}
        if "aggregates" in role:
            selector = {"matchLabels": {role["aggregates"]: "true"}}
            obj["aggregationRule"] = {"clusterRoleSelectors": [selector]}
        if "rules" in role:
            obj["rules"] = [_rule(*parts) for parts in role["rules"]]
        yield Key(CLUSTER_ROLES, "", name), obj
    for name, groups in document["cluster-role-bindings"].items():
        yield (
            Key(CLUSTER_ROLE_BINDINGS, "", name),
            {
                "metadata": _metadata(name, {}),
                "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
                "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": group} for group in groups],
            },
        )
    reader = _metadata("extension-apiserver-authentication-reader", {}) | {"namespace": "kube-system"}
    rule = _rule(["get", "list", "watch"], [""], ["configmaps"])
    rule["resourceNames"] = ["extension-apiserver-authentication"]
    yield Key(ROLES, "kube-system", reader["name"]), {"metadata": reader, "rules": [rule]}


def _metadata(name: str, labels: dict[str, str]) -> Json:
    return {
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"} | labels,
        "annotations": {AUTO_UPDATE: "true"},
    }


def _rule(verbs: list[str], about: list[str], resources: list[str] | None = None) -> Json:
    if resources is None:
        return {"verbs": verbs, "nonResourceURLs": about}
    return {"verbs": verbs, "apiGroups": about, "resources": resources}


def _with_missing_rules(current: Json, wanted: Json) -> Json:
    """Return a role or binding with the missing rules and subjects, unless its autoupdate is off."""
    if (current["metadata"].get("annotations") or {}).get(AUTO_UPDATE) == "true":
        for field in ("rules", "subjects"):
            has = current.get(field) or ()
            if missing := [part for part in wanted.get(field) or () if part not in has]:
                current[field] = [*has, *missing]
    return current
