"""Validation of manifests of queueing objects beyond their schemas."""

from typing import Any

import pytest

from quorate.api.validation import manifest_findings
from tests import fast_yaml

Json = dict[str, Any]


def findings(kind: str, text: str, version: str = "v1beta2") -> list[str]:
    body = fast_yaml.load(text) or {}
    head = {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": kind, "metadata": {"name": "x"}}
    return [str(finding) for finding in manifest_findings(head | body)]


def groups(*amounts: str, cohort: str = "") -> str:
    """Return a cluster queue with one flavor for each mapping of quotas to cpu."""
    flavors = "".join(
        f"\n    - {{name: f{at}, resources: [{{name: cpu, {each}}}]}}" for at, each in enumerate(amounts)
    )
    head = f"spec:\n  cohortName: {cohort}\n" if cohort else "spec:\n"
    return f"{head}  resourceGroups:\n  - coveredResources: [cpu]\n    flavors:{flavors}\n"


GROUP_0 = "spec.resourceGroups[0]"
QUOTA = f"{GROUP_0}.flavors[0].resources[0]"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(groups("nominalQuota: 4"), [], id="a plain queue"),
        pytest.param(
            groups("nominalQuota: -4"), [f"{QUOTA}.nominalQuota: '-4' is negative, must be at least 0"],
            id="a negative quota",
        ),
        pytest.param(
            groups("nominalQuota: 4, borrowingLimit: 1, lendingLimit: 1"),
            [
                f"{QUOTA}.borrowingLimit: '1' needs spec.cohortName (set that or leave this out)",
                f"{QUOTA}.lendingLimit: '1' needs spec.cohortName (set that or leave this out)",
            ],
            id="limits without a cohort",
        ),
        pytest.param(groups("nominalQuota: 4, borrowingLimit: 0", cohort="c"), [], id="limits with a cohort"),
        pytest.param(
            groups("nominalQuota: 4, lendingLimit: 4001m", cohort="c"),
            [f"{QUOTA}.lendingLimit: '4001m' is more than nominalQuota, at most 4"],
            id="lending more than there is",
        ),
        pytest.param(
            """
            spec:
              resourceGroups:
              - coveredResources: [cpu, memory]
                flavors:
                - name: f
                  resources: [{name: memory, nominalQuota: 1}, {name: cpu, nominalQuota: 1}]
              - coveredResources: [cpu]
                flavors: [{name: f, resources: [{name: cpu, nominalQuota: 1}]}]
            """,
            [
                f"{GROUP_0}.flavors[0].resources: 'memory, cpu' must match coveredResources, "
                "in the same order (cpu, memory)",
                "spec.resourceGroups[1].coveredResources[0]: 'cpu' is given already in "
                f"{GROUP_0}.coveredResources[0] (keep one of them)",
                "spec.resourceGroups[1].flavors[0].name: 'f' is given already in "
                f"{GROUP_0}.flavors[0].name (keep one of them)",
            ],
            id="order and duplicates",
        ),
        pytest.param(
            "spec: {namespaceSelector: {matchLabels: {a b: c}, matchExpressions: [{key: k, operator: In}]}}",
            [
                "spec.namespaceSelector.matchLabels[a b]: 'a b' is not the key of a label "
                "(write name or example.com/name)",
                "spec.namespaceSelector.matchExpressions[0].values: [] must list a value for operator In",
            ],
            id="a selector",
        ),
        pytest.param(
            "spec: {namespaceSelector: {matchExpressions: "
            "[{key: k, operator: Exists, values: [v]}, {key: k, operator: Is}]}}",
            [
                'spec.namespaceSelector.matchExpressions[0].values: ["v"] must be empty for operator Exists',
                "spec.namespaceSelector.matchExpressions[1].operator: 'Is' is not an operator "
                "(write In, NotIn, Exists or DoesNotExist)",
            ],
            id="operators of a selector",
        ),
        pytest.param(
            "spec: {flavorFungibility: {preference: BorrowingOverPreemption}, "
            "preemption: {borrowWithinCohort: {policy: LowerPriority}}}",
            [
                "spec.flavorFungibility.preference: 'BorrowingOverPreemption' needs whenCanBorrow and "
                "whenCanPreempt to be TryNextFlavor (or leave it out)",
                "spec.preemption.borrowWithinCohort.policy: 'LowerPriority' needs reclaimWithinCohort "
                "to be LowerPriority or Any (or write Never)",
            ],
            id="policies that exclude each other",
        ),
        pytest.param(
            groups("nominalQuota: 4")
            + "  admissionChecksStrategy: {admissionChecks: [{name: a, onFlavors: [f0, f9]}]}\n",
            [
                "spec.admissionChecksStrategy.admissionChecks[0].onFlavors[1]: 'f9' is not a flavor "
                "of this queue (known: f0)"
            ],
            id="a check on a flavor of another queue",
        ),
        pytest.param(
            "spec: {fairSharing: {weight: 1n}}",
            [
                "spec.fairSharing.weight: '1n' is too small a share, must be 0 or more than a billionth "
                "(write 1 for an equal share)"
            ],
            id="a weight too small",
        ),
        pytest.param("spec: {fairSharing: {weight: 0}}", [], id="a weight of zero is allowed"),
    ],
)  # fmt: skip
def test_cluster_queues(text: str, want: list[str]) -> None:
    assert findings("ClusterQueue", text) == want


def test_the_totals_of_a_cluster_queue_are_bounded() -> None:
    resources = [f"r{at}" for at in range(64)]
    quotas = [{"name": name, "nominalQuota": 1} for name in resources]
    many = {
        "spec": {
            "resourceGroups": [
                {
                    "coveredResources": resources,
                    "flavors": [{"name": f"f{at}", "resources": quotas} for at in range(9)],
                },
                *(
                    {
                        "coveredResources": [f"s{group}-{at}" for at in range(64)],
                        "flavors": [{"name": f"g{group}", "resources": [
                            {"name": f"s{group}-{at}", "nominalQuota": 1} for at in range(64)]}],
                    }
                    for group in range(4)
                ),
            ]
        }
    }  # fmt: skip
    assert findings("ClusterQueue", fast_yaml.dump(many)) == [
        f"{GROUP_0}: 576 pairs of flavor and resource are too many, at most 512",
        "spec.resourceGroups: 320 resources in all groups are too many, at most 256",
    ]
    flavors = {
        "spec": {
            "resourceGroups": [
                {
                    "coveredResources": [f"r{group}"],
                    "flavors": [
                        {"name": f"f{group}-{at}", "resources": [{"name": f"r{group}", "nominalQuota": 1}]}
                        for at in range(60)
                    ],
                }
                for group in range(5)
            ]
        }
    }
    assert findings("ClusterQueue", fast_yaml.dump(flavors)) == [
        "spec.resourceGroups: 300 flavors in all groups are too many, at most 256"
    ]


def test_v1beta1_objects_follow_the_same_rules() -> None:
    assert findings("ClusterQueue", "spec: {cohort: c}\n", "v1beta1") == []
    text = groups("nominalQuota: 4, borrowingLimit: 1").replace("spec:\n", "spec:\n  cohort: c\n")
    assert findings("ClusterQueue", text, "v1beta1") == []


def test_a_cohort_may_lend_more_than_its_quota_if_it_has_a_parent() -> None:
    text = groups("nominalQuota: 4, lendingLimit: 9")
    assert findings("Cohort", text.replace("spec:\n", "spec:\n  parentName: p\n")) == []
    assert findings("Cohort", text) == [
        f"{QUOTA}.lendingLimit: '9' needs spec.parentName (set that or leave this out)"
    ]


def test_local_queues() -> None:
    assert findings("LocalQueue", "spec: {clusterQueue: c}") == []
    assert findings("LocalQueue", "spec: {fairSharing: {weight: -1}}") == [
        "spec.clusterQueue: '' is missing (name a ClusterQueue)",
        "spec.fairSharing.weight: '-1' is negative, must be at least 0",
    ]


def test_resource_flavors() -> None:
    text = """
    spec:
      nodeLabels: {ok.example.com/a: b, bad: "no spaces"}
      nodeTaints:
      - {key: gpu, value: t4, effect: NoSchedule}
      - {key: gpu, value: a100, effect: NoSchedule}
      - {key: gpu, value: a100, effect: NoExecute}
      - {key: /x, value: a b, effect: NoSchedule}
      tolerations: [{operator: Exists}, {key: a/b/c, operator: Exists}]
    """
    assert findings("ResourceFlavor", text) == [
        "spec.nodeLabels.bad: 'no spaces' is not the value of a label "
        "(at most 63 letters, digits, '-', '_' or '.')",
        "spec.nodeTaints[1].key: 'gpu' with effect NoSchedule is given already in spec.nodeTaints[0] "
        "(keep one of them)",
        "spec.nodeTaints[3].key: '/x' is not the key of a taint (write example.com/name)",
        "spec.nodeTaints[3].value: 'a b' is not the value of a label "
        "(at most 63 letters, digits, '-', '_' or '.')",
        "spec.tolerations[1].key: 'a/b/c' is not the key of a taint (write example.com/name)",
    ]


def test_workloads() -> None:
    text = """
    spec:
      podSets:
      - name: leader
        count: 1
        template:
          spec:
            resources: {limits: {cpu: -1}}
            containers: [{name: a, resources: {requests: {pods: 1}}}]
      - name: workers
        count: 4
        minCount: 5
        template: {metadata: {labels: {a: "b c"}, annotations: {a b: c}}}
      - {name: more, count: 4, minCount: 2, template: {}}
    status:
      admission:
        clusterQueue: q
        podSetAssignments:
        - {name: workers, count: 3, resourceUsage: {cpu: 300m, memory: 4Gi}}
        - {name: others}
        - {name: more, resourceUsage: {cpu: 1m}}
      reclaimablePods: [{name: leader, count: 2}, {name: none, count: 1}]
    """
    assert findings("Workload", text) == [
        "spec.podSets[0].template.spec.containers[0].resources.requests.pods: '1' "
        "must not be requested by pods: "
        "a queue counts them itself",
        "spec.podSets[0].template.spec.resources.limits.cpu: '-1' is negative, must be at least 0",
        "spec.podSets[1].minCount: 5 is more than count, at most 4",
        "spec.podSets[1].template.metadata.labels.a: 'b c' is not the value of a label "
        "(at most 63 letters, digits, '-', '_' or '.')",
        "spec.podSets[1].template.metadata.annotations[a b]: 'a b' is not the key of an annotation "
        "(write name or example.com/name)",
        "spec.podSets: 'workers, more' have a minCount, and at most one podSet can use minCount",
        "status.admission.podSetAssignments[0].resourceUsage.memory: '4Gi' does not divide "
        "evenly among 3 pods",
        "status.admission.podSetAssignments[1].name: 'others' is not a pod set of this workload "
        "(known: leader, more, workers)",
        "status.reclaimablePods[0].count: 2 is more than the pod set holds, at most 1",
        "status.reclaimablePods[1].name: 'none' is not a pod set of this workload "
        "(known: leader, more, workers)",
    ]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"apiVersion": "batch/v1", "kind": "Job"}, id="another kind"),
        pytest.param({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Topology"}, id="a kind without rules"),
        pytest.param({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue"}, id="no metadata"),
        pytest.param(
            {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": {}, "spec": [1]},
            id="a wrong shape",
        ),
        pytest.param(
            {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": {},
             "spec": {"admissionChecks": 5}},
            id="a wrong shape of a converted field",
        ),
    ],
)  # fmt: skip
def test_wrong_shapes_are_left_to_the_api_server(body: Json) -> None:
    assert manifest_findings(body) == []


def test_a_wrong_shape_of_a_pod_template_is_a_finding() -> None:
    """An API server without the schema of the template would store it."""
    text = "spec: {podSets: [{name: main, count: 1, template: {spec: 5}}]}"
    (found,) = findings("Workload", text)
    assert found.startswith('spec.podSets[0].template: {"spec": 5} is no pod template: Expected `object`')
