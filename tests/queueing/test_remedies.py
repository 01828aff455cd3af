"""Each reason for which a workload can be pending has a remedy."""

from typing import get_args

import pytest

from quorate.api.configuration import default_configuration
from quorate.api.core import Taint
from quorate.api.kueue import (
    ClusterQueue,
    ClusterQueueSpec,
    LocalQueue,
    LocalQueueSpec,
    ResourceFlavor,
    ResourceFlavorSpec,
    Workload,
    WorkloadSpec,
)
from quorate.api.meta import Key, ObjectMeta, Uid, at_epoch
from quorate.queueing import inadmissible_reasons as c
from quorate.queueing.decisions import Hold
from quorate.queueing.explain import PendingFacts
from quorate.queueing.explanation.reasons import remedies
from quorate.queueing.state import State
from quorate.queueing.typed_reasons import reason_of

KEY = Key("team", "train")
OTHER = Key("team", "other")


@pytest.fixture
def state() -> State:
    """Return a state with one pending workload in a stopped queue."""
    state = State(default_configuration())
    labels = ResourceFlavorSpec(node_labels={"zone": "a"}, node_taints=(Taint(key="x", effect="NoSchedule"),))
    state.put_flavor(ResourceFlavor(metadata=ObjectMeta(name="spot"), spec=labels))
    queue = ClusterQueueSpec(stop_policy="Hold")
    state.put_cluster_queue(ClusterQueue(metadata=ObjectMeta(name="research"), spec=queue))
    local = LocalQueueSpec(cluster_queue="research")
    state.put_local_queue(LocalQueue(metadata=ObjectMeta(namespace="team", name="main"), spec=local))
    metadata = ObjectMeta(
        namespace=KEY.namespace, name=KEY.name, uid=Uid("1"), creation_timestamp=at_epoch(0.0)
    )
    state.put_workload(Workload(metadata=metadata, spec=WorkloadSpec(queue_name="main")), 0.0)
    return state


SHORT = c.QuotaShort("main", "spot", "cpu", needed=8000, available=2000, maximum=9000)
TAINT = c.TaintUntolerated("main", "dear", "gpu", "yes", "NoSchedule")
CASES: tuple[tuple[c.InadmissibleReason, str], ...] = (
    (c.EvaluationFailed("ValueError: no shape"), "report the traceback in the log of the controllers"),
    (SHORT, "6 more cpu of flavor spot must become free"),
    (c.QuotaExceeded("main", "spot", "cpu", 4000, 8000, 0, 10_000), "request 2 less cpu of flavor spot"),
    (c.QuotaExceeded("main", "spot", "cpu", 0, 8000, 0, 0), "raise the quota of the queue (its nominalQuota"),
    (c.ResourceUncovered("main", "gpu"), "add gpu to a resource group of cluster queue research"),
    (c.FlavorMissing("main", "spot"), "create the ResourceFlavor spot"),
    (TAINT, "add a toleration of gpu=yes:NoSchedule to pod set main or flavor dear"),
    (c.AffinityMismatched("main", "spot"), "pod set main to match flavor spot (zone=a)"),
    (c.TopologyMismatched("main", "spot", c.TopologyProblem.NO_LEVEL), "to levels of the topology of spot"),
    (c.TopologyMismatched("main", "spot", c.TopologyProblem.NO_TOPOLOGY), "set topologyName of flavor spot"),
    (c.TopologyMismatched("main", "spot", c.TopologyProblem.UNKNOWN_TOPOLOGY), "create the Topology"),
    (c.TopologyMismatched("main", "spot", c.TopologyProblem.NO_REQUEST), "add a topology request"),
    (c.PlacementRefused("main", "no TAS flavor assigned"), "or the flavors of its cluster queue"),
    (c.PlacementRefused("main", "fits only 2 of 3", 2, 3), "wait for room in the topology"),
    (c.PlacementRefused("main", "fits only 2 of 3", 2, 3, at_most=3), "wait for room in the topology"),
    (c.PlacementRefused("main", "fits only 1 of 3", 1, 3, at_most=2), "room for 2 of its 3 pods"),
    (c.PlacementRefused("main", "fits only 1 of 3", 1, 3, 3, is_no_fit=True), "wait for pods to end"),
    (c.PlacementRefused("main", "fits only 1 of 3", 1, 3, is_no_fit=True), "or of another pod set, or add"),
    (c.NodesLackRoom("main", 3, 2, 2, 2, "cpu", 6000, 2000, 8000), "wait for cpu on one node"),
    (c.NodesLackRoom("main", 3, 0, 2, 2, "cpu", 9000, 8000, 8000), "request at most 8 cpu, or add larger"),
    (c.NodesLackRoom("main", 3, 2, 2, 2, rejecting=(("node(s) x", 2),)), "wait for other pods to end, or"),
    (c.NodesLackRoom("main", 3, 0, 2, 0), "change node selector, affinity or tolerations of pod set main"),
    (c.QueueMissing("LocalQueue", ""), "set kueue.x-k8s.io/queue-name to the name of a LocalQueue of"),
    (c.QueueMissing("LocalQueue", "main"), "create the LocalQueue team/main"),
    (c.QueueMissing("ClusterQueue", "research"), "create the ClusterQueue research"),
    (c.QueueInactive("LocalQueue", "main"), "quorate queue resume lq/main --namespace team"),
    (c.QueueInactive("ClusterQueue", "research"), "which is stopped (quorate queue resume research)"),
    (c.NamespaceMismatched("team", "research"), "set the namespaceSelector of cluster queue research"),
    (c.RequestsAboveLimits(("cpu",)), "at most their limits"),
    (c.DevicesUncounted(("a finding",)), "claim devices by a ResourceClaimTemplate"),
    (c.DevicesUncounted(("resourceslices cannot be read (Forbidden)",)), "apply the current roles"),
    (c.DevicesUncounted(("a finding",), short_by=2), "publish the devices that are missing (2)"),
    (c.LimitRangeViolated(("cpu",)), "fit the LimitRanges of namespace team"),
    (c.ChecksFailed(), "wait until its admission checks are retried"),
    (c.NoLongerFits(OTHER, ()), "team/other took the quota"),
    (c.NoLongerFits(OTHER, (), is_kept=True), "wait until team/other starts or is deleted"),
    (c.TargetsOverlap(OTHER, KEY), "wait until team/other is preempted by team/train"),
    (c.AwaitingPreemption((OTHER,)), "wait until the pods of these workloads are deleted: team/other"),
    (c.AwaitingPreemption((OTHER,), True), "the API server refuses to evict team/other"),
    (c.PreemptionGated(2), "wait until its preemption gates are open"),
    (c.AwaitingOtherPreemption((OTHER,)), "wait until the pods of these workloads are deleted: team/other"),
    (c.AwaitingPodsReady(OTHER), "wait until the pods of team/other are ready"),
    (c.ReservedForEarlierWorkload(OTHER, 60.0, ()), "TimeSeconds that ends before 1970-01-01 00:01:00 UTC"),
    (c.ReservedForEarlierWorkload(OTHER, None, ()), "has started, or set a maximumExecutionTimeSeconds"),
    (c.ReservedWindow("night", 60.0, 120.0, ()), "night ends at 1970-01-01 00:02:00 UTC"),
    (c.BackingOff(3600.0, "PodsReadyTimeout"), "wait until 01:00:00 UTC"),
)  # fmt: skip


def explained(*reasons: c.InadmissibleReason) -> PendingFacts:
    hold = Hold(
        key=KEY, uid=Uid("1"), resource_version="1", condition_reason="Pending", reasons=reasons, requests=()
    )
    return PendingFacts(hold, can_never_fit=False, ahead=0, first_ahead=(), holders=())


@pytest.mark.parametrize(("reason", "want"), CASES, ids=lambda case: type(case).__name__)
def test_each_reason_has_a_remedy(state: State, reason: c.InadmissibleReason, want: str) -> None:
    (lines,) = remedies(state, KEY, (reason,), explained(reason))
    assert want in lines


def test_every_reason_is_covered() -> None:
    assert {type(reason) for reason, _ in CASES} == {*get_args(c.PodSetReason), *get_args(c.WorkloadReason)}


def test_the_flavors_of_one_pod_set_are_alternatives(state: State) -> None:
    memory = c.QuotaShort("main", "spot", "memory", needed=3 << 30, available=1 << 30, maximum=9 << 30)
    reasons = (SHORT, memory, TAINT)
    assert remedies(state, KEY, reasons, explained(*reasons)) == (
        "either 6 more cpu of flavor spot must become free "
        "and 2Gi more memory of flavor spot must become free",
        "or add a toleration of gpu=yes:NoSchedule to pod set main or flavor dear",
    )


def test_a_workload_not_evaluated_yet_waits_for_the_workloads_ahead_of_it(state: State) -> None:
    not_evaluated = PendingFacts(None, can_never_fit=False, ahead=1, first_ahead=(OTHER,), holders=())
    assert remedies(state, KEY, (), not_evaluated) == (
        "wait for the workloads ahead of it, team/other first",
    )


def test_a_reason_has_the_numbers_of_the_decision() -> None:
    reason = reason_of(c.QuotaExceeded("main", "spot", "memory", 1 << 30, 2 << 30, 1 << 30, 2 << 30))
    assert (reason.code, reason.pod_set, reason.flavor, reason.resource) == (
        "QuotaExceeded", "main", "spot", "memory"
    )  # fmt: skip
    assert (reason.needed, reason.free, reason.short_by, reason.at_most) == ("3Gi", "1Gi", "2Gi", "2Gi")
