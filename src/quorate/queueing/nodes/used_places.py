"""What placed pods use of each leaf, and what each of them asks of a host below it.

Both are recorded by the values of the leaf, whether or not the leaf and its flavors exist.
"""

from collections.abc import Iterable

from quorate.api.core.pod_templates import template_pod
from quorate.api.interning import InternCache
from quorate.placement.topology.leaf_hosts import HostRequest, Pods
from quorate.placement.topology.tree import Path
from quorate.queueing.limits import MAX_TEMPLATES
from quorate.queueing.nodes.places import Place, UsedBy


class UsedPlaces:
    """The places that count."""

    def __init__(self) -> None:
        self.by_leaf: dict[Path, dict[UsedBy, dict[str, int]]] = {}  # without zeros and empty values
        # Of leaves above hosts, by flavors and request; without zeros and empty values.
        self.pods: dict[Path, dict[tuple[tuple[str, ...], HostRequest], int]] = {}

    def count(self, place: Place, times: int) -> UsedBy:
        """Count the pods of a place, ``times`` 1, or -1 to take them back; return what uses its leaf."""
        of_leaf = self.by_leaf.setdefault(place.values, {})
        key = UsedBy(place.flavors, place.on_host)
        used = of_leaf.setdefault(key, {})
        for resource, amount in place.amounts.items():
            used[resource] = used.get(resource, 0) + amount * times
            if not used[resource]:
                del used[resource]
        if not used:
            del of_leaf[key]
            if not of_leaf:
                del self.by_leaf[place.values]
        if not place.on_host and place.pods:
            pods = self.pods.setdefault(place.values, {})
            group = place.flavors, host_request(place)
            pods[group] = pods.get(group, 0) + place.pods * times
            if not pods[group]:
                del pods[group]
                if not pods:
                    del self.pods[place.values]
        return key

    def pods_in(self, flavor: str, leaf: Path) -> Iterable[Pods]:
        """Return the pods of a flavor that are placed in a leaf above hosts."""
        pods = self.pods.get(leaf, {}).items()
        return [(request, count) for (flavors, request), count in pods if flavor in flavors and count > 0]


def host_request(place: Place) -> HostRequest:
    """Return what each pod of a place asks of its host."""
    per_pod = tuple(sorted((name, amount // place.pods) for name, amount in place.amounts.items() if amount))
    if place.template is None:
        return HostRequest(per_pod)
    template = place.template
    terms = _intern_terms(template.namespace.encode() + b"\n" + bytes(template.content))
    return HostRequest(per_pod, *terms[1:])


def _terms(content: bytes) -> HostRequest:
    namespace, _, stored = content.partition(b"\n")
    spec = template_pod(namespace.decode(), stored).spec
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required if affinity is not None else None
    return HostRequest((), tuple(spec.node_selector.items()), required, spec.tolerations)


_intern_terms = InternCache(_terms, entries=MAX_TEMPLATES)
