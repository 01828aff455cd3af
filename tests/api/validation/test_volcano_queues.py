"""Validation of Volcano pod groups and queues beyond their schemas."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.findings import Finding
from quorate.api.validation import manifest_findings
from quorate.api.validation.pod_groups import (
    QueueLoad,
    pod_group_findings,
    pod_group_limit_findings,
    pod_group_queue_findings,
)
from quorate.api.validation.volcano_queues import (
    Queues,
    queue_delete_findings,
    queue_findings,
    queue_update_findings,
)
from quorate.api.volcano import PodGroup, Queue
from tests import fast_yaml


def a_group(spec: str = "{}") -> PodGroup:
    return codec.convert(
        PodGroup, {"metadata": {"name": "a", "namespace": "team"}, "spec": fast_yaml.load(spec)}
    )


def a_queue(name: str, spec: str = "{}", **more: Any) -> Queue:
    metadata = {"name": name, "annotations": more.pop("annotations", {})}
    return codec.convert(Queue, {"metadata": metadata, "spec": fast_yaml.load(spec), "status": more})


def texts(findings: Any) -> list[str]:
    return [str(finding) for finding in findings]


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param("{minMember: 4, minResources: {cpu: 4}}", [], id="a plain group"),
        pytest.param("{}", [], id="an empty spec"),
        pytest.param(
            "{minMember: -1, minTaskMember: {worker: -2}, minResources: {cpu: 1, nvidia.com/gpu: -4}}",
            [
                "spec.minMember: -1 is negative, must be at least 0",
                "spec.minTaskMember.worker: -2 is negative, must be at least 0",
                "spec.minResources[nvidia.com/gpu]: '-4' is negative, must be at least 0",
            ],
            id="negative numbers",
        ),
        pytest.param(
            "{networkTopology: {highestTierAllowed: 1, highestTierName: rack}, subGroupPolicy: "
            "[{name: a}, {networkTopology: {highestTierAllowed: 0, highestTierName: rack}}]}",
            [
                "spec.networkTopology.highestTierName: 'rack' is given together with highestTierAllowed "
                "(keep one of them)",
                "spec.subGroupPolicy[1].networkTopology.highestTierName: 'rack' is given together with "
                "highestTierAllowed (keep one of them)",
            ],
            id="two highest tiers",
        ),
        pytest.param("{networkTopology: {highestTierName: rack}}", [], id="one highest tier"),
    ],
)  # fmt: skip
def test_a_pod_group(spec: str, want: list[str]) -> None:
    assert texts(pod_group_findings(a_group(spec))) == want


@pytest.mark.parametrize(
    ("queue", "want"),
    [
        pytest.param(a_queue("team", state="Open"), "", id="open"),
        pytest.param(a_queue("team"), "", id="a new queue without a state"),
        pytest.param(
            a_queue("team", state="Closing"), "is a queue in state Closing, must be Open", id="closing"
        ),
        pytest.param(
            a_queue("team", state="Unknown"), "is a queue in state Unknown, must be Open", id="unknown"
        ),
        pytest.param(None, "is a queue that does not exist", id="missing"),
    ],
)
def test_a_group_needs_an_open_queue(queue: Queue | None, want: str) -> None:
    findings = list(pod_group_queue_findings(a_group("{queue: team}"), queue))
    assert [finding.reason for finding in findings] == (["QueueNotOpen"] if want else [])
    assert all(str(finding).startswith(f"spec.queue: 'team' {want} (") for finding in findings)


def test_a_hard_limit_applies_to_every_ancestor() -> None:
    loads = [QueueLoad("leaf", 3, 2), QueueLoad("above", 3, 3)]
    assert texts(pod_group_limit_findings(a_group("{queue: leaf}"), loads)) == [
        "spec.queue: 'leaf' cannot be used: queue above holds 3 pod groups that are not completed, at most 3 "
        "(wait for one to complete, or raise its spec.maxPodGroups)"
    ]


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param("{}", [], id="a plain queue"),
        pytest.param(
            "{weight: 0, priority: -1, maxPodGroups: -1}",
            [
                "spec.weight: 0 is out of bounds (write 1 to 65535)",
                "spec.priority: -1 is negative, must be at least 0",
                "spec.maxPodGroups: -1 is negative, must be at least 0 (leave it out for no limit)",
            ],
            id="numbers out of bounds",
        ),
        pytest.param("{maxPodGroups: 0, weight: 65535}", [], id="numbers at their bounds"),
        pytest.param(
            "{dequeueStrategy: lifo}",
            ["spec.dequeueStrategy: 'lifo' is not allowed here (write traverse or fifo)"],
            id="an unknown strategy",
        ),
        pytest.param(
            "{guarantee: {resource: {cpu: 4}}, deserved: {cpu: 2}, capability: {cpu: 8}}",
            ["spec.guarantee.resource.cpu: '4' is more than spec.deserved, at most 2"],
            id="guarantee above deserved",
        ),
        pytest.param(
            "{deserved: {cpu: 9}, capability: {cpu: 8}}",
            ["spec.deserved.cpu: '9' is more than spec.capability, at most 8"],
            id="deserved above capability",
        ),
        pytest.param(
            "{guarantee: {resource: {cpu: 9}}, capability: {cpu: 8}}",
            ["spec.guarantee.resource.cpu: '9' is more than spec.capability, at most 8"],
            id="guarantee above capability without deserved",
        ),
        pytest.param(
            "{guarantee: {resource: {cpu: 1, memory: 1Gi}}, deserved: {cpu: 1}}",
            ["spec.guarantee.resource.memory: '1Gi' is guaranteed but missing in spec.deserved "
             "(add it there, at least 1Gi)"],
            id="guaranteed but not deserved",
        ),
        pytest.param(
            "{guarantee: {resource: {cpu: 2}}, deserved: {cpu: 2000m}, capability: {cpu: 2, memory: 1Gi}}",
            [],
            id="equal amounts",
        ),
        pytest.param(
            "{capability: {cpu: -1}}", ["spec.capability.cpu: '-1' is negative, must be at least 0"],
            id="a negative amount",
        ),
    ],
)  # fmt: skip
def test_a_queue(spec: str, want: list[str]) -> None:
    queue = a_queue("q", spec)
    assert texts(queue_findings(queue, {})) == want
    assert texts(queue_update_findings(a_queue("q", "{reclaimable: false}"), queue, {})) == want


def test_findings_have_volcanos_reason() -> None:
    wrong = [*queue_findings(a_queue("q", "{weight: 0, parent: x, deserved: {cpu: 9}}"), {})]
    assert {finding.reason for finding in wrong} == {"InvalidQueueResources"}


def tree(*queues: Queue) -> Queues:
    return {queue.metadata.name: queue for queue in queues}


PARENT = a_queue(
    "parent", "{capability: {cpu: 8}, deserved: {cpu: 6}, guarantee: {resource: {cpu: 2}}}", state="Open"
)
CHILD = a_queue("child", "{parent: parent, deserved: {cpu: 4}, guarantee: {resource: {cpu: 1}}}")


@pytest.mark.parametrize(
    ("queue", "others", "want"),
    [
        pytest.param(a_queue("q", "{parent: parent}"), tree(PARENT), "", id="a child"),
        pytest.param(a_queue("q", "{parent: root, deserved: {cpu: 99}}"), tree(), "",
            id="a child of the root"),
        pytest.param(a_queue("q", "{parent: q}"), tree(), "spec.parent: 'q' is the queue",
            id="its own parent"),
        pytest.param(a_queue("q", "{parent: x}"), tree(), "spec.parent: 'x' is a queue", id="an orphan"),
        pytest.param(
            a_queue("q", "{parent: parent}"), tree(a_queue("parent", allocated={"pods": "3"})),
            "spec.parent: 'parent' has pods that hold resources", id="a parent with pods",
        ),
        pytest.param(
            a_queue("q", "{parent: parent}"),
            tree(a_queue("parent", allocated={"pods": "3"}), a_queue("child", "{parent: parent}")),
            "", id="a parent that has children",
        ),
        pytest.param(
            a_queue("q", "{parent: child, capability: {cpu: 9}}"), tree(PARENT, CHILD),
            "spec.capability.cpu: '9' is more than that of queue parent above, at most 8",
            id="capability above that of the nearest ancestor",
        ),
        pytest.param(
            a_queue("q", "{parent: parent, deserved: {cpu: 3}}"), tree(PARENT, CHILD),
            "spec.deserved.cpu: '3' makes 7 for the children of queue parent, at most 6",
            id="deserved of siblings",
        ),
        pytest.param(
            a_queue("q", "{parent: parent, deserved: {cpu: 2}, guarantee: {resource: {cpu: 2}}}"),
            tree(PARENT, CHILD),
            "spec.guarantee.resource.cpu: '2' makes 3 for the children of queue parent, at most 2",
            id="guarantees of siblings",
        ),
        pytest.param(
            a_queue("q", "{parent: parent, deserved: {memory: 1Gi}}"), tree(PARENT),
            "spec.deserved.memory: '1Gi' makes 1Gi for the children of queue parent, at most 0",
            id="a resource that the parent lacks",
        ),
        pytest.param(
            a_queue("parent", "{capability: {cpu: 3}, deserved: {cpu: 3}, guarantee: {resource: {cpu: 1}}}"),
            tree(PARENT, CHILD),
            "spec.deserved.cpu: '3' is less than what its children have together, at least 4",
            id="a parent below its children's sum",
        ),
        pytest.param(
            a_queue("parent", "{capability: {cpu: 3}}"),
            tree(a_queue("low", "{parent: parent, capability: {cpu: 4}}")),
            "spec.capability.cpu: '3' is less than that of queue low below, at least 4",
            id="below its children's capability",
        ),
    ],
)  # fmt: skip
def test_a_queue_in_its_hierarchy(queue: Queue, others: Queues, want: str) -> None:
    (got,) = texts(queue_findings(queue, others)) or [""]
    assert got.startswith(want)
    assert bool(got) is bool(want)


def test_cycles_and_deep_hierarchies_are_rejected() -> None:
    chain = tree(
        a_queue("a"), a_queue("b", "{parent: a}"), a_queue("c", "{parent: b}"), a_queue("d", "{parent: c}")
    )
    assert texts(queue_findings(a_queue("e", "{parent: d}"), chain)) == []
    assert texts(queue_findings(a_queue("e", "{parent: d}"), chain, depth=4)) == [
        "spec.parent: 'd' would put this queue at level 5 below the root, at most 4"
    ]
    assert texts(queue_update_findings(chain["a"], a_queue("a", "{parent: d}"), chain)) == [
        "spec.parent: 'd' is below this queue (name one that is not, or leave it out)"
    ]


def test_an_invalid_stored_queue_stays_editable() -> None:
    others = tree(PARENT, CHILD)
    greedy = "parent: parent, deserved: {cpu: 9}"
    assert texts(queue_findings(a_queue("q", f"{{{greedy}}}"), others)) != []
    new = a_queue("q", f"{{{greedy}, reclaimable: false}}")
    assert texts(queue_update_findings(a_queue("q", f"{{{greedy}}}"), new, others)) == []
    broken = a_queue("q", "{weight: 0}")
    finalized = a_queue("q", "{weight: 0}", annotations={"a": "b"})
    assert texts(queue_update_findings(broken, finalized, {})) == []


@pytest.mark.parametrize(
    ("state", "rejected"), [("Open", False), ("Closed", False), ("Closing", True), ("x", True)]
)
def test_only_states_open_and_closed_can_be_requested(state: str, rejected: bool) -> None:
    got = [f"status.state: {state!r} cannot be requested (write Open or Closed)"] if rejected else []
    old, new = a_queue("q", state="Open"), a_queue("q", state=state)
    assert texts(queue_findings(new, {})) == got
    assert texts(queue_update_findings(old, new, {})) == got
    assert texts(queue_update_findings(new, new, {})) == []  # the state was set by the controller


def weighted(path: str, weights: str) -> Queue:
    return a_queue("q", annotations={"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights})


@pytest.mark.parametrize(
    ("queue", "want"),
    [
        pytest.param(weighted("root/sci", "1/2.5"), [], id="a leaf"),
        pytest.param(
            weighted("root/sci", "1"),
            ["metadata.annotations[volcano.sh/hierarchy-weights]: '1' must have as many parts as annotation "
             "volcano.sh/hierarchy ('root/sci')"],
            id="too few weights",
        ),
        pytest.param(
            weighted("root/sci", "1/0"),
            ["metadata.annotations[volcano.sh/hierarchy-weights]: '1/0' has a weight '0', must be a number "
             "above 0"],
            id="no weight",
        ),
        pytest.param(
            weighted("root/eng", "1/2"),
            ["metadata.annotations[volcano.sh/hierarchy]: 'root/eng' is above 'root/eng/dev' of queue dev, "
             "and only leaves can be queues (write a longer path)"],
            id="an inner path",
        ),
        pytest.param(weighted("root/en", "1/2"), [], id="a path with a common prefix only"),
    ],
)  # fmt: skip
def test_hierarchy_annotations(queue: Queue, want: list[str]) -> None:
    dev = a_queue(
        "dev", annotations={"volcano.sh/hierarchy": "root/eng/dev", "volcano.sh/hierarchy-weights": "1/2/3"}
    )
    assert texts(queue_findings(queue, tree(dev))) == want
    assert texts(queue_update_findings(a_queue("q"), queue, tree(dev))) == want


def test_the_amounts_of_the_root_cannot_change() -> None:
    old = a_queue("root", "{capability: {cpu: 9}, reclaimable: false}")
    assert texts(queue_update_findings(old, a_queue("root", "{capability: {cpu: 9}}"), tree(old))) == []
    assert texts(queue_update_findings(old, a_queue("root", "{capability: {cpu: 8}}"), tree(old))) == [
        "spec.capability: 'root' is the root of all queues: its amounts cannot change "
        "(set those of queues below it)"
    ]


def test_deletion_of_queues() -> None:
    def deleted(queue: Queue, *others: Queue, refuse_in_use: bool = False) -> list[Finding]:
        return list(queue_delete_findings(queue, tree(*others), refuse_in_use=refuse_in_use))

    for name in ("root", "default"):
        (finding,) = deleted(a_queue(name))
        assert finding.reason == "ProtectedQueue"
    (finding,) = deleted(PARENT, PARENT, CHILD)
    assert finding.reason == "InvalidQueueResources"
    busy = a_queue("q", allocated={"pods": "1"})
    assert deleted(busy) == []
    assert texts(deleted(busy, refuse_in_use=True)) == [
        "metadata.name: 'q' cannot be deleted while pods of it hold resources "
        "(close it, and wait for them to end)"
    ]
    used = a_queue("q", pending=2, inqueue=1, running=1, unknown=1, completed=9)
    assert deleted(used) == []
    assert texts(deleted(used, refuse_in_use=True)) == [
        "metadata.name: 'q' has 5 pod groups that are not completed (close it, and delete them or wait)"
    ]
    assert deleted(a_queue("q", completed=9), refuse_in_use=True) == []
    assert texts(deleted(PARENT, PARENT, CHILD)) == [
        "metadata.name: 'parent' is the parent of child (delete these first, or move them)"
    ]


@pytest.mark.parametrize(
    ("manifest", "want"),
    [
        pytest.param(
            "{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, spec: {minMember: -1}}",
            "spec.minMember: -1 is negative, must be at least 0",
            id="pod group",
        ),
        pytest.param(
            "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, spec: {weight: 0, parent: elsewhere}}",
            "spec.weight: 0 is out of bounds (write 1 to 65535)",
            id="queue",
        ),
        pytest.param(
            "{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, spec: {queue: elsewhere}}",
            "spec.tasks: [] is empty, must list at least one task",
            id="job",
        ),
        pytest.param(
            "{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {}}", "", id="another API's Job"
        ),
        pytest.param("{kind: Queue}", "", id="no version"),
    ],
)
def test_manifests(manifest: str, want: str) -> None:
    body = {"metadata": {"name": "x"}, **fast_yaml.load(manifest)}
    assert texts(manifest_findings(body)) == ([want] if want else [])
