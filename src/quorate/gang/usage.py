"""What pods use of quotas, reckoned once for all pods of a template."""

from collections.abc import Mapping
from typing import Final

from quorate.api.core.pod_resources import quota_usage
from quorate.api.core.scheduling import PodSpec
from quorate.gang.reading import quota_units

REMEMBERED: Final = 4096  # templates; a cluster has that many at once only if each pod is its own


class Usages:
    """Equal parts of decoded pods are one object each, so identity tells templates apart."""

    def __init__(self) -> None:
        # With the parts themselves, lest their identities go to others.
        self._known: dict[tuple[int, ...], tuple[object, Mapping[str, int]]] = {}

    def of(self, spec: PodSpec) -> Mapping[str, int]:
        """The amounts in base units, under every name by which a quota may limit them."""
        parts = (spec.containers, spec.init_containers, spec.resources, spec.overhead)
        key = tuple(map(id, parts))
        known = self._known.get(key)
        if known is not None:
            return known[1]
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        usage = quota_units(quota_usage(spec))
        self._known[key] = (parts, usage)
        return usage
