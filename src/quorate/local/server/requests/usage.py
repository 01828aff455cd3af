"""What containers use, as the kubelet of a node reports it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from quorate.api.meta import Struct


class ContainerUsage(NamedTuple):
    name: str
    cpu_nanos: int  # nanocores
    memory_bytes: int  # the working set


PodUsage = Mapping[tuple[str, str], Sequence[ContainerUsage]]
"""The usage of containers, by namespace and name of the pod."""
UsageSource = Callable[[str], Awaitable[PodUsage | None]]
"""Returns the usage of the pods of a node; None if its pods are simulated."""


async def simulated_usage(_: str) -> PodUsage | None:
    """Return None: without a kubelet of this machine, the pods of all nodes are simulated."""
    return None


class _Cpu(Struct):
    usage_nano_cores: int = 0


class _Memory(Struct):
    working_set_bytes: int = 0


class _ContainerStats(Struct):
    name: str
    cpu: _Cpu = _Cpu()
    memory: _Memory = _Memory()


class _PodReference(Struct):
    name: str
    namespace: str


class _PodStats(Struct):
    pod_ref: _PodReference
    containers: tuple[_ContainerStats, ...] = ()


class StatsSummary(Struct):
    """The response of a kubelet's /stats/summary."""

    pods: tuple[_PodStats, ...] = ()

    def usage(self) -> PodUsage:
        return {
            (pod.pod_ref.namespace, pod.pod_ref.name): tuple(
                ContainerUsage(
                    container.name, container.cpu.usage_nano_cores, container.memory.working_set_bytes
                )
                for container in pod.containers
            )
            for pod in self.pods
        }


def read_summary(content: bytes) -> PodUsage:
    """Return the usage in the response of a kubelet's /stats/summary.  Raises msgspec.DecodeError."""
    return msgspec.json.decode(content, type=StatsSummary).usage()
