"""Admission plugin Priority: set the priority of pods and of pod groups from a PriorityClass."""

from quorate.api.codec import Json
from quorate.local.server.requests.context import RequestContext
from quorate.local.server.storage.store import Entry, Key

PRIORITY_CLASSES = "priorityclasses.scheduling.k8s.io"


SYSTEM_CLASSES = ("system-cluster-critical", "system-node-critical")


def check_deletion(context: RequestContext, obj: Json) -> None:
    """Keep the classes of system pods.  Raises StatusError(403)."""
    if context.kind.resource == PRIORITY_CLASSES and obj["metadata"]["name"] in SYSTEM_CLASSES:
        raise context.forbidden(obj, "this is a system priority class and cannot be deleted")


def set_pod_priority(context: RequestContext, pod: Json) -> None:
    """Set priority and preemption policy.  Raises StatusError(403)."""
    spec = pod["spec"]
    priority_class = _class_of(context, pod)
    value = priority_class.get("value", 0)
    if spec.get("priority", value) != value:
        message = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec;"
            f" priority admission controller computed {value} from the given PriorityClass name"
        )
        raise context.forbidden(pod, message)
    spec["priority"] = value
    policy = priority_class.get("preemptionPolicy", "PreemptLowerPriority")
    if spec.setdefault("preemptionPolicy", policy) != policy:
        message = (
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod"
            f" spec; priority admission controller computed {policy} from the given PriorityClass name"
        )
        raise context.forbidden(pod, message)


def set_pod_group_priority(context: RequestContext, group: Json) -> None:
    """Set the priority.  Raises StatusError(403)."""
    spec, value = group["spec"], _class_of(context, group).get("value", 0)
    if spec.get("priority", value) != value:
        message = (
            f"priority set in the pod group ({spec['priority']}) must match the priority computed ({value})"
            " based on the priority class set in the spec"
        )
        raise context.forbidden(group, message)
    spec["priority"] = value


def _class_of(context: RequestContext, obj: Json) -> Json:
    """Return the class that the spec names, or else the default class, which is set; empty if there is none.

    Raises StatusError(403) if the class does not exist.
    """
    spec = obj["spec"]
    if name := spec.get("priorityClassName", ""):
        entry = context.server.store.get(Key(PRIORITY_CLASSES, "", name))
        if entry is None:
            raise context.forbidden(obj, f"no PriorityClass with name {name} was found")
        return entry.decode()
    priority_class = _default_class(context)
    if priority_class:
        spec["priorityClassName"] = priority_class["metadata"]["name"]
    return priority_class


def _default_class(context: RequestContext) -> Json:
    """Return the default priority class with the lowest value; an empty object if there is no default."""
    classes = context.server.store.usable(PRIORITY_CLASSES, _default_priority, "Priority")
    _, _, default = min(filter(None, classes), key=lambda ranked: ranked[:2], default=(0, "", {}))
    return default


def _default_priority(entry: Entry) -> tuple[int, str, Json] | None:
    """Return value, name and object of a default class; None for any other class."""
    priority_class = entry.decode()
    if not priority_class.get("globalDefault"):
        return None
    return int(priority_class["value"]), entry.key.name, priority_class
