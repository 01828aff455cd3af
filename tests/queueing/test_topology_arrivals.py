"""The room of a topology does not depend on the order in which its objects arrive, change and leave."""

from hypothesis import given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.core.pod import Pod
from quorate.api.core.scheduling import Node
from quorate.api.kueue import ResourceFlavor
from quorate.api.kueue.topology import Topology
from quorate.api.meta import Key
from quorate.placement.topology.tree import DomainTree
from quorate.queueing.nodes.model import TopologyModel
from quorate.queueing.nodes.occupants import Owner
from quorate.queueing.nodes.places import Place, Places
from tests.queueing.notation import Json

HOST = "kubernetes.io/hostname"
FLAVORS: dict[str, Json] = {
    "hosts": {"topologyName": "tree", "nodeLabels": {"pool": "a"}},
    "also-hosts": {"topologyName": "tree", "nodeLabels": {"pool": "a"}},
    "racks": {"topologyName": "racks", "nodeLabels": {"pool": "a"}},
    "plain": {},
}
TOPOLOGIES = {"tree": ["rack", HOST], "racks": ["rack"]}
# By name: host name and rack.  A host and a rack have the same name, and two nodes the same host name.
NODES = {"x1": ("x1", "r1"), "x2": ("x2", "r1"), "r1": ("r1", "r2"), "x1-again": ("x1", "r2")}
PLACES = {
    "on a host": Place(("hosts",), ("x1",), True, {"cpu": 1000, "pods": 1}),
    "on a host that has the name of a rack": Place(("also-hosts",), ("r1",), True, {"cpu": 200, "pods": 1}),
    "in a rack": Place(("racks",), ("r1",), False, {"cpu": 3000, "pods": 2}),
    "of a flavor without a topology": Place((), ("x2",), True, {"cpu": 400, "pods": 1}),
    "on a lost host": Place(("hosts",), ("x9",), True, {"cpu": 500, "pods": 1}),
}
PODS = {"web": "x1", "other": "r1", "placed": "x1", "also-placed": "x2"}
PLACED = {"kueue.x-k8s.io/workload": "w", "kueue.x-k8s.io/podset-unconstrained-topology": "true"}


def a_pod(name: str, spec: Json, status: Json | None = None) -> Pod:
    container = {"name": "main", "resources": {"requests": {"cpu": "2"}}}
    metadata = {"name": name, "annotations": PLACED if "placed" in name else {}}
    body = {"metadata": metadata, "spec": {**spec, "containers": [container]}, "status": status or {}}
    return codec.convert(Pod, body)


class World:
    """A model, and the objects in it."""

    def __init__(self, gates: TopologyGates) -> None:
        self.model = TopologyModel(gates, "Report")
        self.flavors: dict[str, ResourceFlavor] = {}
        self.model.flavors = self.flavors
        self.counted: dict[str, Places] = {}

    def put(self, kind: str, name: str, change: str = "") -> None:
        """Add or replace an object; ``change`` is a difference of a node from its first form."""
        model = self.model
        match kind:
            case "flavor":
                body = {"metadata": {"name": name}, "spec": FLAVORS[name]}
                self.flavors[name] = codec.convert(ResourceFlavor, body)
                model.flavor_changed(name)
            case "topology":
                levels = {"levels": [{"nodeLabel": level} for level in TOPOLOGIES[name]]}
                model.put_topology(codec.convert(Topology, {"metadata": {"name": name}, "spec": levels}))
            case "node":
                host, rack = NODES[name]
                labels = {"pool": "a", "rack": "r3" if change == "move" else rack, HOST: host}
                ready = {"type": "Ready", "status": "True"}
                amounts = (
                    {"cpu": "6", "gpu.example/a": "1"} if change == "shrink" else {"cpu": "8", "pods": "9"}
                )
                body = {
                    "metadata": {"name": name, "labels": labels},
                    "spec": {"unschedulable": change == "cordon"},
                    "status": {"allocatable": amounts, "conditions": [ready]},
                }
                model.put_node(codec.convert(Node, body))
            case "pod":
                model.put_pod(a_pod(name, {"nodeName": PODS[name]}))
            case "nominated":
                model.put_nominated_pod(a_pod(name, {}, {"nominatedNodeName": PODS[name]}))
            case "unreadable":
                model.put_unreadable_pod(Key("", name), PODS["web"], {"cpu": 700, "pods": 1})
            case "workload":
                model.set_has_places(Key("", name), True)
            case _:
                if name not in self.counted:
                    self.counted[name] = Places(model, (PLACES[name],))
                    self.counted[name].count(1)

    def remove(self, kind: str, name: str) -> None:
        model = self.model
        match kind:
            case "flavor":
                self.flavors.pop(name, None)
                model.flavor_changed(name)
            case "topology":
                model.remove_topology(name)
            case "node":
                model.remove_node(name)
            case "pod" | "unreadable":
                model.remove_pod(Key("", name))
            case "nominated":
                model.remove_nominated_pod(Key("", name))
            case "workload":
                model.set_has_places(Key("", name), False)
            case _:
                if (places := self.counted.pop(name, None)) is not None:
                    places.count(-1)

    def trees(self) -> dict[str, DomainTree]:
        """Return the trees that exist, by flavor."""
        model = self.model
        trees = {name: model.tree(name) for name in FLAVORS} | {"all": model.host_tree(())}
        return {name: tree for name, tree in trees.items() if tree is not None}

    def room(self) -> dict[str, dict[tuple[str, ...], list[int]]]:
        """Return what each leaf has left of cpu and pods, by flavor."""
        return {
            name: {
                tree.recorded_values(leaf): [int(tree.remaining(each)[leaf]) for each in ("cpu", "pods")]
                for leaf in range(tree.leaf_count)
            }
            for name, tree in self.trees().items()
        }

    def pods(self) -> dict[str, list[object]]:
        """Return what bound pods take of each node, and how many belong to the workload, by node."""
        model, owner = self.model, Owner("workload", Key("", "w"))
        result: dict[str, list[object]] = {}
        for name in NODES:
            on_node = (
                sorted(map(repr, model.occupants.on_node(name, counted=is_counted)))
                for is_counted in (True, False)
            )
            of_owner = sorted(key.name for key, pod in model.occupants.of(owner).items() if pod.node == name)
            result[name] = [*on_node, of_owner]
        return result

    def domains(self) -> dict[str, list[object]]:
        """Return the paths of all domains, the first children, and the host names by leaf, by flavor."""
        result: dict[str, list[object]] = {}
        for name, tree in self.trees().items():
            result[name] = [tree.paths, [each.tolist() for each in tree.first_child]]
            if tree.has_hosts:
                names = tree.hosts.names
                result[name].append([names.values[code] for code in names.codes[tree.columns]])
        return result


OBJECTS = [
    *(("topology", name) for name in TOPOLOGIES),
    *(("flavor", name) for name in FLAVORS),
    *(("node", name) for name in NODES),
    *(("pod", name) for name in PODS),
    *(("place", name) for name in PLACES),
    ("nominated", "web"),
    ("unreadable", "large"),
    ("workload", "w"),
]
ACTIONS = ("put", "put", "remove", "read", "prepare", "prepare", "move", "cordon", "shrink")
STEPS = st.lists(st.tuples(st.sampled_from(ACTIONS), st.sampled_from(OBJECTS)))
GATES = st.builds(TopologyGates, overlapping_flavors=st.booleans())


@given(st.permutations(OBJECTS), STEPS, GATES)
def test_the_room_depends_on_the_objects_alone(
    order: list[tuple[str, str]], steps: list[tuple[str, tuple[str, str]]], gates: TopologyGates
) -> None:
    world, present = World(gates), dict.fromkeys(order, "")
    for each in order:
        world.put(*each)
    for action, each in steps:
        if action == "read":
            world.room()
        elif action == "prepare":
            world.model.prepare(nodes=1)
        elif action == "remove":
            world.remove(*each)
            present.pop(each, None)
        else:
            present[each] = "" if action == "put" else action
            world.put(*each, present[each])
    canonical = World(gates)
    for each in OBJECTS:
        if each in present:
            canonical.put(*each, present[each])
    assert world.room() == canonical.room()
    assert world.domains() == canonical.domains()
    assert world.pods() == canonical.pods()


def test_a_host_is_shared_by_flavors_and_a_rack_is_not() -> None:
    world = World(TopologyGates())
    for each in OBJECTS:
        if each[0] in ("topology", "flavor", "node", "place") and each != ("node", "x1-again"):
            world.put(*each)
    for name in ("web", "other"):
        world.put("pod", name)
    room = world.room()
    assert room["hosts"] == room["also-hosts"] == {("x1",): [5000, 7], ("x2",): [7600, 8], ("r1",): [5800, 7]}
    assert room["racks"] == {("r1",): [11000, 15], ("r2",): [6000, 8]}
    assert room["all"] == room["hosts"]
