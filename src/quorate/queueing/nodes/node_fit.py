"""Which pods are checked against the nodes: pods of flavors without a topology, by the flavor's mode.

A pod set is checked as the strictest mode of its flavors says, but not at all if one of them says ``Off``,
and not if the nodes of a flavor are elsewhere: a ProvisioningRequest brings the nodes, or they are in a
worker cluster.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from quorate.api.configuration.queueing import NODE_FIT_MODES, NodeFitMode
from quorate.api.kueue import AdmissionCheck, ClusterQueueSpec, ResourceFlavor
from quorate.api.kueue.provisioning import CONTROLLER as PROVISIONING
from quorate.api.names.multikueue import CONTROLLER as MULTIKUEUE

NODE_FIT: Final = "quorate.dev/node-fit"  # an annotation of flavors: the mode for their pods
_MODES: Final[Mapping[str, NodeFitMode]] = {mode: mode for mode in NODE_FIT_MODES}


def mode_of(flavors: Iterable[ResourceFlavor], default: NodeFitMode) -> NodeFitMode:
    """Return the mode for pods that get resources of all ``flavors``.

    A flavor with a topology says ``Off``, because its pods get places in the topology.
    """
    modes = {_mode(flavor, default) for flavor in flavors}
    if not modes or "Off" in modes:
        return "Off"
    return "Require" if "Require" in modes else "Report"


def _mode(flavor: ResourceFlavor, default: NodeFitMode) -> NodeFitMode:
    if flavor.spec.topology_name:
        return "Off"
    return annotated_mode(flavor) or default


def annotated_mode(flavor: ResourceFlavor) -> NodeFitMode | None:
    """Return the mode in the annotation of a flavor; None without the annotation, or for an unknown mode."""
    return _MODES.get(flavor.metadata.annotations.get(NODE_FIT, ""))


def has_other_nodes(
    queue: ClusterQueueSpec,
    flavors: Collection[str],
    checks: Mapping[str, AdmissionCheck],
    controllers: Collection[str] = (PROVISIONING, MULTIKUEUE),
) -> bool:
    """Return True if a check of the queue brings the nodes of one of ``flavors``, or uses those elsewhere.

    ``controllers``: of the checks that count.
    """
    rules = queue.admission_checks_strategy.admission_checks
    return bool(rules) and any(
        rule.name in checks
        and checks[rule.name].spec.controller_name in controllers
        and (not rule.on_flavors or any(flavor in rule.on_flavors for flavor in flavors))
        for rule in rules
    )


def runs_elsewhere(queue: ClusterQueueSpec, checks: Mapping[str, AdmissionCheck]) -> bool:
    """Return True if the workloads of the queue run in worker clusters, which place their pods."""
    return has_other_nodes(queue, (), checks, (MULTIKUEUE,))
