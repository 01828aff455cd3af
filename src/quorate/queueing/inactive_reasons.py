"""Why a cluster queue admits nothing: reasons with their texts, and how they follow from the objects.

The reasons are Kueue's (v0.20), except for a queue that is misconfigured, and most texts are.
"""

from collections.abc import Container, Iterator, Mapping
from typing import Literal

import msgspec

from quorate.api.kueue import (
    ACTIVE,
    AdmissionCheck,
    ClusterQueue,
    ClusterQueueSpec,
    LocalQueue,
    ResourceFlavor,
)
from quorate.api.kueue.provisioning import CONTROLLER as PROVISIONING
from quorate.api.meta import is_true
from quorate.api.names.multikueue import CONTROLLER as MULTIKUEUE
from quorate.queueing.limits import MAX_MESSAGE_FINDINGS
from quorate.queueing.nodes.topology_flavors import runs_elsewhere

InactiveCode = Literal[
    "Terminating",  # the queue has a deletion timestamp
    "Stopped",  # ``stopPolicy`` is not None
    "CohortCycleDetected",  # the parents of cohorts above the queue form a cycle
    "Misconfigured",  # the stored queue violates rules that the webhook enforces
    "FlavorNotFound",
    "AdmissionCheckNotFound",
    "AdmissionCheckInactive",
    "MultipleMultiKueueAdmissionChecks",
    "MultiKueueAdmissionCheckAppliedPerFlavor",  # MultiKueue checks apply to some flavors only
    "MultiKueueWithProvisioningRequest",
    "TopologyNotFound",  # no pod of some flavors can get a place
]


class InactiveReason(msgspec.Struct, frozen=True):
    """One reason why a cluster queue admits nothing."""

    code: InactiveCode  # the reason of the condition Active=False
    text: str
    enough: str = "change the admission checks of the queue"  # what removes the reason


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
        enough = "create it again after it is gone"
        yield InactiveReason("Terminating", "clusterQueue is terminating", enough)
    if spec.stop_policy != "None":
        enough = f"quorate queue resume {cluster_queue.metadata.name} (spec.stopPolicy: None)"
        yield InactiveReason("Stopped", "is stopped", enough)
    if cohort_cycle:
        cohorts = ", ".join(cohort_cycle)
        text = f"the parents of its cohorts form a cycle: {cohorts}"
        enough = f"change spec.parentName of one of the Cohorts {cohorts}"
        yield InactiveReason("CohortCycleDetected", text, enough)
    if findings:
        more = len(findings) - MAX_MESSAGE_FINDINGS
        shown = "; ".join(findings[:MAX_MESSAGE_FINDINGS])
        text = f"is misconfigured: {shown}{f'; and {more} more' if more > 0 else ''}"
        yield InactiveReason("Misconfigured", text, "correct the fields that the message names")
    named = dict.fromkeys(flavor.name for group in spec.resource_groups for flavor in group.flavors)
    if missing := [name for name in named if name not in flavors]:
        text = f"references missing ResourceFlavor(s): {','.join(missing)}"
        enough = f"create the ResourceFlavors {', '.join(missing)}, or remove them from the queue"
        yield InactiveReason("FlavorNotFound", text, enough)
    yield from _check_problems(spec, frozenset(named), checks)
    by_flavor = {name: flavors[name].spec.topology_name for name in named if name in flavors}
    absent = {
        flavor: name
        for flavor, name in by_flavor.items()
        if name and topologies is not None and name not in topologies and not runs_elsewhere(spec, checks)
    }
    if absent:
        text = ", ".join(
            f'there is no Topology "{name}" for TAS flavor "{flavor}"' for flavor, name in absent.items()
        )
        yield InactiveReason("TopologyNotFound", text, f"create the Topologies {', '.join(absent.values())}")


def _check_problems(
    spec: ClusterQueueSpec, flavors: frozenset[str], checks: Mapping[str, AdmissionCheck]
) -> Iterator[InactiveReason]:
    """Yield which checks do not work, and how MultiKueue checks contradict flavors and other checks."""
    rules = {rule.name: rule for rule in spec.admission_checks_strategy.admission_checks}
    if missing := [name for name in sorted(rules) if name not in checks]:
        text = f"references missing AdmissionCheck(s): {','.join(missing)}"
        enough = f"create the AdmissionChecks {', '.join(missing)}, or remove them from the queue"
        yield InactiveReason("AdmissionCheckNotFound", text, enough)
    existing = [name for name in sorted(rules) if name in checks]
    if inactive := [name for name in existing if not is_true(checks[name].status.conditions, ACTIVE)]:
        text = f"references inactive AdmissionCheck(s): {','.join(inactive)}"
        enough = f"the controllers of the AdmissionChecks {', '.join(inactive)} must make them Active"
        yield InactiveReason("AdmissionCheckInactive", text, enough)
    multikueue = [name for name in existing if checks[name].spec.controller_name == MULTIKUEUE]
    provisioning = [name for name in existing if checks[name].spec.controller_name == PROVISIONING]
    if len(multikueue) > 1:
        rule = "Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue"
        text = f"{rule}, found: {','.join(multikueue)}"
        yield InactiveReason("MultipleMultiKueueAdmissionChecks", text)
    on_flavors = [
        name
        for name in multikueue
        if rules[name].on_flavors and not flavors <= frozenset(rules[name].on_flavors)
    ]
    if on_flavors:
        text = f"Cannot specify MultiKueue AdmissionCheck per flavor, found: {','.join(on_flavors)}"
        yield InactiveReason("MultiKueueAdmissionCheckAppliedPerFlavor", text)
    if multikueue and provisioning:
        rule = "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together"
        text = f"{rule}, found: {','.join(multikueue)}, {','.join(provisioning)}"
        yield InactiveReason("MultiKueueWithProvisioningRequest", text)


def is_terminating(queue: ClusterQueue | LocalQueue) -> bool:
    return queue.metadata.deletion_timestamp is not None
