"""Admission plugin RuntimeClass: apply overhead and scheduling rules of a runtime class to a new pod."""

from quorate.api.codec import Json
from quorate.api.quantity import parse_quantity
from quorate.local.server.errors import forbidden
from quorate.local.server.requests.context import RequestContext
from quorate.local.server.storage.store import Key

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
    """Check that the overhead is that of the runtime class.  Raises StatusError(403)."""
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
    missing = [each for each in scheduling.get("tolerations", ()) if each not in tolerations]
    if missing:
        spec["tolerations"] = [*tolerations, *missing]


def _rejected(pod: Json, message: str) -> Exception:
    return forbidden("", "pods", pod["metadata"].get("name", ""), message)
