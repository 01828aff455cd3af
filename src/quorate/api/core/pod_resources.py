"""Effective resource requests, limits and quota usage of a pod: the only place that says what a pod requests.

Sources: the defaults that the API server sets when it stores a pod (limits become missing requests, pod-level
requests default to what the containers request together, else to the pod-level limits); the effective request
of a pod as kube-scheduler and the kubelet compute it, with restartable init containers (sidecars, KEP-753),
pod-level resources (KEP-2837), RuntimeClass overhead and in-place resize (KEP-1287); the usage of a pod that
Kubernetes' quota evaluator computes.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, Protocol

import msgspec

from quorate.api import codec
from quorate.api.core import ResourceRequirements, Resources
from quorate.api.quantity import NANOS, Quantity, parse_quantity

_NOTHING: Final = Quantity(0)
_MILLI: Final = NANOS // 1000
RESIZE_PENDING: Final = "PodResizePending"
_INFEASIBLE: Final = "Infeasible"


class ContainerResources(Protocol):
    """The fields of a container that determine its requests."""

    @property
    def name(self) -> str: ...
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


class ContainerResourceStatus(Protocol):
    """What a container was allocated, and what it actually has."""

    @property
    def name(self) -> str: ...
    @property
    def allocated_resources(self) -> Resources: ...
    @property
    def resources(self) -> ResourceRequirements | None: ...


class StatusCondition(Protocol):
    @property
    def type(self) -> str: ...
    @property
    def reason(self) -> str: ...


class PodResourceStatus(Protocol):
    """The fields of a pod status that tell of in-place resizes."""

    @property
    def conditions(self) -> Sequence[StatusCondition]: ...
    @property
    def container_statuses(self) -> Sequence[ContainerResourceStatus]: ...
    @property
    def init_container_statuses(self) -> Sequence[ContainerResourceStatus]: ...
    @property
    def allocated_resources(self) -> Resources: ...
    @property
    def resources(self) -> ResourceRequirements | None: ...


def pod_requests(
    spec: PodResources, status: PodResourceStatus | None = None, absent: Resources | None = None
) -> Resources:
    """Return the effective request of one pod by resource, including zero requests.

    ``absent``: what a container counts with that does not request the resource, unless the pod itself does.

    A container or a pod that is resized in place counts the larger of the requested, the allocated and the
    actual amount, according to ``status``.  Pod-level requests replace what the containers request together,
    which is not more: the API server refuses other pods, but not other templates, of which the sum counts.
    """
    in_use = _AmountsInUse(spec, status)
    of_container = in_use.container_requests
    if absent is not None:
        defaults = {name: amount for name, amount in absent.items() if name not in pod_level_requests(spec)}
        requests = _containers_together(spec, lambda container: defaults | of_container(container))
    else:
        requests = _containers_together(spec, of_container)
    if spec.resources is not None and (spec.resources.requests or spec.resources.limits):
        together = _containers_together(spec, container_requests) if in_use.are_known else requests
        pod_level = pod_level_requests(spec, together)
        least = {name: max(amount, together.get(name, amount)) for name, amount in pod_level.items()}
        requests |= in_use.pod_requests(least)
    return sum_resources((requests, spec.overhead))


def pod_level_requests(spec: PodResources, together: Resources | None = None) -> Resources:
    """Return the requests of the pod itself, of the resources that have pod-level amounts.

    The pod-level limit is the default of a resource that no container requests.  ``together``: what the
    containers request together, if that is known.
    """
    if spec.resources is None:
        return {}
    requests, limits = spec.resources.requests, spec.resources.limits
    if together is None:
        together = _containers_together(spec, container_requests) if limits.keys() - requests.keys() else {}
    defaults = {
        name: amount for name, amount in limits.items() if name not in together or _is_huge_page(name)
    }
    return {
        name: amount
        for name, amount in as_stored({**defaults, **requests}).items()
        if _is_pod_level_resource(name)
    }


def _containers_together(
    spec: PodResources, requests_of: Callable[[ContainerResources], Resources]
) -> Resources:
    """Return the largest request of all containers at one time.

    Init containers run one after the other, each alongside the sidecars started before it. The containers run
    together, alongside all sidecars. The effective request is the maximum over these phases.
    """
    sidecars: Resources = {}
    most: Resources = {}
    for container in spec.init_containers:
        stays = container.restart_policy == "Always"
        # What the container does not ask for is used by the sidecars alone, as in an earlier phase.
        for name, amount in requests_of(container).items():
            used = amount + sidecars[name] if name in sidecars else amount
            if stays:
                sidecars[name] = used
            most[name] = max(most.get(name, used), used)
    return max_resources(sum_resources([sidecars, *map(requests_of, spec.containers)]), most)


def is_resize_infeasible(conditions: Iterable[StatusCondition]) -> bool:
    """Return True if the node will never have the amounts that the pod requests now."""
    return any(
        condition.type == RESIZE_PENDING and condition.reason == _INFEASIBLE for condition in conditions
    )


class _AmountsInUse:
    """The requests of a pod and its containers, or the amounts that these still have if larger."""

    def __init__(self, spec: PodResources, status: PodResourceStatus | None) -> None:
        self._status = status
        self._containers: dict[str, ContainerResourceStatus] = {}
        self._is_infeasible = False
        if status is None:
            return
        sidecars = {
            container.name for container in spec.init_containers if container.restart_policy == "Always"
        }
        self._containers = {running.name: running for running in status.container_statuses} | {
            running.name: running for running in status.init_container_statuses if running.name in sidecars
        }
        self._is_infeasible = is_resize_infeasible(status.conditions)

    @property
    def are_known(self) -> bool:
        return bool(self._containers)

    def container_requests(self, container: ContainerResources) -> Resources:
        requests = container_requests(container)
        status = self._containers.get(container.name)
        return (
            requests
            if status is None
            else self._larger(requests, status.allocated_resources, _requests(status))
        )

    def container_limits(self, container: ContainerResources) -> Resources:
        status = self._containers.get(container.name)
        return self._larger(as_stored(container.resources.limits), {}, _limits(status))

    def pod_requests(self, requests: Resources) -> Resources:
        status = self._status
        if status is None:
            return requests
        amounts = self._larger(requests, status.allocated_resources, _requests(status))
        return {name: amounts.get(name, _NOTHING) for name in requests}

    def pod_limits(self, limits: Resources) -> Resources:
        amounts = self._larger(limits, {}, _limits(self._status))
        return {
            name: amounts.get(name, limit) for name, limit in limits.items() if _is_pod_level_resource(name)
        }

    def _larger(self, specified: Resources, allocated: Resources, actual: Resources | None) -> Resources:
        """Return the larger amounts; ``actual`` is None if it is not known, and then nothing else counts."""
        if actual is None:
            return specified
        in_use = max_resources(allocated, actual)
        return in_use if self._is_infeasible else max_resources(specified, in_use)


class _Actual(Protocol):
    @property
    def resources(self) -> ResourceRequirements | None: ...


def _requests(status: _Actual) -> Resources | None:
    return None if status.resources is None else status.resources.requests


def _limits(status: _Actual | None) -> Resources | None:
    return None if status is None or status.resources is None else status.resources.limits


class EncodedRequests(msgspec.Struct, frozen=True):
    """The effective request of one pod as JSON, for a pod with so many resources that few are read of it."""

    content: bytes

    @classmethod
    def of_pod(cls, spec: PodResources, status: PodResourceStatus | None = None) -> "EncodedRequests":
        return cls(codec.encode(pod_requests(spec, status)))

    def of_resources(self, names: Collection[str]) -> Resources:
        """Return the request of each resource in ``names`` that the pod requests."""
        texts = msgspec.json.decode(self.content, type=dict[str, str])
        return {name: parse_quantity(texts[name]) for name in names if name in texts}


def pod_limits(spec: PodResources, status: PodResourceStatus | None = None) -> Resources:
    """Return the effective limits of one pod, for the resources that have limits.

    Limits aggregate as requests do, but pod-level limits replace the sum, which may be larger.  Overhead is
    added to a limit other than 0.
    """
    in_use = _AmountsInUse(spec, status)
    limits = _containers_together(spec, in_use.container_limits)
    if spec.resources is not None:
        limits |= in_use.pod_limits(spec.resources.limits)
    return {
        name: amount + spec.overhead.get(name, _NOTHING) if amount else amount
        for name, amount in limits.items()
    }


def _is_pod_level_resource(resource: str) -> bool:
    """Return True if ``resource`` has pod-level amounts; devices do not, for example."""
    return resource in ("cpu", "memory") or _is_huge_page(resource)


def _is_huge_page(resource: str) -> bool:
    return resource.startswith("hugepages-")


def container_requests(container: ContainerResources) -> Resources:
    return as_stored(default_requests(container.resources.requests, container.resources.limits))


def default_requests(requests: Resources, limits: Resources) -> Resources:
    """Return ``requests``, with the limit as the request of resources that have only a limit.

    This is the API's own default.
    """
    return {**limits, **requests} if limits else requests


def as_stored(resources: Resources) -> Resources:
    """Return the amounts as the API server stores them in pods: rounded up to thousandths."""
    if not any(amount.nanos % _MILLI for amount in resources.values()):
        return resources
    return {
        name: Quantity(-(-amount.nanos // _MILLI) * _MILLI, amount.form) for name, amount in resources.items()
    }


def sum_resources(many: Iterable[Resources]) -> Resources:
    """Return the sum of each resource. An amount that occurs once keeps its form: 1Gi stays 1Gi."""
    total: Resources = {}
    for resources in many:
        for name, amount in resources.items():
            total[name] = total[name] + amount if name in total else amount
    return total


def max_resources(left: Resources, right: Resources) -> Resources:
    """Return the larger amount of each resource."""
    if not right or left == right:  # as of nearly all containers that are not resized
        return left
    return left | {name: max(left.get(name, amount), amount) for name, amount in right.items()}


_LIMITED: Final = ("cpu", "memory", "ephemeral-storage")  # a quota counts the limits of these resources
_ONE: Final = Quantity.of_units(1)


def quota_usage(spec: PodResources, status: PodResourceStatus | None = None) -> Resources:
    """Return one pod's usage of ResourceQuotas, by every name that a quota may limit.

    Names are, for example, ``cpu``, ``requests.cpu``, ``limits.cpu``, ``pods``, ``count/pods``. Extended
    resources also appear under their plain name, because Volcano writes ``minResources`` of its pod groups
    so.
    """
    requests = pod_requests(spec, status)
    limits = pod_limits(spec, status)
    return {
        **requests,
        **{f"requests.{name}": amount for name, amount in requests.items()},
        **{f"limits.{name}": limits[name] for name in _LIMITED if name in limits},
        "pods": _ONE,
        "count/pods": _ONE,
    }
