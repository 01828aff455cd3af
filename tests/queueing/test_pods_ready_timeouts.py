"""Effective timeouts: configuration, overrides of the cluster queue, overrides of the workload."""

import math

import pytest

from quorate.api.configuration.pods_ready import WaitForPodsReady
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
    """Return the effective timeouts; ``timeout`` is configured as 300 s."""
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
    ("timeouts", "want"),
    [
        pytest.param(given(), Timeouts(300, 60, math.inf), id="from the configuration"),
        pytest.param(given(recovery_s=None), Timeouts(300, math.inf), id="no recovery timeout"),
        pytest.param(given(scheduling_s=20), Timeouts(300, 60, 20), id="a scheduling timeout"),
        pytest.param(given({TIMEOUT: "10s"}), Timeouts(10, 60), id="a workload may request less"),
        pytest.param(given({TIMEOUT: "1h"}), Timeouts(300, 60), id="without an upper bound not more"),
        pytest.param(
            given({TIMEOUT: "1h"}, longest_s=7200), Timeouts(3600, 60), id="with an upper bound more"
        ),
        pytest.param(
            given({TIMEOUT: "3h"}, longest_s=7200), Timeouts(7200, 60), id="at most the upper bound"
        ),
        pytest.param(given({TIMEOUT: "1s"}, shortest_s=5), Timeouts(5, 60), id="at least the lower bound"),
        pytest.param(
            given(shortest_s=500, longest_s=600),
            Timeouts(300, 60),
            id="bounds do not apply to the configuration",
        ),
        pytest.param(given({RECOVERY: "0s"}), Timeouts(300, 60), id="never to expire counts as more"),
        pytest.param(
            given({RECOVERY: "0s"}, recovery_s=None),
            Timeouts(300, math.inf),
            id="a disabled timeout stays disabled",
        ),
        pytest.param(
            given({SCHEDULING: "15s"}), Timeouts(300, 60, 15), id="a scheduling timeout of the workload"
        ),
        pytest.param(given({TIMEOUT: "soon"}), Timeouts(300, 60), id="an invalid duration is ignored"),
        pytest.param(given({TIMEOUT: "-5s"}), Timeouts(300, 60), id="a negative duration is ignored"),
        pytest.param(
            given(field=ReadinessOverrides(timeout="1h")),
            Timeouts(3600, 60),
            id="a cluster queue may have more",
        ),
        pytest.param(
            given(queue={TIMEOUT: "1h"}), Timeouts(3600, 60), id="a cluster queue with an annotation"
        ),
        pytest.param(
            given({TIMEOUT: "2h"}, field=ReadinessOverrides(timeout="1h")),
            Timeouts(3600, 60),
            id="its workloads may request as much",
        ),
        pytest.param(
            given(queue={TIMEOUT: "5s"}, field=ReadinessOverrides(recovery_timeout="0s")),
            Timeouts(300, math.inf),
            id="the field of the queue disables its annotations",
        ),
    ],
)
def test_the_effective_timeouts(timeouts: Timeouts, want: Timeouts) -> None:
    assert timeouts == want


def test_invalid_overrides_are_reported() -> None:
    assert override_findings({TIMEOUT: "soon", RECOVERY: "1m", SCHEDULING: "-1s"}) == (
        "metadata.annotations[quorate.dev/pods-ready-timeout]: 'soon' is not a duration "
        "(write 10m, 1h30m or 500ms)",
        "metadata.annotations[quorate.dev/pods-scheduling-timeout]: '-1s' is negative (write 0s or more)",
    )
