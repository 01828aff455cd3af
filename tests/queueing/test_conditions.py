"""The one condition reason for several inadmissible reasons, in both vocabularies."""

import pytest
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.configuration.feature_gates import Gates
from quorate.api.kueue import FlavorQuotas, ResourceGroup, Workload
from quorate.api.meta import Key
from quorate.queueing import conditions as c
from quorate.queueing import inadmissible_reasons as r
from quorate.queueing.conditions import granular_reason, shown_reason

SHORT = r.QuotaShort("main", "spot", "cpu", 8, 2, 10)
EXCEEDED = r.QuotaExceeded("main", "spot", "cpu", 0, 80, 2, 10)
TAINTED = r.TaintUntolerated("main", "dear", "gpu", "a100", "NoSchedule")
GPU_SHORT = r.QuotaShort("main", "a100", "gpu", 8, 2, 10)
GPU_EXCEEDED = r.QuotaExceeded("main", "a100", "gpu", 0, 80, 2, 10)
GPU_TAINTED = r.TaintUntolerated("main", "a100", "gpu", "a100", "NoSchedule")
OTHER_SHORT = r.QuotaShort("other", "spot", "cpu", 8, 2, 10)
VICTIM = Key("ns", "w")


@pytest.mark.parametrize(
    ("reasons", "granular", "coarse"),
    [
        pytest.param((SHORT,), "WaitingForQuota", "Pending", id="waits for quota"),
        pytest.param((EXCEEDED,), "ExceedsMaxQuota", "Pending", id="exceeds the maximum capacity"),
        pytest.param((TAINTED,), "NoMatchingFlavor", "Pending", id="no flavor matches"),
        pytest.param((TAINTED, EXCEEDED), "ExceedsMaxQuota", "Pending", id="the least severe flavor decides"),
        pytest.param(
            (SHORT, replace(EXCEEDED, resource="memory")),
            "ExceedsMaxQuota",
            "Pending",
            id="the most severe resource of a flavor decides",
        ),
        pytest.param(
            (EXCEEDED, OTHER_SHORT), "ExceedsMaxQuota", "Pending", id="the most severe pod set decides"
        ),
        pytest.param(
            (SHORT, r.ResourceUncovered("main", "gpu")),
            "NoMatchingFlavor",
            "Pending",
            id="a resource that no flavor covers",
        ),
        pytest.param(
            (r.AwaitingPreemption((VICTIM,)),),
            "WaitingForPreemptedWorkloads",
            "Pending",
            id="targets are being evicted",
        ),
        pytest.param(
            (SHORT, r.AwaitingPreemption((VICTIM,))),
            "WaitingForPreemptedWorkloads",
            "Pending",
            id="a reason of the whole workload comes first",
        ),
        pytest.param(
            (r.AwaitingPodsReady(VICTIM),),
            "WaitingForPodsReady",
            "Waiting",
            id="blocked by an unready workload",
        ),
        pytest.param((r.NoLongerFits(VICTIM, ()),), "WaitingForQuota", "Pending", id="no longer fits"),
        pytest.param(
            (r.QueueInactive("ClusterQueue", "cq"),), "Suspended", "Inadmissible", id="queue inactive"
        ),
        pytest.param(
            (r.QueueMissing("LocalQueue", "q"),), "Misconfigured", "Inadmissible", id="queue missing"
        ),
        pytest.param(
            (r.LimitRangeViolated(("x",)),), "Misconfigured", "Inadmissible", id="limit range violated"
        ),
        pytest.param((r.ChecksFailed(),), "PendingEvaluation", "Pending", id="admission checks failed"),
    ],
)
def test_the_reason(reasons: tuple[r.InadmissibleReason, ...], granular: str, coarse: str) -> None:
    assert granular_reason(reasons) == granular
    assert shown_reason(granular, Gates()) == granular
    assert shown_reason(granular, Gates(unadmitted_workloads_observability=False)) == coarse


@pytest.mark.parametrize(
    ("reasons", "granular"),
    [
        pytest.param((SHORT, GPU_EXCEEDED), "ExceedsMaxQuota", id="the most severe group decides"),
        pytest.param(
            (SHORT, TAINTED, GPU_SHORT), "WaitingForQuota", id="another flavor of a group is tainted"
        ),
        pytest.param((SHORT, GPU_TAINTED), "NoMatchingFlavor", id="no flavor of a group matches"),
    ],
)
def test_the_reason_with_several_resource_groups(
    reasons: tuple[r.InadmissibleReason, ...], granular: str
) -> None:
    """A pod set needs a flavor of each group."""
    groups = [
        ResourceGroup(
            covered_resources=(resource,),
            flavors=tuple(FlavorQuotas(name=name, resources=()) for name in flavors),
        )
        for resource, flavors in {"cpu": ("spot", "dear"), "gpu": ("a100",)}.items()
    ]
    assert granular_reason(reasons, groups) == granular


@pytest.mark.parametrize(
    ("delayed", "checks", "reserving", "want"),
    [
        pytest.param(
            "Pending", ["Ready"], True,
            ("PendingDelayedTopologyRequests", "There are pending delayed topology requests"),
            id="places are awaited",
        ),
        pytest.param(
            "Pending", ["Pending"], True,
            ("UnsatisfiedAdmissionChecks", "The workload has not all checks ready"), id="a check comes first",
        ),
        pytest.param(
            "Pending", [], False, ("NoReservation", "The workload has no reservation"), id="no quota",
        ),
    ],
)  # fmt: skip
def test_why_a_workload_is_not_admitted(
    delayed: str, checks: list[str], reserving: bool, want: tuple[str, str]
) -> None:
    assigned = {"name": "main", "count": 1, "delayedTopologyRequest": delayed}
    status = {
        "admission": {"clusterQueue": "cq", "podSetAssignments": [assigned]},
        "admissionChecks": [{"name": f"c{at}", "state": state} for at, state in enumerate(checks)],
    }
    workload = codec.convert(Workload, {"metadata": {"name": "w", "namespace": "default"}, "status": status})
    condition = c.not_admitted(workload, 0.0, Gates(), reserving=reserving)
    assert (condition.reason, condition.message) == want
