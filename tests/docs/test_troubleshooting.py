"""The troubleshooting page has a row for each reason that ``explain`` may give."""

from pathlib import Path
from typing import get_args

import pytest

from quorate.api.meta import Key
from quorate.gang import pending_reasons
from quorate.queueing import inadmissible_reasons as r

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/tasks/troubleshooting.md").read_text()
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ")]
BLOCKING = Key("default", "job-train")
# One value of each reason, and the words of its message that the page quotes.
WORKLOAD_REASONS: tuple[tuple[r.InadmissibleReason, str], ...] = (
    (r.ResourceUncovered("main", "RESOURCE"), "resource RESOURCE unavailable in ClusterQueue"),
    (r.FlavorMissing("main", "FLAVOR"), "flavor FLAVOR not found"),
    (r.TaintUntolerated("main", "FLAVOR", "gpu", "t4", "NoSchedule"), "untolerated taint"),
    (r.AffinityMismatched("main", "FLAVOR"), "flavor FLAVOR doesn't match node affinity"),
    (
        r.QuotaExceeded("main", "FLAVOR", "RESOURCE", 0, 12, 4, 10),
        "insufficient quota for RESOURCE in flavor",
    ),
    (
        r.QuotaShort("main", "FLAVOR", "RESOURCE", 5, 4, 10),
        "insufficient unused quota for RESOURCE in flavor",
    ),
    (
        r.TopologyMismatched("main", "FLAVOR", r.TopologyProblem.NO_LEVEL),
        "does not contain the requested level",
    ),
    (
        r.PlacementRefused("main", 'topology "dc" allows to fit only 2 out of 3 pod(s)', 2, 3),
        "allows to fit only",
    ),
    (r.NodesLackRoom("main", 3, 2, 2, 2, "RESOURCE", 6, 2), "pods fits no node"),
    (r.QueueMissing("LocalQueue", "NAME"), "LocalQueue NAME doesn't exist"),
    (r.QueueInactive("ClusterQueue", "NAME"), "ClusterQueue NAME is inactive"),
    (r.NamespaceMismatched("team-a", "NAME"), "workload namespace doesn't match ClusterQueue selector"),
    (r.RequestsAboveLimits(("a finding",)), "resources validation failed:"),
    (
        r.DevicesUncounted(("DeviceClass gpu is not mapped in DRA configuration for podset main",)),
        "is not mapped in DRA configuration",
    ),
    (
        r.DevicesUncounted(("insufficient matching devices for counter memory: 0 device(s) match",), 1),
        "insufficient matching devices for",
    ),
    (r.LimitRangeViolated(("a finding",)), "resources didn't satisfy LimitRange constraints:"),
    (r.ChecksFailed(), "The workload has failed admission checks"),
    (r.NoLongerFits(None, ()), "Workload no longer fits after processing another workload"),
    (r.TargetsOverlap(BLOCKING, BLOCKING), "Workload has overlapping preemption targets"),
    (r.AwaitingPreemption((BLOCKING,)), "Pending the preemption of"),
    (r.AwaitingPreemption((BLOCKING,), is_refused=True), "workload(s) failed, will retry"),
    (r.PreemptionGated(1), "Workload requires preemption, but it's gated"),
    (r.AwaitingOtherPreemption((BLOCKING,)), "but will fit after these preemptions complete"),
    (r.AwaitingPodsReady(BLOCKING), "waiting for all admitted workloads to be in PodsReady condition"),
    (r.ReservedForEarlierWorkload(BLOCKING, None, ()), "reserved for the start of an earlier workload"),
    (r.ReservedWindow("NAME", 0.0, 60.0, ()), "reserved for NAME from"),
    (r.BackingOff(None, "REASON"), "backing off after an eviction for REASON"),
    (r.EvaluationFailed("KeyError: x"), "internal error, see the log of the controllers:"),
)
GROUP_REASONS = sorted(
    {
        reason
        for cls in vars(pending_reasons).values()
        if isinstance(cls, type) and isinstance(reason := getattr(cls, "reason", None), str)
    }
)


@pytest.mark.parametrize(("reason", "words"), WORKLOAD_REASONS, ids=lambda each: type(each).__name__)
def test_each_reason_of_a_workload_has_a_row(reason: r.InadmissibleReason, words: str) -> None:
    assert words in r.inadmissible_message((reason,))
    assert any(words in row for row in ROWS)


def test_no_reason_of_a_workload_is_left_out() -> None:
    assert {type(reason) for reason, _ in WORKLOAD_REASONS} == set(get_args(r.InadmissibleReason))


@pytest.mark.parametrize("reason", GROUP_REASONS)
def test_each_reason_of_a_pod_group_has_a_row(reason: str) -> None:
    assert any(f"`{reason}`" in row for row in ROWS)
