"""The plugins of the gang scheduler's configuration and their arguments.

Arguments and defaults are Volcano's (1.15).
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Final, Literal, get_args

import msgspec

from quorate.api.decoding.lenient import (
    Arguments,
    duration_or_seconds,
    exact_number,
    lenient_boolean,
    non_negative_integer,
)
from quorate.api.decoding.strict import Field, InvalidValue, struct_of, text

# Extension points that an entry can disable for its plugin.
ExtensionPoint = Literal[
    "JobOrder", "JobReady", "JobPipelined", "JobEnqueued", "JobStarving", "TaskOrder", "QueueOrder",
    "Preemptable", "Reclaimable", "Preemptive", "Predicate", "BestNode", "NodeOrder", "TargetJob",
    "ReservedNodes", "Victim", "Overused", "Allocatable", "HyperNodeOrder", "HyperNodeGradient",
    "SubJobReady", "SubJobPipelined", "SubJobOrder", "ClusterOrder",
]  # fmt: skip
# Volcano's fields for these begin with "enabled", for the others with "enable".
_PAST_TENSE: Final = frozenset(
    {
        "Victim", "Overused", "Allocatable", "HyperNodeOrder", "HyperNodeGradient", "SubJobReady",
        "SubJobPipelined", "SubJobOrder", "ClusterOrder",
    }
)  # fmt: skip
ENABLE_FIELDS: Final[Mapping[str, ExtensionPoint]] = {
    f"{'enabled' if switch in _PAST_TENSE else 'enable'}{switch}": switch
    for switch in get_args(ExtensionPoint)
}


class NoArguments(msgspec.Struct, frozen=True):
    pass


class OvercommitArguments(msgspec.Struct, frozen=True):
    factor: Fraction = Fraction(6, 5)  # the fraction of the cluster that pod groups may reserve


class SlaArguments(msgspec.Struct, frozen=True):
    waiting_s: float | None = None  # maximum waiting time of all groups; None: only of groups that set one


class CapacityArguments(msgspec.Struct, frozen=True):
    ancestor_reclaim_level: int = 0
    devices: bool = True  # whether queues limit what pods claim of device classes
    device_capacities: bool = True  # also of the capacities of devices


class NodeGroupArguments(msgspec.Struct, frozen=True):
    strict: bool = True  # whether queues without affinity to node groups may use no node at all
    preferred_order: bool = False  # whether preferred groups score by their place in the list


class BinpackArguments(msgspec.Struct, frozen=True):
    """``resources`` are weights by resource; resources that are not listed have weight 0."""

    weight: int = 1
    resources: Mapping[str, int] = MappingProxyType({"cpu": 1, "memory": 1})


class NetworkTopologyArguments(msgspec.Struct, frozen=True):
    """``resources`` are the weights of resources in the score of a HyperNode; others have weight 0."""

    resources: Mapping[str, int] = MappingProxyType({"cpu": 1, "memory": 1})


class NodeOrderArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The weight of each score."""

    least_requested: int = 1
    most_requested: int = 0
    node_affinity: int = 2
    pod_affinity: int = 2
    balanced_resource: int = 1
    taint_toleration: int = 3
    image_locality: int = 1
    pod_topology_spread: int = 2
    # Not an argument: balanced with cpu and memory for pods that request them; kube-scheduler has none.
    balanced_devices: tuple[str, ...] = ("nvidia.com/gpu",)


class PredicateArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The enabled predicates; node readiness is always checked."""

    node_unschedulable: bool = True  # not an argument: enabled with the plugin
    node_affinity: bool = True
    node_ports: bool = True
    taint_toleration: bool = True
    pod_affinity: bool = True
    node_volume_limits: bool = True
    volume_zone: bool = True
    volume_binding: bool = True
    pod_topology_spread: bool = True
    devices: bool = True


PluginArguments = (
    NoArguments
    | OvercommitArguments
    | SlaArguments
    | CapacityArguments
    | NodeGroupArguments
    | BinpackArguments
    | NetworkTopologyArguments
    | NodeOrderArguments
    | PredicateArguments
)


def _at_least_one(field: Field) -> Fraction:
    factor = exact_number(field)
    if factor < 1:
        raise InvalidValue("is too small, must be at least 1")
    return factor


def _network_topology(given: Arguments) -> NetworkTopologyArguments:
    # The weight of all scores of the plugin, which here order HyperNodes and not nodes.
    given.take("weight", non_negative_integer, None)
    weights = _weights(given, "hypernode.binpack")
    # Pods without networkTopology are not packed into HyperNodes.
    _ignored_switch(given, "hypernode.binpack.normal-pod.enable")
    given.take("hypernode.binpack.normal-pod.fading", exact_number, None)
    # No pods are evicted for gangs that must be within a HyperNode.
    given.take("hypernode.gradient.evict.max-hypernodes", non_negative_integer, None)
    return NetworkTopologyArguments(weights)


def _binpack(given: Arguments) -> BinpackArguments:
    weight = given.take("binpack.weight", non_negative_integer, BinpackArguments().weight)
    return BinpackArguments(weight, _weights(given, "binpack"))


def _weights(given: Arguments, prefix: str) -> dict[str, int]:
    """Return the weights of cpu, memory and the resources that ``<prefix>.resources`` lists."""
    weights = {name: given.take(f"{prefix}.{name}", non_negative_integer, 1) for name in ("cpu", "memory")}
    for name in filter(None, map(str.strip, given.take(f"{prefix}.resources", text, "").split(","))):
        weights[name] = given.take(f"{prefix}.resources.{name}", non_negative_integer, 1)
    return weights


def _ignored_switch(given: Arguments, name: str) -> None:
    if given.take(name, lenient_boolean, False):
        given.at(name).warn("is not supported and has no effect")


_enabled_predicates = struct_of(
    PredicateArguments,
    node_affinity=("predicate.NodeAffinityEnable", lenient_boolean),
    node_ports=("predicate.NodePortsEnable", lenient_boolean),
    taint_toleration=("predicate.TaintTolerationEnable", lenient_boolean),
    pod_affinity=("predicate.PodAffinityEnable", lenient_boolean),
    node_volume_limits=("predicate.NodeVolumeLimitsEnable", lenient_boolean),
    volume_zone=("predicate.VolumeZoneEnable", lenient_boolean),
    volume_binding=("predicate.VolumeBindingEnable", lenient_boolean),
    pod_topology_spread=("predicate.PodTopologySpreadEnable", lenient_boolean),
    devices=("predicate.DynamicResourceAllocationEnable", lenient_boolean),
)


def _predicates(given: Arguments) -> PredicateArguments:
    # Equal pods always share one result, whether this is enabled or not; the result is the same.
    given.take("predicate.CacheEnable", lenient_boolean, True)
    _ignored_switch(given, "predicate.ProportionalEnable")
    return _enabled_predicates(given)


_no_arguments = struct_of(NoArguments)
PLUGIN_DECODERS: Final[Mapping[str, Callable[[Arguments], PluginArguments]]] = {
    "gang": _no_arguments,
    "priority": _no_arguments,
    "conformance": _no_arguments,
    "cdp": _no_arguments,
    "pdb": _no_arguments,
    "drf": _no_arguments,
    "proportion": _no_arguments,
    "capacity": struct_of(
        CapacityArguments,
        ancestor_reclaim_level=("ancestorReclaimLevel", non_negative_integer),
        devices=("capacity.DynamicResourceAllocationEnable", lenient_boolean),
        device_capacities=("capacity.DRAConsumableCapacityEnable", lenient_boolean),
    ),
    "overcommit": struct_of(OvercommitArguments, factor=("overcommit-factor", _at_least_one)),
    "predicates": _predicates,
    "nodeorder": struct_of(
        NodeOrderArguments,
        least_requested=("leastrequested.weight", non_negative_integer),
        most_requested=("mostrequested.weight", non_negative_integer),
        node_affinity=("nodeaffinity.weight", non_negative_integer),
        pod_affinity=("podaffinity.weight", non_negative_integer),
        balanced_resource=("balancedresource.weight", non_negative_integer),
        taint_toleration=("tainttoleration.weight", non_negative_integer),
        image_locality=("imagelocality.weight", non_negative_integer),
        pod_topology_spread=("podtopologyspread.weight", non_negative_integer),
    ),
    "binpack": _binpack,
    "network-topology-aware": _network_topology,
    "nodegroup": struct_of(
        NodeGroupArguments,
        strict=("strict", lenient_boolean),
        preferred_order=("enablePreferredOrder", lenient_boolean),
    ),
    "resourcequota": _no_arguments,
    "sla": struct_of(SlaArguments, waiting_s=("sla-waiting-time", duration_or_seconds(exclusive=True))),
}
HIERARCHICAL_PLUGINS: Final = frozenset(
    {"capacity", "drf", "nodegroup"}
)  # plugins that support enableHierarchy

# Unsupported plugins of Volcano that filter. Without them, pods could run where an administrator forbade it.
UNSUPPORTED_FILTERS: Final[Mapping[str, str]] = {
    "deviceshare": "gives out shares of devices",
    "extender": "asks other servers where pods may run",
    "numa-aware": "keeps pods to the NUMA nodes they can have",
    "tdm": "keeps pods off revocable nodes outside of their hours",
    "usage": "keeps pods off nodes that are busy by measurement",
}
# Unsupported plugins of Volcano that only score or move pods. Without them the same placements are allowed.
UNSUPPORTED_SCORERS: Final[Mapping[str, str]] = {
    "rescheduling": "moves running pods to better nodes",
    "resource-strategy-fit": "scores nodes by resource",
    "task-topology": "places roles near each other",
}
