"""What depends on other objects when one is created: its namespace, account, priority, addresses and more."""

import ipaddress
from typing import Any

from quorate.local.server.admission import limit_ranger
from quorate.local.server.errors import Cause, StatusError, forbidden, not_found
from quorate.local.server.registry.defaults.pods import tolerate_silence
from quorate.local.server.requests.context import Call
from quorate.local.server.storage.store import Key

Json = dict[str, Any]

PRIORITY_CLASSES = "priorityclasses.scheduling.k8s.io"
STORAGE_CLASSES = "storageclasses.storage.k8s.io"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
NOT_READY = ("node.kubernetes.io/not-ready", "NoSchedule")
SERVICE_NETWORK = ipaddress.IPv4Network("10.96.0.0/16")
NODE_PORTS = range(30_000, 32_768)


def require_namespace(call: Call, obj: Json) -> None:
    """Raises StatusError: 404 if the namespace does not exist, 403 if it is being deleted."""
    if not call.namespace:
        return
    entry = call.context.store.get(Key("namespaces", "", call.namespace))
    if entry is None:
        raise not_found("", "namespaces", call.namespace)
    if entry.decode().get("status", {}).get("phase") == "Terminating":
        name = obj.get("metadata", {}).get("name", "")
        why = f"unable to create new content in namespace {call.namespace} because it is being terminated"
        message = f"namespace {call.namespace} is being terminated"
        cause = Cause("metadata.namespace", "NamespaceTerminating", message)
        raise forbidden(call.kind.group, call.kind.plural, name, why, [cause])


def complete(call: Call, obj: Json) -> None:
    """Fill in what other objects say.  Raises StatusError(403) when they do not allow it."""
    if call.kind.resource == "pods":
        _service_account(call, obj)
        _priority(call, obj)
        tolerate_silence(obj["spec"])
        limit_ranger.apply(call, obj)
    elif call.kind.resource == "persistentvolumeclaims":
        _storage_class(call, obj["spec"])
    elif call.kind.resource == "nodes":
        _keep_off(obj["spec"])


def allocate(call: Call, obj: Json) -> None:
    """Give a new object what there is only one of."""
    if call.kind.resource == "services":
        _addresses(call, obj["spec"], obj["metadata"]["uid"])


def _refuse(call: Call, obj: Json, why: str) -> StatusError:
    return forbidden(call.kind.group, call.kind.plural, obj["metadata"].get("name", ""), why)


def _service_account(call: Call, pod: Json) -> None:
    """Every pod runs as an account of its namespace.

    The account named default may still be on its way, its controller being a client like any other.
    """
    name = pod["spec"].setdefault("serviceAccountName", "default")
    pod["spec"]["serviceAccount"] = name
    if name != "default" and call.context.store.get(Key("serviceaccounts", call.namespace, name)) is None:
        where = f"{call.namespace}/{name}"
        why = f'error looking up service account {where}: serviceaccount "{name}" not found'
        raise _refuse(call, pod, why)


def _priority(call: Call, pod: Json) -> None:
    """The number and the preemption policy of the pod's priority class, or of the cluster's default one."""
    spec = pod["spec"]
    name = spec.get("priorityClassName", "")
    if name:
        entry = call.context.store.get(Key(PRIORITY_CLASSES, "", name))
        if entry is None:
            raise _refuse(call, pod, f"no PriorityClass with name {name} was found")
        chosen = entry.decode()
    else:
        chosen = _default_class(call)
        if chosen:
            spec["priorityClassName"] = chosen["metadata"]["name"]
    value = chosen.get("value", 0)
    if spec.get("priority", value) != value:
        why = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec;"
            f" priority admission controller computed {value} from the given PriorityClass name"
        )
        raise _refuse(call, pod, why)
    spec["priority"] = value
    spec.setdefault("preemptionPolicy", chosen.get("preemptionPolicy", "PreemptLowerPriority"))


def _default_class(call: Call) -> Json:
    """The class that is marked as the default, the lowest if several are; empty if none is."""
    classes = (entry.decode() for entry in call.context.store.entries(PRIORITY_CLASSES))
    marked = [found for found in classes if found.get("globalDefault")]
    return min(marked, key=lambda found: (found["value"], found["metadata"]["name"]), default={})


def _storage_class(call: Call, spec: Json) -> None:
    """The class that is marked as the default, the newest if several are; a claim may say "" for none."""
    marked = [
        found["metadata"]
        for entry in call.context.store.entries(STORAGE_CLASSES)
        if (found := entry.decode())["metadata"].get("annotations", {}).get(DEFAULT_CLASS) == "true"
    ]
    if marked and "storageClassName" not in spec:
        newest = max(marked, key=lambda found: (found["creationTimestamp"], found["name"]))
        spec["storageClassName"] = newest["name"]


def _keep_off(node: Json) -> None:
    """No pod is placed on a new node before somebody has seen that it is ready."""
    taints = node.setdefault("taints", [])
    if not any((taint.get("key"), taint.get("effect")) == NOT_READY for taint in taints):
        key, effect = NOT_READY
        taints.append({"key": key, "effect": effect})


def _addresses(call: Call, spec: Json, uid: str) -> None:
    """An address and ports that no other service has, from a place in the range that the uid chooses."""
    others = [entry.decode()["spec"] for entry in call.context.store.entries("services")]
    start = int(uid.replace("-", ""), 16)
    if spec["type"] != "ExternalName" and "clusterIP" not in spec:
        taken = {other.get("clusterIP") for other in others}
        size = SERVICE_NETWORK.num_addresses - 2
        candidates = (str(SERVICE_NETWORK[1 + (start + step) % size]) for step in range(size))
        spec["clusterIP"] = next(address for address in candidates if address not in taken)
        spec["clusterIPs"] = [spec["clusterIP"]]
    if spec["type"] in ("NodePort", "LoadBalancer"):
        used = {port.get("nodePort") for other in (*others, spec) for port in other.get("ports", ())}
        for port in spec.get("ports", ()):
            if "nodePort" not in port:
                ports = (NODE_PORTS[(start + step) % len(NODE_PORTS)] for step in range(len(NODE_PORTS)))
                port["nodePort"] = next(number for number in ports if number not in used)
                used.add(port["nodePort"])
