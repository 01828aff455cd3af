"""Each error in a configuration of queues is found, and a valid configuration has no findings."""

import textwrap
from typing import Any

import pytest
import yaml

from quorate.api import codec
from quorate.api.configuration import load_configuration
from quorate.api.core import Namespace, Node
from quorate.api.kueue import AdmissionCheck, ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Workload
from quorate.inspect.cluster_model import evaluate_all
from quorate.install.preflight.findings import PreflightFinding, Severity
from quorate.install.preflight.queue_checks import QueueSetup, queue_findings
from quorate.queueing.state import State
from tests.api.configuration.files import a_file

VALID = """
ResourceFlavor default: {}
ClusterQueue research:
  spec:
    cohortName: science
    namespaceSelector: {}
    preemption: {reclaimWithinCohort: Any}
    resourceGroups:
    - coveredResources: [cpu]
      flavors: [{name: default, resources: [{name: cpu, nominalQuota: 4}]}]
ClusterQueue teaching:
  spec:
    cohortName: science
    namespaceSelector: {}
    preemption: {reclaimWithinCohort: Any}
    resourceGroups:
    - coveredResources: [cpu]
      flavors: [{name: default, resources: [{name: cpu, nominalQuota: 4}]}]
LocalQueue main: {spec: {clusterQueue: research}}
LocalQueue course: {spec: {clusterQueue: teaching}}
Node one: {status: {allocatable: {cpu: 8}}}
"""  # fmt: skip


def findings_of(documents: str, *, nodes_readable: bool = True, gates: str = "{}") -> list[PreflightFinding]:
    """Return the findings about objects written ``Kind name: fields``, in the namespace ``default``."""
    state = State(load_configuration(a_file(f"featureGates: {gates}")).configuration)
    namespaces = [codec.convert(Namespace, {"metadata": {"name": "default"}})]
    nodes: list[Node] = []
    local_queues: list[LocalQueue] = []
    workloads: list[Workload] = []
    for title, fields in yaml.safe_load(documents).items():
        kind, name = title.split()
        body: dict[str, Any] = {**fields, "metadata": {"name": name, **fields.get("metadata", {})}}
        match kind:
            case "ResourceFlavor":
                state.put_flavor(codec.convert(ResourceFlavor, body))
            case "Cohort":
                state.put_cohort(codec.convert(Cohort, body))
            case "AdmissionCheck":
                state.put_admission_check(codec.convert(AdmissionCheck, body))
            case "ClusterQueue":
                state.put_cluster_queue(codec.convert(ClusterQueue, body))
            case "Node":
                nodes.append(codec.convert(Node, body))
            case "LocalQueue":
                body["metadata"]["namespace"] = "default"
                local_queues.append(codec.convert(LocalQueue, body))
            case "Workload":
                body["metadata"] |= {
                    "namespace": "default", "uid": name, "creationTimestamp": "2030-01-01T00:00:00Z"
                }  # fmt: skip
                workloads.append(codec.convert(Workload, body))
            case _:
                raise ValueError(kind)
    for namespace in namespaces:
        state.put_namespace(namespace.metadata.name, namespace.metadata.labels)
    for local in local_queues:
        state.put_local_queue(local)
    for workload in workloads:
        state.put_workload(workload, 0.0)
    decided = evaluate_all(state, 0.0)
    readable = nodes if nodes_readable else None
    return list(queue_findings(QueueSetup(state, decided, namespaces, readable, local_queues)))


def workload(name: str, requests: str, queue: str = "main") -> str:
    return f"""
    Workload {name}:
      spec:
        queueName: {queue}
        podSets:
        - name: main
          count: 1
          template: {{spec: {{containers: [{{name: m, resources: {{requests: {requests}}}}}]}}}}
    """


def test_a_valid_configuration_has_no_findings() -> None:
    assert findings_of(VALID) == []
    assert findings_of(VALID + textwrap.dedent(workload("train", "{cpu: 2}"))) == []


@pytest.mark.parametrize(
    ("old", "new", "severity", "about", "says"),
    [
        pytest.param(
            "ResourceFlavor default", "ResourceFlavor other", "error", "cluster queue research",
            "references missing ResourceFlavor(s): default, so it admits nothing", id="a flavor is missing",
        ),
        pytest.param(
            "namespaceSelector: {}", "stopPolicy: Hold\n    namespaceSelector: {}", "info",
            "cluster queue research", "is stopped", id="a queue is stopped",
        ),
        pytest.param(
            "    namespaceSelector: {}\n", "", "error", "cluster queue research",
            "it has no namespaceSelector, so no namespace may use it", id="no namespaceSelector",
        ),
        pytest.param(
            "namespaceSelector: {}", "namespaceSelector: {matchLabels: {team: a}}", "error",
            "local queue default/main", "cluster queue research does not select namespace default",
            id="the namespace of a local queue is not selected",
        ),
        pytest.param(
            "namespaceSelector: {}", "namespaceSelector: {matchLabels: {team: a}}", "warning",
            "cluster queue research", "its namespaceSelector matches no namespace",
            id="the selector matches no namespace",
        ),
        pytest.param(
            "clusterQueue: research", "clusterQueue: reserch", "error", "local queue default/main",
            "its cluster queue reserch does not exist", id="the cluster queue of a local queue is missing",
        ),
        pytest.param(
            "clusterQueue: research", "clusterQueue: teaching", "info", "cluster queue research",
            "no local queue references it", id="no local queue",
        ),
        pytest.param(
            "    cohortName: science\n", "", "warning", "cluster queue research",
            "reclaimWithinCohort is Any, but it has no cohort", id="reclaim without a cohort",
        ),
        pytest.param(
            "nominalQuota: 4}", "nominalQuota: 4, borrowingLimit: 2}", "", "", "",
            id="limits within a cohort",
        ),
        pytest.param(
            "reclaimWithinCohort: Any", "reclaimWithinCohort: Never", "warning", "cluster queue research",
            "queues of its cohort may borrow all its default/cpu, and it cannot reclaim it",
            id="lending without reclaim",
        ),
        pytest.param(
            "{cpu: 8}", "{cpu: 6}", "warning", "flavor default",
            "nominalQuota of cluster queues and cohorts is 8 cpu, but its 1 nodes have 6", id="too few nodes",
        ),
        pytest.param(
            "ResourceFlavor default: {}", "ResourceFlavor default: {spec: {nodeLabels: {zone: b}}}",
            "warning", "flavor default", "no node has its nodeLabels zone=b", id="no node of a flavor",
        ),
        pytest.param(
            "Node one",
            "AdmissionCheck far: {spec: {controllerName: kueue.x-k8s.io/multikueue}}\nNode one",
            "warning", "admission check far",
            "it gives workloads to worker clusters, and is not active: not evaluated yet", id="MultiKueue",
        ),
        pytest.param(
            "Node one",
            "AdmissionCheck made: {spec: {controllerName: kueue.x-k8s.io/provisioning-request}}\nNode one",
            "warning", "admission check made", "it creates ProvisioningRequests, and is not active",
            id="provisioning",
        ),
        pytest.param(
            "Node one", "AdmissionCheck unused: {}\nNode one", "", "", "", id="an unused check"
        ),
        pytest.param(
            "    resourceGroups",
            "    admissionChecksStrategy: {admissionChecks: [{name: budget}]}\n    resourceGroups",
            "error", "cluster queue research", "references missing AdmissionCheck(s): budget",
            id="a check is missing",
        ),
        pytest.param(
            "    resourceGroups",
            "    concurrentAdmissionPolicy: {migration: {mode: RetainFirstAdmission}}\n    resourceGroups",
            "warning", "cluster queue research", "concurrent admission is not supported",
            id="concurrent admission",
        ),
    ],
)  # fmt: skip
def test_an_error_is_found(old: str, new: str, severity: str, about: str, says: str) -> None:
    found = findings_of(VALID.replace(old, new, 1))
    if not severity:
        assert found == []
        return
    matching = [finding for finding in found if finding.about == about and finding.says.startswith(says)]
    assert [finding.severity for finding in matching] == [Severity(severity)], found


def test_a_topology_has_no_effect_while_topology_aware_scheduling_is_off() -> None:
    documents = VALID.replace(
        "ResourceFlavor default: {}", "ResourceFlavor default: {spec: {topologyName: t}}"
    )
    (found,) = findings_of(documents, gates="{TopologyAwareScheduling: false}")
    assert (found.severity, found.about) == (Severity("warning"), "flavor default")
    assert found.says.startswith("topologyName is t, but topology-aware scheduling is off")


def test_limits_without_a_cohort_are_found() -> None:
    alone = VALID.replace("    cohortName: science\n", "").replace(
        "nominalQuota: 4}", "nominalQuota: 4, lendingLimit: 1}", 1
    )
    texts = [finding.says for finding in findings_of(alone) if "borrowingLimit" in finding.says]
    assert texts == ["it has a borrowingLimit or lendingLimit for default/cpu, but no cohort"]


def test_a_cohort_with_one_member_is_reported() -> None:
    found = findings_of(VALID.replace("cohortName: science", "cohortName: lonely", 1))
    assert [finding.about for finding in found] == ["cohort lonely", "cohort science"]


def test_a_cycle_of_cohorts_is_found_with_the_queues_it_stops() -> None:
    cycle = "Cohort science: {spec: {parentName: faculty}}\nCohort faculty: {spec: {parentName: science}}\n"
    (finding,) = (finding for finding in findings_of(VALID + cycle) if finding.severity is Severity.ERROR)
    assert finding.about == "cohorts faculty, science"
    assert finding.says == (
        "their parents form a cycle; these cluster queues admit nothing: research, teaching"
    )


def test_workloads_that_request_an_uncovered_resource_are_counted() -> None:
    pending = "".join(textwrap.dedent(workload(name, "{cpu: 1, gpu: 1}")) for name in ("one", "two"))
    (finding,) = (finding for finding in findings_of(VALID + pending) if finding.severity is Severity.ERROR)
    assert finding.about == "cluster queue research"
    assert finding.says == ("2 workloads, such as default/one, wait for gpu, which no resource group covers")


def test_workloads_of_a_missing_local_queue_are_counted() -> None:
    (finding,) = findings_of(VALID + textwrap.dedent(workload("one", "{cpu: 1}", queue="mian")))
    assert (finding.severity, finding.about) == (Severity.ERROR, "local queue default/mian")
    assert finding.says == "default/one waits for it, and it does not exist"


def test_a_first_workload_that_can_never_start_blocks_a_strict_queue() -> None:
    strict = VALID.replace("    resourceGroups", "    queueingStrategy: StrictFIFO\n    resourceGroups", 1)
    pending = "".join(
        textwrap.dedent(workload(name, f"{{cpu: {cpu}}}")) for name, cpu in (("a", 9), ("b", 1))
    )
    (finding,) = findings_of(strict + pending)
    assert (finding.severity, finding.about) == (Severity.ERROR, "cluster queue research")
    assert (
        finding.says == "default/a can never start, and blocks the queue, because its strategy is StrictFIFO"
    )
    (finding,) = findings_of(VALID + pending)
    assert (finding.severity, finding.about) == (Severity.WARNING, "workload default/a")


def test_nodes_that_cannot_be_read_are_not_reported_as_missing() -> None:
    assert findings_of(VALID.replace("{cpu: 8}", "{cpu: 1}"), nodes_readable=False) == []
