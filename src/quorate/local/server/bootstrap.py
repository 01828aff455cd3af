"""The objects of a new cluster: namespaces, priority classes, RBAC roles and bindings."""

from collections.abc import Iterator
from importlib.resources import files

import yaml

from quorate.api.codec import Json
from quorate.local.server.auth.authorization import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, GROUP, ROLES
from quorate.local.server.requests.context import ServerContext
from quorate.local.server.storage.store import Key

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
    """Create the missing bootstrap objects; existing ones stay as they are."""
    for name in NAMESPACES:
        labels = {"kubernetes.io/metadata.name": name}
        obj = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }
        await _ensure(server, Key("namespaces", "", name), obj)
    for name, value, description in PRIORITY_CLASSES:
        obj = {
            "metadata": {"name": name, "generation": 1},
            "value": value,
            "description": description,
            "preemptionPolicy": "PreemptLowerPriority",
        }
        await _ensure(server, Key("priorityclasses.scheduling.k8s.io", "", name), obj)
    await _ensure(server, API_SERVICE, _api_service())
    for key, obj in bootstrap_roles():
        await _ensure(server, key, obj)
        await _reconcile_role(server, key, obj)


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


def bootstrap_roles() -> Iterator[tuple[Key, Json]]:
    """Yield the bootstrap roles and bindings of kube-apiserver."""
    text = files(__package__).joinpath("bootstrap_roles.yaml").read_text("utf-8")
    document = yaml.load(text, Loader=yaml.CSafeLoader)
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


async def _reconcile_role(server: ServerContext, key: Key, obj: Json) -> None:
    """Add missing rules and subjects to a bootstrap role or binding, unless autoupdate is off."""
    entry = server.store.get(key)
    assert entry is not None, "it has been made if it was not there"
    current = entry.decode()
    if current["metadata"].get("annotations", {}).get(AUTO_UPDATE) != "true":
        return
    for field in ("rules", "subjects"):
        wanted = [part for part in obj.get(field) or () if part not in (current.get(field) or ())]
        if wanted:
            current[field] = [*(current.get(field) or ()), *wanted]
    if current != entry.decode():
        await server.store.update(key, current, entry.revision)


async def _ensure(server: ServerContext, key: Key, obj: Json) -> None:
    if server.store.get(key) is None:
        obj["metadata"] |= {"uid": server.new_uid(), "creationTimestamp": server.timestamp()}
        await server.store.create(key, obj)
