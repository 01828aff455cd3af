"""The shape of a workload: everything about its pods that decides whether, and with which flavors, it fits.

Workloads of one cluster queue with the same shape differ only in their order, so they share one ``Shape``
object and are evaluated once (Kueue's scheduling equivalence hash; see ``pending.queue``).  The shape
contains the effective priority and the replaced slice, but no names, labels or namespace.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from quorate.api.batch import decode_template
from quorate.api.configuration.feature_gates import Gates
from quorate.api.configuration.queueing import ResourceOptions
from quorate.api.core import (
    Container,
    LimitRange,
    NodeSelectorTerm,
    PodSpec,
    PreferredSchedulingTerm,
    RuntimeClass,
    Toleration,
)
from quorate.api.core.pod_resources import pod_limits, pod_requests
from quorate.api.interning import InternCache
from quorate.api.kueue import PodSet, PodSetRequest, Workload
from quorate.api.limits import LARGE_BYTES
from quorate.api.meta import Key, ObjectMeta
from quorate.api.quantity import Quantity
from quorate.placement.resources import in_base_units
from quorate.placement.topology.request import NO_TOPOLOGY, SliceLayer, TopologyRequest
from quorate.queueing.limits import MAX_TEMPLATES
from quorate.queueing.pending.device_claims import NO_DEVICES, PodDevices, together
from quorate.queueing.pending.device_quota import DeviceQuota
from quorate.queueing.pending.effective_requests import (
    NO_DEFAULTS,
    NO_RUNTIME_CLASS,
    LimitRangeBounds,
    LimitRangeDefaults,
    adjust_spec,
    bounds_violations,
    invalid_requests,
    limit_range_bounds,
    limit_range_defaults,
    needed_counts,
    quota_requests,
    requests_above_limits,
    uncounted_claims,
)
from quorate.queueing.pending.ordering import effective_priority
from quorate.queueing.workload_slices import NO_SLICE, replaced_slice
from quorate.quota.amount import PODS, as_quantity

_NO_BOUNDS: Final = (LimitRangeBounds(), LimitRangeBounds())


class PodSetShape(msgspec.Struct, frozen=True):
    """Equal pods, the quota that each counts, and the constraints on their nodes."""

    name: str
    count: int  # without reclaimed pods
    min_count: int
    per_pod: dict[str, int]
    node_selector: dict[str, str]
    affinity: tuple[NodeSelectorTerm, ...] | None  # required node affinity, terms ORed; None: not set
    tolerations: tuple[Toleration, ...]
    topology: TopologyRequest = NO_TOPOLOGY
    preferred_affinity: tuple[PreferredSchedulingTerm, ...] = ()  # for places in topologies
    on_node: dict[str, int] = {}  # what one pod uses of a node, whatever counts against quota

    def request(self, count: int) -> dict[str, int]:
        """Return what ``count`` of the pods count against quota."""
        return {resource: amount * count for resource, amount in self.per_pod.items()}


class Shape(msgspec.Struct, frozen=True, weakref=True, eq=False):
    """Compared by identity: ``ShapeRegistry`` returns one object for all equal shapes."""

    priority: int
    pod_sets: tuple[PodSetShape, ...]
    invalid_requests: tuple[str, ...]  # what makes the workload inadmissible, as texts
    uncounted_devices: tuple[str, ...] = ()  # why claimed devices cannot be counted
    missing_devices: int = 0  # how many more must match a claim
    requests: tuple[PodSetRequest, ...] = ()  # the effective ones, as in ``status.resourceRequests``
    replaces: Key = NO_SLICE  # the workload that is replaced as a slice


class _DecodedTemplate(msgspec.Struct, frozen=True):
    """The part of a pod template that affects the shape, or why the template cannot be decoded."""

    spec: PodSpec
    error: str = ""


class ShapeRegistry:
    """All shapes in use, one object for each, and the runtime classes and limit ranges they depend on."""

    def __init__(self, options: ResourceOptions, gates: Gates) -> None:
        self._options = options
        self._gates = gates
        self._runtime_classes: dict[str, RuntimeClass] = {}  # by name, without metadata
        self._limit_ranges: dict[str, dict[str, LimitRange]] = {}  # by namespace and name
        self._defaults: dict[str, LimitRangeDefaults] = {}  # by namespace, if there are any
        # By namespace, if there are any: the bounds of each container and of each pod.
        self._bounds: dict[str, tuple[LimitRangeBounds, LimitRangeBounds]] = {}
        self.devices = DeviceQuota(options)
        self._shapes: WeakValueDictionary[bytes, Shape] = WeakValueDictionary()
        # Many workloads have byte-equal templates.
        self._decoded = InternCache(_decode_template, entries=MAX_TEMPLATES)
        self._encoder = msgspec.msgpack.Encoder(enc_hook=_key_of, order="deterministic")
        self._changes = 0
        # The number of the last change that concerns all namespaces, and one, until shapes are up to date.
        self._changed_all = 0
        self._changed: dict[str, int] = {}
        self._changed_bounds: dict[str, int] = {}

    def put_runtime_class(self, runtime_class: RuntimeClass) -> bool:
        """Return True if the effective requests, or the constraints, of pods change."""
        name, stored = (
            runtime_class.metadata.name,
            msgspec.structs.replace(runtime_class, metadata=ObjectMeta()),
        )
        changed = self._runtime_classes.get(name, NO_RUNTIME_CLASS) != stored
        self._runtime_classes[name] = stored
        return self._note_change(changed)

    def remove_runtime_class(self, name: str) -> bool:
        removed = self._runtime_classes.pop(name, NO_RUNTIME_CLASS)
        return self._note_change(removed != NO_RUNTIME_CLASS)

    def update_devices(self, units: int) -> set[str]:
        """Count devices as claims, classes and slices are now; return the namespaces of changed shapes.

        ``units``: of work; what takes more is counted by the next call.  The empty name stands for all
        namespaces.
        """
        changed = self.devices.update(units)
        for namespace in changed:
            self._note_change(True, namespace)
        return changed

    def put_limit_range(self, limit_range: LimitRange) -> bool:
        """Return True if the effective requests of pods of the namespace, or their bounds, change."""
        key = limit_range.metadata.key
        self._limit_ranges.setdefault(key.namespace, {})[key.name] = limit_range
        return self._combine_limit_ranges(key.namespace)

    def remove_limit_range(self, key: Key) -> bool:
        of_namespace = self._limit_ranges.get(key.namespace, {})
        if of_namespace.pop(key.name, None) is None:
            return False
        if not of_namespace:
            del self._limit_ranges[key.namespace]
        return self._combine_limit_ranges(key.namespace)

    def _combine_limit_ranges(self, namespace: str) -> bool:
        of_namespace = sorted(self._limit_ranges.get(namespace, {}).items())
        items = [item for _, limit_range in of_namespace for item in limit_range.spec.limits]
        old = self._defaults.pop(namespace, NO_DEFAULTS), self._bounds.pop(namespace, _NO_BOUNDS)
        defaults = limit_range_defaults(items)
        bounds = limit_range_bounds(items, "Container"), limit_range_bounds(items, "Pod")
        if defaults != NO_DEFAULTS:
            self._defaults[namespace] = defaults
        if bounds != _NO_BOUNDS:
            self._bounds[namespace] = bounds
        changed = self._note_change((defaults, bounds) != old, namespace)
        if bounds != old[1]:
            self._changed_bounds[namespace] = self._changes
        return changed

    # Changes of requests.

    def version(self, namespace: str) -> int:
        """Return the number of the last change that may concern the shapes of workloads of ``namespace``."""
        return max(self._changed_all, self._changed.get(namespace, 0))

    def is_out_of_date(self, version: int, namespace: str) -> bool:
        """Return True if a shape of ``version`` may differ from the current one, or its bounds may."""
        return version < self._changed_all or version < self._changed.get(namespace, 0)

    def are_bounds_out_of_date(self, version: int, namespace: str) -> bool:
        """Return True if the bounds by limit ranges have changed since ``version``."""
        return version < self._changed_bounds.get(namespace, 0)

    def all_are_up_to_date(self) -> None:
        """Drop what is known of changes, because no shape of an older version is in use."""
        self._changed.clear()
        self._changed_bounds.clear()

    def _note_change(self, changed: bool, namespace: str = "") -> bool:
        """Return ``changed``; if True, record a change of the shapes of ``namespace`` (empty: of all)."""
        if changed:
            self._changes += 1
            if namespace:
                self._changed[namespace] = self._changes
            else:
                self._changed_all = self._changes
        return changed

    def shape_of(self, workload: Workload) -> Shape:
        defaults = self._defaults.get(workload.metadata.namespace, NO_DEFAULTS)
        needed = needed_counts(workload, self._gates)
        templates, specs, devices = [], [], []
        claims: list[str] = []
        pod_sets, parts, counted = [], [], []
        for index, pod_set in enumerate(workload.spec.pod_sets):
            template = self._decoded(bytes(pod_set.template))
            spec = self._adjust(template.spec, defaults)
            of_devices = self._devices(workload.metadata.namespace, pod_set.name, index, spec)
            if spec.resource_claims:  # the devices decide, not the names of the claims
                spec = msgspec.structs.replace(spec, resource_claims=())
            # To encode the amounts of a large template takes longer than to compute the shape again.
            is_large = len(pod_set.template) > LARGE_BYTES
            part = (bytes(pod_set.template), self._runtime_class_of(spec), defaults) if is_large else spec
            count = max(0, needed[pod_set.name])
            templates.append(template)
            specs.append(spec)
            devices.append(of_devices)
            claims += of_devices.findings
            counted.append((of_devices.amounts, of_devices.replaced))
            pod_sets.append((pod_set.name, count, pod_set.min_count, topology_request(pod_set)))
            parts.append(part)
        invalid = _invalid_pod_sets(workload, templates)
        priority = effective_priority(workload, self._gates)
        # A slice does not compete with the slice that it replaces, so its outcome is its own.
        replaced = replaced_slice(workload, self._gates) or NO_SLICE
        # A digest: the encoded key itself would be most of the memory of a shape with one workload.
        key = blake2b(
            self._encoder.encode((priority, pod_sets, parts, counted, invalid, claims, replaced)),
            digest_size=16,
        ).digest()
        shape = self._shapes.get(key)
        if shape is None:
            shapes = tuple(
                self._pod_set_shape(*pod_set, spec, of_devices)
                for pod_set, spec, of_devices in zip(pod_sets, specs, devices, strict=True)
            )
            for pod_set, spec in zip(workload.spec.pod_sets, specs, strict=True):
                invalid += invalid_requests(pod_set.name, spec)
                invalid += requests_above_limits(pod_set.name, spec)
            missing = max((of_devices.short_by for of_devices in devices), default=0)
            requests = tuple(_pod_set_request(pod_set) for pod_set in shapes)
            shape = Shape(priority, shapes, tuple(invalid), tuple(claims), missing, requests, replaced)
            self._shapes[key] = shape
        return shape

    def _devices(self, namespace: str, pod_set: str, index: int, spec: PodSpec) -> PodDevices:
        """Return what the devices of one pod count: those it claims, and those for extended resources."""
        gates, devices = self._gates, self.devices
        claimed = NO_DEVICES
        if spec.resource_claims and gates.count_device_claims:
            claimed = devices.claimed(namespace, pod_set, index, spec.resource_claims)
        elif spec.resource_claims and gates.hold_device_claims:
            claimed = PodDevices(findings=uncounted_claims(pod_set, spec))
        if not (devices.backed and gates.count_device_claims and gates.count_extended_device_resources):
            return claimed
        return together(claimed, devices.for_extended_resources(pod_requests(spec)))

    def limit_range_violations(self, workload: Workload) -> tuple[str, ...]:
        """Return one text for each way in which pods violate the limit ranges of their namespace."""
        namespace = workload.metadata.namespace
        if namespace not in self._bounds:
            return ()
        container_bounds, pod_bounds = self._bounds[namespace]
        findings: list[str] = []
        for pod_set in workload.spec.pod_sets:
            decoded = self._decoded(bytes(pod_set.template))
            spec = self._adjust(decoded.spec, self._defaults.get(namespace, NO_DEFAULTS))
            subject = f"a container of pod set {pod_set.name}"
            for container in (*spec.init_containers, *spec.containers):
                resources = container.resources
                findings += bounds_violations(container_bounds, resources.requests, resources.limits, subject)
            subject = f"a pod of pod set {pod_set.name}"
            spec = msgspec.structs.replace(spec, overhead={})  # which bounds do not concern
            findings += bounds_violations(pod_bounds, pod_requests(spec), pod_limits(spec), subject)
        return tuple(dict.fromkeys(findings))

    def _adjust(self, spec: PodSpec, defaults: LimitRangeDefaults) -> PodSpec:
        return adjust_spec(spec, self._runtime_class_of(spec), defaults)

    def _runtime_class_of(self, spec: PodSpec) -> RuntimeClass:
        return self._runtime_classes.get(spec.runtime_class_name, NO_RUNTIME_CLASS)

    def _pod_set_shape(
        self,
        name: str,
        count: int,
        min_count: int | msgspec.UnsetType,
        topology: TopologyRequest,
        spec: PodSpec,
        devices: PodDevices,
    ) -> PodSetShape:
        requested = pod_requests(spec)
        affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        required = affinity.required if affinity is not None else None
        return PodSetShape(
            name=name,
            count=count,
            min_count=count if min_count is msgspec.UNSET else min(min_count, count),
            per_pod=_with_devices(quota_requests(requested, self._options), devices),
            node_selector=spec.node_selector,
            affinity=required.node_selector_terms if required is not None else None,
            tolerations=spec.tolerations,
            topology=topology,
            preferred_affinity=affinity.preferred if affinity is not None else (),
            on_node={**in_base_units(requested), PODS: 1},
        )


def _invalid_pod_sets(workload: Workload, templates: Sequence[_DecodedTemplate]) -> list[str]:
    """Return why ``templates``, of the pod sets in their order, or the pod sets' counts are invalid."""
    errors = []
    for pod_set, template in zip(workload.spec.pod_sets, templates, strict=True):
        if template.error:
            errors.append(f"pod set {pod_set.name}: template: {template.error}")
        if pod_set.count < 0:
            errors.append(f"pod set {pod_set.name} is of {pod_set.count} pods, must be of at least 0")
    return errors


def _key_of(value: object) -> str:
    return str(value.nanos) if isinstance(value, Quantity) else str(value)


def _with_devices(amounts: dict[str, int], devices: PodDevices) -> dict[str, int]:
    kept = {resource: amount for resource, amount in amounts.items() if resource not in devices.replaced}
    counted = {resource: kept.get(resource, 0) + amount for resource, amount in devices.amounts.items()}
    return kept | counted


def topology_request(pod_set: PodSet) -> TopologyRequest:
    """Return what a pod set requests of a topology."""
    given = pod_set.topology_request
    if given is msgspec.UNSET:
        return NO_TOPOLOGY
    layers = tuple(
        SliceLayer(layer.topology, layer.size) for layer in given.podset_slice_required_topology_constraints
    )
    if not layers and given.pod_set_slice_required_topology:
        layers = (SliceLayer(given.pod_set_slice_required_topology, given.pod_set_slice_size or 0),)
    return TopologyRequest(
        required=given.required,
        preferred=given.preferred,
        unconstrained=given.unconstrained,
        layers=layers,
        group=given.pod_set_group_name,
    )


def _decode_template(template: bytes) -> _DecodedTemplate:
    """Decode a template, which the API server stores without validation if the CRD has no schema for it."""
    try:
        spec = decode_template(msgspec.Raw(template)).spec
    except msgspec.ValidationError as error:
        return _DecodedTemplate(PodSpec(), str(error))
    spec = msgspec.structs.replace(
        spec,
        containers=tuple(_without_identity(container) for container in spec.containers),
        init_containers=tuple(_without_identity(container) for container in spec.init_containers),
        node_name="",
        scheduler_name="",
    )
    return _DecodedTemplate(spec)


def _without_identity(container: Container) -> Container:
    return msgspec.structs.replace(container, name="", image="")


def _pod_set_request(pod_set: PodSetShape) -> PodSetRequest:
    amounts = sorted(pod_set.request(pod_set.count).items())
    resources = {resource: as_quantity(resource, amount) for resource, amount in amounts}
    return PodSetRequest(name=pod_set.name, resources=resources)
