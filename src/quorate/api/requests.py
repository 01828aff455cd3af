"""What one pod asks of a node.

Source: the effective request of a pod as Kubernetes defines it, with restartable init containers
(sidecars, KEP-753), pod-level resources (KEP-2837) and RuntimeClass overhead.
"""

from collections.abc import Iterable

from quorate.api.core import Container, PodSpec, Resources


def pod_requests(spec: PodSpec) -> Resources:
    """The amounts that must be free for one such pod, by resource; resources asked for as zero included.

    Init containers run one after the other, each beside the sidecars started before it; the containers
    run together beside all sidecars.  The pod asks for the largest of these moments.
    """
    sidecars: Resources = {}
    largest: Resources = {}
    for container in spec.init_containers:
        wanted = requests_of(container)
        if container.restart_policy == "Always":
            sidecars = add(sidecars, wanted)
            largest = _largest(largest, sidecars)
        else:
            largest = _largest(largest, add(wanted, sidecars))
    together = add_all([sidecars, *(requests_of(container) for container in spec.containers)])
    requests = _largest(together, largest)
    # The pod-level amount replaces the sum, also downwards: its containers share it.
    pod_level = with_limits(spec.resources.requests, spec.resources.limits)
    requests |= {name: amount for name, amount in pod_level.items() if _is_shared_by_containers(name)}
    return add(requests, spec.overhead)


def _is_shared_by_containers(resource: str) -> bool:
    """Whether a pod-level amount has a meaning; devices, for one, belong to a container."""
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def requests_of(container: Container) -> Resources:
    return with_limits(container.resources.requests, container.resources.limits)


def with_limits(requests: Resources, limits: Resources) -> Resources:
    """``requests``, where a resource that has only a limit asks for the limit, as the API defaults it."""
    return {**limits, **requests}


def add(left: Resources, right: Resources) -> Resources:
    # A resource on one side only keeps the form it was written in: 1Gi stays 1Gi.
    return left | {name: left[name] + amount if name in left else amount for name, amount in right.items()}


def add_all(many: Iterable[Resources]) -> Resources:
    total: Resources = {}
    for resources in many:
        total = add(total, resources)
    return total


def _largest(left: Resources, right: Resources) -> Resources:
    return left | {name: max(left.get(name, amount), amount) for name, amount in right.items()}
