"""Configuration of queueing: counted resources, fair sharing, retention."""

from collections.abc import Callable, Mapping
from typing import Final, Literal, get_args

import msgspec

from quorate.api.configuration.pods_ready import Version
from quorate.api.core import Resources
from quorate.api.decoding import strict as d
from quorate.api.quantity import PODS
from quorate.api.syntax import is_dns_label, is_dns_subdomain, is_qualified_name

# Kueue's limits of deviceClassMappings.
MAX_MAPPINGS: Final = 16
MAX_CLASSES: Final = 8
MAX_NAME: Final = 253

_COUNTED: Final = "is counted by the queue itself, one for each pod (name another resource)"

TransformationStrategy = Literal["Retain", "Replace"]
QuotaCheckStrategy = Literal["BlockUndeclared", "IgnoreUndeclared"]


class Transformation(msgspec.Struct, frozen=True, kw_only=True):
    """Count each unit of ``input`` as ``outputs``, times the request of ``multiply_by``."""

    input: str
    strategy: TransformationStrategy = "Retain"
    multiply_by: str = ""
    outputs: Resources = {}


DeviceSourceKind = Literal["counter", "capacity"]


class DeviceSource(msgspec.Struct, frozen=True, kw_only=True):
    """A counter or capacity of devices that counts as ``resource`` in place of the device count.

    ``name`` is the name of the counter or capacity.  The devices belong to ``driver``, and the CEL text
    ``expression`` selects them.
    """

    kind: DeviceSourceKind
    resource: str
    name: str
    driver: str
    expression: str


DeviceSources = dict[str, tuple[DeviceSource, ...]]  # by device class


class ResourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which requested resources count against quota, and as which resources."""

    exclude_resource_prefixes: tuple[str, ...] = ()
    transformations: tuple[Transformation, ...] = ()
    quota_check_strategy: QuotaCheckStrategy = "BlockUndeclared"
    device_classes: dict[str, str] = {}  # the resource that counts the devices of a class
    device_sources: DeviceSources = {}  # of the other classes

    @property
    def counts_devices(self) -> bool:
        return bool(self.device_classes or self.device_sources)

    @property
    def counts_counters(self) -> bool:
        """Return True if a resource counts counters of devices."""
        return any(source.kind == "counter" for sources in self.device_sources.values() for source in sources)


PreemptionStrategy = Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]


class FairSharing(msgspec.Struct, frozen=True, kw_only=True):
    """Divide borrowable quota among the cluster queues of a cohort by weight.

    Preemption strategies are in the order in which they are tried.
    """

    preemption_strategies: tuple[PreemptionStrategy, ...] = (
        "LessThanOrEqualToFinalShare",
        "LessThanInitialShare",
    )


class AdmissionFairSharing(msgspec.Struct, frozen=True, kw_only=True):
    """Order the local queues of a cluster queue by their recent usage."""

    usage_half_life_s: float = 0.0  # half-life of recorded usage; 0: no memory
    usage_sampling_interval_s: float = 300.0
    resource_weights: dict[str, float] = {}  # 1 for resources that are not listed


def decode_fair_sharing(version: Version) -> Callable[[d.Section], FairSharing | None]:
    def decode_fields(fields: d.Section) -> FairSharing | None:
        on = fields.take("enable", d.boolean, False) if version == "v1beta1" else True
        default = FairSharing().preemption_strategies
        strategies = fields.take_set("preemptionStrategies", _preemption_strategies, default)
        return FairSharing(preemption_strategies=strategies) if on else None

    return decode_fields


def _preemption_strategies(field: d.Field) -> tuple[PreemptionStrategy, ...]:
    final, initial = get_args(PreemptionStrategy)
    strategies = d.list_of(d.choice(get_args(PreemptionStrategy)))(field)
    if strategies not in ((final,), (initial,), (final, initial)):
        raise d.InvalidValue(f"is not allowed here (write [{final}], [{initial}] or [{final}, {initial}])")
    return strategies


_weight = d.satisfying(d.number, lambda value: value >= 0, "is negative, must be at least 0")
decode_admission_fair_sharing = d.struct_of(
    AdmissionFairSharing,
    usage_half_life_s=("usageHalfLifeTime", d.duration()),
    usage_sampling_interval_s=("usageSamplingInterval", d.if_set(d.duration(exclusive=True))),
    resource_weights=("resourceWeights", d.map_of(_weight)),
)


def decode_resources(fields: d.Section, gates: Mapping[str, bool]) -> ResourceOptions:
    device_classes, device_sources = fields.take(
        "deviceClassMappings", lambda field: _device_class_mappings(field, gates), ({}, {})
    )
    rules = ResourceOptions(
        exclude_resource_prefixes=fields.take("excludeResourcePrefixes", d.list_of(d.text), ()),
        transformations=fields.take("transformations", d.list_of(d.section(_transformation)), ()),
        quota_check_strategy=fields.take(
            "quotaCheckStrategy", d.choice(get_args(QuotaCheckStrategy)), "BlockUndeclared"
        ),
        device_classes=device_classes,
        device_sources=device_sources,
    )
    if rules.quota_check_strategy == "IgnoreUndeclared" and rules.exclude_resource_prefixes:
        fields.at("excludeResourcePrefixes").reject(
            "contradicts quotaCheckStrategy IgnoreUndeclared (keep one)"
        )
    inputs = [rule.input for rule in rules.transformations]
    for name in sorted({name for name in inputs if inputs.count(name) > 1}):
        fields.at("transformations").reject(f"has more than one rule for input {name} (merge them)")
    return rules


def _device_class_mappings(field: d.Field, gates: Mapping[str, bool]) -> tuple[dict[str, str], DeviceSources]:
    """Return the resource of each device class without sources, and the sources of the others."""

    def mapping(fields: d.Section) -> tuple[str, tuple[str, ...], tuple[DeviceSource, ...]]:
        return _device_class_mapping(fields, gates)

    mappings = d.list_of(d.section(mapping), maximum=MAX_MAPPINGS)(field)
    names = [name for name, *_ in mappings]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise d.InvalidValue(f"has more than one entry for resource {repeated[0]} (merge them)")
    resources: dict[str, str] = {}
    sources: DeviceSources = {}
    mapped: dict[str, str] = {}  # the first resource of each class
    for name, classes, of_mapping in mappings:
        for class_ in classes:
            of_class = sources.get(class_, ())
            if class_ in mapped and not _are_different_counters(of_class, of_mapping):
                raise d.InvalidValue(f"maps device class {class_} twice (to {mapped[class_]} and {name})")
            mapped.setdefault(class_, name)
            if of_mapping:
                sources[class_] = (*of_class, *of_mapping)
            else:
                resources[class_] = name
    return resources, sources


def _are_different_counters(present: tuple[DeviceSource, ...], added: tuple[DeviceSource, ...]) -> bool:
    """Return True if two resources may count the same devices: each another counter of them."""
    are_counters = {source.kind for source in (*present, *added)} == {"counter"}
    names = {source.name for source in present}
    return are_counters and bool(present and added) and names.isdisjoint(source.name for source in added)


def _device_class_mapping(
    fields: d.Section, gates: Mapping[str, bool]
) -> tuple[str, tuple[str, ...], tuple[DeviceSource, ...]]:
    fields.require("name", "deviceClassNames")
    resource = d.text_matching(_is_short_qualified_name, "the name of a resource")
    device_class = d.text_matching(_is_short_qualified_name, "the name of a DeviceClass")
    classes = d.list_of(device_class, minimum=1, maximum=MAX_CLASSES)
    name = fields.take("name", resource, "")
    if name == PODS:
        fields.at("name").reject(_COUNTED)

    def source(source_fields: d.Section) -> DeviceSource:
        return _device_source(source_fields, name, gates)

    sources = fields.take("sources", d.list_of(d.section(source)), ())
    if len({source.kind for source in sources}) > 1:
        fields.at("sources").reject("has both counter and capacity (write two mappings)")
    return name, fields.take("deviceClassNames", classes, ()), sources


_SOURCE_GATES: Final = {
    "counter": ("KueueDRAIntegrationPartitionableDevices", True),
    "capacity": ("KueueDRAIntegrationConsumableCapacity", False),
}


def _device_source(fields: d.Section, resource: str, gates: Mapping[str, bool]) -> DeviceSource:
    kinds = [kind for kind in get_args(DeviceSourceKind) if kind in fields]
    if len(kinds) != 1:
        raise d.InvalidValue("has not exactly one type (write counter or capacity)")
    (kind,) = kinds
    gate, default = _SOURCE_GATES[kind]
    none = DeviceSource(kind=kind, resource=resource, name="", driver="", expression="")
    if not gates.get(gate, default):
        fields.reject_if_present(kind, f"requires the feature gate {gate}")
        return none
    is_name = is_dns_label if kind == "counter" else is_qualified_name

    def of_kind(own: d.Section) -> DeviceSource:
        own.require("name", "driver", "deviceSelector")
        return DeviceSource(
            kind=kind,
            resource=resource,
            name=own.take("name", d.text_matching(is_name, f"the name of a {kind}"), ""),
            driver=own.take("driver", d.text_matching(is_dns_subdomain, "the name of a driver"), ""),
            expression=own.take("deviceSelector", d.section(_cel_expression), ""),
        )

    return fields.take(kind, d.section(of_kind), none)


def _cel_expression(fields: d.Section) -> str:
    def expression(own: d.Section) -> str:
        return own.take("expression", d.text, "")

    cel = fields.take("cel", d.section(expression), "")
    if not cel:
        raise d.InvalidValue("has no cel.expression")
    return cel


def _is_short_qualified_name(name: str) -> bool:
    return len(name) <= MAX_NAME and is_qualified_name(name)


def _transformation(fields: d.Section) -> Transformation:
    fields.require("input", hint="write the name of a resource")
    name = d.text_matching(is_qualified_name, "the name of a resource")
    outputs = fields.take("outputs", d.map_of(d.quantity), {})
    if PODS in outputs:
        fields.at("outputs").reject(f"has the output {PODS}, which {_COUNTED}")
    return Transformation(
        input=fields.take("input", name, ""),
        strategy=fields.take("strategy", d.choice(get_args(TransformationStrategy)), "Retain"),
        multiply_by=fields.take("multiplyBy", name, ""),
        outputs=outputs,
    )


class ObjectRetention(msgspec.Struct, frozen=True, kw_only=True):
    """Retention times in seconds; 0 deletes at once, None never."""

    finished_s: float | None = None  # of a workload, since it finished
    deactivated_s: float | None = None  # of a job, since the system deactivated its workload


_retention_of_workloads = d.struct_of(
    ObjectRetention,
    finished_s=("afterFinished", d.duration()),
    deactivated_s=("afterDeactivatedByKueue", d.duration()),
)


def decode_retention(fields: d.Section) -> ObjectRetention:
    return fields.take("workloads", d.section(_retention_of_workloads), ObjectRetention())


class Scheduling(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the controllers reserve quota; otherwise another scheduler does, or a person."""

    enabled: bool = True


decode_scheduling = d.struct_of(Scheduling, enabled=("enabled", d.boolean))

NodeFitMode = Literal["Off", "Report", "Require"]
NODE_FIT_MODES: Final = get_args(NodeFitMode)


class NodeFit(msgspec.Struct, frozen=True, kw_only=True):
    """Whether pods of flavors without a topology are checked against the nodes when they get quota.

    ``Report`` admits them by quota and tells which have no node; ``Require`` admits them only with a node for
    each, which is recorded as its place.
    """

    mode: NodeFitMode = "Report"


decode_node_fit = d.struct_of(NodeFit, mode=("mode", d.off_or(NODE_FIT_MODES, "Off")))

OutsideQuotaMode = Literal["Off", "Count", "Delete"]
OUTSIDE_QUOTA_MODES: Final = get_args(OutsideQuotaMode)


class OutsideQuota(msgspec.Struct, frozen=True, kw_only=True):
    """How pods of a workload are treated that use more than the quota charged for it.

    ``Count`` adds the surplus to the usage of the cluster queue; ``Delete`` also deletes the newest pods
    until the other pods are within the charge.
    """

    mode: OutsideQuotaMode = "Count"


decode_outside_quota = d.struct_of(OutsideQuota, mode=("mode", d.off_or(OUTSIDE_QUOTA_MODES, "Off")))
