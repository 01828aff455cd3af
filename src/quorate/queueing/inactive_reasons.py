"""Why a cluster queue admits nothing: typed reasons, their texts, and how they follow from the objects.

``condition_reason`` is the reason of the condition Active=False.
The reasons are Kueue's (v0.20), except for a queue that is misconfigured, and most texts are.
"""

from collections.abc import Container, Iterator, Mapping
from typing import ClassVar, assert_never

import msgspec

from quorate.api.kueue import ACTIVE, AdmissionCheck, ClusterQueue, ClusterQueueSpec, ResourceFlavor
from quorate.api.kueue.provisioning import CONTROLLER as PROVISIONING
from quorate.api.meta import is_true
from quorate.api.names.multikueue import CONTROLLER as MULTIKUEUE
from quorate.queueing.limits import MAX_MESSAGE_FINDINGS


class Stopped(msgspec.Struct, frozen=True):
    """``stopPolicy`` is not None."""

    condition_reason: ClassVar[str] = "Stopped"


class Terminating(msgspec.Struct, frozen=True):
    """The queue has a deletion timestamp."""

    condition_reason: ClassVar[str] = "Terminating"


class FlavorsMissing(msgspec.Struct, frozen=True):
    condition_reason: ClassVar[str] = "FlavorNotFound"
    names: tuple[str, ...]


class ChecksMissing(msgspec.Struct, frozen=True):
    condition_reason: ClassVar[str] = "AdmissionCheckNotFound"
    names: tuple[str, ...]


class ChecksInactive(msgspec.Struct, frozen=True):
    condition_reason: ClassVar[str] = "AdmissionCheckInactive"
    names: tuple[str, ...]


class MultipleMultiKueueChecks(msgspec.Struct, frozen=True):
    condition_reason: ClassVar[str] = "MultipleMultiKueueAdmissionChecks"
    names: tuple[str, ...]


class MultiKueueChecksOnFlavors(msgspec.Struct, frozen=True):
    """The checks apply to some flavors only."""

    condition_reason: ClassVar[str] = "MultiKueueAdmissionCheckAppliedPerFlavor"
    names: tuple[str, ...]


class MultiKueueWithProvisioning(msgspec.Struct, frozen=True):
    condition_reason: ClassVar[str] = "MultiKueueWithProvisioningRequest"
    multikueue: tuple[str, ...]
    provisioning: tuple[str, ...]


class TopologiesMissing(msgspec.Struct, frozen=True):
    """No pod of these flavors can get a place."""

    condition_reason: ClassVar[str] = "TopologyNotFound"
    by_flavor: tuple[tuple[str, str], ...]  # the flavor, and the Topology that it names


class CohortCycle(msgspec.Struct, frozen=True):
    """The parents of these cohorts, one of which is above the queue, form a cycle."""

    condition_reason: ClassVar[str] = "CohortCycleDetected"
    cohorts: tuple[str, ...]


class Misconfigured(msgspec.Struct, frozen=True):
    """The stored queue violates rules that the webhook enforces; ``findings`` has one text per rule."""

    condition_reason: ClassVar[str] = "Misconfigured"
    findings: tuple[str, ...]


InactiveReason = (
    Terminating
    | Stopped
    | CohortCycle
    | Misconfigured
    | FlavorsMissing
    | ChecksMissing
    | ChecksInactive
    | MultipleMultiKueueChecks
    | MultiKueueChecksOnFlavors
    | MultiKueueWithProvisioning
    | TopologiesMissing
)


def inactive_message(reason: InactiveReason) -> str:
    match reason:
        case Terminating():
            return "clusterQueue is terminating"
        case Stopped():
            return "is stopped"
        case CohortCycle(cohorts):
            return f"the parents of its cohorts form a cycle: {', '.join(cohorts)}"
        case Misconfigured(findings):
            more = len(findings) - MAX_MESSAGE_FINDINGS
            shown = "; ".join(findings[:MAX_MESSAGE_FINDINGS])
            return f"is misconfigured: {shown}{f'; and {more} more' if more > 0 else ''}"
        case FlavorsMissing(names):
            return f"references missing ResourceFlavor(s): {','.join(names)}"
        case ChecksMissing(names):
            return f"references missing AdmissionCheck(s): {','.join(names)}"
        case ChecksInactive(names):
            return f"references inactive AdmissionCheck(s): {','.join(names)}"
        case MultipleMultiKueueChecks(names):
            rule = "Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue"
            return f"{rule}, found: {','.join(names)}"
        case MultiKueueChecksOnFlavors(names):
            return f"Cannot specify MultiKueue AdmissionCheck per flavor, found: {','.join(names)}"
        case MultiKueueWithProvisioning(multikueue, provisioning):
            rule = "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together"
            return f"{rule}, found: {','.join(multikueue)}, {','.join(provisioning)}"
        case TopologiesMissing(by_flavor):
            return ", ".join(
                f'there is no Topology "{name}" for TAS flavor "{flavor}"' for flavor, name in by_flavor
            )
    assert_never(reason)


def inactive_reasons(
    cluster_queue: ClusterQueue,
    findings: tuple[str, ...],
    flavors: Mapping[str, ResourceFlavor],
    checks: Mapping[str, AdmissionCheck],
    topologies: Container[str] | None,
    cohort_cycle: tuple[str, ...],
) -> Iterator[InactiveReason]:
    """Return all reasons for which the queue is inactive, by precedence.

    ``cohort_cycle``: the cohorts of the cycle above the queue, if there is one.  ``topologies`` are those
    that exist; None: flavors need none, because no pod gets a place.
    """
    spec = cluster_queue.spec
    if is_terminating(cluster_queue):
        yield Terminating()
    if spec.stop_policy != "None":
        yield Stopped()
    if cohort_cycle:
        yield CohortCycle(cohort_cycle)
    if findings:
        yield Misconfigured(findings)
    flavors_named = dict.fromkeys(flavor.name for group in spec.resource_groups for flavor in group.flavors)
    missing = tuple(name for name in flavors_named if name not in flavors)
    if missing:
        yield FlavorsMissing(missing)
    named = sorted(rule.name for rule in spec.admission_checks_strategy.admission_checks)
    missing = tuple(name for name in named if name not in checks)
    if missing:
        yield ChecksMissing(missing)
    inactive_checks = tuple(
        name for name in named if name in checks and not is_true(checks[name].status.conditions, ACTIVE)
    )
    if inactive_checks:
        yield ChecksInactive(inactive_checks)
    yield from _conflicts_of_checks(spec, frozenset(flavors_named), checks)
    named_topologies = {name: flavors[name].spec.topology_name for name in flavors_named if name in flavors}
    absent = tuple(
        (flavor, name)
        for flavor, name in named_topologies.items()
        if name and topologies is not None and name not in topologies
    )
    if absent:
        yield TopologiesMissing(absent)


def _conflicts_of_checks(
    spec: ClusterQueueSpec, flavors: frozenset[str], checks: Mapping[str, AdmissionCheck]
) -> Iterator[InactiveReason]:
    """Return how MultiKueue checks contradict each other, the flavors of the queue, and other checks."""
    rules = {rule.name: rule for rule in spec.admission_checks_strategy.admission_checks}

    def controlled_by(controller: str) -> tuple[str, ...]:
        return tuple(
            name
            for name in sorted(rules)
            if name in checks and checks[name].spec.controller_name == controller
        )

    multikueue, provisioning = controlled_by(MULTIKUEUE), controlled_by(PROVISIONING)
    if len(multikueue) > 1:
        yield MultipleMultiKueueChecks(multikueue)
    on_flavors = tuple(
        name
        for name in multikueue
        if rules[name].on_flavors and not flavors <= frozenset(rules[name].on_flavors)
    )
    if on_flavors:
        yield MultiKueueChecksOnFlavors(on_flavors)
    if multikueue and provisioning:
        yield MultiKueueWithProvisioning(multikueue, provisioning)


def is_terminating(cluster_queue: ClusterQueue) -> bool:
    return cluster_queue.metadata.deletion_timestamp is not None
