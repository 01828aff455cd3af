"""Whose word counts for how long a workload may take to get ready."""

import math

import pytest

from quorate.api.configuration import WaitForPodsReady
from quorate.api.kueue import ClusterQueueSpec, ReadinessOverrides
from quorate.queueing.pods_ready import (
    Timeouts,
    effective_timeouts,
    override_findings,
    queue_overrides,
)

TIMEOUT = "quorate.dev/pods-ready-timeout"
RECOVERY = "quorate.dev/pods-recovery-timeout"
SCHEDULING = "quorate.dev/pods-scheduling-timeout"


def given(
    workload: dict[str, str] | None = None,
    queue: dict[str, str] | None = None,
    field: ReadinessOverrides | None = None,
    recovery_s: float | None = 60,
    scheduling_s: float | None = None,
    shortest_s: float = 0,
    longest_s: float | None = None,
) -> Timeouts:
    """Configured: 300 s to get ready."""
    rules = WaitForPodsReady(
        timeout_s=300,
        recovery_timeout_s=recovery_s,
        block_admission=None,
        scheduling_timeout_s=scheduling_s,
        shortest_override_s=shortest_s,
        longest_override_s=longest_s,
    )
    overrides = queue_overrides(ClusterQueueSpec(wait_for_pods_ready=field), queue or {})
    return effective_timeouts(workload or {}, overrides, rules)


@pytest.mark.parametrize(
    ("clocks", "want"),
    [
        pytest.param(given(), Timeouts(300, 60, math.inf), id="the configuration's"),
        pytest.param(given(recovery_s=None), Timeouts(300, math.inf), id="no recovery clock"),
        pytest.param(given(scheduling_s=20), Timeouts(300, 60, 20), id="a scheduling clock"),
        pytest.param(given({TIMEOUT: "10s"}), Timeouts(10, 60), id="a workload may ask for less"),
        pytest.param(given({TIMEOUT: "1h"}), Timeouts(300, 60), id="but without a bound not for more"),
        pytest.param(given({TIMEOUT: "1h"}, longest_s=7200), Timeouts(3600, 60), id="with one for more"),
        pytest.param(given({TIMEOUT: "3h"}, longest_s=7200), Timeouts(7200, 60), id="up to the bound"),
        pytest.param(given({TIMEOUT: "1s"}, shortest_s=5), Timeouts(5, 60), id="not for less than the least"),
        pytest.param(given(shortest_s=500, longest_s=600), Timeouts(300, 60), id="bounds are for who asks"),
        pytest.param(given({RECOVERY: "0s"}), Timeouts(300, 60), id="never to expire is to ask for more"),
        pytest.param(
            given({RECOVERY: "0s"}, recovery_s=None), Timeouts(300, math.inf), id="what is off stays off"
        ),
        pytest.param(
            given({SCHEDULING: "15s"}), Timeouts(300, 60, 15), id="its pods get nodes soon or never"
        ),
        pytest.param(given({TIMEOUT: "soon"}), Timeouts(300, 60), id="no duration: as if not given"),
        pytest.param(given({TIMEOUT: "-5s"}), Timeouts(300, 60), id="negative: as if not given"),
        pytest.param(
            given(field=ReadinessOverrides(timeout="1h")), Timeouts(3600, 60), id="a queue may have more"
        ),
        pytest.param(given(queue={TIMEOUT: "1h"}), Timeouts(3600, 60), id="by annotation too"),
        pytest.param(
            given({TIMEOUT: "2h"}, field=ReadinessOverrides(timeout="1h")),
            Timeouts(3600, 60),
            id="then its workloads may ask for as much",
        ),
        pytest.param(
            given(queue={TIMEOUT: "5s"}, field=ReadinessOverrides(recovery_timeout="0s")),
            Timeouts(300, math.inf),
            id="with the field the queue's annotations do not count",
        ),
    ],
)
def test_the_limits(clocks: Timeouts, want: Timeouts) -> None:
    assert clocks == want


def test_what_is_no_duration_is_told() -> None:
    assert override_findings({TIMEOUT: "soon", RECOVERY: "1m", SCHEDULING: "-1s"}) == (
        "metadata.annotations[quorate.dev/pods-ready-timeout]: 'soon' is not a duration "
        "(write 10m, 1h30m or 500ms)",
        "metadata.annotations[quorate.dev/pods-scheduling-timeout]: '-1s' is negative (write 0s or more)",
    )
