"""The shape of a workload: everything about its pods that decides whether, and on what, it can start.

Workloads of one cluster queue with the same shape are interchangeable to every rule but their order, so
they share one ``Shape`` object and are judged once (see ``queueing.pending``).  Names, labels and the
namespace are no part of it; effective priority is.
"""

from hashlib import blake2b
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from quorate.api.batch import decode_template
from quorate.api.configuration import ResourceOptions
from quorate.api.configuration.feature_gates import Gates
from quorate.api.core import (
    Container,
    LimitRange,
    NodeSelectorTerm,
    PodSpec,
    Resources,
    RuntimeClass,
    Toleration,
)
from quorate.api.core.pod_resources import pod_requests
from quorate.api.kueue import PodSet, PodSetRequest, Workload
from quorate.api.meta import Key
from quorate.queueing.pending.ordering import effective_priority
from quorate.queueing.pending.pod_resources import (
    LimitRangeBounds,
    LimitRangeDefaults,
    adjust_resources,
    bounds_violations,
    invalid_requests,
    limit_range_bounds,
    limit_range_defaults,
    quota_requests,
    requests_above_limits,
)
from quorate.quota.amount import as_quantity

_NO_DEFAULTS: Final = LimitRangeDefaults()
_NO_BOUNDS: Final = (LimitRangeBounds(), LimitRangeBounds())


class PodSetShape(msgspec.Struct, frozen=True):
    """``count`` equal pods, each charged ``per_pod``, and the nodes they accept."""

    name: str
    count: int  # without the pods that were reclaimed
    min_count: int
    per_pod: dict[str, int]
    node_selector: dict[str, str]
    affinity: tuple[NodeSelectorTerm, ...] | None  # required node affinity, terms ORed; None: no rule
    tolerations: tuple[Toleration, ...]

    def request(self, count: int) -> dict[str, int]:
        """What ``count`` of the pods are charged."""
        return {resource: amount * count for resource, amount in self.per_pod.items()}


class Shape(msgspec.Struct, frozen=True, weakref=True, eq=False):
    """Compared by identity: ``ShapeRegistry`` makes one object of all equal ones."""

    priority: int
    pod_sets: tuple[PodSetShape, ...]
    above_limits: tuple[str, ...]  # what makes it invalid, as text

    @property
    def requests(self) -> tuple[PodSetRequest, ...]:
        """The effective requests, in the form of ``status.resourceRequests``."""
        return tuple(_requested(pod_set) for pod_set in self.pod_sets)


class _Spec(msgspec.Struct, frozen=True):
    """What counts of a pod template; of one that nobody can read, nothing but the problem."""

    spec: PodSpec
    problem: str = ""


class ShapeRegistry:
    """All shapes in use, one object for each, and the rules outside of a workload that enter into them."""

    # Many workloads carry byte-equal templates; so many decoded ones are kept.
    _TEMPLATES: Final = 1024

    def __init__(self, rules: ResourceOptions, gates: Gates) -> None:
        self._rules = rules
        self._gates = gates
        self._overheads: dict[str, Resources] = {}  # of each runtime class
        self._limit_ranges: dict[Key, LimitRange] = {}
        self._defaults: dict[str, LimitRangeDefaults] = {}  # of each namespace whose limit ranges give any
        self._bounds: dict[
            str, tuple[LimitRangeBounds, LimitRangeBounds]
        ] = {}  # likewise: of each container, of each pod
        self._shapes: WeakValueDictionary[bytes, Shape] = WeakValueDictionary()
        self._templates: dict[bytes, _Spec] = {}
        self._encoder = msgspec.msgpack.Encoder(enc_hook=str, order="deterministic")

    def put_runtime_class(self, runtime_class: RuntimeClass) -> bool:
        """Whether that changes what pods ask for."""
        name, overhead = runtime_class.metadata.name, runtime_class.overhead.pod_fixed
        changed = self._overheads.get(name, {}) != overhead
        self._overheads[name] = overhead
        return changed

    def remove_runtime_class(self, name: str) -> bool:
        return bool(self._overheads.pop(name, {}))

    def put_limit_range(self, limit_range: LimitRange) -> bool:
        """Whether that changes what pods of the namespace ask for."""
        self._limit_ranges[limit_range.metadata.key] = limit_range
        return self._set_rules(limit_range.metadata.namespace)

    def remove_limit_range(self, key: Key) -> bool:
        self._limit_ranges.pop(key, None)
        return self._set_rules(key.namespace)

    def _set_rules(self, namespace: str) -> bool:
        items = [
            item
            for key, limit_range in sorted(self._limit_ranges.items())
            if key.namespace == namespace
            for item in limit_range.spec.limits
        ]
        old = self._defaults.pop(namespace, _NO_DEFAULTS), self._bounds.pop(namespace, _NO_BOUNDS)
        new = (
            limit_range_defaults(items),
            (limit_range_bounds(items, "Container"), limit_range_bounds(items, "Pod")),
        )
        if new[0] != _NO_DEFAULTS:
            self._defaults[namespace] = new[0]
        if new[1] != _NO_BOUNDS:
            self._bounds[namespace] = new[1]
        return new != old

    def of(self, workload: Workload) -> Shape:
        defaults = self._defaults.get(workload.metadata.namespace, _NO_DEFAULTS)
        read = [self._read(pod_set) for pod_set in workload.spec.pod_sets]
        specs = [self._adjusted(each.spec, defaults) for each in read]
        invalid = [
            *(
                f"pod set {pod_set.name}: template: {each.problem}"
                for pod_set, each in zip(workload.spec.pod_sets, read, strict=True)
                if each.problem
            ),
            *(
                f"pod set {pod_set.name} is of {pod_set.count} pods, must be of at least 0"
                for pod_set in workload.spec.pod_sets
                if pod_set.count < 0
            ),
        ]
        reclaimed = {pods.name: pods.count for pods in workload.status.reclaimable_pods}
        pod_sets = [
            (pod_set.name, max(0, pod_set.count - reclaimed.get(pod_set.name, 0)), pod_set.min_count)
            for pod_set in workload.spec.pod_sets
        ]
        priority = effective_priority(workload, self._gates)
        # Whole keys would take more room than all else of a shape that only one workload has.
        key = blake2b(self._encoder.encode((priority, pod_sets, specs, invalid)), digest_size=16).digest()
        shape = self._shapes.get(key)
        if shape is None:
            shapes = tuple(
                self._pod_set(name, count, min_count, spec)
                for (name, count, min_count), spec in zip(pod_sets, specs, strict=True)
            )
            findings = (
                finding
                for (name, _, _), spec in zip(pod_sets, specs, strict=True)
                for finding in (*invalid_requests(name, spec), *requests_above_limits(name, spec))
            )
            shape = Shape(priority, shapes, (*invalid, *findings))
            self._shapes[key] = shape
        return shape

    def out_of_bounds(self, workload: Workload) -> tuple[str, ...]:
        """Each way in which pods of ``workload`` break the limit ranges of its namespace."""
        namespace = workload.metadata.namespace
        if namespace not in self._bounds:
            return ()
        of_container, of_pod = self._bounds[namespace]
        findings: list[str] = []
        for pod_set in workload.spec.pod_sets:
            spec = self._adjusted(self._read(pod_set).spec, self._defaults.get(namespace, _NO_DEFAULTS))
            for container in (*spec.init_containers, *spec.containers):
                resources, what = container.resources, f"a container of pod set {pod_set.name}"
                findings += bounds_violations(of_container, resources.requests, resources.limits, what)
            findings += bounds_violations(of_pod, pod_requests(spec), {}, f"a pod of pod set {pod_set.name}")
        return tuple(dict.fromkeys(findings))

    def _read(self, pod_set: PodSet) -> _Spec:
        raw = bytes(pod_set.template)
        found = self._templates.get(raw)
        if found is None:
            found = _read(pod_set.template)
            if len(self._templates) >= self._TEMPLATES:
                self._templates.clear()
            self._templates[raw] = found
        return found

    def _adjusted(self, spec: PodSpec, defaults: LimitRangeDefaults) -> PodSpec:
        return adjust_resources(spec, self._overheads.get(spec.runtime_class_name, {}), defaults)

    def _pod_set(
        self, name: str, count: int, min_count: int | msgspec.UnsetType, spec: PodSpec
    ) -> PodSetShape:
        affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        required = affinity.required if affinity is not None else None
        return PodSetShape(
            name=name,
            count=count,
            min_count=count if min_count is msgspec.UNSET else min(min_count, count),
            per_pod=quota_requests(pod_requests(spec), self._rules),
            node_selector=spec.node_selector,
            affinity=required.node_selector_terms if required is not None else None,
            tolerations=spec.tolerations,
        )


def _read(template: msgspec.Raw) -> _Spec:
    """No API without a schema for templates has ever looked into them: what they say may be no pod at all."""
    try:
        spec = decode_template(template).spec
    except msgspec.ValidationError as problem:
        return _Spec(PodSpec(), str(problem))
    spec = msgspec.structs.replace(
        spec,
        containers=tuple(_unnamed(container) for container in spec.containers),
        init_containers=tuple(_unnamed(container) for container in spec.init_containers),
        node_name="",
        scheduler_name="",
    )
    return _Spec(spec)


def _unnamed(container: Container) -> Container:
    return msgspec.structs.replace(container, name="", image="")


def _requested(pod_set: PodSetShape) -> PodSetRequest:
    amounts = sorted(pod_set.request(pod_set.count).items())
    resources = {resource: as_quantity(resource, amount) for resource, amount in amounts}
    return PodSetRequest(name=pod_set.name, resources=resources)
