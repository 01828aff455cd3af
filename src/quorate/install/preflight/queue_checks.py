"""Checks of the configuration of queues, flavors and cohorts: errors and surprising settings.

Pure functions of the objects and of their evaluation by the queueing core.  The core determines what is
inactive, cyclic, unreachable or uncovered; this module does not repeat its rules.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.api.core import Namespace, Node
from quorate.api.core.pod_resources import sum_resources
from quorate.api.kueue import LocalQueue, ResourceQuota
from quorate.api.kueue.provisioning import CONTROLLER as PROVISIONING
from quorate.api.meta import Key, find_condition, matches_selector
from quorate.api.names.multikueue import CONTROLLER as MULTIKUEUE
from quorate.api.quantity import Quantity
from quorate.install.preflight.findings import PreflightFinding, error, info, warning
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.decisions import Decision
from quorate.queueing.explain import can_never_fit, why_pending
from quorate.queueing.inadmissible_reasons import InadmissibleReason, QueueMissing, ResourceUncovered
from quorate.queueing.ledger import Ledger
from quorate.queueing.state import State
from quorate.quota.amount import FlavorResource, as_quantity, base_units

_MAX_EVALUATED: Final = 200  # pending workloads per queue; each costs a pass over the reservations


@dataclass(frozen=True, slots=True)
class QueueSetup:
    """The configuration of queues, and the core's state after it has evaluated every workload."""

    state: State
    decided: Mapping[Key, Decision]
    namespaces: Sequence[Namespace]
    nodes: Sequence[Node] | None  # None: no permission to list them
    local_queues: Sequence[LocalQueue]

    @property
    def ledger(self) -> Ledger:
        """Return the queues with their quota, and the workloads that wait or hold quota."""
        return self.state.ledger

    @property
    def cluster_queues(self) -> list[ClusterQueueState]:
        queues = self.ledger.cluster_queues
        return [queues[name] for name in sorted(queues)]


def queue_findings(setup: QueueSetup) -> Iterator[PreflightFinding]:
    if not setup.cluster_queues:
        yield info(
            "cluster queues",
            "there is none, so nothing is admitted",
            "see docs/concepts/quota.md for an example",
        )
    for check in (
        _inactive, _without_flavors, _namespaces, _local_queues, _cohorts, _limits_without_cohort, _reclaim,
        _nodes, _unsupported, _pending,
    ):  # fmt: skip
        yield from check(setup)


def _inactive(setup: QueueSetup) -> Iterator[PreflightFinding]:
    for queue in setup.cluster_queues:
        for reason in queue.inactive_reasons:
            about, text = f"cluster queue {queue.name}", reason.text
            match reason.code:
                case "CohortCycleDetected":
                    continue  # reported once, for all of its queues
                case "Stopped":
                    yield info(about, text, f"quorate queue resume {queue.name}")
                case "Terminating":
                    yield warning(about, f"{text}: it is deleted once no workload uses its quota")
                case _:
                    yield error(about, f"{text}, so it admits nothing", reason.enough)


def _without_flavors(setup: QueueSetup) -> Iterator[PreflightFinding]:
    for queue in setup.cluster_queues:
        if not any(group.flavors for group in queue.spec.resource_groups):
            yield error(
                f"cluster queue {queue.name}",
                "it has no flavors, so no workload that requests resources fits",
                "add resourceGroups",
            )


def _namespaces(setup: QueueSetup) -> Iterator[PreflightFinding]:
    for queue in setup.cluster_queues:
        about, selector = f"cluster queue {queue.name}", queue.spec.namespace_selector
        if selector is None:
            yield error(
                about,
                "it has no namespaceSelector, so no namespace may use it",
                "write namespaceSelector: {} for all namespaces",
            )
        elif not any(matches_selector(selector, namespace.metadata.labels) for namespace in setup.namespaces):
            yield warning(about, "its namespaceSelector matches no namespace", "label a namespace")


def _local_queues(setup: QueueSetup) -> Iterator[PreflightFinding]:
    labels = {namespace.metadata.name: namespace.metadata.labels for namespace in setup.namespaces}
    used: set[str] = set()
    for local in setup.local_queues:
        about, name = f"local queue {local.metadata.key}", local.spec.cluster_queue
        queue = setup.ledger.cluster_queues.get(name)
        used.add(name)
        if queue is None:
            yield error(
                about, f"its cluster queue {name} does not exist", "create it, or correct spec.clusterQueue"
            )
        elif queue.spec.namespace_selector is not None and not queue.matches_namespace(
            labels.get(local.metadata.namespace, {})
        ):
            yield error(
                about,
                f"cluster queue {name} does not select namespace {local.metadata.namespace}, "
                "so none of its workloads is admitted",
                "label the namespace, or change the namespaceSelector",
            )
        if local.spec.stop_policy != "None":
            yield info(
                about,
                "it is stopped",
                f"quorate queue resume lq/{local.metadata.name} -n {local.metadata.namespace}",
            )
    for cluster_queue in setup.cluster_queues:
        if cluster_queue.name not in used:
            yield info(
                f"cluster queue {cluster_queue.name}", "no local queue references it, so no job can use it"
            )


def _cohorts(setup: QueueSetup) -> Iterator[PreflightFinding]:
    tree = setup.ledger.quota
    if tree.cyclic:
        names = ", ".join(sorted(node.name for node in tree.cyclic))
        blocked = [queue.name for queue in setup.cluster_queues if tree.has_cycle(queue.node)]
        yield error(
            f"cohorts {names}",
            f"their parents form a cycle; these cluster queues admit nothing: {', '.join(blocked) or 'none'}",
            "remove the parentName of one of them",
        )
    for name, node in sorted(tree.cohorts.items()):
        if len(node.children) == 1 and node.parent is None and not node.limits:
            (child,) = node.children
            yield info(f"cohort {name}", f"{child.name} is its only member, so there is no quota to borrow")


def _limits_without_cohort(setup: QueueSetup) -> Iterator[PreflightFinding]:
    for queue in setup.cluster_queues:
        if queue.spec.cohort_name:
            continue
        limited = [
            f"{flavor}/{quota.name}"
            for flavor, quota in _quotas(queue)
            if quota.borrowing_limit is not None or quota.lending_limit is not None
        ]
        if limited:
            yield warning(
                f"cluster queue {queue.name}",
                f"it has a borrowingLimit or lendingLimit for {', '.join(limited)}, but no cohort",
                "set cohortName, or remove the limits",
            )
        policy = queue.spec.preemption.reclaim_within_cohort
        if policy != "Never":
            yield warning(
                f"cluster queue {queue.name}",
                f"reclaimWithinCohort is {policy}, but it has no cohort",
                "set cohortName, or remove reclaimWithinCohort",
            )


def _quotas(queue: ClusterQueueState) -> Iterator[tuple[str, ResourceQuota]]:
    """Yield each quota of a queue, with the name of its flavor."""
    for group in queue.spec.resource_groups:
        for flavor in group.flavors:
            for quota in flavor.resources:
                yield flavor.name, quota


def _reclaim(setup: QueueSetup) -> Iterator[PreflightFinding]:
    """Yield queues that lend without limit and cannot reclaim: borrowers keep the quota until they end."""
    fair = setup.state.configuration.fair_sharing is not None
    for queue in setup.cluster_queues:
        siblings = [other for other in setup.ledger.queues_below(queue.node.root) if other.name != queue.name]
        if queue.spec.preemption.reclaim_within_cohort != "Never" or not siblings or fair:
            continue
        lent = sorted(
            {
                f"{flavor}/{quota.name}"
                for flavor, quota in _quotas(queue)
                if quota.lending_limit is None and quota.nominal_quota > Quantity(0)
                if any(_may_borrow(other, flavor, quota.name) for other in siblings)
            }
        )
        if lent:
            yield warning(
                f"cluster queue {queue.name}",
                f"queues of its cohort may borrow all its {', '.join(lent)}, and it cannot reclaim "
                "it (reclaimWithinCohort is Never)",
                "set reclaimWithinCohort, or a lendingLimit",
            )


def _may_borrow(queue: ClusterQueueState, flavor: str, resource: str) -> bool:
    limits = queue.node.limits.get(FlavorResource(flavor, resource))
    return limits is not None and limits.borrowing != 0


def _nodes(setup: QueueSetup) -> Iterator[PreflightFinding]:
    """Yield quota that exceeds the nodes: pods of admitted jobs would be unschedulable."""
    if setup.nodes is None:
        return
    nominal: dict[FlavorResource, int] = defaultdict(int)
    for node in (*(queue.node for queue in setup.cluster_queues), *setup.ledger.cohorts.values()):
        for pair, limits in node.limits.items():
            nominal[pair] += limits.nominal
    reported: set[str] = set()
    for (flavor, resource), amount in sorted(nominal.items()):
        stored = setup.state.flavors.get(flavor)
        if stored is None or not amount:
            continue
        labels = stored.spec.node_labels
        nodes = [node for node in setup.nodes if labels.items() <= node.metadata.labels.items()]
        about = f"flavor {flavor}"
        if not nodes:
            if flavor not in reported:
                written = ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
                problem = f"no node has its nodeLabels {written}" if written else "there is no node"
                yield warning(
                    about, f"{problem}, so pods admitted to it are unschedulable", "label the nodes"
                )
                reported.add(flavor)
            continue
        total = sum_resources(node.status.allocatable for node in nodes).get(resource, Quantity(0))
        if amount > base_units(resource, total):
            yield warning(
                about,
                f"nominalQuota of cluster queues and cohorts is {as_quantity(resource, amount)} {resource}, "
                f"but its {len(nodes)} nodes have {total}",
                "lower nominalQuota, or add nodes (nodes that an autoscaler may add are not counted)",
            )


def _unsupported(setup: QueueSetup) -> Iterator[PreflightFinding]:
    """Yield objects and fields of Kueue that no controller acts on."""
    for queue in setup.cluster_queues:
        if queue.spec.concurrent_admission_policy is not None:
            yield warning(
                f"cluster queue {queue.name}",
                "concurrent admission is not supported, so its concurrentAdmissionPolicy has no effect: "
                "a workload tries its flavors one after the other",
                "create the queue again without the field, which cannot change",
            )
    for name, flavor in sorted(setup.state.flavors.items()):
        if flavor.spec.topology_name and not setup.ledger.topology.is_on:
            yield warning(
                f"flavor {name}",
                f"topologyName is {flavor.spec.topology_name}, but topology-aware scheduling is off, so its "
                "pods are admitted by quota alone",
                "set the feature gate TopologyAwareScheduling to true, or use pod affinity",
            )
    for name, check in sorted(setup.state.checks.items()):
        active = find_condition(check.status.conditions, "Active")
        if active is not None and active.status == "True":
            continue
        detail = "not evaluated yet" if active is None else active.message
        if check.spec.controller_name == MULTIKUEUE:
            yield warning(
                f"admission check {name}",
                f"it gives workloads to worker clusters, and is not active: {detail}",
                "set a MultiKueueConfig with MultiKueueClusters that are connected",
            )
        elif check.spec.controller_name == PROVISIONING:
            yield warning(
                f"admission check {name}",
                f"it creates ProvisioningRequests, and is not active: {detail}",
                "set a ProvisioningRequestConfig, in a cluster that serves ProvisioningRequests",
            )


def _pending(setup: QueueSetup) -> Iterator[PreflightFinding]:
    state = setup.state
    uncovered: dict[tuple[str, str], list[Key]] = defaultdict(list)
    missing_queues: dict[InadmissibleReason, list[Key]] = defaultdict(list)
    for key in sorted(state.ledger.entries):
        hold = why_pending(state, key)
        for reason in hold.reasons if hold is not None else ():
            if isinstance(reason, ResourceUncovered):
                uncovered[state.ledger.entries[key].cluster_queue, reason.resource].append(key)
            elif isinstance(reason, QueueMissing) and reason.kind == "LocalQueue":
                missing_queues[reason].append(key)
    for (name, resource), keys in sorted(uncovered.items()):
        yield error(
            f"cluster queue {name}",
            f"{_count(keys)} for {resource}, which no resource group covers",
            f"cover {resource}, or remove it from the requests of the jobs",
        )
    for reason, keys in missing_queues.items():
        assert isinstance(reason, QueueMissing)
        yield error(
            f"local queue {keys[0].namespace}/{reason.name}",
            f"{_count(keys)} for it, and it does not exist",
            "create it, or correct the label kueue.x-k8s.io/queue-name of the jobs",
        )
    yield from _never_fitting(setup)


def _count(keys: Sequence[Key]) -> str:
    return f"{keys[0]} waits" if len(keys) == 1 else f"{len(keys)} workloads, such as {keys[0]}, wait"


def _never_fitting(setup: QueueSetup) -> Iterator[PreflightFinding]:
    """Yield workloads that can never start; the first of a StrictFIFO queue blocks the queue."""
    for queue in setup.cluster_queues:
        entries = sorted((*queue.pending.active(), *queue.pending.inadmissible()), key=queue.pending.rank)[
            :_MAX_EVALUATED
        ]
        for position, entry in enumerate(entries):
            if not can_never_fit(setup.state, entry.key):
                continue
            remedy = f"quorate workload explain {entry.key.name} -n {entry.key.namespace}"
            if queue.is_strict and position == 0 and len(entries) > 1:
                yield error(
                    f"cluster queue {queue.name}",
                    f"{entry.key} can never start, and blocks the queue, because its strategy is StrictFIFO",
                    remedy,
                )
            else:
                yield warning(
                    f"workload {entry.key}", "it can never start with the current configuration", remedy
                )
