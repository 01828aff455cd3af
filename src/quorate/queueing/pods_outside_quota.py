"""Which pods of a job use more than quota is charged for, and how much."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from quorate.api.configuration import Configuration
from quorate.api.configuration.queueing import ResourceOptions
from quorate.api.core import Resources
from quorate.api.core.pod import Pod
from quorate.api.kueue import Workload
from quorate.api.meta import epoch, find_condition
from quorate.api.names.kueue import POD_SET
from quorate.queueing import conditions as c
from quorate.queueing.cluster_queue import ClusterQueueState, FlavorGroup, counts_quota, usage_of
from quorate.queueing.limits import MAX_NAMED_PODS
from quorate.queueing.outside_quota import OutsideUse, recorded_use
from quorate.queueing.pending.effective_requests import quota_requests
from quorate.quota.amount import PODS, FlavorResource, Usage, as_quantity, total


class PodUsage(NamedTuple):
    pod: Pod
    usage: Usage


class PodsOutside(NamedTuple):
    """The resources that the pods of a job use beyond the charged amounts.

    ``holder`` is the workload of the job that got quota last.  ``users`` are the pods that use any of these
    resources: first pods that no controller of queueing started, then the newest.
    """

    holder: Workload
    use: OutsideUse | None  # None: nothing
    users: tuple[PodUsage, ...]

    @property
    def message(self) -> str:
        """Return the amounts and the names of pods as one sentence; there must be a use."""
        assert self.use is not None, "nothing is used outside of quota"
        amounts = ", ".join(
            f"{as_quantity(pair.resource, amount)} {pair.resource} of flavor {pair.flavor}"
            for pair, amount in sorted(self.use.usage.items())
        )
        names = ", ".join(user.pod.metadata.name for user in self.users[:MAX_NAMED_PODS])
        more = f" and {len(self.users) - MAX_NAMED_PODS} more" if len(self.users) > MAX_NAMED_PODS else ""
        return f"its pods use {amounts} more than quota is charged for: {names}{more}"

    @property
    def to_stop(self) -> tuple[Pod, ...]:
        """Return the fewest of ``users``, from the first on, without which the rest is within quota."""
        left = {} if self.use is None else dict(self.use.usage)
        stopped: list[Pod] = []
        for pod, usage in self.users:
            if not any(amount > 0 for amount in left.values()):
                break
            stopped.append(pod)
            left = {pair: amount - usage.get(pair, 0) for pair, amount in left.items()}
        return tuple(stopped)


def find_pods_outside(
    workloads: Sequence[Workload],
    pods: Iterable[Pod],
    cluster_queues: Mapping[str, ClusterQueueState],
    configuration: Configuration,
) -> PodsOutside | None:
    """Compare the bound ``pods`` of a job with its ``workloads``; return None without a workload.

    A pod that is being deleted does not count: its replacement may exist already.
    """
    holder = max(workloads, key=_holder_order, default=None)
    if holder is None:
        return None
    admission, recorded = holder.status.admission, recorded_use(holder)
    name = admission.cluster_queue if admission is not None else ""
    if admission is None and recorded is not None:
        name = recorded.cluster_queue
    queue = cluster_queues.get(name)
    if queue is None:
        return PodsOutside(holder, None, ())
    running = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    used = list(_usages(running, _flavors(holder), queue.groups, configuration.resources))
    charged = total(
        usage_of(workload, workload.status.admission, configuration.gates)
        for workload in workloads
        if workload.status.admission is not None and counts_quota(workload)
    )
    sums = total(pod_usage.usage for pod_usage in used)
    excess = {pair: amount - charged.get(pair, 0) for pair, amount in sums.items()}
    excess = {pair: amount for pair, amount in excess.items() if amount > 0}
    if not excess:
        return PodsOutside(holder, None, ())
    users = sorted(
        (pod_usage for pod_usage in used if not excess.keys().isdisjoint(pod_usage.usage)), key=_user_order
    )
    return PodsOutside(holder, OutsideUse(name, excess), tuple(users))


def _holder_order(workload: Workload) -> tuple[bool, bool, float, str]:
    reserved = find_condition(workload.status.conditions, c.QUOTA_RESERVED)
    since = 0.0 if reserved is None else c.transition_time(reserved)
    is_admitted = workload.status.admission is not None
    return is_admitted and counts_quota(workload), is_admitted, since, workload.metadata.name


def _flavors(workload: Workload) -> dict[str, Mapping[str, str]]:
    """Return the flavors of each pod set by resource; without an admission, from the recorded use."""
    admission = workload.status.admission
    if admission is not None:
        return {assignment.name: assignment.flavors for assignment in admission.pod_set_assignments}
    recorded = recorded_use(workload)
    return {} if recorded is None else {"": {pair.resource: pair.flavor for pair in recorded.usage}}


def _usages(
    pods: Iterable[Pod],
    flavors: Mapping[str, Mapping[str, str]],
    groups: Mapping[str, FlavorGroup],
    options: ResourceOptions,
) -> Iterable[PodUsage]:
    """Yield what each pod uses, by the flavors of its pod set, or of the first one if it names none."""
    usages: dict[
        tuple[str, int], tuple[Resources, Usage]
    ] = {}  # with the requests, which keep their identity
    first = next(iter(flavors.values()), {})
    for pod in pods:
        name, requests = pod.metadata.labels.get(POD_SET, ""), pod.requests
        shape = name, id(requests)  # equal requests mostly are the same object
        if shape not in usages:
            usage = _usage(quota_requests(requests, options), flavors.get(name) or first, groups)
            usages[shape] = requests, usage
        yield PodUsage(pod, usages[shape][1])


def _usage(
    requests: Mapping[str, int], assigned: Mapping[str, str], groups: Mapping[str, FlavorGroup]
) -> dict[FlavorResource, int]:
    """Return the usage of a pod with ``requests`` by flavor and resource.

    A resource without an assigned flavor has the flavor of another resource of its group, else the first
    flavor of the group.
    """
    usage: dict[FlavorResource, int] = {}
    for resource, amount in {**requests, PODS: 1}.items():
        flavor = assigned.get(resource, "")
        if not flavor and (group := groups.get(resource)) is not None:
            beside = [assigned[name] for name in sorted(group.covered) if name in assigned]
            flavor = next(iter((*beside, *group.flavors)), "")
        if flavor and amount:
            usage[FlavorResource(flavor, resource)] = amount
    return usage


def _user_order(user: PodUsage) -> tuple[bool, float, str]:
    metadata = user.pod.metadata
    created = metadata.creation_timestamp
    return POD_SET in metadata.labels, 0.0 if created is None else -epoch(created), metadata.name
