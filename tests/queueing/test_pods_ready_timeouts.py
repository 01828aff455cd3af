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

OWN = "kueue.x-k8s.io/wait-for-pods-ready"
TIMEOUT = "quorate.dev/pods-ready-timeout"
RECOVERY = "quorate.dev/pods-recovery-timeout"
SCHEDULING = "quorate.dev/pods-scheduling-timeout"
RULES = WaitForPodsReady(timeout_s=300, recovery_timeout_s=60, block_admission=None)


def given(
    workload: dict[str, str] | None = None,
    queue: dict[str, str] | None = None,
    field: ReadinessOverrides | None = None,
    recovery_s: float | None = 60,
    scheduling_s: float | None = None,
    shortest_s: float = 0,
    longest_s: float | None = None,
    *,
    per_workload: bool = True,
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
    return effective_timeouts(workload or {}, overrides, rules, per_workload=per_workload)


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
        pytest.param(
            given({OWN: '{"timeoutSeconds": 600}'}), Timeouts(600, 600), id="Kueue's annotation may have more"
        ),
        pytest.param(
            given({OWN: '{"timeoutSeconds": 10, "recoveryTimeoutSeconds": 0}', TIMEOUT: "20s"}),
            Timeouts(10, math.inf),
            id="Kueue's annotation comes first; 0 never expires",
        ),
        pytest.param(
            given({OWN: '{"timeoutSeconds": 9000, "recoveryTimeoutSeconds": 7201}'}),
            Timeouts(7200, 7200),
            id="at most two hours",
        ),
        pytest.param(
            given({OWN: '{"timeoutSeconds": 600, "recoveryTimeoutSeconds": 30}'}, longest_s=60),
            Timeouts(60, 30),
            id="at most maxTimeoutOnWorkload",
        ),
        pytest.param(
            given({OWN: '{"timeoutSeconds": 10}'}, per_workload=False),
            Timeouts(300, 60),
            id="without its gate",
        ),
        pytest.param(
            given({OWN: '{"recoveryTimeoutSeconds": 10}'}), Timeouts(300, 60), id="a recovery timeout alone"
        ),
        pytest.param(given({OWN: '{"timeoutSeconds": 0}'}), Timeouts(300, 60), id="a timeout of 0"),
        pytest.param(given({OWN: "10m"}), Timeouts(300, 60), id="not JSON"),
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
    annotations = {TIMEOUT: "soon", RECOVERY: "1m", SCHEDULING: "-1s"}
    assert override_findings(annotations, RULES, per_workload=False) == (
        "metadata.annotations[quorate.dev/pods-ready-timeout]: 'soon' is not a duration "
        "(write 10m, 1h30m or 500ms)",
        "metadata.annotations[quorate.dev/pods-scheduling-timeout]: '-1s' is negative (write 0s or more)",
    )


@pytest.mark.parametrize(
    ("text", "rules", "gate", "rule"),
    [
        pytest.param('{"timeoutSeconds": 600}', RULES, True, "", id="valid"),
        pytest.param(
            '{"timeoutSeconds": 600}',
            None,
            True,
            "has no effect without waitForPodsReady in the configuration",
            id="nothing waits for pods",
        ),
        pytest.param(
            '{"timeoutSeconds": 600}',
            RULES,
            False,
            "has no effect without the feature gate WorkloadLevelWaitForPodsReady",
            id="without the gate",
        ),
        pytest.param(
            '{"timeoutSeconds": 7201}',
            RULES,
            True,
            "is reduced to maxTimeoutOnWorkload, which is 7200s",
            id="too long",
        ),
        pytest.param(
            '{"timeoutSeconds": -1}',
            RULES,
            True,
            'is not valid: Expected `int` >= 1 - at `$.timeoutSeconds` (write {"timeoutSeconds": 600})',
            id="negative",
        ),
    ],
)
def test_a_timeout_of_a_job_that_does_not_count_is_reported(
    text: str, rules: WaitForPodsReady | None, gate: bool, rule: str
) -> None:
    found = override_findings({OWN: text}, rules, per_workload=gate)
    assert found == ((f"metadata.annotations[{OWN}]: {text!r} {rule}",) if rule else ())
