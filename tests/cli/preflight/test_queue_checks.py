"""Each mistake in a configuration of queues is found, and one without mistakes is let be."""

import textwrap
from typing import Any

import pytest
import yaml

from quorate.api import codec
from quorate.api.configuration import default_configuration
from quorate.api.core import Namespace, Node
from quorate.api.kueue import AdmissionCheck, ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Workload
from quorate.cli.preflight.findings import PreflightFinding, Severity
from quorate.cli.preflight.queue_checks import QueueSetup, queue_findings
from quorate.cli.verbs.cluster_model import evaluate_all
from quorate.queueing.state import State

SOUND = """
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


def looked_at(documents: str, *, may_see_nodes: bool = True) -> list[PreflightFinding]:
    """The remarks on objects written as ``Kind name: fields``; namespaced ones are in ``default``."""
    state = State(default_configuration())
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
    seen = nodes if may_see_nodes else None
    return list(queue_findings(QueueSetup(state, decided, namespaces, seen, local_queues)))


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


def test_nothing_is_said_of_a_sound_configuration() -> None:
    assert looked_at(SOUND) == []
    assert looked_at(SOUND + textwrap.dedent(workload("train", "{cpu: 2}"))) == []


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
            "it has no namespaceSelector, which means that no namespace may use it", id="nobody is selected",
        ),
        pytest.param(
            "namespaceSelector: {}", "namespaceSelector: {matchLabels: {team: a}}", "error",
            "local queue default/main", "cluster queue research does not select namespace default",
            id="the namespace of a local queue is not selected",
        ),
        pytest.param(
            "namespaceSelector: {}", "namespaceSelector: {matchLabels: {team: a}}", "warning",
            "cluster queue research", "its namespaceSelector matches no namespace there is",
            id="the selector selects nobody",
        ),
        pytest.param(
            "clusterQueue: research", "clusterQueue: reserch", "error", "local queue default/main",
            "it leads to cluster queue reserch, which does not exist", id="a local queue leads nowhere",
        ),
        pytest.param(
            "clusterQueue: research", "clusterQueue: teaching", "info", "cluster queue research",
            "no local queue leads to it", id="nobody leads to a queue",
        ),
        pytest.param(
            "    cohortName: science\n", "", "warning", "cluster queue research",
            "reclaimWithinCohort is Any, but it is in no cohort", id="reclaiming from nobody",
        ),
        pytest.param(
            "nominalQuota: 4}", "nominalQuota: 4, borrowingLimit: 2}", "", "", "",
            id="limits within a cohort",
        ),
        pytest.param(
            "reclaimWithinCohort: Any", "reclaimWithinCohort: Never", "warning", "cluster queue research",
            "others of its cohort may borrow all its default/cpu, and it may not take that back",
            id="lending without getting back",
        ),
        pytest.param(
            "{cpu: 8}", "{cpu: 6}", "warning", "flavor default",
            "cluster queues and cohorts promise 8 cpu of it, and its 1 nodes have 6", id="too few nodes",
        ),
        pytest.param(
            "ResourceFlavor default: {}", "ResourceFlavor default: {spec: {nodeLabels: {zone: b}}}",
            "warning", "flavor default", "no node has its labels zone=b", id="no node of a flavor",
        ),
        pytest.param(
            "ResourceFlavor default: {}", "ResourceFlavor default: {spec: {topologyName: racks}}",
            "warning", "flavor default", "it names topology racks, and there is no topology-aware scheduling",
            id="a topology",
        ),
        pytest.param(
            "Node one",
            "AdmissionCheck far: {spec: {controllerName: kueue.x-k8s.io/multikueue}}\nNode one",
            "warning", "admission check far", "it is for MultiKueue, which is not here", id="MultiKueue",
        ),
        pytest.param(
            "Node one",
            "AdmissionCheck made: {spec: {controllerName: kueue.x-k8s.io/provisioning-request}}\nNode one",
            "warning", "admission check made", "it asks an autoscaler for capacity, and is not active",
            id="capacity",
        ),
        pytest.param(
            "Node one", "AdmissionCheck unused: {}\nNode one", "", "", "", id="a check that nobody asks for"
        ),
        pytest.param(
            "    resourceGroups",
            "    admissionChecksStrategy: {admissionChecks: [{name: budget}]}\n    resourceGroups",
            "error", "cluster queue research", "references missing AdmissionCheck(s): budget",
            id="a check is missing",
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_found(old: str, new: str, severity: str, about: str, says: str) -> None:
    found = looked_at(SOUND.replace(old, new, 1))
    if not severity:
        assert found == []
        return
    said = [finding for finding in found if finding.about == about and finding.says.startswith(says)]
    assert [finding.severity for finding in said] == [Severity(severity)], found


def test_limits_without_a_cohort_are_found() -> None:
    alone = SOUND.replace("    cohortName: science\n", "").replace(
        "nominalQuota: 4}", "nominalQuota: 4, lendingLimit: 1}", 1
    )
    said = [finding.says for finding in looked_at(alone) if "limits borrowing" in finding.says]
    assert said == ["it limits borrowing or lending of default/cpu, but is in no cohort"]


def test_a_cohort_of_one_has_nobody_to_borrow_from() -> None:
    found = looked_at(SOUND.replace("cohortName: science", "cohortName: lonely", 1))
    assert [finding.about for finding in found] == ["cohort lonely", "cohort science"]


def test_a_circle_of_cohorts_is_found_with_who_stands_still() -> None:
    circle = "Cohort science: {spec: {parentName: faculty}}\nCohort faculty: {spec: {parentName: science}}\n"
    (finding,) = (finding for finding in looked_at(SOUND + circle) if finding.severity is Severity.ERROR)
    assert finding.about == "cohorts faculty, science"
    assert finding.says == "their parents lead round in a circle; these admit nothing: research, teaching"


def test_work_that_asks_for_what_is_not_covered_is_counted() -> None:
    pending = "".join(textwrap.dedent(workload(name, "{cpu: 1, gpu: 1}")) for name in ("one", "two"))
    (finding,) = (finding for finding in looked_at(SOUND + pending) if finding.severity is Severity.ERROR)
    assert finding.about == "cluster queue research"
    assert finding.says == (
        "2 workloads, such as default/one, wait for gpu, which none of its resource groups covers"
    )


def test_work_for_a_local_queue_that_is_not_there_is_counted() -> None:
    (finding,) = looked_at(SOUND + textwrap.dedent(workload("one", "{cpu: 1}", queue="mian")))
    assert (finding.severity, finding.about) == (Severity.ERROR, "local queue default/mian")
    assert finding.says == "default/one waits for it, and it does not exist"


def test_a_first_one_that_can_never_start_blocks_a_strict_queue() -> None:
    strict = SOUND.replace("    resourceGroups", "    queueingStrategy: StrictFIFO\n    resourceGroups", 1)
    pending = "".join(
        textwrap.dedent(workload(name, f"{{cpu: {cpu}}}")) for name, cpu in (("a", 9), ("b", 1))
    )
    (finding,) = looked_at(strict + pending)
    assert (finding.severity, finding.about) == (Severity.ERROR, "cluster queue research")
    assert (
        finding.says == "default/a can never start, and since its strategy is StrictFIFO nobody behind it can"
    )
    (finding,) = looked_at(SOUND + pending)
    assert (finding.severity, finding.about) == (Severity.WARNING, "workload default/a")


def test_nodes_that_may_not_be_seen_are_not_missed() -> None:
    assert looked_at(SOUND.replace("{cpu: 8}", "{cpu: 1}"), may_see_nodes=False) == []
