"""Effective resource requests, limits and quota usage of a pod.

Sources: the effective request of a pod as Kubernetes defines it, with restartable init containers (sidecars,
KEP-753), pod-level resources (KEP-2837) and RuntimeClass overhead; the usage of a pod that Kubernetes' quota
evaluator computes.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from quorate.api import codec
from quorate.api.core import ResourceRequirements, Resources
from quorate.api.quantity import Quantity, parse_quantity

_NOTHING: Final = Quantity(0)


class ContainerResources(Protocol):
    """The fields of a container that determine its requests."""

    @property
    def resources(self) -> ResourceRequirements: ...
    @property
    def restart_policy(self) -> str: ...


class PodResources(Protocol):
    """The fields of a pod spec that determine its requests.

    Several struct types for pods satisfy this protocol.
    """

    @property
    def containers(self) -> Sequence[ContainerResources]: ...
    @property
    def init_containers(self) -> Sequence[ContainerResources]: ...
    @property
    def resources(self) -> ResourceRequirements | None: ...
    @property
    def overhead(self) -> Resources: ...


def pod_requests(spec: PodResources) -> Resources:
    """Return the effective request of one pod by resource, including zero requests.

    Init containers run one after the other, each alongside the sidecars started before it. The containers run
    together, alongside all sidecars. The effective request is the maximum over these phases.
    """
    sidecars: Resources = {}
    most: Resources = {}
    for container in spec.init_containers:
        stays = container.restart_policy == "Always"
        # What the container does not ask for is used by the sidecars alone, as in an earlier phase.
        for name, amount in container_requests(container).items():
            used = amount + sidecars[name] if name in sidecars else amount
            if stays:
                sidecars[name] = used
            most[name] = max(most.get(name, used), used)
    together = sum_resources([sidecars, *(container_requests(container) for container in spec.containers)])
    requests = max_resources(together, most)
    # Pod-level amounts replace the sum, even by a smaller amount: containers share them.
    pod_level = default_requests(spec.resources.requests, spec.resources.limits) if spec.resources else {}
    requests |= {name: amount for name, amount in pod_level.items() if _is_pod_level_resource(name)}
    return add_resources(requests, spec.overhead)


class EncodedRequests(msgspec.Struct, frozen=True):
    """The effective request of one pod as JSON, for a pod with so many resources that few are read of it."""

    content: bytes

    @classmethod
    def of_pod(cls, spec: PodResources) -> "EncodedRequests":
        return cls(codec.encode(pod_requests(spec)))

    def of_resources(self, names: Collection[str]) -> Resources:
        """Return the request of each resource in ``names`` that the pod requests."""
        texts = msgspec.json.decode(self.content, type=dict[str, str])
        return {name: parse_quantity(texts[name]) for name in names if name in texts}


def pod_limits(spec: PodResources) -> Resources:
    """Return the effective limits of one pod, for the resources that have limits.

    Limits aggregate as requests do. Overhead is added to a resource only if that resource has a limit.
    """
    limits = pod_requests(_limits_as_requests(spec))
    return {name: amount + spec.overhead.get(name, _NOTHING) for name, amount in limits.items()}


@dataclass(frozen=True, slots=True)
class _LimitsContainer:
    resources: ResourceRequirements
    restart_policy: str


@dataclass(frozen=True, slots=True)
class _LimitsPod:
    containers: Sequence[_LimitsContainer]
    init_containers: Sequence[_LimitsContainer]
    resources: ResourceRequirements | None
    overhead: Resources


def _limits_as_requests(spec: PodResources) -> _LimitsPod:
    def of(container: ContainerResources) -> _LimitsContainer:
        return _LimitsContainer(
            ResourceRequirements(requests=container.resources.limits), container.restart_policy
        )

    return _LimitsPod(
        containers=tuple(map(of, spec.containers)),
        init_containers=tuple(map(of, spec.init_containers)),
        resources=ResourceRequirements(requests=spec.resources.limits) if spec.resources else None,
        overhead={},
    )


def _is_pod_level_resource(resource: str) -> bool:
    """Return True if ``resource`` has pod-level amounts; devices do not, for example."""
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def container_requests(container: ContainerResources) -> Resources:
    return default_requests(container.resources.requests, container.resources.limits)


def default_requests(requests: Resources, limits: Resources) -> Resources:
    """Return ``requests``, with the limit as the request of resources that have only a limit.

    This is the API's own default.
    """
    return {**limits, **requests} if limits else requests


def add_resources(left: Resources, right: Resources) -> Resources:
    return sum_resources((left, right))


def sum_resources(many: Iterable[Resources]) -> Resources:
    """Return the sum of each resource; one that only one of them has keeps its form: 1Gi stays 1Gi."""
    total: Resources = {}
    for resources in many:
        for name, amount in resources.items():
            total[name] = total[name] + amount if name in total else amount
    return total


def max_resources(left: Resources, right: Resources) -> Resources:
    """Return the larger amount of each resource."""
    return left | {name: max(left.get(name, amount), amount) for name, amount in right.items()}


_LIMITED: Final = ("cpu", "memory", "ephemeral-storage")  # a quota counts the limits of these resources
_ONE: Final = Quantity.of_units(1)


def quota_usage(spec: PodResources) -> Resources:
    """Return one pod's usage of ResourceQuotas, by every name that a quota may limit.

    Names are, for example, ``cpu``, ``requests.cpu``, ``limits.cpu``, ``pods``, ``count/pods``. Extended
    resources also appear under their plain name, because Volcano writes ``minResources`` of its pod groups
    so.
    """
    requests = pod_requests(spec)
    limits = pod_limits(spec)
    return {
        **requests,
        **{f"requests.{name}": amount for name, amount in requests.items()},
        **{f"limits.{name}": limits[name] for name in _LIMITED if name in limits},
        "pods": _ONE,
        "count/pods": _ONE,
    }
