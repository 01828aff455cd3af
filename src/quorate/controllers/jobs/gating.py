"""Letting the pods of an elastic job go, as many as are admitted."""

from collections.abc import Mapping, Sequence
from typing import Final

from quorate.api.core import SchedulingGate
from quorate.api.kueue import POD_SET
from quorate.api.meta import Key, ObjectMeta, Struct
from quorate.controllers.writes import Patch, send
from quorate.kube.client import Client
from quorate.kube.resources import Resource

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


async def let_pods_go(client: Client, job: Key, label: str, admitted: Mapping[str, int]) -> None:
    """The same for the pods that ``label`` finds in the namespace of ``job``."""
    listed = await client.list(GATED_PODS, job.namespace, label_selector=label)
    await send(client, let_go(listed.items, admitted))


def _is_held(pod: GatedPod) -> bool:
    return any(gate.name == ELASTIC_GATE for gate in pod.spec.scheduling_gates)


def _by_age(pod: GatedPod) -> tuple[str, str]:
    created = pod.metadata.creation_timestamp
    return ("" if created is None else created.isoformat(), pod.metadata.name)


def _without_gate(pod: GatedPod) -> Patch:
    left = [gate for gate in pod.spec.scheduling_gates if gate.name != ELASTIC_GATE]
    body = {"spec": {"schedulingGates": left or None}}
    return Patch(GATED_PODS, pod.metadata.key, pod.metadata.resource_version, body)
