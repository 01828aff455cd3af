"""Letting the pods of an elastic job go, as many as are admitted."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from quorate.api.core import SchedulingGate
from quorate.api.kueue import POD_SET, SLICE_NAME
from quorate.api.meta import Key, ObjectMeta, Struct
from quorate.kube.client import Client
from quorate.kube.resources import Resource
from quorate.kube.writes import Patch, send

ELASTIC_GATE: Final = "kueue.x-k8s.io/elastic-job"


class _Spec(Struct):
    scheduling_gates: tuple[SchedulingGate, ...] = ()


class _Status(Struct):
    phase: str = ""


class GatedPod(Struct):
    metadata: ObjectMeta
    spec: _Spec = _Spec()
    status: _Status = _Status()


GATED_PODS: Final = Resource("", "v1", "pods", "Pod", True, GatedPod)


def let_go(pods: Sequence[GatedPod], admitted: Mapping[str, int]) -> tuple[Patch, ...]:
    """Take the gate from so many pods of each pod set that as many go as are admitted.

    Those that wait longest go first.  Pods say by a label of which pod set they are.
    """
    alive = [
        pod
        for pod in pods
        if pod.status.phase not in ("Succeeded", "Failed") and pod.metadata.deletion_timestamp is None
    ]
    patches: list[Patch] = []
    for name, count in admitted.items():
        members = [pod for pod in alive if pod.metadata.labels.get(POD_SET) == name]
        held = sorted((pod for pod in members if _is_held(pod)), key=_by_age)
        free = max(count - (len(members) - len(held)), 0)
        patches += map(_without_gate, held[:free])
    return tuple(patches)


async def let_pods_go(
    client: Client, slices: Key, owner: tuple[str, str], admitted: Mapping[str, int], *, all_: bool
) -> None:
    """The same for the pods of a job.

    Those that the job's controller made have ``owner``, a label and its value.  Others may make pods for it
    too: an annotation tells of which ``slices`` these are, and they have to be looked for among ``all_`` the
    pods of admitted workloads.
    """
    selector = POD_SET if all_ else "=".join(owner)
    listed = await client.list(GATED_PODS, slices.namespace, label_selector=selector)
    await send(client, let_go(pods_of(listed.items, owner, slices.name), admitted))


def pods_of(pods: Iterable[GatedPod], owner: tuple[str, str], slices: str) -> list[GatedPod]:
    label, value = owner
    return [
        pod
        for pod in pods
        if pod.metadata.labels.get(label) == value or pod.metadata.annotations.get(SLICE_NAME) == slices
    ]


def _is_held(pod: GatedPod) -> bool:
    return any(gate.name == ELASTIC_GATE for gate in pod.spec.scheduling_gates)


def _by_age(pod: GatedPod) -> tuple[str, str]:
    created = pod.metadata.creation_timestamp
    return ("" if created is None else created.isoformat(), pod.metadata.name)


def _without_gate(pod: GatedPod) -> Patch:
    left = [gate for gate in pod.spec.scheduling_gates if gate.name != ELASTIC_GATE]
    body = {"spec": {"schedulingGates": left or None}}
    return Patch(GATED_PODS, pod.metadata.key, pod.metadata.resource_version, body)
