"""Reasons have exactly the texts that tools written for Kueue match."""

import pytest

from quorate.api.meta import Key
from quorate.queueing.inadmissible_reasons import (
    FLAVOR_ERROR,
    AffinityMismatched,
    AwaitingPodsReady,
    AwaitingPreemption,
    BackingOff,
    ChecksFailed,
    FlavorMissing,
    InadmissibleReason,
    LimitRangeViolated,
    NamespaceMismatched,
    NoLongerFits,
    PlacementRefused,
    QueueInactive,
    QueueMissing,
    QuotaExceeded,
    QuotaShort,
    RequestsAboveLimits,
    ResourceUncovered,
    TaintUntolerated,
    TargetsOverlap,
    inadmissible_message,
)

SHORT = QuotaShort("main", "spot", "cpu", needed=12_000, available=9_500, maximum=20_000)
NEVER = QuotaExceeded("main", "dear", "memory", previous=2**30, requested=2**31, available=0, maximum=2**30)
PREFIX = "couldn't assign flavors to pod set main: "


@pytest.mark.parametrize(
    ("reasons", "text"),
    [
        ([SHORT], f"{PREFIX}insufficient unused quota for cpu in flavor spot, 2500m more needed"),
        (
            [NEVER],
            f"{PREFIX}insufficient quota for memory in flavor dear, previously considered podsets requests "
            "(1Gi) + current podset request (2Gi) > maximum capacity (1Gi)",
        ),
        ([ResourceUncovered("main", "gpu")], f"{PREFIX}resource gpu unavailable in ClusterQueue"),
        ([FlavorMissing("main", "spot")], f"{PREFIX}flavor spot not found"),
        (
            [TaintUntolerated("main", "spot", "k", "", "NoSchedule")],
            f"{PREFIX}untolerated taint {{k  NoSchedule}} in flavor spot",
        ),
        ([AffinityMismatched("main", "spot")], f"{PREFIX}flavor spot doesn't match node affinity"),
        (
            [SHORT, AffinityMismatched("main", "dear"), FlavorMissing("driver", "spot")],
            f"{PREFIX}flavor dear doesn't match node affinity, "
            "insufficient unused quota for cpu in flavor spot, 2500m more needed; "
            "couldn't assign flavors to pod set driver: flavor spot not found",
        ),
        (
            [FlavorMissing("main", "spot"), AwaitingPreemption((Key("ns", "a"), Key("ns", "b")))],
            f"{PREFIX}flavor spot not found. Pending the preemption of 2 workload(s)",
        ),
        (
            [FlavorMissing("main", "spot"), AwaitingPreemption((Key("ns", "a"),), is_refused=True)],
            f"{PREFIX}flavor spot not found. Preempting 1 workload(s) failed, will retry.",
        ),
        ([QueueMissing("LocalQueue", "q")], "LocalQueue q doesn't exist"),
        ([QueueInactive("ClusterQueue", "q")], "ClusterQueue q is inactive"),
        ([NamespaceMismatched("ns", "q")], "workload namespace doesn't match ClusterQueue selector"),
        ([RequestsAboveLimits(("a", "b"))], "resources validation failed: a, b"),
        ([LimitRangeViolated(("a",))], "resources didn't satisfy LimitRange constraints: a"),
        ([ChecksFailed()], "The workload has failed admission checks"),
        ([NoLongerFits(Key("ns", "w"), ())], "Workload no longer fits after processing another workload"),
        (
            [TargetsOverlap(Key("ns", "victim"), Key("ns", "first"))],
            "Workload has overlapping preemption targets with another workload",
        ),
        (
            [AwaitingPodsReady(Key("ns", "w"))],
            "waiting for all admitted workloads to be in PodsReady condition",
        ),
        ([BackingOff(1.0, "PodsReadyTimeout")], "backing off after an eviction for PodsReadyTimeout"),
        (
            [SHORT, PlacementRefused("side", f"{FLAVOR_ERROR} side: no TAS flavor assigned")],
            "failed to assign flavors to pod set side: no TAS flavor assigned",
        ),
    ],
    ids=lambda value: type(value[0]).__name__ if isinstance(value, list) else "",
)
def test_message(reasons: list[InadmissibleReason], text: str) -> None:
    assert inadmissible_message(reasons) == text
