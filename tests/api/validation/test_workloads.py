"""Validation of workloads at creation and update."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.configuration.feature_gates import WebhookGates, webhook_gates
from quorate.api.kueue import Workload
from quorate.api.validation.workloads import workload_findings, workload_update_findings
from tests import fast_yaml

Json = dict[str, Any]
NO_GATES = WebhookGates()

RESERVED = "{type: QuotaReserved, status: 'True', reason: QuotaReserved, message: ''}"
ADMISSION = "{clusterQueue: q, podSetAssignments: [{name: main, count: 3}]}"


def a_workload(text: str) -> Workload:
    body = fast_yaml.load(text) or {}
    return codec.convert(Workload, {"metadata": {"name": "w"}} | body)


def findings(text: str, gates: WebhookGates = NO_GATES) -> list[str]:
    return [str(finding) for finding in workload_findings(a_workload(text), gates)]


def update_findings(old: str, new: str, gates: WebhookGates = NO_GATES) -> list[str]:
    return [str(each) for each in workload_update_findings(a_workload(old), a_workload(new), gates)]


def reserved(pod_sets: str = "{name: main, count: 3}", status: str = "", metadata: str = "{name: w}") -> str:
    more = f", {status}" if status else ""
    return (
        f"metadata: {metadata}\nspec: {{podSets: [{pod_sets}]}}\n"
        f"status: {{conditions: [{RESERVED}], admission: {ADMISSION}{more}}}"
    )


GATED = "metadata.annotations[kueue.x-k8s.io/admission-gated-by]"


def gated(value: str) -> str:
    return f"metadata: {{name: w, annotations: {{kueue.x-k8s.io/admission-gated-by: '{value}'}}}}"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("spec: {podSets: [{count: 3}]}", [], id="a plain workload"),
        pytest.param("spec: {podSets: [{count: 0}]}", [], id="zero pods"),
        pytest.param(
            "spec: {podSets: [{name: a, count: 3, minCount: 1}]}\n"
            "metadata: {name: w, annotations: {kueue.x-k8s.io/elastic-job: 'true'}}",
            [
                "spec.podSets: 'a' has a minCount, which cannot be used with annotation "
                "kueue.x-k8s.io/elastic-job (leave one out)"
            ],
            id="elastic and partial at once",
        ),
        pytest.param(
            "spec: {podSets: [{topologyRequest: {podSetSliceSize: 0}}, "
            "{topologyRequest: {podSetSliceRequiredTopology: rack}}]}",
            [
                "spec.podSets[0].topologyRequest.podSetSliceSize: 0 may not be set when "
                "podSetSliceRequiredTopology is not specified",
                "spec.podSets[1].topologyRequest.podSetSliceSize: null must be set when "
                "podSetSliceRequiredTopology is specified",
            ],
            id="an incomplete slice request",
        ),
        pytest.param(
            "spec: {podSets: [{count: 1}]}\n"
            "status: {admissionChecks: [{name: c, state: Ready, podSetUpdates: ["
            "{name: main, labels: {'@a': b}, annotations: {'@b': x}, nodeSelector: {a: '@c'}, "
            "tolerations: [{key: '@d'}]}, {name: third}]}]}",
            [
                "status.admissionChecks[0].podSetUpdates[0].labels[@a]: '@a' is not the key of a label "
                "(write name or example.com/name)",
                "status.admissionChecks[0].podSetUpdates[0].annotations[@b]: '@b' is not the key of an "
                "annotation (write name or example.com/name)",
                "status.admissionChecks[0].podSetUpdates[0].nodeSelector.a: '@c' is not the value of a "
                "label (at most 63 letters, digits, '-', '_' or '.')",
                "status.admissionChecks[0].podSetUpdates[0].tolerations[0].key: '@d' is not the key of a "
                "taint (write example.com/name)",
                "status.admissionChecks[0].podSetUpdates[1].name: 'third' is not a pod set of this workload "
                "(known: main)",
            ],
            id="pod set updates of a check",
        ),
        pytest.param(
            "spec: {podSets: [{name: a, count: 3, minCount: 1}, {name: b, count: 3, minCount: 1}]}\n"
            "metadata: {name: w, ownerReferences: "
            "[{apiVersion: batch/v1, kind: Job, name: j, uid: u, controller: true}]}",
            [],
            id="several variable pod sets of a job",
        ),
        pytest.param(
            f"status: {{conditions: [{RESERVED}]}}",
            [
                "status.admission: is missing while the condition QuotaReserved is True "
                "(write both, or set the condition False)"
            ],
            id="a reservation without admission",
        ),
        pytest.param(gated(""), [], id="no gate"),
        pytest.param(gated("example.com/budget,example.com/data"), [], id="two gates"),
        pytest.param(
            gated("example.com/a,,plain,example.com/a"),
            [
                f"{GATED}: '' is not a gate (write example.com/name, at most 63 characters)",
                f"{GATED}: 'plain' is not a gate (write example.com/name, at most 63 characters)",
                f"{GATED}: 'example.com/a' is named twice (name it once)",
            ],
            id="invalid gates",
        ),
        pytest.param(
            gated("example.com/" + "g" * 52),
            [
                f"{GATED}: 'example.com/{'g' * 52}' is not a gate "
                "(write example.com/name, at most 63 characters)"
            ],
            id="a gate that is too long",
        ),
        pytest.param(
            "spec: {podSets: [{template: {spec: text}}]}",
            [
                'spec.podSets[0].template: {"spec": "text"} is no pod template: '
                "Expected `object`, got `str` - at `$.spec`"
            ],
            id="a template of another type",
        ),
    ],
)
def test_a_workload(text: str, want: list[str]) -> None:
    assert findings(text) == want


@pytest.mark.parametrize(
    ("gate", "text", "want"),
    [
        pytest.param(
            "TASValidateWorkloadSliceSize",
            "spec: {podSets: [{topologyRequest: {podSetSliceSize: 2}}]}",
            "spec.podSets[0].topologyRequest.podSetSliceSize: 2 may not be set when "
            "podSetSliceRequiredTopology is not specified",
            id="incomplete slices",
        ),
        pytest.param(
            "WorkloadValidateResourcesAreNonNegative",
            "spec: {podSets: [{template: {spec: {containers: [{resources: {requests: {cpu: -1}}}]}}}]}",
            "spec.podSets[0].template.spec.containers[0].resources.requests.cpu: '-1' is negative, "
            "must be at least 0",
            id="negative requests",
        ),
        pytest.param(
            "WorkloadValidationForPodSetMetadata",
            "spec: {podSets: [{template: {metadata: {labels: {a: b c}}}}]}",
            "spec.podSets[0].template.metadata.labels.a: 'b c' is not the value of a label "
            "(at most 63 letters, digits, '-', '_' or '.')",
            id="labels of pods",
        ),
        pytest.param(
            "PriorityBoost",
            "metadata: {name: w, annotations: {kueue.x-k8s.io/priority-boost: high}}",
            "metadata.annotations[kueue.x-k8s.io/priority-boost]: 'high' is not an integer (write 10 or -10)",
            id="a boost",
        ),
    ],
)
def test_a_gate_enables_its_rule(gate: str, text: str, want: str) -> None:
    assert findings(text, webhook_gates({gate: True})) == [want]
    assert findings(text, webhook_gates({gate: False})) == []


def test_a_priority_boost_is_a_signed_integer() -> None:
    gates = webhook_gates({"PriorityBoost": True})
    boosted = "metadata: {{name: w, annotations: {{kueue.x-k8s.io/priority-boost: '{}'}}}}"
    assert [bool(findings(boosted.format(text), gates)) for text in ("10", "-10", "+1", "", "1.5")] == [
        False, False, False, True, True,
    ]  # fmt: skip


PODS = "{name: main, count: 3}"
RECLAIMED = "reclaimablePods: [{name: main, count: 2}]"
READY = "admissionChecks: [{{name: c, state: {}, podSetUpdates: [{{name: main, labels: {{a: {}}}}}]}}]"


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param("spec: {podSets: [{count: 1}]}", "spec: {podSets: [{count: 2}]}", [],
            id="no reservation"),
        pytest.param(
            reserved(), reserved("{name: main, count: 4}"),
            ["spec.podSets[0].count: 4 cannot change while quota is reserved (it was 3)"], id="growing",
        ),
        pytest.param(reserved(), reserved("{name: main, count: 2}"), [], id="shrinking"),
        pytest.param(
            reserved(), reserved("{name: main, count: 3, template: {spec: {nodeName: x}}}"),
            ["spec.podSets[0]: 'main' cannot change while quota is reserved (evict the workload first)"],
            id="another template",
        ),
        pytest.param(
            reserved("{name: main, count: 3, template: {spec: {nodeName: x, hostNetwork: true}}}"),
            reserved("{name: main, count: 3, template: {spec: {hostNetwork: true, nodeName: x}}}"),
            [], id="the same template in another order",
        ),
        pytest.param(
            reserved("{name: main, count: 3, template: {spec: {nodeName: x}}}"),
            reserved("{name: main, count: 3, template: {metadata: {}, spec: {nodeName: x, volumes: []}}}"),
            [], id="empty values, as clients in Go write them",
        ),
        pytest.param(
            reserved("{name: main, count: 3, template: {spec: {containers: [{tty: false, "
                     "resources: {requests: {cpu: 1, memory: 1024Mi}}, "
                     "livenessProbe: {periodSeconds: 0}}]}}}"),
            reserved("{name: main, count: 3, template: {spec: {containers: [{livenessProbe: {}, "
                     'resources: {requests: {cpu: "1", memory: 1Gi}}}]}}}'),
            [], id="the same template as a client in Go writes it",
        ),
        pytest.param(
            reserved("{name: main, count: 3, template: {spec: {containers: "
                     "[{resources: {requests: {cpu: 1}}}]}}}"),
            reserved("{name: main, count: 3, template: {spec: {containers: "
                     "[{resources: {requests: {cpu: 1001m}}}]}}}"),
            ["spec.podSets[0]: 'main' cannot change while quota is reserved (evict the workload first)"],
            id="a larger request",
        ),
        pytest.param(
            reserved("{name: main, count: 3, template: {spec: {volumes: [{name: v, emptyDir: {}}]}}}"),
            reserved("{name: main, count: 3, template: {spec: {volumes: [{name: v}]}}}"),
            ["spec.podSets[0]: 'main' cannot change while quota is reserved (evict the workload first)"],
            id="an empty value that says something",
        ),
        pytest.param(
            reserved(), reserved("{name: main, count: 3, topologyRequest: {required: rack}}"),
            ["spec.podSets[0]: 'main' cannot change while quota is reserved (evict the workload first)"],
            id="another topology",
        ),
        pytest.param(
            reserved(), reserved(f"{PODS}, {{name: more, count: 1}}"),
            ["spec.podSets: 2 is a number that cannot change while quota is reserved"], id="one more pod set",
        ),
        pytest.param(
            reserved(), reserved().replace("clusterQueue: q", "clusterQueue: other"),
            ["status.admission: 'other' cannot become another one (it is in q; take it back first)"],
            id="another admission",
        ),
        pytest.param(
            reserved(), reserved().replace("count: 3}]", "count: 3, topologyAssignment: {levels: [rack]}}]"),
            [], id="a topology that is assigned later",
        ),
        pytest.param(
            reserved().replace("count: 3}]", "count: 3, delayedTopologyRequest: Pending}]"),
            reserved().replace("count: 3}]", "count: 3, delayedTopologyRequest: Ready}]"),
            [], id="a delayed topology that is ready",
        ),
        pytest.param(reserved(), f"spec: {{podSets: [{PODS}]}}", [], id="removed admission"),
        pytest.param(reserved(), reserved(status=RECLAIMED), [], id="reclaimed pods"),
        pytest.param(
            reserved(status=RECLAIMED), reserved(status="reclaimablePods: [{name: main, count: 1}]"),
            [
                "status.reclaimablePods.main.count: 1 cannot become less while quota is reserved, "
                "at least 2"
            ], id="fewer reclaimed pods",
        ),
        pytest.param(
            reserved(status=RECLAIMED),
            reserved(status="reclaimablePods: [{name: main, count: 1}]").replace(
                "conditions: [", "conditions: [{type: quorate.dev/PodsRunAgain, status: 'True'}, "
            ),
            [], id="pods that run again, as a condition tells",
        ),
        pytest.param(
            reserved(status=RECLAIMED), reserved(),
            ["status.reclaimablePods.main: null cannot disappear while quota is reserved (it was 2)"],
            id="removed reclaimable pods",
        ),
        pytest.param(
            reserved(status=RECLAIMED), f"spec: {{podSets: [{PODS}]}}", [],
            id="removed together with the reservation",
        ),
        pytest.param(
            reserved(status=RECLAIMED),
            reserved("{name: main, count: 1}", "reclaimablePods: [{name: main, count: 1}]",
                     "{name: w, annotations: {kueue.x-k8s.io/elastic-job: 'true'}}"),
            [], id="an elastic job that shrinks",
        ),
        pytest.param(
            reserved(status=RECLAIMED),
            reserved("{name: main, count: 1}", RECLAIMED,
                     "{name: w, annotations: {kueue.x-k8s.io/elastic-job: 'true'}}"),
            [], id="an elastic job that shrinks below its finished pods",
        ),
        pytest.param(
            reserved(status=RECLAIMED),
            reserved("{name: main, count: 1}", "reclaimablePods: [{name: main, count: 3}]",
                     "{name: w, annotations: {kueue.x-k8s.io/elastic-job: 'true'}}"),
            ["status.reclaimablePods[0].count: 3 is more than the pod set holds, at most 1"],
            id="an elastic job with more finished pods than its size",
        ),
        pytest.param(
            reserved(status=RECLAIMED),
            reserved("{name: main, count: 2}", "",
                     "{name: w, annotations: {kueue.x-k8s.io/elastic-job: 'true'}}"),
            [], id="an elastic job that has shrunk since its admission",
        ),
        pytest.param(
            reserved(status=RECLAIMED),
            reserved(PODS, "", "{name: w, annotations: {kueue.x-k8s.io/elastic-job: 'true'}}"),
            [], id="an elastic job that is about to shrink",
        ),
        pytest.param(
            "status: {nominatedClusterNames: [a, b]}", "status: {clusterName: b}", [],
            id="a nominated cluster",
        ),
        pytest.param(
            "status: {nominatedClusterNames: [b, a]}", "status: {clusterName: c}",
            ["status.clusterName: 'c' is none of the nominatedClusterNames (known: a, b)"],
            id="a cluster that was not nominated",
        ),
        pytest.param("status: {clusterName: b}", "status: {clusterName: b}", [], id="the current cluster"),
        pytest.param(
            "{}",
            "metadata: {annotations: {kueue.x-k8s.io/workload-slice-replacement-for: ns/old}}\n"
            "status: {clusterName: b}", [], id="a slice in the cluster of its predecessor",
        ),
        pytest.param(
            reserved(status=READY.format("Ready", "b")), reserved(status=READY.format("Ready", "c")),
            ['status.admissionChecks[0].podSetUpdates: ["main"] cannot change while the check stays Ready'],
            id="changed updates of a ready check",
        ),
        pytest.param(
            reserved(status=READY.format("Ready", "b")), reserved(status=READY.format("Pending", "c")), [],
            id="a check that restarts",
        ),
        pytest.param(
            f"status: {{conditions: [{RESERVED}]}}",
            f"metadata: {{name: w, labels: {{a: b}}}}\nstatus: {{conditions: [{RESERVED}]}}", [],
            id="an invalid object can be repaired in steps",
        ),
        pytest.param(gated("a.b/c,a.b/d"), gated("a.b/d"), [], id="a removed gate"),
        pytest.param(
            "metadata: {name: w}", gated("a.b/c"),
            [f"{GATED}: 'a.b/c' cannot be added later (gates are given when the object is created)"],
            id="an added gate",
        ),
    ],
)  # fmt: skip
def test_an_update(old: str, new: str, want: list[str]) -> None:
    assert update_findings(old, new) == want


def test_without_elastic_jobs_pod_sets_cannot_shrink() -> None:
    gates = webhook_gates({"ElasticJobsViaWorkloadSlices": False})
    assert update_findings(reserved(), reserved("{name: main, count: 2}"), gates) == [
        "spec.podSets[0].count: 2 cannot change while quota is reserved (it was 3)"
    ]
