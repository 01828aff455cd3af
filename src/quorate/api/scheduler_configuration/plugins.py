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
from quorate.api.decoding.strict import Field, InvalidValue, text

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


def _none(given: Arguments) -> NoArguments:
    return NoArguments()


def _overcommit(given: Arguments) -> OvercommitArguments:
    return OvercommitArguments(given.value("overcommit-factor", _at_least_one, OvercommitArguments().factor))


def _at_least_one(field: Field) -> Fraction:
    factor = exact_number(field)
    if factor < 1:
        raise InvalidValue("is too small, must be at least 1")
    return factor


def _sla(given: Arguments) -> SlaArguments:
    return SlaArguments(given.value("sla-waiting-time", duration_or_seconds(exclusive=True), None))


def _capacity(given: Arguments) -> CapacityArguments:
    return CapacityArguments(given.value("ancestorReclaimLevel", non_negative_integer, 0))


def _node_group(given: Arguments) -> NodeGroupArguments:
    return NodeGroupArguments(
        strict=given.value("strict", lenient_boolean, True),
        preferred_order=given.value("enablePreferredOrder", lenient_boolean, False),
    )


def _network_topology(given: Arguments) -> NetworkTopologyArguments:
    # The weight of all scores of the plugin, which here order HyperNodes and not nodes.
    given.value("weight", non_negative_integer, 1)
    prefix = "hypernode.binpack."
    weights = {name: given.value(f"{prefix}{name}", non_negative_integer, 1) for name in ("cpu", "memory")}
    listed = given.value(f"{prefix}resources", text, "")
    for name in filter(None, map(str.strip, listed.split(","))):
        weights[name] = given.value(f"{prefix}resources.{name}", non_negative_integer, 1)
    # Pods without networkTopology are not packed into HyperNodes.
    if given.value(f"{prefix}normal-pod.enable", lenient_boolean, False):
        given.at(f"{prefix}normal-pod.enable").warn("is not supported and has no effect")
    given.value(f"{prefix}normal-pod.fading", exact_number, Fraction(4, 5))
    # No pods are evicted for gangs that must be within a HyperNode.
    given.value("hypernode.gradient.evict.max-hypernodes", non_negative_integer, 8)
    return NetworkTopologyArguments(weights)


def _binpack(given: Arguments) -> BinpackArguments:
    weights = {name: given.value(f"binpack.{name}", non_negative_integer, 1) for name in ("cpu", "memory")}
    listed = given.value("binpack.resources", text, "")
    for name in filter(None, map(str.strip, listed.split(","))):
        weights[name] = given.value(f"binpack.resources.{name}", non_negative_integer, 1)
    return BinpackArguments(given.value("binpack.weight", non_negative_integer, 1), weights)


def _node_order(given: Arguments) -> NodeOrderArguments:
    default = NodeOrderArguments()

    def weight(score: str, fallback: int) -> int:
        return given.value(f"{score}.weight", non_negative_integer, fallback)

    return NodeOrderArguments(
        least_requested=weight("leastrequested", default.least_requested),
        most_requested=weight("mostrequested", default.most_requested),
        node_affinity=weight("nodeaffinity", default.node_affinity),
        pod_affinity=weight("podaffinity", default.pod_affinity),
        balanced_resource=weight("balancedresource", default.balanced_resource),
        taint_toleration=weight("tainttoleration", default.taint_toleration),
        image_locality=weight("imagelocality", default.image_locality),
        pod_topology_spread=weight("podtopologyspread", default.pod_topology_spread),
    )


def _predicates(given: Arguments) -> PredicateArguments:
    def on(constraint: str) -> bool:
        return given.value(f"predicate.{constraint}Enable", lenient_boolean, True)

    # Equal pods always share one result, whether this is enabled or not; the result is the same.
    given.value("predicate.CacheEnable", lenient_boolean, True)
    if given.value("predicate.ProportionalEnable", lenient_boolean, False):
        given.at("predicate.ProportionalEnable").warn("is not supported and has no effect")
    return PredicateArguments(
        node_affinity=on("NodeAffinity"),
        node_ports=on("NodePorts"),
        taint_toleration=on("TaintToleration"),
        pod_affinity=on("PodAffinity"),
        node_volume_limits=on("NodeVolumeLimits"),
        volume_zone=on("VolumeZone"),
        volume_binding=on("VolumeBinding"),
        pod_topology_spread=on("PodTopologySpread"),
        devices=on("DynamicResourceAllocation"),
    )


PLUGIN_DECODERS: Final[Mapping[str, Callable[[Arguments], PluginArguments]]] = {
    "gang": _none,
    "priority": _none,
    "conformance": _none,
    "cdp": _none,
    "pdb": _none,
    "drf": _none,
    "proportion": _none,
    "capacity": _capacity,
    "overcommit": _overcommit,
    "predicates": _predicates,
    "nodeorder": _node_order,
    "binpack": _binpack,
    "network-topology-aware": _network_topology,
    "nodegroup": _node_group,
    "resourcequota": _none,
    "sla": _sla,
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
