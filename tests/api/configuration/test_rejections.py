"""Invalid configuration files are rejected with all findings."""

from json import dumps
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.configuration import load_configuration
from quorate.api.decoding.strict import InvalidConfiguration
from tests import fast_yaml
from tests.api.configuration.files import a_file, refusals

SUITE = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"


@pytest.mark.parametrize(
    ("version", "body", "want"),
    [
        pytest.param(
            "v1beta1", "waitForPodsReady: {enable: true, requeuingStrategy: {backoffLimitCount: -1}}",
            "waitForPodsReady.requeuingStrategy.backoffLimitCount: -1 is not a number of retries "
            "(leave the field out to retry without limit, or write 0 or more)", id="a limit of -1",
        ),
        pytest.param(
            "v1beta2", "waitForPodsReady: {requeuingStrategy: {backoffFactor: 0.5}}",
            "waitForPodsReady.requeuingStrategy.backoffFactor: 0.5 is out of range, must be from 1 to 10",
            id="a backoff that becomes shorter",
        ),
        pytest.param(
            "v1beta2", "waitForPodsReady: {requeuingStrategy: {backoffFactor: .nan}}",
            "waitForPodsReady.requeuingStrategy.backoffFactor: NaN is not a number of at most 1e300",
            id="a factor that is no number",
        ),
        pytest.param(
            "v1beta1", "waitForPodsReady: {requeuingStrategy: {timestamp: Eviction | Creation}}",
            "waitForPodsReady.requeuingStrategy.timestamp: 'Eviction | Creation' is not allowed here "
            "(write Eviction or Creation)", id="documented alternatives copied verbatim",
        ),
        pytest.param(
            "v1beta1",
            "waitForPodsReady: {requeuingTimestamp: Creation, requeuingStrategy: {timestamp: Eviction}}",
            "waitForPodsReady.requeuingTimestamp: 'Creation' contradicts requeuingStrategy.timestamp, "
            "which is Eviction (keep the latter)", id="contradicting timestamps",
        ),
        pytest.param(
            "v1beta2", "gangScheduling: {schedulerNames: [Not a name]}",
            "gangScheduling.schedulerNames[0]: 'Not a name' is not the name of a scheduler",
            id="an invalid scheduler name",
        ),
        pytest.param(
            "v1beta2", "waitForPodsReady: {enable: true}",
            "waitForPodsReady.enable: true is not in v1beta2, where it is always enabled "
            "(or set featureGates.DisableWaitForPodsReady)", id="a field of the other version",
        ),
        pytest.param(
            "v1beta2", "waitForPodsReady: {overrides: {shortest: 1h, longest: 5m}}",
            "waitForPodsReady.overrides.longest: '5m' is shorter than shortest "
            "(give a longer one, or leave one out)", id="crossing bounds",
        ),
        pytest.param(
            "v1beta2", "waitForPodsReady: {blockAdmission: true, blockAdmissionScope: Flavor}",
            "waitForPodsReady.blockAdmissionScope: 'Flavor' is not allowed here "
            "(write AllQueues or SameFlavors)", id="an unknown scope",
        ),
        pytest.param(
            "v1beta2", "waitForPodsReady: {unscheduledTimeout: 5m}",
            "waitForPodsReady.unscheduledTimeout: '5m' is alpha "
            "(set featureGates.WaitForPodsReadyUnscheduledTimeout: true)", id="an alpha field",
        ),
        pytest.param(
            "v1beta2", "waitForPodsReady: {timeout: 1m, unscheduledTimeout: 5m}\n"
            "featureGates: {WaitForPodsReadyUnscheduledTimeout: true}",
            "waitForPodsReady.unscheduledTimeout: '5m' is longer than timeout, which is 60s",
            id="a part longer than the whole",
        ),
        pytest.param(
            "v1beta2", "waitForPodsReady: {overrides: {longest: 5m}, maxTimeoutOnWorkload: 5m}",
            "waitForPodsReady.maxTimeoutOnWorkload: '5m' is the same as overrides.longest "
            "(leave overrides.longest out)", id="two names of one field",
        ),
        pytest.param(
            "v1beta2", "metrics: {localQueueMetrics: {localQueueSelector: {matchLabels: {a b: c}}}}",
            "metrics.localQueueMetrics.localQueueSelector.matchLabels[a b]: 'c' is not under the key of a "
            "label (write name or example.com/name)", id="a selector that matches nothing",
        ),
        pytest.param(
            "v1beta2", "waitForPodsReady: {timout: 10m}",
            "waitForPodsReady.timout: '10m' is in an unknown field (did you mean timeout?)", id="a typo",
        ),
        pytest.param(
            "v1beta2", "waitForPodsReady: {timeout: 10}",
            "waitForPodsReady.timeout: 10 is not text (put it in quotes)", id="a number for a duration",
        ),
        pytest.param(
            "v1beta2", "waitForPodsReady: {timeout: 10 minutes}",
            "waitForPodsReady.timeout: '10 minutes' is not a duration (write 10m, 1h30m or 500ms)",
            id="a number in words",
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
            id="system namespaces",
        ),
        pytest.param(
            "v1beta2", "health: {healthProbeBindAddress: ':99999'}",
            "health.healthProbeBindAddress: ':99999' is not an address "
            "(write :8081, 127.0.0.1:8081, or 0 in quotes for none)", id="a port out of range",
        ),
        pytest.param(
            "v1beta2", "visibilityServer: {bindAddress: localhost}",
            "visibilityServer.bindAddress: 'localhost' is not an IP address "
            "(write 127.0.0.1, or 0.0.0.0 for every interface)", id="a host name for an IP address",
        ),
        pytest.param(
            "v1beta2", "leaderElection: {leaseDuration: 1500ms}",
            "leaderElection.leaseDuration: '1500ms' is not a whole number of seconds, "
            "which a Lease requires",
            id="a lease with a fraction of a second",
        ),
        pytest.param(
            "v1beta2", "leaderElection: {leaseDuration: 15s, renewDeadline: 15s}",
            "leaderElection.renewDeadline: '15s' must be less than leaseDuration, which is 15s",
            id="no time to stop leading",
        ),
        pytest.param(
            "v1beta2", "leaderElection: {retryPeriod: 10s}",
            "leaderElection.retryPeriod: '10s' must be less than renewDeadline, which is 10s",
            id="no time to retry",
        ),
        pytest.param(
            "v1beta2", "leaderElection: {resourceLock: configmaps}",
            "leaderElection.resourceLock: 'configmaps' is not allowed here (write leases)",
            id="an obsolete lock type",
        ),
        pytest.param(
            "v1beta2", "integrations: {frameworks: [sparkoperator.k8s.io/sparkapplication]}",
            'integrations.frameworks: ["sparkoperator.k8s.io/sparkapplication"] names '
            "sparkoperator.k8s.io/sparkapplication, which is alpha "
            "(set featureGates.SparkApplicationIntegration: true)", id="an alpha framework without its gate",
        ),
        pytest.param(
            "v1beta2", "integrations: {frameworks: [pod, pod]}",
            "integrations.frameworks[1]: 'pod' is listed twice (keep one)", id="a duplicate framework",
        ),
        pytest.param(
            "v1beta2", "integrations: {podOptions: {}}",
            "integrations.podOptions: {} is in an unknown field "
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
            id="an invalid quantity",
        ),
        pytest.param(
            "v1beta2", "fairSharing: {enable: true}",
            "fairSharing.enable: true is in an unknown field (known here: preemptionStrategies)",
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
            "[LessThanOrEqualToFinalShare, LessThanInitialShare])", id="strategies in an unknown order",
        ),
        pytest.param(
            "v1beta2", f"tls: {{minVersion: VersionTLS13, cipherSuites: [{SUITE}]}}",
            f'tls.cipherSuites: ["{SUITE}"] contradicts minVersion VersionTLS13: its suites are fixed',
            id="cipher suites with TLS 1.3",
        ),
        pytest.param(
            "v1beta2", "metrics: {customLabels: [{name: a}, {name: a}]}",
            "metrics.customLabels[1].name: 'a' names two labels (choose another)", id="a duplicate label",
        ),
        pytest.param(
            "v1beta2", "metrics: {customLabels: [{name: a-b}]}",
            "metrics.customLabels[0].name: 'a-b' is not a name of letters, digits and _ that starts with a "
            "letter", id="an invalid label name",
        ),
        pytest.param(
            "v1beta2", "metrics: {customLabels: [{name: a, sourceKind: Workload, trackedValues: []}]}",
            "metrics.customLabels[0].trackedValues: [] must list 1 to 12 values for sourceKind Workload",
            id="a workload label without tracked values",
        ),
        pytest.param(
            "v1beta2", "metrics: {customLabels: [{name: a, trackedValues: [b, b]}]}",
            'metrics.customLabels[0].trackedValues: ["b", "b"] lists a value twice (leave one out)',
            id="a duplicate value",
        ),
        pytest.param(
            "v1beta2", "metrics: {customLabels: [{name: a, sourceLabelKey: b, sourceAnnotationKey: c}]}",
            "metrics.customLabels[0].sourceAnnotationKey: 'c' contradicts sourceLabelKey "
            "(give one of the two)",
            id="two sources",
        ),
        pytest.param(
            "v1beta1", "queueVisibility: {clusterQueues: {maxCount: 4001}}",
            "queueVisibility.clusterQueues.maxCount: 4001 is out of range, must be 0 to 4000",
            id="a negative count",
        ),
        pytest.param(
            "v1beta2", "resources: {transformations: [{input: a}, {input: a}]}",
            'resources.transformations: [{"input": "a"}, {"input": "a"}] has more than one rule for input a '
            "(merge them)",
            id="two rules for one resource",
        ),
        pytest.param(
            "v1beta2", "integrations: {externalFrameworks: [Foo.v1.a.com, Job.v1.batch]}",
            "integrations.externalFrameworks[1]: 'Job.v1.batch' is queued already (keep one)",
            id="an external kind that is queued here",
        ),
        pytest.param(
            "v1beta2", "integrations: {externalFrameworks: [Foo.v1.a.com, Foo.v2.a.com]}",
            "integrations.externalFrameworks[1]: 'Foo.v2.a.com' is queued already (keep one)",
            id="a duplicate external kind",
        ),
        pytest.param(
            "v1beta2", "integrations: {externalFrameworks: [Foo]}",
            "integrations.externalFrameworks[0]: 'Foo' does not name a kind (write Kind.version.group)",
            id="not a kind",
        ),
        pytest.param(
            "v1beta2", "tls: {minVersion: TLS1.2}",
            "tls.minVersion: 'TLS1.2' is not allowed here (write VersionTLS10 or VersionTLS11 or "
            "VersionTLS12 or VersionTLS13)", id="an unknown TLS version",
        ),
        pytest.param(
            "v1beta2", "tls: {curvePreferences: [X25519, CurveP256]}",
            'tls.curvePreferences: ["X25519", "CurveP256"] lists several curves, and only one is '
            "supported (write one, or leave this out)", id="two curves",
        ),
        pytest.param(
            "v1beta2", "internalCertManagement: {webhookSecretName: A_b}",
            "internalCertManagement.webhookSecretName: 'A_b' is not the name of a Secret",
            id="an invalid name",
        ),
        pytest.param(
            "v1beta2", "webhook: {port: 70000}",
            "webhook.port: 70000 is out of range, must be 1 to 65535", id="an invalid port",
        ),
        pytest.param(
            "v1beta2", "podGroupWebhooks: {minResources: loose}",
            "podGroupWebhooks.minResources: 'loose' is not allowed here (write default or strict or off)",
            id="an unknown mode",
        ),
        pytest.param(
            "v1beta2",
            "podGroupWebhooks: {gatePodsOfPendingGroups: true}\ngangScheduling: {looksAfter: [queues]}",
            "podGroupWebhooks.gatePodsOfPendingGroups: true requires that the gates are removed "
            "(list pods in gangScheduling.looksAfter)",
            id="gates that are not removed",
        ),
        pytest.param(
            "v1beta2",
            "resources: {deviceClassMappings: [{name: pods, deviceClassNames: [a]}]}",
            "resources.deviceClassMappings[0].name: 'pods' is counted by the queue itself, one for each pod "
            "(name another resource)", id="devices that would count as pods",
        ),
        pytest.param(
            "v1beta2",
            "resources: {transformations: [{input: a/b, outputs: {pods: 2}}]}",
            'resources.transformations[0].outputs: {"pods": 2} has the output pods, which is counted by the '
            "queue itself, one for each pod (name another resource)", id="a transformation into pods",
        ),
        pytest.param(
            "v1beta2",
            "resources: {deviceClassMappings: [{name: g, deviceClassNames: [a, a]}]}",
            'resources.deviceClassMappings: [{"name": "g", "deviceClassNames": ["a", "a"]}] '
            "maps device class a twice (to g and g)", id="a device class that counts twice",
        ),
        pytest.param(
            "v1beta2",
            "resources: {deviceClassMappings: [{name: g, deviceClassNames: [a], sources: ["
            "{counter: {name: c, deviceSelector: {cel: {expression: 'true'}}}}]}]}",
            "resources.deviceClassMappings[0].sources[0].counter.driver: is missing",
            id="a source without a driver",
        ),
        pytest.param(
            "v1beta2",
            "resources: {deviceClassMappings: [{name: g, deviceClassNames: [a], sources: ["
            "{counter: {name: c, driver: d, deviceSelector: {cel: {}}}}]}]}",
            'resources.deviceClassMappings[0].sources[0].counter.deviceSelector: {"cel": {}} '
            "has no cel.expression", id="a source without an expression",
        ),
        pytest.param(
            "v1beta2",
            "resources: {deviceClassMappings: [{name: g, deviceClassNames: [a]}, "
            "{name: m, deviceClassNames: [b], sources: [{capacity: {name: memory, driver: d}}]}]}",
            'resources.deviceClassMappings[1].sources[0].capacity: {"name": "memory", "driver": "d"} '
            "requires the feature gate KueueDRAIntegrationConsumableCapacity",
            id="capacities without their gate",
        ),
        pytest.param(
            "v1beta2",
            "resources: {deviceClassMappings: [{name: g, deviceClassNames: [a], sources: [{counter: {}}]}]}\n"
            "featureGates: {KueueDRAIntegrationPartitionableDevices: false}",
            "resources.deviceClassMappings[0].sources[0].counter: {} requires "
            "the feature gate KueueDRAIntegrationPartitionableDevices", id="counters without their gate",
        ),
        pytest.param(
            "v1beta2",
            "resources: {deviceClassMappings: ["
            "{name: g, deviceClassNames: [a], sources: [{counter: "
            "{name: c, driver: d, deviceSelector: {cel: {expression: 'true'}}}}]}, "
            "{name: m, deviceClassNames: [a]}]}",
            'resources.deviceClassMappings: [{"name": "g", "deviceClassNames": ["a"], "sources": '
            '[{"counter": {"name": "c", ... maps device class a twice (to g and m)',
            id="devices and counters of one class",
        ),
        pytest.param(
            "v1beta2",
            "resources: {deviceClassMappings: [{name: g, deviceClassNames: [a], "
            "sources: [{counter: {name: c}, capacity: {name: m}}]}]}",
            'resources.deviceClassMappings[0].sources[0]: {"counter": {"name": "c"}, "capacity": '
            '{"name": "m"}} has not exactly one type (write counter or capacity)',
            id="a source of two types",
        ),
        pytest.param(
            "v1beta2", "networkTopologyDiscovery: [{source: ufm, enabled: true}]",
            "networkTopologyDiscovery[0].source: 'ufm' is not supported (write label, or enabled: false)",
            id="another source of HyperNodes",
        ),
        pytest.param(
            "v1beta2",
            "networkTopologyDiscovery: [{source: label, enabled: true, config: {networkTopologyTypes: "
            "{a: [{nodeLabel: rack}]}}}]",
            'networkTopologyDiscovery[0].config.networkTopologyTypes.a: [{"nodeLabel": "rack"}] '
            "has 1 entries, must have at least 2", id="a topology without levels",
        ),
    ],
)  # fmt: skip
def test_an_invalid_field_is_reported_with_path_value_and_rule(version: str, body: str, want: str) -> None:
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
        "line 8: namespaces: 'x' is in an unknown field (did you mean namespace?)",
        "line 9: webhook.port: 0 is out of range, must be 1 to 65535",
    ]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", "'' contains 0 documents, must hold one of kind Configuration"),
        (
            "a: [",
            "line 1: 'a: [' did not find expected node content",
        ),
        ("hello", "line 1: 'hello' is not a Configuration (write apiVersion, kind and fields)"),
        (
            "kind: ConfigMap",
            "line 1: kind: 'ConfigMap' wraps a file "
            "(give the text under its data.controller_manager_config.yaml)",
        ),
        (
            "kind: Configuration",
            "line 1: apiVersion: null is not known "
            "(write config.kueue.x-k8s.io/v1beta1 or config.kueue.x-k8s.io/v1beta2)",
        ),
        (
            "apiVersion: config.kueue.x-k8s.io/v1\nkind: Configuration\nfoo: bar",
            "line 1: apiVersion: 'config.kueue.x-k8s.io/v1' is not known "
            "(write config.kueue.x-k8s.io/v1beta1 or config.kueue.x-k8s.io/v1beta2)",
        ),
    ],
)
def test_another_kind_of_document_has_one_finding(text: str, want: str) -> None:
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
def corrupted(draw: st.DrawFn) -> tuple[str, Any]:
    """Return a valid configuration with one value replaced, and the first field of its path."""
    body = fast_yaml.load(a_file(EVERYTHING))
    field = draw(st.sampled_from(sorted(body.keys() - {"apiVersion", "kind"})))
    holder: Any = body
    key: Any = field
    while isinstance(holder[key], dict | list) and holder[key] and draw(st.booleans()):
        holder = holder[key]
        key = draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))
    holder[key] = draw(values)
    return field, body


@given(corrupted())
def test_any_value_of_a_field_is_decoded_or_reported_at_its_path(case: tuple[str, Any]) -> None:
    field, body = case
    try:
        load_configuration(dumps(body))
    except InvalidConfiguration as refusal:
        reported = {finding.path.partition(".")[0].partition("[")[0] for finding in refusal.findings}
    else:
        reported = set()
    assert reported <= {field}


def test_the_configuration_is_valid_before_it_is_corrupted() -> None:
    assert load_configuration(a_file(EVERYTHING)).configuration.namespace == "batch"
