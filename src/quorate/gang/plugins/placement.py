"""Plugins that are arguments for ``placement``: predicates, nodeorder, binpack, network-topology-aware."""

import msgspec

from quorate.api.scheduler_configuration import PluginEntry
from quorate.api.scheduler_configuration.plugins import (
    BinpackArguments,
    NetworkTopologyArguments,
    NodeOrderArguments,
    PredicateArguments,
)
from quorate.gang.session.callbacks import PluginCallbacks
from quorate.gang.session.session import Session


def predicates(session: Session, entry: PluginEntry) -> PluginCallbacks:
    """Filter nodes by constraints.

    Without the plugin, a node only has to be ready and to have the resources.
    """
    assert isinstance(entry.arguments, PredicateArguments), f"{entry.arguments} are not for predicates"
    return PluginCallbacks(predicates=entry.arguments)


def nodeorder(session: Session, entry: PluginEntry) -> PluginCallbacks:
    """Score nodes by kube-scheduler's criteria, each with its weight."""
    assert isinstance(entry.arguments, NodeOrderArguments), f"{entry.arguments} are not for nodeorder"
    if session.settings.profile == "native":
        return PluginCallbacks(node_order=msgspec.structs.replace(entry.arguments, balanced_devices=()))
    return PluginCallbacks(node_order=entry.arguments)


def binpack(session: Session, entry: PluginEntry) -> PluginCallbacks:
    """Prefer the nodes that the pod fills most."""
    assert isinstance(entry.arguments, BinpackArguments), f"{entry.arguments} are not for binpack"
    return PluginCallbacks(node_order=entry.arguments)


def network_topology_aware(session: Session, entry: PluginEntry) -> PluginCallbacks:
    """Score HyperNodes by the resources that the gang leaves unused.

    Without the plugin their weights have the defaults; limits of ``networkTopology`` hold all the same.
    """
    assert isinstance(entry.arguments, NetworkTopologyArguments), f"{entry.arguments} are not for HyperNodes"
    return PluginCallbacks(hyper_node_order=entry.arguments)
