"""What is known of a pod that cannot be decoded or used: its node, and at best its requests."""

import asyncio
from typing import NamedTuple

import msgspec

from quorate.api import codec, core
from quorate.api.core.pod import ENDED_PHASES, Pod, RequestingSpec, RequestingStatus
from quorate.api.core.pod_resources import EncodedRequests
from quorate.api.meta import Struct
from quorate.kube.object_faults import ObjectFault


class OccupiedNode(NamedTuple):
    name: str  # "" for none
    requests: EncodedRequests | None  # of the pod; None: not known


class _PodSpec(Struct):
    node_name: str = ""


class _PodStatus(Struct):
    phase: str = ""


class _BoundPod(Struct):
    """The fields that tell where a pod is; other fields may have wrong types."""

    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class _RequestingPod(Struct):
    spec: RequestingSpec = RequestingSpec()
    status: RequestingStatus = RequestingStatus()


def occupied_node(fault: ObjectFault) -> OccupiedNode:
    """Return the node on which the pod holds resources."""
    match fault.obj:
        case Pod() as pod:
            node, phase = pod.node_name, pod.status.phase
        case core.Pod() as pod:
            node, phase = pod.spec.node_name, pod.status.phase
        case _:
            try:
                bound = codec.decode(_BoundPod, fault.raw)
            except msgspec.DecodeError:
                return OccupiedNode("", None)  # not even this can be read, which no API server stores
            node, phase = bound.spec.node_name, bound.status.phase
    return OccupiedNode("" if phase in ENDED_PHASES else node, fault.requests)


async def with_pod_requests(fault: ObjectFault) -> ObjectFault:
    """Return ``fault`` with the requests of its object, if that is a pod on a node and has the form of one.

    They are computed in a thread: a pod of the largest size has tens of thousands, which take 0.2 s.
    """
    if (fault.resource.group, fault.resource.plural) != ("", "pods") or not occupied_node(fault).name:
        return fault
    try:
        requests = await asyncio.to_thread(_requests_of, fault.raw)
    except msgspec.DecodeError:
        return fault
    return msgspec.structs.replace(fault, requests=requests)


def _requests_of(raw: bytes) -> EncodedRequests:
    pod = codec.decode_any_quantities(_RequestingPod, raw)
    return EncodedRequests.of_pod(pod.spec, pod.status)
