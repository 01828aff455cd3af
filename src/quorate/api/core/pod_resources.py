"""What one pod asks of a node.

Source: the effective request of a pod as Kubernetes defines it, with restartable init containers
(sidecars, KEP-753), pod-level resources (KEP-2837) and RuntimeClass overhead.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from quorate.api.core import ResourceRequirements, Resources
from quorate.api.quantity import Quantity

_NOTHING: Final = Quantity(0)


class ContainerResources(Protocol):
    """A container, as far as it asks for something."""

    @property
    def resources(self) -> ResourceRequirements: ...
    @property
    def restart_policy(self) -> str: ...


class PodResources(Protocol):
    """The spec of a pod, as far as it asks for something: there is more than one reading of pods."""

    @property
    def containers(self) -> Sequence[ContainerResources]: ...
    @property
    def init_containers(self) -> Sequence[ContainerResources]: ...
    @property
    def resources(self) -> ResourceRequirements | None: ...
    @property
    def overhead(self) -> Resources: ...


def pod_requests(spec: PodResources) -> Resources:
    """The amounts that must be free for one such pod, by resource; resources asked for as zero included.

    Init containers run one after the other, each beside the sidecars started before it; the containers
    run together beside all sidecars.  The pod asks for the largest of these moments.
    """
    sidecars: Resources = {}
    most: Resources = {}
    for container in spec.init_containers:
        wanted = container_requests(container)
        if container.restart_policy == "Always":
            sidecars = add_resources(sidecars, wanted)
            most = max_resources(most, sidecars)
        else:
            most = max_resources(most, add_resources(wanted, sidecars))
    together = sum_resources([sidecars, *(container_requests(container) for container in spec.containers)])
    requests = max_resources(together, most)
    # The pod-level amount replaces the sum, also downwards: its containers share it.
    pod_level = default_requests(spec.resources.requests, spec.resources.limits) if spec.resources else {}
    requests |= {name: amount for name, amount in pod_level.items() if _is_pod_level_resource(name)}
    return add_resources(requests, spec.overhead)


def pod_limits(spec: PodResources) -> Resources:
    """What one such pod may use at most, of the resources it has limits for; reckoned as its requests are.

    Overhead is added where there is a limit: it makes none.
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
    """Whether a pod-level amount has a meaning; devices, for one, belong to a container."""
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def container_requests(container: ContainerResources) -> Resources:
    return default_requests(container.resources.requests, container.resources.limits)


def default_requests(requests: Resources, limits: Resources) -> Resources:
    """``requests``, where a resource that has only a limit asks for the limit, as the API defaults it."""
    return {**limits, **requests}


def add_resources(left: Resources, right: Resources) -> Resources:
    # A resource on one side only keeps the form it was written in: 1Gi stays 1Gi.
    return left | {name: left[name] + amount if name in left else amount for name, amount in right.items()}


def sum_resources(many: Iterable[Resources]) -> Resources:
    total: Resources = {}
    for resources in many:
        total = add_resources(total, resources)
    return total


def max_resources(left: Resources, right: Resources) -> Resources:
    """The larger of each; what only one names, as it names it."""
    return left | {name: max(left.get(name, amount), amount) for name, amount in right.items()}


_LIMITED: Final = ("cpu", "memory", "ephemeral-storage")  # the resources whose limits a quota counts
_ONE: Final = Quantity.of_units(1)


def quota_usage(spec: PodResources) -> Resources:
    """The amounts by name, such as ``cpu``, ``requests.cpu``, ``limits.cpu``, ``pods``, ``count/pods``."""
    requests = pod_requests(spec)
    limits = pod_limits(spec)
    return {
        **requests,
        **{f"requests.{name}": amount for name, amount in requests.items()},
        **{f"limits.{name}": limits[name] for name in _LIMITED if name in limits},
        "pods": _ONE,
        "count/pods": _ONE,
    }
