"""One reason for many causes, in both vocabularies."""

import pytest

from quorate.api.configuration.feature_gates import Gates
from quorate.api.meta import Key
from quorate.queueing import inadmissible_reasons as why
from quorate.queueing.conditions import granular_reason, shown_reason

SHORT = why.QuotaShort("main", "spot", "cpu", 8, 2, 10)
EXCEEDED = why.QuotaExceeded("main", "spot", "cpu", 0, 80, 2, 10)
TAINTED = why.TaintUntolerated("main", "dear", "gpu", "a100", "NoSchedule")
OTHER_SHORT = why.QuotaShort("other", "spot", "cpu", 8, 2, 10)
VICTIM = Key("ns", "w")


@pytest.mark.parametrize(
    ("causes", "granular", "coarse"),
    [
        pytest.param((SHORT,), "WaitingForQuota", "Pending", id="short now"),
        pytest.param((EXCEEDED,), "ExceedsMaxQuota", "Pending", id="short for ever"),
        pytest.param((TAINTED,), "NoMatchingFlavor", "Pending", id="no flavor takes its pods"),
        pytest.param((TAINTED, EXCEEDED), "ExceedsMaxQuota", "Pending", id="the best flavor speaks"),
        pytest.param((EXCEEDED, OTHER_SHORT), "ExceedsMaxQuota", "Pending", id="the worst pod set speaks"),
        pytest.param(
            (SHORT, why.ResourceUncovered("main", "gpu")),
            "NoMatchingFlavor",
            "Pending",
            id="a resource that no flavor covers",
        ),
        pytest.param(
            (why.AwaitingPreemption((VICTIM,)),), "WaitingForPreemptedWorkloads", "Pending", id="victims end"
        ),
        pytest.param(
            (SHORT, why.AwaitingPreemption((VICTIM,))),
            "WaitingForPreemptedWorkloads",
            "Pending",
            id="what concerns the whole goes first",
        ),
        pytest.param((why.AwaitingPodsReady(VICTIM),), "WaitingForPodsReady", "Waiting", id="others start"),
        pytest.param((why.NoLongerFits(VICTIM, ()),), "WaitingForQuota", "Pending", id="the room went"),
        pytest.param((why.QueueInactive("ClusterQueue", "cq"),), "Suspended", "Inadmissible", id="stopped"),
        pytest.param((why.QueueMissing("LocalQueue", "q"),), "Misconfigured", "Inadmissible", id="missing"),
        pytest.param((why.LimitRangeViolated(("x",)),), "Misconfigured", "Inadmissible", id="out of bounds"),
        pytest.param((why.ChecksFailed(),), "PendingEvaluation", "Pending", id="only just evicted"),
    ],
)
def test_the_reason_of(causes: tuple[why.InadmissibleReason, ...], granular: str, coarse: str) -> None:
    assert granular_reason(causes) == granular
    assert shown_reason(granular, Gates(unadmitted_workloads_observability=True)) == granular
    assert shown_reason(granular, Gates()) == coarse
