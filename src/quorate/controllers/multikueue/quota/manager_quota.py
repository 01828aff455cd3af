"""The nominal quota of a manager's cluster queue: the sum of what its worker clusters have.

A local queue of a worker cluster with the name of a local queue of the manager points to the cluster queue
that runs its workloads.  Reasons and messages are Kueue's.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.api.kueue import (
    AdmissionCheck,
    ClusterQueue,
    FlavorQuotas,
    LocalQueue,
    ResourceGroup,
    ResourceQuota,
)
from quorate.api.kueue.multikueue import MultiKueueConfig
from quorate.api.meta import Condition, ConditionStatus, Key
from quorate.api.names.multikueue import CONTROLLER
from quorate.api.quantity import Quantity
from quorate.queueing import conditions as c

AUTOMATION: Final = "MultiKueueManagerQuotaAutomation"  # a condition of cluster queues


@dataclass(frozen=True, slots=True)
class WorkerQueues:
    """The queues of one connected worker cluster."""

    local_queues: Iterable[LocalQueue]
    cluster_queues: Iterable[ClusterQueue]


@dataclass(frozen=True, slots=True)
class QuotaPlan:
    """What to write into a cluster queue; None: leave as it is.  Without ``condition`` it is removed."""

    condition: Condition | None
    resource_groups: tuple[ResourceGroup, ...] | None = None


def multikueue_check(queue: ClusterQueue, checks: Mapping[str, AdmissionCheck]) -> AdmissionCheck | None:
    """Return the MultiKueue check of a cluster queue, the first by name."""
    names = sorted(rule.name for rule in queue.spec.admission_checks_strategy.admission_checks)
    found = (checks[name] for name in names if name in checks)
    return next((check for check in found if check.spec.controller_name == CONTROLLER), None)


def decide(
    queue: ClusterQueue,
    config: MultiKueueConfig | None,
    local_queues: Iterable[Key],
    workers: Sequence[WorkerQueues],
    now: float,
) -> QuotaPlan:
    """Return the quota of a queue with a MultiKueue check of this ``config``; None: it does not exist.

    ``workers``: the connected ones of ``config``; a lost one has no quota.
    """

    def no(reason: str, message: str) -> QuotaPlan:
        return QuotaPlan(_condition(queue, "False", reason, message, now))

    if config is None:
        return no("UnsupportedConfiguration", "The referenced MultiKueueConfig was not found.")
    if config.spec.quota_management != "Automated":
        return no("NotRequested", "MultiKueue manager quota automation has not been requested.")
    groups = queue.spec.resource_groups
    if len(groups) != 1 or len(groups[0].flavors) != 1:
        rule = "Quota automation requires that the manager-side ClusterQueue has exactly one ResourceFlavor"
        return no("UnsupportedConfiguration", rule)
    quota = _summed(frozenset(local_queues), workers)
    covered = groups[0].covered_resources
    if missing := sorted(quota.keys() - set(covered)):
        rule = "manager-side coveredResources is missing resources configured on workers"
        return no("UnsupportedConfiguration", f"{rule}: [{' '.join(missing)}]")
    flavor = groups[0].flavors[0]
    resources = tuple(
        ResourceQuota(name=name, nominal_quota=quota.get(name, Quantity(0))) for name in covered
    )
    text = "ClusterQueue quota is automatically managed based on MultiKueue workers."
    condition = _condition(queue, "True", "QuotaAutomated", text, now)
    if flavor.resources == resources:
        return QuotaPlan(condition)
    wanted = FlavorQuotas(name=flavor.name, resources=resources)
    return QuotaPlan(condition, (ResourceGroup(covered_resources=covered, flavors=(wanted,)),))


def _summed(local_queues: frozenset[Key], workers: Iterable[WorkerQueues]) -> dict[str, Quantity]:
    total: dict[str, Quantity] = {}
    for worker in workers:
        names = {
            queue.spec.cluster_queue for queue in worker.local_queues if queue.metadata.key in local_queues
        }
        for queue in worker.cluster_queues:
            if queue.metadata.name not in names:
                continue
            for group in queue.spec.resource_groups:
                for resource in (resource for flavor in group.flavors for resource in flavor.resources):
                    before = total.get(resource.name)
                    quota = resource.nominal_quota
                    total[resource.name] = quota if before is None else before + quota
    return total


def _condition(
    queue: ClusterQueue, status: ConditionStatus, reason: str, message: str, now: float
) -> Condition:
    return c.new_condition(AUTOMATION, status, reason, message, now, queue.metadata.generation)
