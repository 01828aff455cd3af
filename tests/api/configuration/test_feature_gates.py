"""Each feature gate of a configuration file is supported or rejected."""

from collections.abc import Callable
from json import dumps
from pathlib import Path
from typing import Any

import msgspec
import pytest

from quorate.api.configuration import Configuration, default_configuration, load_configuration
from quorate.api.configuration.feature_gates import (
    FEATURE_GATES,
    PREREQUISITES,
    QUEUEING_GATES,
    SUPPORTED_GATES,
    Gates,
)
from quorate.api.decoding.strict import InvalidConfiguration
from tests import fast_yaml
from tests.api.configuration.files import a_file

KUEUE_GATES: dict[str, dict[str, Any]] = fast_yaml.load(
    (Path(__file__).parent / "kueue-gates.yaml").read_text()
)


def test_every_gate_of_kueue_is_known_with_its_default() -> None:
    assert {gate: row["default"] for gate, row in KUEUE_GATES.items()} == FEATURE_GATES
    assert len(KUEUE_GATES) == 123


@pytest.mark.parametrize(("gate", "row"), KUEUE_GATES.items())
def test_the_other_value_of_a_gate_is_obeyed_or_refused(gate: str, row: dict[str, Any]) -> None:
    given = {gate: not row["default"]} | {needed: True for needed in (PREREQUISITES.get(gate),) if needed}
    text = a_file(dumps({"featureGates": given})[1:-1])
    if row["other"] == "refused":
        with pytest.raises(InvalidConfiguration, match=rf"featureGates.{gate}: .*\(leave it out\)"):
            load_configuration(text)
        return
    load_configuration(text)
    assert (gate in SUPPORTED_GATES) is (row["other"] == "obeyed")


def test_defaults_of_queueing_gates_match_the_list() -> None:
    assert msgspec.to_builtins(Gates()) == {name: FEATURE_GATES[name] for name in QUEUEING_GATES}
    assert default_configuration().gates == Gates()


@pytest.mark.parametrize(
    ("gates", "rule"),
    [
        pytest.param("LendingLimit: true", "sets a feature gate that Kueue has removed", id="removed"),
        pytest.param("ObjectRetentionPolicies: false", "is locked to true", id="generally available"),
        pytest.param(
            "ConcurrentAdmission: true", "enables a feature that is not supported", id="an absent feature"
        ),
        pytest.param(
            "MetricsForCohorts: false", "is always true here: the series of cohorts", id="cannot be disabled"
        ),
        pytest.param(
            "WaitForPodsReadyUnscheduledTimeout: true, DisableWaitForPodsReady: true",
            "excludes DisableWaitForPodsReady",
            id="gates that exclude each other",
        ),
        pytest.param(
            "UnadmittedWorkloadsExplicitStatus: true, UnadmittedWorkloadsObservability: false",
            "needs UnadmittedWorkloadsObservability",
            id="without its prerequisite",
        ),
    ],
)
def test_an_unsupported_gate_is_rejected(gates: str, rule: str) -> None:
    with pytest.raises(InvalidConfiguration, match=rule):
        load_configuration(a_file(f"featureGates: {{{gates}}}"))


@pytest.mark.parametrize(("gate", "default"), FEATURE_GATES.items())
def test_the_default_of_every_gate_is_accepted(gate: str, default: bool) -> None:
    loaded = load_configuration(a_file(f"featureGates: {{{gate}: {str(default).lower()}}}"))
    assert loaded == load_configuration(a_file())


@pytest.mark.parametrize(
    ("body", "gate", "off"),
    [
        pytest.param(
            "admissionFairSharing: {}",
            "AdmissionFairSharing",
            lambda c: c.admission_fair_sharing is None,
            id="admission fair sharing",
        ),
        pytest.param(
            "resources: {quotaCheckStrategy: IgnoreUndeclared}",
            "QuotaCheckStrategy",
            lambda c: c.resources.quota_check_strategy == "BlockUndeclared",
            id="undeclared resources",
        ),
        pytest.param(
            "visibilityServer: {}",
            "VisibilityOnDemand",
            lambda c: c.visibility.address is None,
            id="visibility",
        ),
    ],
)
def test_a_gate_disables_a_field(body: str, gate: str, off: Callable[[Configuration], bool]) -> None:
    for on in (True, False):
        loaded = load_configuration(a_file(f"{body}\nfeatureGates: {{{gate}: {str(on).lower()}}}"))
        assert off(loaded.configuration) is not on


@pytest.mark.parametrize("gate", QUEUEING_GATES)
def test_a_queueing_gate_is_decoded(gate: str) -> None:
    turned = not FEATURE_GATES[gate]
    given = {gate: turned} | {needed: True for needed in (PREREQUISITES.get(gate),) if needed}
    loaded = load_configuration(a_file(dumps({"featureGates": given})[1:-1]))
    defaults = msgspec.to_builtins(Gates())
    want = defaults | {name: on for name, on in given.items() if name in defaults}
    assert (msgspec.to_builtins(loaded.configuration.gates), loaded.warnings) == (want, ())


def test_all_gates_together_at_their_defaults_change_nothing() -> None:
    """A file of Kueue 0.20 may list every gate."""
    body = dumps({"featureGates": FEATURE_GATES})[1:-1]
    assert load_configuration(a_file(body)) == load_configuration(a_file())


def test_a_file_of_kueue_loads_unchanged() -> None:
    loaded = load_configuration(
        """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health: {healthProbeBindAddress: ":8081"}
metrics: {bindAddress: ":8443", enableClusterQueueResources: true}
webhook: {port: 9443}
leaderElection: {leaderElect: true, resourceName: c1f6bfd2.kueue.x-k8s.io}
controller:
  groupKindConcurrency: {Job.batch: 5, Pod: 5, Workload.kueue.x-k8s.io: 5, LocalQueue.kueue.x-k8s.io: 1}
clientConnection: {qps: 1000, burst: 1000}
featureGates:
  WaitForPodsReadyUnscheduledTimeout: true
  WorkloadLevelWaitForPodsReady: true
  WaitForPodsReadyMaxNotReady: true
waitForPodsReady:
  timeout: 5m
  recoveryTimeout: 3m
  unscheduledTimeout: 2m
  maxTimeoutOnWorkload: 1h
  blockAdmission: true
  requeuingStrategy: {timestamp: Eviction, backoffLimitCount: 5, backoffBaseSeconds: 60}
integrations:
  frameworks: [batch/job, jobset.x-k8s.io/jobset, pod, deployment, statefulset]
"""
    )
    rules = loaded.configuration.wait_for_pods_ready
    assert rules is not None
    assert (rules.scheduling_timeout_s, rules.longest_on_workload_s) == (120.0, 3600.0)
    assert loaded.configuration.longest_workload_timeout_s == 3600.0
    assert loaded.configuration.gates.wait_for_pods_ready_max_not_ready
    assert [warning.partition(":")[0] for warning in loaded.warnings] == ["clientConnection.qps"]
