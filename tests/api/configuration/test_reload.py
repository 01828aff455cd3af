"""Which fields of a changed configuration apply at once, and which need a restart."""

import re
from pathlib import Path

import pytest

from quorate.api.configuration import RESTART_FIELDS, Configuration, apply_reload, load_configuration

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")


def a_configuration(body: str = "") -> Configuration:
    text = f"apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n{body}"
    return load_configuration(text).configuration


@pytest.mark.parametrize(
    "body",
    [
        "waitForPodsReady: {timeout: 1s}",
        "waitForPodsReady: {requeuingStrategy: {backoffLimitCount: 3}}",
        "objectRetentionPolicies: {workloads: {afterFinished: 1h}}",
        "manageJobsWithoutQueueName: true",
        "integrations: {frameworks: [batch/job, jobset.x-k8s.io/jobset]}",
        "fairSharing: {}",
        "resources: {excludeResourcePrefixes: [example.com/]}",
        "controller: {groupKindConcurrency: {Job.batch: 2}}",
        "featureGates: {PartialAdmission: false}",
    ],
)
def test_fields_that_controllers_decide_by_apply_at_once(body: str) -> None:
    new = a_configuration(body)
    assert new != a_configuration()
    assert apply_reload(a_configuration(), new) == (new, ())


@pytest.mark.parametrize(
    ("body", "waiting"),
    [
        ("namespace: batch", "namespace"),
        ("health: {healthProbeBindAddress: ':8081'}", "health"),
        ("leaderElection: {leaderElect: true}", "leaderElection"),
        ("metrics: {bindAddress: '127.0.0.1:8080'}", "metrics"),
        ("visibilityServer: {}", "visibilityServer"),
        ("webhook: {}", "webhook"),
        ("podGroupWebhooks: {}", "podGroupWebhooks"),
        ("internalCertManagement: {enable: false}", "internalCertManagement"),
        ("tls: {minVersion: VersionTLS13}", "tls"),
        ("clientConnection: {qps: 10}", "clientConnection"),
        ("featureGates: {RejectUpdatesToCQWithInvalidOnFlavors: false}", "featureGates, for webhooks"),
    ],
)
def test_sockets_and_shared_settings_need_a_restart(body: str, waiting: str) -> None:
    running = a_configuration("waitForPodsReady: {timeout: 1h}")
    both = a_configuration(f"{body}\nwaitForPodsReady: {{timeout: 1s}}")
    new, fields = apply_reload(running, both)
    assert fields == (waiting,)
    assert new.wait_for_pods_ready == both.wait_for_pods_ready
    assert apply_reload(running, new) == (new, ())


def test_the_reference_page_lists_the_fields_that_need_a_restart() -> None:
    listed = PAGE.partition("need a restart:")[2].partition("\n\n")[0]
    assert re.findall(r"`(\w+)`", listed) == sorted(RESTART_FIELDS)
