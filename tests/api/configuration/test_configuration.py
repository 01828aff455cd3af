"""Decoding of valid configuration files of each version."""

import msgspec
import pytest
import yaml

from quorate.api.configuration import Configuration, default_configuration, load_configuration
from quorate.api.configuration.gang import GangScheduling, PodGroupWebhooks
from quorate.api.configuration.network_topology import TopologyType
from quorate.api.configuration.pods_ready import RequeuingStrategy, WaitForPodsReady
from quorate.api.configuration.process import (
    Address,
    ClientConnection,
    Controllers,
    Health,
    LeaderElection,
    Metrics,
)
from quorate.api.configuration.queueing import DeviceSource, ObjectRetention, Transformation
from quorate.api.configuration.webhooks import CertificateManagement, TlsOptions, Webhooks
from quorate.api.meta import LabelSelector, SelectorRequirement
from quorate.api.quantity import parse_quantity
from quorate.queueing.pods_ready import backoff_s
from tests.api.configuration.files import a_file, refusals

ON_V1BETA1 = WaitForPodsReady(timeout_s=300.0, recovery_timeout_s=300.0, block_admission="AllQueues")
ON_V1BETA2 = WaitForPodsReady(timeout_s=1800.0, recovery_timeout_s=1800.0, block_admission=None)


def waiting(body: str, version: str) -> WaitForPodsReady | None:
    return load_configuration(a_file(body, version)).configuration.wait_for_pods_ready


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
            id="the recovery timeout defaults to the timeout",
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
            id="fields that Kueue lacks, and older names",
        ),
        pytest.param(
            "v1beta2",
            "featureGates: {WaitForPodsReadyUnscheduledTimeout: true, WorkloadLevelWaitForPodsReady: true}\n"
            "waitForPodsReady: {timeout: 10s, unscheduledTimeout: 5s, maxTimeoutOnWorkload: 1h}",
            WaitForPodsReady(
                timeout_s=10.0,
                recovery_timeout_s=10.0,
                block_admission=None,
                scheduling_timeout_s=5.0,
                longest_override_s=3600.0,
            ),
            id="the names of Kueue 0.20",
        ),
        pytest.param(
            "v1beta1",
            "featureGates: {WaitForPodsReadyUnscheduledTimeout: true}\n"
            "waitForPodsReady: {enable: true, timeout: 10s, blockAdmission: false, unscheduledTimeout: 0s}",
            WaitForPodsReady(timeout_s=10.0, recovery_timeout_s=10.0, block_admission=None),
            id="an unscheduled timeout of zero disables it",
        ),
        pytest.param(
            "v1beta2",
            "waitForPodsReady: {timeout: 10s, recoveryTimeout: 0s}",
            WaitForPodsReady(timeout_s=10.0, recovery_timeout_s=None, block_admission=None),
            id="a recovery timeout of zero disables recovery",
        ),
    ],
)
def test_wait_for_pods_ready(version: str, body: str, want: WaitForPodsReady | None) -> None:
    assert waiting(body, version) == want


def test_the_documented_example_has_its_documented_meaning() -> None:
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


def test_a_single_field_keeps_the_other_defaults_of_the_strategy() -> None:
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
    """KEP-1282 in Kueue 0.6: 1.41284738^(n-1) seconds, uncapped.

    Thirty retries at 300 s take about a day.
    """
    body = """
waitForPodsReady:
  timeout: 300s
  requeuingStrategy: {backoffBaseSeconds: 1, backoffFactor: 1.41284738, backoffMaxSeconds: 86400}
"""
    wait = waiting(body, "v1beta2")
    assert wait is not None
    backoffs = [backoff_s(retry, wait.requeuing_strategy) for retry in range(1, 31)]
    assert wait.timeout_s * 31 + sum(backoffs) == pytest.approx(24 * 3600, abs=10)


def test_without_a_file_the_defaults_are_those_of_v1beta2() -> None:
    assert default_configuration() == Configuration(
        wait_for_pods_ready=ON_V1BETA2,
        managed_jobs_namespace_selector=LabelSelector(
            match_expressions=(
                SelectorRequirement(
                    key="kubernetes.io/metadata.name",
                    operator="NotIn",
                    values=("kube-system", "kueue-system"),
                ),
            )
        ),
    )


def test_fields_for_controllers_are_decoded() -> None:
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


def test_the_file_of_a_usual_installation_is_accepted_with_warnings() -> None:
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
        "clientConnection.qps: slows down the controllers "
        "(leave it out: the API server limits requests by itself)",
    ]
    assert loaded.configuration.health == Health(address=Address("", 8081))
    assert loaded.configuration.leader_election == LeaderElection(elect=True)
    assert loaded.configuration.client_connection == ClientConnection(qps=50, burst=100)
    workers = loaded.configuration.controllers.workers_for
    assert (workers("Job", "batch", 16), workers("Pod", "", 16), workers("Job", "", 16)) == (5, 16, 16)
    assert loaded.configuration.retention == ObjectRetention(finished_s=86_400, deactivated_s=0)
    assert loaded.configuration.webhooks.address == Address("", 9443)
    assert not loaded.configuration.certificates.enable
    assert loaded.configuration.metrics == Metrics(address=Address("", 8443), cluster_queue_resources=True)


def test_webhooks_and_tls_are_decoded() -> None:
    body = """
webhook: {port: 8443, host: 127.0.0.1, certDir: /certificates, clientCAFile: /clients/ca.crt}
internalCertManagement: {webhookServiceName: hooks, webhookSecretName: hooks-tls}
tls: {minVersion: VersionTLS12, cipherSuites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256],
      curvePreferences: [CurveP384]}
"""
    read = load_configuration(a_file(body)).configuration
    assert read.webhooks == Webhooks(
        address=Address("127.0.0.1", 8443),
        certificate_directory="/certificates",
        client_ca_file="/clients/ca.crt",
    )
    assert read.certificates == CertificateManagement(enable=True, service="hooks", secret="hooks-tls")
    assert read.tls == TlsOptions(
        minimum_version="VersionTLS12", ciphers=("ECDHE-ECDSA-AES128-GCM-SHA256",), curve="secp384r1"
    )


def test_pod_group_webhooks_are_decoded() -> None:
    assert load_configuration(a_file("")).configuration.pod_group_webhooks is None
    assert (
        load_configuration(a_file("podGroupWebhooks: {}")).configuration.pod_group_webhooks
        == PodGroupWebhooks()
    )
    body = """
podGroupWebhooks:
  {minResources: strict, failurePolicy: Fail, rejectPodsOfPendingGroups: true,
   gatePodsOfPendingGroups: true, maxPodGroupsHard: true, refuseDeletionOfUsedQueues: true, maxQueueDepth: 2}
"""
    assert load_configuration(a_file(body)).configuration.pod_group_webhooks == PodGroupWebhooks(
        min_resources="strict",
        failure_policy="Fail",
        reject_pods_of_pending_groups=True,
        gate_pods_of_pending_groups=True,
        max_pod_groups_hard=True,
        refuse_deletion_of_used_queues=True,
        max_queue_depth=2,
    )


def test_an_off_without_quotes_is_a_mode() -> None:
    configuration = load_configuration(a_file("podGroupWebhooks: {minResources: off}")).configuration
    assert configuration.pod_group_webhooks == PodGroupWebhooks(min_resources="off")


def test_gang_scheduling_is_decoded() -> None:
    body = """
gangScheduling: {looksAfter: [batchJobs], schedulerNames: [ours, ours], keepPendingPodsOnRollback: true}
"""
    assert load_configuration(a_file(body)).configuration.gang == GangScheduling(
        managed_kinds=("batchJobs",),
        scheduler_names=("ours",),
        keep_pending_pods_on_rollback=True,
        inherit_owner_annotations=True,
    )
    assert load_configuration(a_file("")).configuration.gang.scheduler_names == ("quorate", "volcano")


def test_mappings_of_device_classes_are_decoded() -> None:
    body = """
resources:
  deviceClassMappings:
  - name: example.com/gpu
    deviceClassNames: [gpu.example.com, large-gpu.example.com]
  - {name: nics, deviceClassNames: [nic.example.com]}
"""
    assert load_configuration(a_file(body)).configuration.resources.device_classes == {
        "gpu.example.com": "example.com/gpu",
        "large-gpu.example.com": "example.com/gpu",
        "nic.example.com": "nics",
    }


def test_sources_of_device_classes_are_decoded() -> None:
    body = """
featureGates: {KueueDRAIntegrationConsumableCapacity: true}
resources:
  deviceClassMappings:
  - &mapping
    name: gpu.memory
    deviceClassNames: [mig]
    sources: [{counter: &source {name: memory, driver: d, deviceSelector: {cel: {expression: "true"}}}}]
  - {<<: *mapping, name: gpu.compute, sources: [{counter: {<<: *source, name: compute}}]}
  - {<<: *mapping, name: shares, deviceClassNames: [vgpu], sources: [{capacity: *source}]}
"""
    memory = DeviceSource(kind="counter", resource="gpu.memory", name="memory", driver="d", expression="true")
    resources = load_configuration(a_file(body)).configuration.resources
    assert resources.device_classes == {}
    assert resources.device_sources == {
        "mig": (memory, msgspec.structs.replace(memory, resource="gpu.compute", name="compute")),
        "vgpu": (msgspec.structs.replace(memory, kind="capacity", resource="shares"),),
    }


def test_volcanos_network_topology_discovery_is_decoded() -> None:
    body = """
networkTopologyDiscovery:
  - source: ufm
    enabled: false
    interval: 10m
    credentials:
      secretRef:
        name: ufm-credentials
        namespace: volcano-system
    config:
      endpoint: https://ufm-server:8080
      insecureSkipVerify: true
  - source: label
    enabled: true
    config:
      networkTopologyTypes:
        topologyA3:
          - nodeLabel: "volcano.sh/hypercluster"
          - nodeLabel: "volcano.sh/hypernode"
          - nodeLabel: "kubernetes.io/hostname"
        topologyA2:
          - nodeLabel: "volcano.sh/tor"
          - nodeLabel: "kubernetes.io/hostname"
"""
    assert load_configuration(a_file(body)).configuration.network_topology == (
        TopologyType("topologyA2", ("volcano.sh/tor",)),
        TopologyType("topologyA3", ("volcano.sh/hypernode", "volcano.sh/hypercluster")),
    )
    off = body.replace("enabled: true", "enabled: false")
    assert load_configuration(a_file(off)).configuration.network_topology == ()


def test_servers_and_leader_election_are_disabled_by_default() -> None:
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
def test_listen_addresses(written: str, want: Address | None) -> None:
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
def test_local_queue_metrics_selector(body: str, want: LabelSelector | None) -> None:
    loaded = load_configuration(a_file(body))
    assert loaded.configuration.metrics.local_queues == want
    assert loaded.warnings == ()


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param("", None, id="absent"),
        pytest.param("visibilityServer: {}", Address("127.0.0.1", 8082), id="present"),
        pytest.param(
            "visibilityServer: {bindAddress: '::1', bindPort: 9}", Address("::1", 9), id="another address"
        ),
    ],
)
def test_address_of_the_visibility_api(body: str, want: Address | None) -> None:
    loaded = load_configuration(a_file(body))
    assert loaded.configuration.visibility.address == want
    assert loaded.warnings == ()


UNSET = """
health: {healthProbeBindAddress: "", livenessEndpointName: "", readinessEndpointName: ""}
metrics: {bindAddress: ""}
leaderElection:
  {leaseDuration: 0s, renewDeadline: 0s, retryPeriod: 0s, resourceLock: "", resourceName: "",
   resourceNamespace: ""}
waitForPodsReady: {timeout: 0s}
admissionFairSharing: {usageHalfLifeTime: 0s, usageSamplingInterval: 0s}
fairSharing: {preemptionStrategies: []}
integrations: {frameworks: []}
tls: {minVersion: ""}
webhook: {host: "", certDir: ""}
"""


def test_a_field_that_a_program_in_go_writes_without_setting_it_has_its_default() -> None:
    sections: dict[str, dict[str, str]] = {name: {} for name in yaml.safe_load(UNSET)}
    unset = load_configuration(a_file(UNSET))
    assert unset.warnings == ()
    assert unset.configuration == load_configuration(a_file(yaml.safe_dump(sections))).configuration


def test_leader_election_and_health_endpoints_are_decoded() -> None:
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
        elect=True, name="quorate", namespace="batch", lease_s=60, renew_deadline_s=40.0, retry_s=0.5
    )


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param("", None, id="absent"),
        pytest.param("clientConnection: {qps: -1, burst: 5}", None, id="Kueue's notation for no limit"),
        pytest.param("clientConnection: {burst: 5}", None, id="a burst without a rate"),
        pytest.param(
            "clientConnection: {qps: 0.5}", ClientConnection(qps=0.5, burst=1), id="the minimum burst"
        ),
    ],
)
def test_requests_are_limited_only_if_configured(body: str, want: ClientConnection | None) -> None:
    assert load_configuration(a_file(body)).configuration.client_connection == want


def test_the_initial_sync_has_no_timeout_by_default() -> None:
    assert load_configuration(a_file()).configuration.controllers == Controllers()
    limited = load_configuration(a_file("controller: {cacheSyncTimeout: 2m}")).configuration.controllers
    assert limited.cache_sync_timeout_s == 120


@pytest.mark.parametrize(
    ("body", "finding"),
    [
        ("{groupKindConcurrency: {Job.batch: 0}}", "controller.groupKindConcurrency[Job.batch]: 0 is out of"),
        ("{groupKindConcurrency: {jobs: 5}}", "controller.groupKindConcurrency.jobs: 5 is not a kind"),
    ],
)
def test_concurrency_is_configured_by_kind(body: str, finding: str) -> None:
    (found,) = refusals(a_file(f"controller: {body}"))
    assert finding in found


def test_scheduling_is_enabled_unless_switched_off() -> None:
    for text, want in (("scheduling: {}", True), ("scheduling: {enabled: false}", False)):
        assert load_configuration(a_file(text)).configuration.scheduling.enabled is want
    assert default_configuration().scheduling.enabled
