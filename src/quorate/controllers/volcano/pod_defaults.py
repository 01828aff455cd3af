"""What the API server adds to the requests of a pod when it stores one.

A gang that waits for admission before its pods exist must ask for what the pods will request: the defaults of
the limit ranges of their namespace and the overhead of their runtime class included.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from quorate.api.core import PodSpec, RuntimeClass
from quorate.controllers.informers import LIMIT_RANGES_OF, ByName, Informers
from quorate.queueing.pending.effective_requests import (
    NO_DEFAULTS,
    NO_RUNTIME_CLASS,
    LimitRangeDefaults,
    adjust_spec,
    limit_range_defaults,
)


@dataclass(frozen=True, slots=True)
class PodDefaults:
    """What the API server adds to the requests of pods in one namespace: it depends on its LimitRanges."""

    containers: LimitRangeDefaults = NO_DEFAULTS
    runtime_classes: Mapping[str, RuntimeClass] = field(default_factory=dict)  # by name

    def stored(self, spec: PodSpec) -> PodSpec:
        """Return ``spec`` of a template as the API server stores a pod of it."""
        runtime_class = self.runtime_classes.get(spec.runtime_class_name, NO_RUNTIME_CLASS)
        return adjust_spec(spec, runtime_class, self.containers)


NO_POD_DEFAULTS: Final = PodDefaults()


def pod_defaults(informers: Informers, namespace: str) -> PodDefaults:
    limit_ranges = informers.limit_ranges.by_index(LIMIT_RANGES_OF, namespace)
    items = [item for limit_range in limit_ranges for item in limit_range.spec.limits]
    return PodDefaults(limit_range_defaults(items), dict(ByName(informers.runtime_classes)))


def on_changed_defaults(informers: Informers, changed: Callable[[str | None], None]) -> None:
    """Call ``changed`` with the namespace of which the defaults may have changed; None: all namespaces."""
    informers.limit_ranges.subscribe(lambda change: changed(change.key.namespace))
    informers.runtime_classes.subscribe(lambda _: changed(None))
