"""The view of the filters of pod constraints: built in slices, kept up to date, and audited."""

from collections.abc import Callable

import msgspec
import pytest

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.core.scheduling import Node
from quorate.api.meta import Key
from quorate.queueing.nodes.audit import ConstraintMismatch, PlaceSums, audit_pods, held_differences
from quorate.queueing.nodes.model import TopologyModel
from quorate.queueing.nodes.places import NO_PLACES, Place, Places
from quorate.queueing.nodes.pod_constraints import ConstraintView
from quorate.queueing.nodes.pod_templates import Template
from tests.queueing.notation import Json
from tests.steps import steps_of

HOST = "kubernetes.io/hostname"


def apart(app: str) -> Json:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def a_template(namespace: str, app: str, spec: Json) -> Template:
    content = msgspec.json.encode({"metadata": {"labels": {"app": app}}, "spec": {"containers": [], **spec}})
    return Template(namespace, msgspec.Raw(content))


WEB = a_template("default", "web", {"affinity": apart("web")})
PLAIN = a_template("default", "plain", {})


class Cluster:
    """Nodes and pods in a model, the constraints of which are told of each change of them."""

    def __init__(self, nodes: int = 0, pods: int = 0) -> None:
        self.model = TopologyModel(None)
        self.constraints = self.model.constraints
        for number in range(nodes):
            self.put_node(f"n{number}")
        for number in range(pods):
            self.put_pod(f"p{number}", f"n{number % nodes}", app=f"app{number}")

    def put_node(self, name: str, host: str = "") -> None:
        node = {
            "metadata": {"name": name, "labels": {HOST: host or name}},
            "status": {"allocatable": {"cpu": "8", "pods": "110"}},
        }
        self.model.put_node(codec.convert(Node, node))

    def remove_node(self, name: str) -> None:
        self.model.remove_node(name)

    def put_pod(self, name: str, node: str, *, app: str) -> None:
        given = {
            "metadata": {"name": name, "namespace": "default", "labels": {"app": app}},
            "spec": {"nodeName": node, "containers": [{"name": "c"}], "affinity": apart(app)},
        }
        self.model.put_pod(codec.convert(Pod, given))

    def remove_pod(self, name: str) -> None:
        self.model.remove_pod(Key("default", name))

    def counted(self) -> dict[str, dict[str, int]]:
        """Return how many pods the prepared view has, by node and label."""
        view = self.prepared()
        result: dict[str, dict[str, int]] = {}
        for name in view.cluster.names():
            index = view.cluster.index(name)
            assert index is not None
            pods = {shape.labels["app"]: n for (shape, _), n in view.cluster.pod_counts(index).items()}
            result[name] = dict(sorted(pods.items()))
        return result

    def prepared(self) -> ConstraintView:
        while not self.constraints.prepare():
            pass
        assert self.constraints.view is not None
        return self.constraints.view

    def differences(self, places: Places = NO_PLACES) -> list[ConstraintMismatch]:
        sums = PlaceSums()
        sums.add(places, 1)
        of_pods = [each for slice_ in audit_pods(self.constraints) for each in slice_]
        return [*held_differences(self.constraints, sums.held), *of_pods]


@pytest.mark.parametrize(
    ("template", "is_built"),
    [
        pytest.param(WEB, True, id="pods with constraints"),
        pytest.param(PLAIN, True, id="pods in a namespace with anti-affinity"),
        pytest.param(a_template("other", "plain", {}), False, id="pods that nothing concerns"),
    ],
)
def test_the_view_is_built_for_workloads_that_queue(template: Template, is_built: bool) -> None:
    cluster = Cluster(nodes=2, pods=2)
    assert cluster.constraints.prepare()
    assert not cluster.constraints.is_used
    cluster.constraints.expect(template)
    while not cluster.constraints.prepare():
        pass
    assert cluster.constraints.is_used is is_built


def test_anti_affinity_that_arrives_later_concerns_a_workload_that_queued_before() -> None:
    cluster = Cluster(nodes=1)
    cluster.constraints.expect(PLAIN)
    assert cluster.constraints.prepare()
    assert not cluster.constraints.is_used
    cluster.put_pod("p", "n0", app="web")
    assert cluster.counted() == {"n0": {"web": 1}}


@pytest.mark.large
def test_each_part_costs_the_same_however_many_pods_there_are() -> None:
    def costs(pods: int) -> list[int]:
        cluster = Cluster(nodes=10, pods=pods)
        cluster.constraints.expect(WEB)
        done: list[bool] = []
        result: list[int] = []
        while not any(done):
            result.append(steps_of(lambda: done.append(cluster.constraints.prepare())))
        return result

    few, many = costs(600), costs(1_800)
    assert len(many) > 2 * len(few)
    assert max(many) < 1.5 * max(few)


def other_labels(cluster: Cluster) -> None:
    cluster.put_pod("p3", "n0", app="other")


def another_host(cluster: Cluster) -> None:
    cluster.put_node("n1", host="other")


def hold_two(cluster: Cluster) -> None:
    cluster.constraints.hold("n2", WEB, 2)


def hold_and_release(cluster: Cluster) -> None:
    cluster.constraints.hold("n2", WEB, 2)
    cluster.constraints.hold("n2", WEB, -2)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda cluster: cluster.put_node("n9"), id="a node is added"),
        pytest.param(lambda cluster: cluster.remove_node("n1"), id="a node is removed"),
        pytest.param(another_host, id="a node has another host"),
        pytest.param(lambda cluster: cluster.put_pod("q", "n1", app="q"), id="a pod is added"),
        pytest.param(lambda cluster: cluster.remove_pod("p3"), id="a pod is removed"),
        pytest.param(other_labels, id="a pod gets other labels"),
        pytest.param(hold_two, id="pods get places"),
        pytest.param(hold_and_release, id="pods get places and lose them"),
    ],
)
@pytest.mark.parametrize("parts", range(6))
def test_a_change_between_two_parts_counts(
    change: Callable[[Cluster], None], parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does that precedes all parts."""
    monkeypatch.setattr("quorate.queueing.nodes.pod_constraints.SLICE_SIZE", 2)
    before, between = Cluster(nodes=3, pods=5), Cluster(nodes=3, pods=5)
    change(before)
    between.constraints.expect(WEB)
    for _ in range(parts):
        between.constraints.prepare()
    change(between)
    before.constraints.expect(WEB)
    assert between.counted() == before.counted()
    held = between.constraints.held
    assert [each for each in between.differences() if each.of not in {host for host, _ in held}] == [
        each for each in before.differences() if each.of not in {host for host, _ in held}
    ]


def test_the_places_of_a_host_are_on_the_node_that_has_its_name() -> None:
    cluster = Cluster()
    cluster.put_node("x", host="h")
    cluster.constraints.expect(WEB)
    cluster.prepared()
    cluster.constraints.hold("h", WEB, 2)
    assert cluster.counted() == {"x": {"web": 2}}
    cluster.put_node("x", host="other")
    assert cluster.counted() == {"x": {}}
    cluster.put_node("y", host="h")
    assert cluster.counted() == {"x": {}, "y": {"web": 2}}


def test_the_filters_read_the_pods_and_the_new_places_of_a_model_that_is_replaced() -> None:
    cluster = Cluster(nodes=2, pods=2)
    cluster.constraints.expect(WEB)
    cluster.prepared()
    cluster.constraints.hold("n0", WEB, 2)
    fresh = TopologyModel(None)
    fresh.constraints.hold("n1", WEB, 1)
    fresh.take_nodes(cluster.model)
    cluster.model = fresh
    assert fresh.constraints is cluster.constraints, "feeds keep its methods"
    assert cluster.counted() == {"n0": {"app0": 1}, "n1": {"app1": 1, "web": 1}}
    place = Place((), ("n1",), True, {}, 1, WEB)
    assert cluster.differences(Places(None, (place,))) == []


def test_the_sums_tell_pods_with_other_labels_apart() -> None:
    cluster = Cluster(nodes=1, pods=1)
    before = cluster.constraints.version(WEB)
    cluster.put_pod("p0", "n0", app="other")
    assert cluster.constraints.version(WEB) != before
    cluster.put_pod("p0", "n0", app="app0")
    assert cluster.constraints.version(WEB) == before


def forget_a_pod(cluster: Cluster) -> None:
    cluster.constraints.uncount(Key("default", "p0"))


def leak_a_pod(cluster: Cluster) -> None:
    cluster.model.occupants.remove(Key("default", "p0"))


def count_a_pod_twice(cluster: Cluster) -> None:
    key = Key("default", "p0")
    cluster.constraints.uncount(key)
    cluster.constraints.add(key, cluster.model.occupants.by_name[key])


def forget_the_constraints_of_a_pod(cluster: Cluster) -> None:
    key = Key("default", "p0")
    occupant = cluster.model.occupants.by_name[key]
    cluster.model.occupants.put(key, msgspec.structs.replace(occupant, pod=None))


@pytest.mark.parametrize("slice_size", [1, 1_000])
@pytest.mark.parametrize(
    ("fault", "found"),
    [
        pytest.param(forget_a_pod, {"pods in the view": (0, 1)}, id="a pod is not in the view"),
        pytest.param(
            leak_a_pod,
            {
                "pods in the view": (1, 0),
                "sum over pods": None,
                "sum over pods with constraints": None,
                "terms of anti-affinity": (2, 1),
            },
            id="a pod counts that has gone",
        ),
        pytest.param(
            hold_two,
            {"held pods": (2, 0), "held pods in the view": (2, 0)},
            id="pods count that have no places",
        ),
        pytest.param(
            count_a_pod_twice,
            {
                "sum over pods": None,
                "sum over pods with constraints": None,
                "terms of anti-affinity": (3, 2),
            },
            id="a pod counts twice",
        ),
        pytest.param(
            forget_the_constraints_of_a_pod,
            {
                "pods in the view with their node, amounts and labels": (0, 1),
                "sum over pods": None,
                "sum over pods with constraints": None,
                "terms of anti-affinity": (2, 1),
            },
            id="terms count of a pod that has none",
        ),
        pytest.param(hold_and_release, {}, id="a count of zero"),
        pytest.param(lambda cluster: cluster.remove_pod("p0"), {}, id="a pod has gone"),
    ],
)
def test_the_audit_finds_a_difference(
    fault: Callable[[Cluster], None],
    found: dict[str, tuple[int, int] | None],
    slice_size: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("quorate.queueing.nodes.audit.SLICE_SIZE", slice_size)
    cluster = Cluster(nodes=2, pods=2)
    cluster.constraints.expect(WEB)
    cluster.prepared()
    assert cluster.differences() == []
    fault(cluster)
    differences = {each.quantity: (each.in_model, each.computed) for each in cluster.differences()}
    assert differences.keys() == found.keys()
    for quantity, numbers in found.items():
        assert numbers in (None, differences[quantity])
