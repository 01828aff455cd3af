"""Configuration files: what each version means, and that nothing wrong gets past."""

import math
from collections.abc import Callable
from json import dumps
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.configuration import (
    Configuration,
    InvalidConfiguration,
    RequeuingStrategy,
    Transformation,
    WaitForPodsReady,
    default_configuration,
    load_configuration,
)
from quorate.api.configuration_gates import QUEUEING_GATES, Gates
from quorate.api.configuration_process import Address, Health, LeaderElection, Metrics
from quorate.api.configuration_retention import Retention
from quorate.api.configuration_traffic import Controllers, Pace
from quorate.api.configuration_webhooks import CertificateManagement, TlsRules, Webhooks
from quorate.api.feature_gates import FEATURE_GATES, NEEDS
from quorate.api.meta import LabelSelector, Requirement
from quorate.api.quantity import parse_quantity


def a_file(body: str = "", version: str = "v1beta2") -> str:
    return f"apiVersion: config.kueue.x-k8s.io/{version}\nkind: Configuration\n{body}"


def waiting(body: str, version: str) -> WaitForPodsReady | None:
    return load_configuration(a_file(body, version)).configuration.wait_for_pods_ready


def refusals(text: str) -> list[str]:
    with pytest.raises(InvalidConfiguration) as refusal:
        load_configuration(text)
    assert str(refusal.value).splitlines() == [str(finding) for finding in refusal.value.findings]
    return [str(finding) for finding in refusal.value.findings]


ON_V1BETA1 = WaitForPodsReady(timeout_s=300.0, recovery_timeout_s=300.0, block_admission="AllQueues")
ON_V1BETA2 = WaitForPodsReady(timeout_s=1800.0, recovery_timeout_s=1800.0, block_admission=None)


SUITE = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"


@pytest.mark.parametrize(
    ("version", "body", "want"),
    [
        pytest.param("v1beta1", "", None, id="v1beta1: off when absent"),
        pytest.param("v1beta1", "waitForPodsReady: {timeout: 1m}", None, id="v1beta1: off when not enabled"),
        pytest.param("v1beta1", "waitForPodsReady: {enable: true}", ON_V1BETA1, id="v1beta1: blocks, 5m"),
        pytest.param("v1beta2", "", ON_V1BETA2, id="v1beta2: on when absent"),
        pytest.param("v1beta2", "waitForPodsReady: {}", ON_V1BETA2, id="v1beta2: does not block, 30m"),
        pytest.param(
            "v1beta2", "featureGates: {DisableWaitForPodsReady: true}", None, id="v1beta2: the gate"
        ),
        pytest.param(
            "v1beta2",
            "waitForPodsReady: {timeout: 10s, blockAdmission: true}",
            WaitForPodsReady(timeout_s=10.0, recovery_timeout_s=10.0, block_admission="AllQueues"),
            id="recovery takes the timeout",
        ),
        pytest.param(
            "v1beta2",
            "waitForPodsReady: {timeout: 10s, blockAdmission: true, blockAdmissionScope: SameFlavors, "
            "schedulingTimeout: 5s, overrides: {shortest: 1s, longest: 1h}}",
            WaitForPodsReady(
                timeout_s=10.0,
                recovery_timeout_s=10.0,
                block_admission="SameFlavors",
                scheduling_timeout_s=5.0,
                shortest_override_s=1.0,
                longest_override_s=3600.0,
            ),
            id="what Kueue does not have",
        ),
        pytest.param(
            "v1beta2",
            "waitForPodsReady: {timeout: 10s, recoveryTimeout: 0s}",
            WaitForPodsReady(timeout_s=10.0, recovery_timeout_s=None, block_admission=None),
            id="a recovery timeout of nothing switches recovery off",
        ),
    ],
)
def test_wait_for_pods_ready(version: str, body: str, want: WaitForPodsReady | None) -> None:
    assert waiting(body, version) == want


def test_the_block_of_the_documentation_means_what_it_says() -> None:
    body = """
waitForPodsReady:
  enable: true
  timeout: 10m
  blockAdmission: true
  requeuingStrategy:
    timestamp: Creation
    backoffLimitCount: 5
    backoffBaseSeconds: 60
    backoffMaxSeconds: 3600
"""
    assert waiting(body, "v1beta1") == WaitForPodsReady(
        timeout_s=600.0,
        recovery_timeout_s=600.0,
        block_admission="AllQueues",
        requeuing_strategy=RequeuingStrategy(
            timestamp="Creation", backoff_limit_count=5, backoff_base_s=60.0, backoff_max_s=3600.0
        ),
    )


def test_a_lone_limit_keeps_the_other_defaults_of_the_strategy() -> None:
    body = "waitForPodsReady: {enable: true, requeuingStrategy: {backoffLimitCount: 0}}"
    want = msgspec.structs.replace(ON_V1BETA1, requeuing_strategy=RequeuingStrategy(backoff_limit_count=0))
    assert waiting(body, "v1beta1") == want


def test_the_flat_requeuing_timestamp_is_accepted_with_a_warning() -> None:
    body = "waitForPodsReady: {enable: true, requeuingTimestamp: Creation}"
    loaded = load_configuration(a_file(body, "v1beta1"))
    wait = loaded.configuration.wait_for_pods_ready
    assert wait is not None
    assert wait.requeuing_strategy.timestamp == "Creation"
    assert loaded.warnings == (
        "waitForPodsReady.requeuingTimestamp: is deprecated (write requeuingStrategy.timestamp)",
    )


def test_the_backoff_of_the_first_release_can_be_expressed() -> None:
    """KEP-1282 at 0.6: 1.41284738^(n-1) seconds, uncapped; thirty retries at 300 s take about a day."""
    legacy = RequeuingStrategy(backoff_base_s=1.0, backoff_factor=1.41284738, backoff_max_s=math.inf)
    waits = [
        min(legacy.backoff_base_s * legacy.backoff_factor**retry, legacy.backoff_max_s) for retry in range(30)
    ]
    assert 300 * 31 + sum(waits) == pytest.approx(24 * 3600, abs=10)


def test_without_a_file_the_defaults_of_v1beta2_hold() -> None:
    assert default_configuration() == Configuration(
        wait_for_pods_ready=ON_V1BETA2,
        managed_jobs_namespace_selector=LabelSelector(
            match_expressions=(
                Requirement(
                    key="kubernetes.io/metadata.name",
                    operator="NotIn",
                    values=("kube-system", "kueue-system"),
                ),
            )
        ),
    )


def test_what_controllers_read_arrives() -> None:
    body = """
namespace: batch
manageJobsWithoutQueueName: true
managedJobsNamespaceSelector: {matchLabels: {team: research}}
integrations: {frameworks: [batch/job], labelKeysToCopy: [team.example.com/name]}
resources:
  excludeResourcePrefixes: [example.com/]
  transformations:
  - {input: nvidia.com/mig-1g.5gb, strategy: Replace, multiplyBy: gpus, outputs: {gpu-memory: 5Gi}}
"""
    loaded = load_configuration(a_file(body))
    configuration = loaded.configuration
    assert loaded.warnings == ()
    assert configuration.namespace == "batch"
    assert configuration.manage_jobs_without_queue_name
    assert configuration.managed_jobs_namespace_selector == LabelSelector(match_labels={"team": "research"})
    assert configuration.integrations.label_keys_to_copy == ("team.example.com/name",)
    assert configuration.resources.exclude_resource_prefixes == ("example.com/",)
    assert configuration.resources.transformations == (
        Transformation(
            input="nvidia.com/mig-1g.5gb",
            strategy="Replace",
            multiply_by="gpus",
            outputs={"gpu-memory": parse_quantity("5Gi")},
        ),
    )


def test_a_usual_installation_s_file_is_accepted_and_says_what_it_does_not_do() -> None:
    body = """
health: {healthProbeBindAddress: ':8081'}
metrics: {bindAddress: ':8443', enableClusterQueueResources: true}
webhook: {port: 9443}
leaderElection: {leaderElect: true, resourceName: c1f6bfd2.kueue.x-k8s.io, leaseDuration: 15s}
controller:
  groupKindConcurrency: {Job.batch: 5, Workload.kueue.x-k8s.io: 10}
clientConnection: {qps: 50, burst: 100}
internalCertManagement: {enable: false}
integrations:
  frameworks: [batch/job, deployment, statefulset]
  externalFrameworks: [Foo.v1.example.com]
fairSharing: {preemptionStrategies: [LessThanOrEqualToFinalShare, LessThanInitialShare]}
featureGates: {PartialAdmission: true, MultiKueue: false, TopologyAwareScheduling: true}
objectRetentionPolicies: {workloads: {afterFinished: 24h, afterDeactivatedByKueue: 0s}}
"""
    loaded = load_configuration(a_file(body))
    assert sorted(loaded.warnings) == [
        "clientConnection.qps: holds back the controllers "
        "(leave it out: the API server sets the pace by itself)",
    ]
    assert loaded.configuration.health == Health(address=Address("", 8081))
    assert loaded.configuration.leader_election == LeaderElection(elect=True)
    assert loaded.configuration.pace == Pace(per_second=50, burst=100)
    workers = loaded.configuration.controllers.workers_for
    assert (workers("Job", "batch", 16), workers("Pod", "", 16), workers("Job", "", 16)) == (5, 16, 16)
    assert loaded.configuration.retention == Retention(finished_s=86_400, deactivated_s=0)
    assert loaded.configuration.webhooks.address == Address("", 9443)
    assert not loaded.configuration.certificates.enable
    assert loaded.configuration.metrics == Metrics(address=Address("", 8443), cluster_queue_resources=True)


def test_webhooks_and_their_tls_are_read() -> None:
    body = """
webhook: {port: 8443, host: 127.0.0.1, certDir: /certificates}
internalCertManagement: {webhookServiceName: hooks, webhookSecretName: hooks-tls}
tls: {minVersion: VersionTLS12, cipherSuites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256],
      curvePreferences: [CurveP384]}
"""
    read = load_configuration(a_file(body)).configuration
    assert read.webhooks == Webhooks(
        address=Address("127.0.0.1", 8443), certificate_directory="/certificates"
    )
    assert read.certificates == CertificateManagement(enable=True, service="hooks", secret="hooks-tls")
    assert read.tls == TlsRules(
        minimum_version="VersionTLS12", ciphers=("ECDHE-ECDSA-AES128-GCM-SHA256",), curve="secp384r1"
    )


def test_nothing_listens_and_nobody_is_elected_unless_the_file_says_so() -> None:
    configuration = load_configuration(a_file("")).configuration
    assert configuration.health == Health(address=None, liveness="healthz", readiness="readyz")
    assert not configuration.leader_election.elect
    assert configuration.webhooks.address is None


@pytest.mark.parametrize(
    ("written", "want"),
    [
        ("':8081'", Address("", 8081)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("'[::1]:8081'", Address("::1", 8081)),
        ("localhost:8081", Address("localhost", 8081)),
        ("'0'", None),
    ],
)
def test_addresses_to_listen_on(written: str, want: Address | None) -> None:
    loaded = load_configuration(a_file(f"health: {{healthProbeBindAddress: {written}}}"))
    assert loaded.configuration.health.address == want
    assert loaded.warnings == ()


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param("", LabelSelector(), id="all"),
        pytest.param(
            "metrics: {localQueueMetrics: {localQueueSelector: {matchLabels: {team: a}}}}",
            LabelSelector(match_labels={"team": "a"}),
            id="some",
        ),
        pytest.param("metrics: {localQueueMetrics: {enable: false}}", None, id="none"),
        pytest.param("featureGates: {LocalQueueMetrics: false}", None, id="none by the gate"),
    ],
)
def test_which_local_queues_have_series_of_their_own(body: str, want: LabelSelector | None) -> None:
    loaded = load_configuration(a_file(body))
    assert loaded.configuration.metrics.local_queues == want
    assert loaded.warnings == ()


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param("", None, id="not asked for"),
        pytest.param("visibilityServer: {}", Address("127.0.0.1", 8082), id="asked for"),
        pytest.param(
            "visibilityServer: {bindAddress: '::1', bindPort: 9}", Address("::1", 9), id="elsewhere"
        ),
    ],
)
def test_where_the_visibility_api_listens(body: str, want: Address | None) -> None:
    loaded = load_configuration(a_file(body))
    assert loaded.configuration.visibility.address == want
    assert loaded.warnings == ()


def test_the_terms_of_the_election_and_the_names_of_the_endpoints_are_kept() -> None:
    body = """
health: {livenessEndpointName: alive, readinessEndpointName: ready}
leaderElection:
  leaderElect: true
  leaseDuration: 1m
  renewDeadline: 40s
  retryPeriod: 500ms
  resourceLock: leases
  resourceName: quorate
  resourceNamespace: batch
"""
    configuration = load_configuration(a_file(body)).configuration
    assert configuration.health == Health(liveness="alive", readiness="ready")
    assert configuration.leader_election == LeaderElection(
        elect=True, name="quorate", namespace="batch", lease_s=60, renew_within_s=40.0, retry_s=0.5
    )


@pytest.mark.parametrize(
    ("version", "body", "want"),
    [
        pytest.param(
            "v1beta1", "waitForPodsReady: {enable: true, requeuingStrategy: {backoffLimitCount: -1}}",
            "waitForPodsReady.requeuingStrategy.backoffLimitCount: -1 is no count of retries "
            "(leave the field out to retry without end, or write 0 or more)", id="a limit of -1",
        ),
        pytest.param(
            "v1beta1", "waitForPodsReady: {requeuingStrategy: {timestamp: Eviction | Creation}}",
            "waitForPodsReady.requeuingStrategy.timestamp: 'Eviction | Creation' is not allowed here "
            "(write Eviction or Creation)", id="the documentation's alternatives copied as they stand",
        ),
        pytest.param(
            "v1beta1",
            "waitForPodsReady: {requeuingTimestamp: Creation, requeuingStrategy: {timestamp: Eviction}}",
            "waitForPodsReady.requeuingTimestamp: 'Creation' contradicts requeuingStrategy.timestamp, "
            "which is Eviction (keep the latter)", id="two timestamps that contradict",
        ),
        pytest.param(
            "v1beta2", "waitForPodsReady: {enable: true}",
            "waitForPodsReady.enable: true is not in v1beta2, which waits always "
            "(or set featureGates.DisableWaitForPodsReady)", id="a field of the other version",
        ),
        pytest.param(
            "v1beta2", "waitForPodsReady: {overrides: {shortest: 1h, longest: 5m}}",
            "waitForPodsReady.overrides.longest: '5m' is shorter than shortest "
            "(give a longer one, or leave one out)", id="bounds that cross",
        ),
        pytest.param(
            "v1beta2", "waitForPodsReady: {blockAdmission: true, blockAdmissionScope: Flavor}",
            "waitForPodsReady.blockAdmissionScope: 'Flavor' is not allowed here "
            "(write AllQueues or SameFlavors)", id="a scope that is none",
        ),
        pytest.param(
            "v1beta2", "waitForPodsReady: {timout: 10m}",
            "waitForPodsReady.timout: '10m' stands in an unknown field (did you mean timeout?)", id="a slip",
        ),
        pytest.param(
            "v1beta2", "waitForPodsReady: {timeout: 10}",
            "waitForPodsReady.timeout: 10 is not text (put it in quotes)", id="a number for a duration",
        ),
        pytest.param(
            "v1beta2", "waitForPodsReady: {timeout: 10 minutes}",
            "waitForPodsReady.timeout: '10 minutes' is not a duration (write 10m, 1h30m or 500ms)",
            id="words",
        ),
        pytest.param(
            "v1beta2", "waitForPodsReady: {timeout: -1s}",
            "waitForPodsReady.timeout: '-1s' is too short, must be at least 0s", id="a negative duration",
        ),
        pytest.param(
            "v1beta2", "waitForPodsReady: true",
            "waitForPodsReady: true is not a mapping of fields", id="a scalar for a section",
        ),
        pytest.param(
            "v1beta2", "manageJobsWithoutQueueName: 'yes'",
            "manageJobsWithoutQueueName: 'yes' is not a boolean (write true or false)",
            id="text for a boolean",
        ),
        pytest.param(
            "v1beta2", "managedJobsNamespaceSelector: {}",
            "managedJobsNamespaceSelector: {} should not match namespace kube-system or kueue-system "
            "(add kubernetes.io/metadata.name NotIn [kube-system, kueue-system])",
            id="the system's namespaces",
        ),
        pytest.param(
            "v1beta2", "health: {healthProbeBindAddress: ':99999'}",
            "health.healthProbeBindAddress: ':99999' is no address "
            "(write :8081, 127.0.0.1:8081, or 0 in quotes for none)", id="a port that cannot be",
        ),
        pytest.param(
            "v1beta2", "visibilityServer: {bindAddress: localhost}",
            "visibilityServer.bindAddress: 'localhost' is no IP address "
            "(write 127.0.0.1, or 0.0.0.0 for every interface)", id="a name for an IP address",
        ),
        pytest.param(
            "v1beta2", "leaderElection: {leaseDuration: 1500ms}",
            "leaderElection.leaseDuration: '1500ms' is no whole number of seconds, "
            "and a Lease knows no other",
            id="a lease of broken seconds",
        ),
        pytest.param(
            "v1beta2", "leaderElection: {leaseDuration: 15s, renewDeadline: 15s}",
            "leaderElection.renewDeadline: '15s' must be less than leaseDuration, which is 15s",
            id="no time to stop",
        ),
        pytest.param(
            "v1beta2", "leaderElection: {retryPeriod: 10s}",
            "leaderElection.retryPeriod: '10s' must be less than renewDeadline, which is 10s",
            id="no time to try again",
        ),
        pytest.param(
            "v1beta2", "leaderElection: {resourceLock: configmaps}",
            "leaderElection.resourceLock: 'configmaps' is not allowed here (write leases)",
            id="a lock of former times",
        ),
        pytest.param(
            "v1beta2", "integrations: {frameworks: []}",
            "integrations.frameworks: [] has 0 entries, must have at least 1", id="no framework",
        ),
        pytest.param(
            "v1beta2", "integrations: {frameworks: [sparkoperator.k8s.io/sparkapplication]}",
            'integrations.frameworks: ["sparkoperator.k8s.io/sparkapplication"] names '
            "sparkoperator.k8s.io/sparkapplication, which is alpha "
            "(set featureGates.SparkApplicationIntegration: true)", id="an alpha framework without its gate",
        ),
        pytest.param(
            "v1beta2", "integrations: {frameworks: [pod, pod]}",
            "integrations.frameworks[1]: 'pod' is listed twice (keep one)", id="a framework twice",
        ),
        pytest.param(
            "v1beta2", "integrations: {podOptions: {}}",
            "integrations.podOptions: {} stands in an unknown field "
            "(known here: declaredFrameworks, externalFrameworks, frameworks, labelKeysToCopy)",
            id="a section of the other version",
        ),
        pytest.param(
            "v1beta2", "resources: {quotaCheckStrategy: IgnoreUndeclared, excludeResourcePrefixes: [a]}",
            "resources.excludeResourcePrefixes: [\"a\"] contradicts quotaCheckStrategy "
            "IgnoreUndeclared (keep one)",
            id="two ways to leave out resources",
        ),
        pytest.param(
            "v1beta2", "resources: {transformations: [{input: a, outputs: {b: much}}]}",
            "resources.transformations[0].outputs.b: 'much' is not a quantity (write 4, 500m or 16Gi)",
            id="an amount that is none",
        ),
        pytest.param(
            "v1beta2", "fairSharing: {enable: true}",
            "fairSharing.enable: true stands in an unknown field (known here: preemptionStrategies)",
            id="unknown fields of unused sections count too",
        ),
        pytest.param(
            "v1beta2", "featureGates: {PartialAdmision: true}",
            "featureGates.PartialAdmision: true sets an unknown feature gate "
            "(did you mean PartialAdmission?)",
            id="an unknown gate",
        ),
        pytest.param(
            "v1beta2", "fairSharing: {preemptionStrategies: [LessThanInitialShare, LessThanInitialShare]}",
            'fairSharing.preemptionStrategies: ["LessThanInitialShare", "LessThanInitialShare"] is not '
            "allowed here (write [LessThanOrEqualToFinalShare], [LessThanInitialShare] or "
            "[LessThanOrEqualToFinalShare, LessThanInitialShare])", id="strategies in no known order",
        ),
        pytest.param(
            "v1beta2", f"tls: {{minVersion: VersionTLS13, cipherSuites: [{SUITE}]}}",
            f'tls.cipherSuites: ["{SUITE}"] contradicts minVersion VersionTLS13, whose suites are fixed',
            id="suites",
        ),
        pytest.param(
            "v1beta2", "metrics: {customLabels: [{name: a}, {name: a}]}",
            "metrics.customLabels[1].name: 'a' names two labels (choose another)", id="a label twice",
        ),
        pytest.param(
            "v1beta2", "metrics: {customLabels: [{name: a-b}]}",
            "metrics.customLabels[0].name: 'a-b' is not a name of letters, digits and _ that starts with a "
            "letter", id="a label of no name that there may be",
        ),
        pytest.param(
            "v1beta2", "metrics: {customLabels: [{name: a, sourceKind: Workload, trackedValues: []}]}",
            "metrics.customLabels[0].trackedValues: [] must list 1 to 12 values for sourceKind Workload",
            id="a label of workloads with any value",
        ),
        pytest.param(
            "v1beta2", "metrics: {customLabels: [{name: a, trackedValues: [b, b]}]}",
            'metrics.customLabels[0].trackedValues: ["b", "b"] lists a value twice (leave one out)',
            id="a value twice",
        ),
        pytest.param(
            "v1beta2", "metrics: {customLabels: [{name: a, sourceLabelKey: b, sourceAnnotationKey: c}]}",
            "metrics.customLabels[0].sourceAnnotationKey: 'c' contradicts sourceLabelKey "
            "(give one of the two)",
            id="two sources",
        ),
        pytest.param(
            "v1beta2", "admissionFairSharing: {usageSamplingInterval: 0s}",
            "admissionFairSharing.usageSamplingInterval: '0s' is too short, must be more than 0s",
            id="an interval of nothing",
        ),
        pytest.param(
            "v1beta1", "queueVisibility: {clusterQueues: {maxCount: 4001}}",
            "queueVisibility.clusterQueues.maxCount: 4001 is out of range, must be 0 to 4000", id="a count",
        ),
        pytest.param(
            "v1beta2", "resources: {transformations: [{input: a}, {input: a}]}",
            'resources.transformations: [{"input": "a"}, {"input": "a"}] has two rules for input a '
            "(merge them)",
            id="two rules for one resource",
        ),
        pytest.param(
            "v1beta2", "integrations: {externalFrameworks: [Foo.v1.a.com, Job.v1.batch]}",
            "integrations.externalFrameworks[1]: 'Job.v1.batch' is queued already (keep one)",
            id="a kind that is queued here, and elsewhere",
        ),
        pytest.param(
            "v1beta2", "integrations: {externalFrameworks: [Foo.v1.a.com, Foo.v2.a.com]}",
            "integrations.externalFrameworks[1]: 'Foo.v2.a.com' is queued already (keep one)",
            id="a kind that is queued elsewhere twice",
        ),
        pytest.param(
            "v1beta2", "integrations: {externalFrameworks: [Foo]}",
            "integrations.externalFrameworks[0]: 'Foo' does not name a kind (write Kind.version.group)",
            id="no kind",
        ),
        pytest.param(
            "v1beta2", "tls: {minVersion: TLS1.2}",
            "tls.minVersion: 'TLS1.2' is not allowed here (write VersionTLS10 or VersionTLS11 or "
            "VersionTLS12 or VersionTLS13)", id="a TLS version",
        ),
        pytest.param(
            "v1beta2", "tls: {curvePreferences: [X25519, CurveP256]}",
            'tls.curvePreferences: ["X25519", "CurveP256"] names several curves, and only one can be '
            "insisted on (write one, or leave this out)", id="two curves",
        ),
        pytest.param(
            "v1beta2", "internalCertManagement: {webhookSecretName: A_b}",
            "internalCertManagement.webhookSecretName: 'A_b' is not the name of a Secret", id="a name",
        ),
        pytest.param(
            "v1beta2", "webhook: {port: 70000}",
            "webhook.port: 70000 is out of range, must be 1 to 65535", id="a port that is none",
        ),
    ],
)  # fmt: skip
def test_a_wrong_field_is_refused_by_path_value_and_rule(version: str, body: str, want: str) -> None:
    assert refusals(a_file(body, version)) == [f"line 3: {want}"]


def test_every_finding_is_listed_at_once_with_its_line() -> None:
    body = """
waitForPodsReady:
  timeout: soon
  timeout: 5m
  blockAdmission: maybe
namespaces: x
webhook: {port: 0}
"""
    assert sorted(refusals(a_file(body))) == [
        "line 6: waitForPodsReady: 'timeout' is given twice, first in line 5 (keep one of them)",
        "line 7: waitForPodsReady.blockAdmission: 'maybe' is not a boolean (write true or false)",
        "line 8: namespaces: 'x' stands in an unknown field (did you mean namespace?)",
        "line 9: webhook.port: 0 is out of range, must be 1 to 65535",
    ]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", ".: '' holds 0 documents, must hold one of kind Configuration"),
        (
            "a: [",
            "line 1: .: 'a: [' did not find expected node content",
        ),
        ("hello", "line 1: .: 'hello' is no Configuration (write apiVersion, kind and fields)"),
        (
            "kind: ConfigMap",
            "line 1: kind: 'ConfigMap' wraps a file "
            "(give the text under its data.controller_manager_config.yaml)",
        ),
        (
            "kind: Configuration",
            "apiVersion: null is not known "
            "(write config.kueue.x-k8s.io/v1beta1 or config.kueue.x-k8s.io/v1beta2)",
        ),
        (
            "apiVersion: config.kueue.x-k8s.io/v1\nkind: Configuration\nfoo: bar",
            "line 1: apiVersion: 'config.kueue.x-k8s.io/v1' is not known "
            "(write config.kueue.x-k8s.io/v1beta1 or config.kueue.x-k8s.io/v1beta2)",
        ),
    ],
)
def test_what_is_no_configuration_is_refused_once(text: str, want: str) -> None:
    assert refusals(text) == [want]


EVERYTHING = """
namespace: batch
manageJobsWithoutQueueName: true
managedJobsNamespaceSelector: {matchExpressions: [{key: a, operator: In, values: [b]}]}
waitForPodsReady: {timeout: 1m, requeuingStrategy: {timestamp: Creation, backoffLimitCount: 1}}
integrations: {frameworks: [batch/job, pod], externalFrameworks: [A.v1.b], labelKeysToCopy: [a]}
resources:
  transformations: [{input: a, outputs: {b: 1}}]
metrics: {customLabels: [{name: a, sourceLabelKey: b}, {name: c, sourceKind: Workload, trackedValues: [d]}]}
tls: {minVersion: VersionTLS12, cipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]}
fairSharing: {preemptionStrategies: [LessThanInitialShare]}
admissionFairSharing: {usageSamplingInterval: 1m, resourceWeights: {cpu: 2}}
controller: {groupKindConcurrency: {Job.batch: 5}}
featureGates: {PartialAdmission: true}
"""
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2**65)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "a", "1m"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "a", "key"]), inner),
    max_leaves=4,
)


@st.composite
def spoiled(draw: st.DrawFn) -> tuple[str, Any]:
    """A right configuration in which one value, anywhere, is replaced by any other, and its first field."""
    body = yaml.safe_load(a_file(EVERYTHING))
    field = draw(st.sampled_from(sorted(body.keys() - {"apiVersion", "kind"})))
    holder: Any = body
    key: Any = field
    while isinstance(holder[key], dict | list) and holder[key] and draw(st.booleans()):
        holder = holder[key]
        key = draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))
    holder[key] = draw(values)
    return field, body


@given(spoiled())
def test_whatever_a_field_holds_it_is_read_or_reported_and_no_other(case: tuple[str, Any]) -> None:
    field, body = case
    try:
        load_configuration(dumps(body))
    except InvalidConfiguration as refusal:
        reported = {finding.path.partition(".")[0].partition("[")[0] for finding in refusal.findings}
    else:
        reported = set()
    assert reported <= {field}


def test_the_configuration_that_is_spoiled_is_right() -> None:
    assert load_configuration(a_file(EVERYTHING)).configuration.namespace == "batch"


def test_gates_of_the_queueing_core_are_by_default_as_the_list_says() -> None:
    assert msgspec.to_builtins(Gates()) == {name: FEATURE_GATES[name] for name in QUEUEING_GATES}
    assert default_configuration().gates == Gates()


@pytest.mark.parametrize(
    ("gates", "rule"),
    [
        pytest.param("LendingLimit: true", "sets a feature gate that Kueue has removed", id="removed"),
        pytest.param("ObjectRetentionPolicies: false", "is locked to true", id="generally available"),
        pytest.param("ConcurrentAdmission: true", "switches on what there is none of here", id="absent"),
        pytest.param("MetricsForCohorts: false", "is always true here", id="not to be switched off"),
        pytest.param(
            "UnadmittedWorkloadsExplicitStatus: true", "needs UnadmittedWorkloadsObservability", id="alone"
        ),
    ],
)
def test_a_gate_that_is_not_honoured_is_refused(gates: str, rule: str) -> None:
    with pytest.raises(InvalidConfiguration, match=rule):
        load_configuration(a_file(f"featureGates: {{{gates}}}"))


@pytest.mark.parametrize(("gate", "default"), FEATURE_GATES.items())
def test_a_gate_may_always_be_left_at_its_default(gate: str, default: bool) -> None:
    loaded = load_configuration(a_file(f"featureGates: {{{gate}: {str(default).lower()}}}"))
    assert loaded == load_configuration(a_file())


@pytest.mark.parametrize(
    ("body", "gate", "off"),
    [
        pytest.param(
            "admissionFairSharing: {}",
            "AdmissionFairSharing",
            lambda c: c.admission_fair_sharing is None,
            id="turns",
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
            id="who waits",
        ),
    ],
)
def test_a_gate_switches_a_field_off(body: str, gate: str, off: Callable[[Configuration], bool]) -> None:
    for on in (True, False):
        loaded = load_configuration(a_file(f"{body}\nfeatureGates: {{{gate}: {str(on).lower()}}}"))
        assert off(loaded.configuration) is not on


@pytest.mark.parametrize("gate", QUEUEING_GATES)
def test_a_gate_of_the_queueing_core_is_honoured(gate: str) -> None:
    turned = not FEATURE_GATES[gate]
    given = {gate: turned} | {needed: True for needed in (NEEDS.get(gate),) if needed}
    loaded = load_configuration(a_file(dumps({"featureGates": given})[1:-1]))
    want = msgspec.to_builtins(Gates()) | given
    assert (msgspec.to_builtins(loaded.configuration.gates), loaded.warnings) == (want, ())


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param("", None, id="nobody asked for a limit"),
        pytest.param("clientConnection: {qps: -1, burst: 5}", None, id="as Kueue writes no limit"),
        pytest.param("clientConnection: {burst: 5}", None, id="a burst of nothing"),
        pytest.param("clientConnection: {qps: 0.5}", Pace(per_second=0.5, burst=1), id="one at a time"),
    ],
)
def test_requests_are_held_back_only_where_the_file_says_so(body: str, want: Pace | None) -> None:
    assert load_configuration(a_file(body)).configuration.pace == want


def test_the_first_lists_may_take_as_long_as_they_do_unless_the_file_says_otherwise() -> None:
    assert load_configuration(a_file()).configuration.controllers == Controllers()
    limited = load_configuration(a_file("controller: {cacheSyncTimeout: 2m}")).configuration.controllers
    assert limited.sync_within_s == 120


@pytest.mark.parametrize(
    ("body", "finding"),
    [
        ("{groupKindConcurrency: {Job.batch: 0}}", "controller.groupKindConcurrency[Job.batch]: 0 is out of"),
        ("{groupKindConcurrency: {jobs: 5}}", "controller.groupKindConcurrency.jobs: 5 is under no kind"),
    ],
)
def test_workers_are_counted_by_kind(body: str, finding: str) -> None:
    (found,) = refusals(a_file(f"controller: {body}"))
    assert finding in found
