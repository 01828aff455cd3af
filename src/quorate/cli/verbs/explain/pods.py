"""What the pods of an admitted workload wait for, with their numbers."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from quorate.api.core import SchedulingGate
from quorate.api.kueue import POD_SET, WORKLOAD_ANNOTATION, Workload
from quorate.api.meta import Condition, Key, ObjectMeta, Struct, find_condition
from quorate.cli.verbs.explain.explanation import WorkloadExplanation
from quorate.kube.client import Client
from quorate.kube.errors import Forbidden
from quorate.kube.resources import Resource


class _Waiting(Struct):
    reason: str = ""


class _ContainerState(Struct):
    waiting: _Waiting | None = None


class _ContainerStatus(Struct):
    state: _ContainerState = _ContainerState()


class _Spec(Struct):
    node_name: str = ""
    scheduling_gates: tuple[SchedulingGate, ...] = ()


class _Status(Struct):
    phase: str = "Pending"
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[_ContainerStatus, ...] = ()


class StartedPod(Struct):
    """A pod of an admitted workload, with what tells why it does not run."""

    metadata: ObjectMeta
    spec: _Spec = _Spec()
    status: _Status = _Status()


_PODS = Resource("", "v1", "pods", "Pod", True, StartedPod)


async def pods_of_workloads(client: Client, namespace: str) -> Sequence[StartedPod] | None:
    """Return the pods of all admitted workloads; None without the permission to list pods."""
    try:
        return (await client.list(_PODS, namespace, label_selector=POD_SET)).items
    except Forbidden:
        return None


def with_pods(
    explanation: WorkloadExplanation, workload: Workload, pods: Iterable[StartedPod]
) -> WorkloadExplanation:
    """Return the explanation of an admitted workload, with what its pods wait for that do not run."""
    admission = workload.status.admission
    if explanation.standing not in ("runs", "has quota") or admission is None:
        return explanation
    total = sum(assigned.count or 0 for assigned in admission.pod_set_assignments)
    own = [pod for pod in pods if _workload_of(pod) == workload.metadata.key]
    present = [pod for pod in own if pod.metadata.deletion_timestamp is None]
    running = sum(pod.status.phase in ("Running", "Succeeded") for pod in present)
    if running >= total:
        return explanation
    waits = Counter(_what_it_waits_for(pod) for pod in present)
    del waits[""]
    if missing := total - len(present):
        waits["not created yet"] += max(0, missing)
    details = "; ".join(f"{count} {text}" for text, count in sorted(waits.items()) if count)
    says = f"{explanation.says}; {running} of {total} pods run{f': {details}' if details else ''}"
    return msgspec.structs.replace(
        explanation, standing="runs in part" if running else "has quota", says=says
    )


def _workload_of(pod: StartedPod) -> Key:
    return Key(pod.metadata.namespace, pod.metadata.annotations.get(WORKLOAD_ANNOTATION, ""))


def _what_it_waits_for(pod: StartedPod) -> str:
    """Return why the pod does not run; empty if it does, or did."""
    if pod.status.phase in ("Running", "Succeeded"):
        return ""
    if pod.status.phase == "Failed":
        return "failed"
    if pod.spec.scheduling_gates:
        return f"with the gate {', '.join(sorted(gate.name for gate in pod.spec.scheduling_gates))}"
    if not pod.spec.node_name:
        scheduled = find_condition(pod.status.conditions, "PodScheduled")
        return f"without a node{f' ({scheduled.message})' if scheduled and scheduled.message else ''}"
    waiting = {each.state.waiting.reason for each in pod.status.container_statuses if each.state.waiting}
    reasons = ", ".join(sorted(filter(None, waiting)))
    return f"starting on a node ({reasons})" if reasons else "starting on a node"
