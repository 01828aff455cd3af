"""Admission plugins: namespace lifecycle, service account, priority and more."""

from quorate.api.codec import Json
from quorate.api.quantity import parse_quantity
from quorate.local.objects.errors import Cause, forbidden, not_found
from quorate.local.server.admission import limit_ranger, pod_groups, priority
from quorate.local.server.registry.defaults.pods import add_default_tolerations
from quorate.local.server.requests.context import RequestContext
from quorate.local.server.storage.store import Key

SIGNING_REQUESTS = "certificatesigningrequests.certificates.k8s.io"
STORAGE_CLASSES = "storageclasses.storage.k8s.io"
DEFAULT_CLASS_ANNOTATION = "storageclass.kubernetes.io/is-default-class"
PERMANENT_NAMESPACES = ("default", "kube-public", "kube-system")
TOPOLOGY_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
NOT_READY = ("node.kubernetes.io/not-ready", "NoSchedule")


def check_namespace_deletion(context: RequestContext, obj: Json) -> None:
    """Keep the namespaces of the cluster itself.  Raises StatusError(403)."""
    if context.kind.resource == "namespaces" and obj["metadata"]["name"] in PERMANENT_NAMESPACES:
        raise context.forbidden(obj, "this namespace may not be deleted")


def require_namespace(context: RequestContext, obj: Json) -> None:
    """Check that the namespace exists.  Raises StatusError: 404, or 403 if it is terminating."""
    if not context.namespace:
        return
    entry = context.server.store.get(Key("namespaces", "", context.namespace))
    if entry is None:
        raise not_found("", "namespaces", context.namespace)
    if entry.decode().get("status", {}).get("phase") == "Terminating":
        reason = (
            f"unable to create new content in namespace {context.namespace} because it is being terminated"
        )
        message = f"namespace {context.namespace} is being terminated"
        cause = Cause("metadata.namespace", "NamespaceTerminating", message)
        raise context.forbidden(obj, reason, [cause])


def run_mutating_plugins(context: RequestContext, obj: Json) -> None:
    """Run the mutating plugins of the kind.  Raises StatusError(403)."""
    if context.kind.resource == "pods":
        _service_account(context, obj)
        priority.set_pod_priority(context, obj)
        add_default_tolerations(obj["spec"])
        limit_ranger.set_defaults(obj, limit_ranger.limit_ranges_of(context))
        apply_runtime_class(context, obj)
        if labels := topology_labels(context, obj["spec"].get("nodeName", "")):
            obj["metadata"].setdefault("labels", {}).update(labels)
    elif context.kind.resource == pod_groups.POD_GROUPS:
        pod_groups.protect(obj)
        priority.set_pod_group_priority(context, obj)
    elif context.kind.resource == "persistentvolumeclaims":
        _storage_class(context, obj["spec"])
    elif context.kind.resource == "nodes":
        _taint_not_ready(obj["spec"])
    elif context.kind.resource == SIGNING_REQUESTS:
        _set_user(context, obj.setdefault("spec", {}))


def run_validating_plugins(context: RequestContext, obj: Json) -> None:
    """Run the validating plugins of the kind.  Raises StatusError(403)."""
    resource = context.kind.resource
    if resource in ("pods", "persistentvolumeclaims"):
        limit_ranger.check_bounds(resource, obj, limit_ranger.limit_ranges_of(context))
    if resource == "pods":
        check_overhead(context, obj)
    elif context.kind.resource == pod_groups.POD_GROUPS:
        pod_groups.check_template(context, obj)


def run_update_plugins(context: RequestContext, new: Json, old: Json) -> None:
    """Run the validating plugins of an update of the kind.  Raises StatusError(403)."""
    if context.kind.resource == pod_groups.JOBS and not context.info.subresource:
        pod_groups.check_parallelism(context, new, old)


def run_status_plugins(context: RequestContext, new: Json, old: Json) -> None:
    """Set the times of conditions of a certificate request that an update of its status leaves out."""
    if context.kind.resource != SIGNING_REQUESTS:
        return
    before = {
        (condition["type"], condition["status"]): condition.get("lastTransitionTime")
        for condition in old.get("status", {}).get("conditions", ())
    }
    now = context.server.timestamp()
    for condition in new["status"].get("conditions", ()):
        condition.setdefault("lastUpdateTime", now)
        since = before.get((condition.get("type"), condition.get("status")))
        condition.setdefault("lastTransitionTime", since or now)


def _set_user(context: RequestContext, spec: Json) -> None:
    """Set the user of the request as the user that requests the certificate."""
    for field in ("uid", "groups", "extra"):
        spec.pop(field, None)
    spec["username"] = context.user.name
    if context.user.groups:
        spec["groups"] = list(context.user.groups)


def _service_account(context: RequestContext, pod: Json) -> None:
    """Set the service account of a pod and check that it exists.

    The account named default may not exist yet: its controller creates it asynchronously.
    """
    name = pod["spec"].setdefault("serviceAccountName", "default")
    pod["spec"]["serviceAccount"] = name
    if (
        name != "default"
        and context.server.store.get(Key("serviceaccounts", context.namespace, name)) is None
    ):
        where = f"{context.namespace}/{name}"
        message = f'error looking up service account {where}: serviceaccount "{name}" not found'
        raise context.forbidden(pod, message)


def _storage_class(context: RequestContext, spec: Json) -> None:
    """Set the default storage class, the newest if there are several; an empty class name stays."""
    default_classes = [
        candidate["metadata"]
        for entry in context.server.store.entries(STORAGE_CLASSES)
        if (candidate := entry.decode())["metadata"].get("annotations", {}).get(DEFAULT_CLASS_ANNOTATION)
        == "true"
    ]
    if default_classes and "storageClassName" not in spec:
        newest = max(
            default_classes, key=lambda candidate: (candidate["creationTimestamp"], candidate["name"])
        )
        spec["storageClassName"] = newest["name"]


def topology_labels(context: RequestContext, node: str) -> Json:
    """Return the labels of a node that its pods get from it; none if the node does not exist."""
    entry = context.server.store.get(Key("nodes", "", node)) if node else None
    if entry is None or TOPOLOGY_LABELS[0].rpartition("/")[0].encode() not in entry.data:
        return {}
    labels = entry.decode()["metadata"].get("labels", {})
    return {name: labels[name] for name in TOPOLOGY_LABELS if name in labels}


def _taint_not_ready(node: Json) -> None:
    """Taint a new node, so that no pod is placed on it before it is ready."""
    taints = node.setdefault("taints", [])
    if not any((taint.get("key"), taint.get("effect")) == NOT_READY for taint in taints):
        key, effect = NOT_READY
        taints.append({"key": key, "effect": effect})


RUNTIME_CLASSES = "runtimeclasses.node.k8s.io"


def apply_runtime_class(context: RequestContext, pod: Json) -> None:
    """Set overhead, node selector and tolerations.

    Raises StatusError(403) if the class does not exist or contradicts the pod.
    """
    runtime_class, spec = _runtime_class(context, pod), pod["spec"]
    overhead = runtime_class.get("overhead", {}).get("podFixed")
    if overhead is not None:
        if spec.get("overhead") and not _are_equal(spec["overhead"], overhead):
            raise _rejected(pod, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        spec["overhead"] = overhead
    _apply_scheduling(pod, runtime_class.get("scheduling", {}))


def check_overhead(context: RequestContext, pod: Json) -> None:
    """Check that the pod has the overhead of its runtime class. Raises StatusError(403)."""
    overhead, own = (
        _runtime_class(context, pod).get("overhead", {}).get("podFixed"),
        pod["spec"].get("overhead"),
    )
    if overhead is None and own is not None:
        raise _rejected(
            pod, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        )
    if overhead is not None and not _are_equal(own or {}, overhead):
        raise _rejected(pod, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")


def _runtime_class(context: RequestContext, pod: Json) -> Json:
    """Return the runtime class of a pod; empty if it names none.  Raises StatusError(403)."""
    name = pod["spec"].get("runtimeClassName", "")
    if not name:
        return {}
    entry = context.server.store.get(Key(RUNTIME_CLASSES, "", name))
    if entry is None:
        raise _rejected(pod, f'pod rejected: RuntimeClass "{name}" not found')
    return entry.decode()


def _are_equal(one: Json, other: Json) -> bool:
    return {name: parse_quantity(amount) for name, amount in one.items()} == {
        name: parse_quantity(amount) for name, amount in other.items()
    }


def _apply_scheduling(pod: Json, scheduling: Json) -> None:
    spec = pod["spec"]
    for key, value in scheduling.get("nodeSelector", {}).items():
        present = spec.setdefault("nodeSelector", {}).setdefault(key, value)
        if present != value:
            raise _rejected(
                pod,
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {present}",
            )
    tolerations = spec.get("tolerations", [])
    missing = [
        toleration for toleration in scheduling.get("tolerations", ()) if toleration not in tolerations
    ]
    if missing:
        spec["tolerations"] = [*tolerations, *missing]


def _rejected(pod: Json, message: str) -> Exception:
    return forbidden("", "pods", pod["metadata"].get("name", ""), message)
