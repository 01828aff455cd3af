"""What the ungater sends: the domain of each gated pod, and nothing that its own writes contradict."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.kueue import Workload
from quorate.api.kueue.topology import HOSTNAME
from quorate.controllers.topology.placed_pods import pods_key, pods_key_of
from quorate.controllers.topology.ungater import SentUngatings, find_ungatings
from tests.controllers.topology.objects import INDEX, LAUNCHER, WORKER, a_pod, a_workload, changed

ON_X, ON_Y = {HOSTNAME: "x"}, {HOSTNAME: "y"}
RANKED = {"podIndexLabel": INDEX}
GROUP = {"podIndexLabel": INDEX, "podSetGroupName": "g"}
TWO_AND_ONE = ("main", {"x": 2, "y": 1})


def hosts(workload: Workload, *pods: Pod) -> dict[str, str]:
    """Return the host of each pod that is to be ungated."""
    found = find_ungatings(workload, sorted(pods, key=lambda pod: pod.metadata.name), {})
    return {each.pod.metadata.name: each.selectors[HOSTNAME] for each in found}


CASES = {
    "pods without ranks fill the domains in order": (
        a_workload(TWO_AND_ONE),
        [a_pod("a"), a_pod("b"), a_pod("c")],
        {"a": "x", "b": "x", "c": "y"},
    ),
    "a completion index is a rank": (
        a_workload(TWO_AND_ONE, request=RANKED),
        [a_pod("a", index=2), a_pod("b", index=1), a_pod("c", index=0)],
        {"a": "y", "b": "x", "c": "x"},
    ),
    "an ungated pod keeps its place": (
        a_workload(TWO_AND_ONE, request=RANKED),
        [a_pod("a", ON_X, index=1), a_pod("b", index=2), a_pod("c", index=0)],
        {"b": "y", "c": "x"},
    ),
    "a terminated pod has left its place": (
        a_workload(TWO_AND_ONE),
        [a_pod("a", ON_X, phase="Failed"), a_pod("b", ON_X), a_pod("c"), a_pod("d", ON_Y)],
        {"c": "x"},
    ),
    "a retried pod leaves the place of a pod that succeeded to others": (
        a_workload(("main", {"x": 1, "y": 1})),
        [a_pod("a", ON_X, phase="Succeeded"), a_pod("b", ON_Y, phase="Failed"), a_pod("c")],
        {"c": "y"},
    ),
    "a deleted pod has its place until it is gone": (
        a_workload(TWO_AND_ONE),
        [a_pod("a", ON_X, is_deleted=True), a_pod("b", ON_X), a_pod("c"), a_pod("d")],
        {"c": "y"},
    ),
    "a deleted pod behind the gate needs no place": (
        a_workload(TWO_AND_ONE, request=RANKED),
        [a_pod("a", index=2, is_deleted=True), a_pod("b", index=2)],
        {"b": "y"},
    ),
    "a replicated job's index is a part of the rank": (
        a_workload(
            ("main", {"x": 2, "y": 2}),
            request={**RANKED, "subGroupIndexLabel": "job", "subGroupCount": 2},
        ),
        [a_pod("a", index=1, job="1"), a_pod("b", index=0, job="0"), a_pod("c", index=0, job="1")],
        {"a": "y", "b": "x", "c": "y"},
    ),
    "a leader and its workers continue each other's indices": (
        a_workload((WORKER, {"x": 1, "y": 1}), (LAUNCHER, {"z": 1}), request=GROUP),
        [
            a_pod("l", pod_set=LAUNCHER, index=0),
            a_pod("v", pod_set=WORKER, index=2),
            a_pod("w", pod_set=WORKER, index=1),
        ],
        {"l": "z", "v": "y", "w": "x"},
    ),
    "the first of two equal pod sets of a group has the first indices": (
        a_workload((WORKER, {"x": 1}), (LAUNCHER, {"z": 1}), request=GROUP),
        [a_pod("l", pod_set=LAUNCHER, index=1), a_pod("w", pod_set=WORKER, index=0)],
        {"l": "z", "w": "x"},
    ),
    "the offset of the first pod is subtracted from indices": (
        a_workload(TWO_AND_ONE, request=RANKED),
        [
            a_pod("a", index=3, annotations={"kueue.x-k8s.io/pod-index-offset": "1"}),
            a_pod("b", index=1),
        ],
        {"a": "y", "b": "x"},
    ),
    "a malformed offset leaves no ranks": (
        a_workload(TWO_AND_ONE, request=RANKED),
        [a_pod("a", index=2, annotations={"kueue.x-k8s.io/pod-index-offset": "x"})],
        {"a": "x"},
    ),
    "pods of an unhealthy host stay gated": (
        a_workload(TWO_AND_ONE, unhealthy=("x",)),
        [a_pod("a"), a_pod("b"), a_pod("c")],
        {"c": "y"},
    ),
    "pods of other pod sets are not counted": (
        a_workload(("main", {"x": 1}), ("other", {"x": 1})),
        [a_pod("a", ON_X, pod_set="other"), a_pod("b"), a_pod("c")],
        {"b": "x"},
    ),
    "an assignment without domains places no pod": (a_workload(("main", {})), [a_pod("a")], {}),
}


@pytest.mark.parametrize(("workload", "pods", "expected"), CASES.values(), ids=CASES)
def test_hosts_of_gated_pods(workload: Workload, pods: list[Pod], expected: dict[str, str]) -> None:
    assert hosts(workload, *pods) == expected


def test_pods_of_a_host_that_takes_none_stay_gated() -> None:
    found = find_ungatings(a_workload(TWO_AND_ONE), [a_pod("a"), a_pod("b"), a_pod("c")], {}, frozenset("x"))
    assert [(each.pod.metadata.name, each.selectors[HOSTNAME]) for each in found] == [("c", "y")]


def test_all_recorded_levels_become_node_selectors() -> None:
    workload = a_workload(("main", {"b1/r1": 1}), levels=("block", "rack"), unhealthy=("r1",))
    (ungating,) = find_ungatings(workload, [a_pod("a", gates=("other",))], {})
    assert codec.to_builtins(ungating.patch.body) == {
        "spec": {
            "nodeSelector": {"block": "b1", "rack": "r1"},
            "schedulingGates": [{"name": "other"}],
        }
    }
    assert ungating.patch.resource_version == "1"


@pytest.mark.parametrize("levels", [(), (HOSTNAME, "more")])
def test_an_assignment_with_other_values_than_levels_places_no_pod(levels: tuple[str, ...]) -> None:
    written = codec.to_builtins(a_workload(TWO_AND_ONE))
    assigned = written["status"]["admission"]["podSetAssignments"][0]
    assigned["topologyAssignment"]["levels"] = list(levels)
    assert find_ungatings(codec.convert(Workload, written), [a_pod("a")], {}) == []


def test_pods_of_slices_belong_to_all_slices() -> None:
    old, new = ({"annotations": {"kueue.x-k8s.io/workload-slice-name": "s"}, "name": n} for n in "on")
    pod = a_pod("a", annotations=old["annotations"])  # type: ignore[arg-type]
    assert {pods_key_of(a_workload(**each).metadata) for each in (old, new)} == set(pods_key(pod.metadata))  # type: ignore[arg-type]


class Sender:
    """Send the ungatings of a workload for the pods in a cache."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.sent = SentUngatings()

    def next(self, *pods: Pod) -> dict[str, Any]:
        found = find_ungatings(self.workload, pods, self.sent.of(pods))
        for each in found:
            self.sent.sending(each)
        self.last = found
        return {each.pod.metadata.name: each.selectors[HOSTNAME] for each in found}


def test_a_place_is_taken_before_the_cache_shows_it() -> None:
    sender = Sender(a_workload(("main", {"x": 1, "y": 1})))
    b = a_pod("b")
    assert sender.next(b) == {"b": "x"}
    sender.sent.replaced(sender.last[0])
    assert sender.next(a_pod("a"), b) == {"a": "y"}


def test_a_write_with_an_unknown_outcome_is_repeated_as_it_was() -> None:
    sender = Sender(a_workload(("main", {"x": 1, "y": 1})))
    b = a_pod("b")
    assert sender.next(b) == {"b": "x"}
    assert sender.next(a_pod("a"), b) == {"b": "x", "a": "y"}


def test_a_refused_write_takes_no_place() -> None:
    sender = Sender(a_workload(("main", {"x": 1, "y": 1})))
    b = a_pod("b")
    assert sender.next(b) == {"b": "x"}
    sender.sent.refused(sender.last[0])
    assert sender.next(a_pod("a"), b) == {"a": "x", "b": "y"}


def test_another_version_of_the_pod_ends_the_memory_of_a_write() -> None:
    sender = Sender(a_workload(("main", {"x": 1, "y": 1})))
    pod = a_pod("b")
    sender.next(pod)
    sender.sent.replaced(sender.last[0])
    sender.sent.pod_changed(pod.metadata.key, pod)
    assert sender.next(pod) == {}
    later = changed(pod, "2")
    sender.sent.pod_changed(later.metadata.key, later)
    assert sender.next(later) == {"b": "x"}
    sender.sent.pod_changed(later.metadata.key, None)
    assert sender.next(a_pod("b", version="3")) == {"b": "x"}


def test_a_write_for_a_version_that_the_cache_no_longer_had_is_repeated() -> None:
    """The cache got the later version after the choice of the domain and before the write was sent."""
    sender = Sender(a_workload(("main", {"x": 1, "y": 1})))
    pod = a_pod("b")
    later = changed(pod, "2")
    sender.sent.pod_changed(later.metadata.key, later)
    assert sender.next(pod) == {"b": "x"}
    sender.sent.replaced(sender.last[0])  # refused with a conflict
    assert sender.next(later) == {"b": "x"}
