"""The cost of pod groups, Kubernetes' own and Volcano's, that wait for pods which cannot be evicted.

On each node half of the cpus belong to pods that are more important than the groups that wait, and half to
less important pods.  A member of a waiting group needs more than half of a node, so that no evictions help.
"""

from itertools import count
from typing import Any, Final

from bench.gang.core import timed
from bench.gang.worlds import gpu_node, model_of
from quorate.api import codec
from quorate.api.core import PriorityClass
from quorate.api.core.pod import Pod
from quorate.api.names.volcano import GROUP_NAME
from quorate.api.native_groups import PodGroup
from quorate.api.volcano import PodGroup as VolcanoPodGroup
from quorate.gang.cache.model import Model
from quorate.gang.cache.native_groups import as_volcano_group

NODES: Final = 200
GROUPS: Final = 20
MEMBERS: Final = 10
LOW_ON_EACH: Final = 16
ACTIONS: Final = "enqueue, allocate, preempt, backfill"
MANY_ACTIONS: Final = "enqueue, allocate, preempt, reclaim, backfill"
CREATED: Final = "2026-01-01T00:00:00Z"
LOW, WAITING, HIGH = 0, 100, 1_000


def hopeless_groups(*, native: bool) -> float:
    """Return the milliseconds of a session in which nothing has changed."""
    model = _model(native=native)
    for _ in range(2):  # the first session changes the phases of groups
        timed(model, ACTIONS)
    seconds, outcome = timed(model, ACTIONS)
    assert not outcome.evictions, "nothing helps"
    return 1_000 * seconds


def hopeless_groups_in_churn(*, native: bool) -> float:
    """Return the milliseconds of a session after a change that helps no group."""
    model = _model(native=native)
    timed(model, ACTIONS)
    _add_pod(model, 1_000_000, "", WAITING, 1, "node-of-another-cluster")
    seconds, outcome = timed(model, ACTIONS)
    assert not outcome.evictions, "nothing helps"
    return 1_000 * seconds


def many_hopeless_groups() -> float:
    """Return the seconds of a session after a change, with 1,000 groups and 5,000 nodes with 50,000 pods."""
    model = _model(native=False, nodes=5_000, low_on_each=9, groups=1_000)
    timed(model, MANY_ACTIONS)
    _add_pod(model, 1_000_000, "", WAITING, 1, "node-of-another-cluster")
    seconds, outcome = timed(model, MANY_ACTIONS)
    assert not outcome.evictions, "nothing helps"
    return seconds


def _model(
    *, native: bool, nodes: int = NODES, low_on_each: int = LOW_ON_EACH, groups: int = GROUPS
) -> Model:
    model = model_of(gpu_node(number, 0) for number in range(nodes))
    for priority in (LOW, WAITING, HIGH):
        cls = {"metadata": {"name": f"class-{priority}"}, "value": priority}
        model.set_priority_class(codec.convert(PriorityClass, cls))
    numbers = count()
    for node in range(nodes):
        name = f"gpu-{node:05}"
        _add_group(model, f"high-{node}", 1, HIGH, native=native)
        _add_pod(model, next(numbers), f"high-{node}", HIGH, 64, name, native=native)
        _add_group(model, f"low-{node}", 1, LOW, native=native)
        for _ in range(low_on_each):
            _add_pod(model, next(numbers), f"low-{node}", LOW, 64 // low_on_each, name, native=native)
    for group in range(groups):
        _add_group(model, f"waits-{group}", MEMBERS, WAITING, native=native)
        for _ in range(MEMBERS):
            _add_pod(model, next(numbers), f"waits-{group}", WAITING, 65 + group, "", native=native)
    return model


def _add_group(model: Model, name: str, least: int, priority: int, *, native: bool) -> None:
    if native:
        spec = {"schedulingPolicy": {"gang": {"minCount": least}}, "priority": priority}
        group = codec.convert(PodGroup, {"metadata": _metadata(name), "spec": spec})
        model.set_group(as_volcano_group(group), group.spec)
        return
    volcano = {"minMember": least, "queue": "default", "priorityClassName": f"class-{priority}"}
    status = {"phase": "Inqueue"}
    fields = {"metadata": _metadata(name), "spec": volcano, "status": status}
    model.set_group(codec.convert(VolcanoPodGroup, fields))


def _add_pod(
    model: Model, number: int, group: str, priority: int, cpus: int, node: str, *, native: bool = True
) -> None:
    metadata: dict[str, Any] = _metadata(f"pod-{number}")
    spec: dict[str, Any] = {
        "schedulerName": "quorate",
        "priority": priority,
        "containers": [{"name": "main", "resources": {"requests": {"cpu": str(cpus)}}}],
    }
    if group and native:
        spec["schedulingGroup"] = {"podGroupName": group}
    elif group:
        metadata["annotations"] = {GROUP_NAME: group}
    if node:
        spec["nodeName"] = node
    status = {"phase": "Running" if node else "Pending"}
    model.set_pod(codec.convert(Pod, {"metadata": metadata, "spec": spec, "status": status}))


def _metadata(name: str) -> dict[str, str]:
    return {"name": name, "namespace": "research", "uid": name, "creationTimestamp": CREATED}
