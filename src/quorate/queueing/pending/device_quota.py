"""What claims of devices count, kept up to date with claim templates, device classes and resource slices."""

from collections.abc import Iterator, Sequence
from typing import Final

from quorate.api.configuration.queueing import ResourceOptions
from quorate.api.core import PodResourceClaim, Resources
from quorate.api.core.device_claims import (
    DeviceClass,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceSlice,
)
from quorate.api.meta import Key
from quorate.placement.filters.devices.pools import DeviceCatalog
from quorate.queueing.pending.device_claims import (
    CountedClaim,
    PodDevices,
    classes_by_extended_resource,
    device_requests,
    devices_of,
    extended_resource_devices,
)
from quorate.queueing.pending.device_sources import TEMPLATES, absence, charges, selections

UNITS_AT_ONCE: Final = 10_000  # of work on a template when it is asked for: 2 ms
NOT_COUNTED: Final = CountedClaim("its devices are being counted")


class DeviceQuota:
    """Counts the claims of templates that workloads name.

    A change makes counts stale; ``update`` computes them once for many changes, in slices.  Until then the
    previous counts are returned.  A template that takes long to count is not counted when it is asked for
    first, but by ``update``.
    """

    def __init__(self, options: ResourceOptions) -> None:
        self.is_stale = False
        self.backed: dict[str, str] = {}  # device classes by their extended resource
        self._options = options
        self.unreadable: set[str] = set()  # plurals of kinds
        self._catalog = DeviceCatalog()
        self._classes: dict[str, DeviceClass] = {}
        self._templates: dict[Key, ResourceClaimSpec] = {}
        self._counted: dict[Key, CountedClaim] = {}  # of templates that were asked for
        self._to_count: dict[Key, None] = {}  # in this order
        self._counting: tuple[Key, Iterator[int]] | None = None
        self._changed: set[Key] = set()  # templates since the last update
        self._are_devices_stale = False  # classes or slices changed since then
        self._is_backing_changed = False  # ``backed`` changed since then

    def put_template(self, template: ResourceClaimTemplate) -> None:
        key, spec = template.metadata.key, template.spec.spec
        if self._templates.get(key) != spec:
            self._templates[key] = spec
            self._template_changed(key)

    def remove_template(self, key: Key) -> None:
        if self._templates.pop(key, None) is not None:
            self._template_changed(key)

    def _template_changed(self, key: Key) -> None:
        self._changed.add(key)
        self._counting = None
        self.is_stale = True

    def put_class(self, device_class: DeviceClass) -> None:
        stored = self._classes.get(device_class.metadata.name)
        self._classes[device_class.metadata.name] = device_class
        self._class_changed(stored is None or stored.spec != device_class.spec)

    def remove_class(self, name: str) -> None:
        self._class_changed(self._classes.pop(name, None) is not None)

    def _class_changed(self, changed: bool) -> None:
        self._counting = None
        before, self.backed = self.backed, classes_by_extended_resource(self._classes.values())
        self._is_backing_changed |= self.backed != before
        self._devices_changed(changed or self._is_backing_changed)

    def put_slice(self, piece: ResourceSlice) -> None:
        self._devices_changed(self._catalog.set_slice(piece))

    def remove_slice(self, name: str) -> None:
        self._devices_changed(self._catalog.remove_slice(name))

    def set_unreadable(self, plural: str, is_unreadable: bool) -> None:
        """Note whether claim templates, device classes or slices cannot be read."""
        if (plural in self.unreadable) != is_unreadable:
            self.unreadable ^= {plural}
            self._is_backing_changed = True  # all workloads with claims, also of unknown templates
            self._devices_changed(True)

    def _devices_changed(self, changed: bool) -> None:
        self._are_devices_stale |= changed
        self.is_stale |= changed

    def update(self, units: int) -> set[str]:
        """Count again what changed, some of it if that takes more than ``units`` of work.

        Return the namespaces with other counts, empty name: all namespaces.
        """
        namespaces = {""} if self._is_backing_changed else set()
        for key in self._changed:
            self._counted.pop(key, None)
            self._to_count.pop(key, None)
            namespaces.add(key.namespace)
        if self._are_devices_stale:
            self._to_count |= dict.fromkeys(self._counted)
        self._changed.clear()
        self._are_devices_stale = self._is_backing_changed = False
        while self._to_count and units > 0:
            key, steps = self._counting = self._counting or self._next()
            units -= (work := next(steps, -1))
            if work < 0:
                counted, self._counting = self._count(self._templates[key]), None
                del self._to_count[key]
                if self._counted[key] != counted:
                    self._counted[key] = counted
                    namespaces.add(key.namespace)
        self.is_stale = bool(self._to_count)
        return namespaces

    def _next(self) -> tuple[Key, Iterator[int]]:
        key = next(iter(self._to_count))
        return key, self._steps(self._templates[key])

    def _steps(self, spec: ResourceClaimSpec) -> Iterator[int]:
        """Select the devices that ``_count`` needs; yield the units of work of each step."""
        if "resourceslices" not in self.unreadable:
            for expressions, driver in selections(spec, self._options.device_sources, self._classes):
                yield from self._catalog.steps(expressions, driver)

    def _of_template(self, key: Key) -> CountedClaim | None:
        """Return what the claim of a template counts; None if the template does not exist."""
        counted, spec = self._counted.get(key), self._templates.get(key)
        if counted is None and spec is not None:
            units = UNITS_AT_ONCE
            for work in self._steps(spec):
                if (units := units - work) <= 0:
                    self._to_count[key] = None
                    self.is_stale = True
                    break
            counted = self._counted[key] = self._count(spec) if units > 0 else NOT_COUNTED
        return counted

    def _count(self, spec: ResourceClaimSpec) -> CountedClaim:
        devices = devices_of(spec)
        if isinstance(devices, str):
            return CountedClaim(devices)
        sources = self._options.device_sources
        amounts, problems = charges(spec, sources, self._classes, self._catalog, self.unreadable)
        return CountedClaim(
            {name: devices[name] for name in devices if name not in sources}, amounts, problems
        )

    def claimed(
        self, namespace: str, pod_set: str, index: int, claims: Sequence[PodResourceClaim]
    ) -> PodDevices:
        """Return what the claims of one pod of the pod set ``pod_set``, at ``index``, count."""
        return device_requests(
            pod_set,
            index,
            claims,
            lambda name: self._of_template(Key(namespace, name)),
            self._options.device_classes,
            absence(TEMPLATES, self.unreadable),
        )

    def for_extended_resources(self, request: Resources) -> PodDevices:
        """Return what the requests of one pod for extended resources count as."""
        return extended_resource_devices(request, self.backed, self._options)
