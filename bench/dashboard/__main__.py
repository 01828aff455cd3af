"""``python -m bench.dashboard``: measure the views of the dashboard, alone in one process.

Exit with status 1 if a limit of ``limits.yaml`` is exceeded.  Times are processor time, which other load on
the machine affects little.  Each view is measured right after a change, so that nothing is remembered.
"""

import sys
from collections.abc import Callable
from itertools import cycle
from statistics import median
from time import thread_time
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from bench.limits import check_limits
from quorate.api import codec
from quorate.api.configuration import default_configuration
from quorate.api.core.pod import Pod
from quorate.api.core.scheduling import HostNode
from quorate.api.kueue import ClusterQueue, LocalQueue, ResourceFlavor, Workload
from quorate.api.kueue.topology import Topology
from quorate.dashboard.model.changes import Changed, ChangeFeed
from quorate.dashboard.model.cluster_data import ClusterData
from quorate.dashboard.queries import ADMINISTRATOR, NO_ESTIMATES, Gang, Viewer, WorkloadQuery
from quorate.dashboard.views import node_views, overview, queue_views, search, workload_views
from quorate.kube.clock import WallClock
from quorate.kube.informer import Change
from quorate.queueing.explanation.scope import Scope

WORKLOADS: Final = 10_000
QUEUES: Final = 100
NODES: Final = 5_000
CLIENTS: Final = 200
NOW: Final = 1e9
CHANGES: Final = 15  # before each of which a view is measured


def a_workload(number: int, version: int = 1, waits_for: str = "QuotaShort") -> Workload:
    """Return a pending workload, or an admitted one of every fourth."""
    namespace, queue = f"team-{number % QUEUES}", f"queue-{number % QUEUES}"
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    moment = "2026-01-01T00:00:00Z"

    def condition(type_: str, status: str, reason: str, message: str) -> dict[str, str]:
        return {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": moment,
        }

    short = "pod set main: cpu of flavor default: needs 1, 0 free, short by 1, at most 4"
    status: dict[str, Any] = {
        "conditions": [
            condition("QuotaReserved", "False", "Pending", short),
            condition("quorate.dev/Waiting", "True", waits_for, short),
        ]
    }
    if number % 4 == 0:
        assigned = {
            "name": "main", "flavors": {"cpu": "default", "memory": "default"}, "count": 1,
            "resourceUsage": {"cpu": "1", "memory": "1Gi"},
        }  # fmt: skip
        status = {
            "conditions": [condition(type_, "True", type_, "") for type_ in ("QuotaReserved", "Admitted")],
            "admission": {"clusterQueue": queue, "podSetAssignments": [assigned]},
        }
    body = {
        "metadata": {
            "name": f"job-{number}", "namespace": namespace, "uid": f"uid-{number}",
            "resourceVersion": str(version),
            "creationTimestamp": f"2026-01-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z",
            "labels": {"team": namespace, "model": f"model-{number % 7}"},
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": f"job-{number}", "uid": f"of-{number}"}
            ],
        },
        "spec": {
            "queueName": "queue", "priority": number % 3,
            "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}],
        },
        "status": status,
    }  # fmt: skip
    return codec.decode(Workload, codec.encode(body))


class World:
    """Data of 10,000 workloads in 100 cluster queues of ten cohorts, and of 5,000 nodes."""

    def __init__(self) -> None:
        self.data = data = ClusterData(default_configuration())
        state = data.state
        state.put_flavor(codec.convert(ResourceFlavor, {"metadata": {"name": "default"}}))
        tas = {"metadata": {"name": "tas"}, "spec": {"topologyName": "tree"}}
        state.put_flavor(codec.convert(ResourceFlavor, tas))
        levels = [{"nodeLabel": label} for label in ("block", "rack", "kubernetes.io/hostname")]
        topology = codec.convert(Topology, {"metadata": {"name": "tree"}, "spec": {"levels": levels}})
        data.topologies["tree"] = topology
        state.put_topology(topology)
        data.without_pods.put_topology(topology)
        for number in range(QUEUES):
            resources = [{"name": name, "nominalQuota": "100"} for name in ("cpu", "memory")]
            groups = [
                {
                    "coveredResources": ["cpu", "memory"],
                    "flavors": [{"name": "default", "resources": resources}],
                }
            ]
            spec = {"namespaceSelector": {}, "cohortName": f"cohort-{number % 10}", "resourceGroups": groups}
            queue = {"metadata": {"name": f"queue-{number}"}, "spec": spec}
            state.put_cluster_queue(codec.convert(ClusterQueue, queue))
            state.put_namespace(f"team-{number}", {})
            local = {
                "metadata": {"name": "queue", "namespace": f"team-{number}"},
                "spec": {"clusterQueue": f"queue-{number}"},
            }
            state.put_local_queue(codec.convert(LocalQueue, local))
        for number in range(NODES):
            self._put_node(number)
        self._version = 1
        self._changing = cycle(number for number in range(WORKLOADS) if number % 4)
        for number in range(WORKLOADS):
            self._put(a_workload(number))

    def _put(self, workload: Workload) -> None:
        self.data.state.put_workload(workload, NOW)
        self.data.workloads.on_change(Change(None, workload))

    def _put_node(self, number: int) -> None:
        name = f"node-{number}"
        labels = {"block": f"b{number // 500}", "rack": f"r{number // 20}", "kubernetes.io/hostname": name}
        node = codec.convert(
            HostNode,
            {
                "metadata": {"name": name, "labels": labels},
                "status": {
                    "allocatable": {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8", "pods": "110"},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            },
        )
        pod = codec.convert(
            Pod,
            {
                "metadata": {"name": f"pod-{number}", "namespace": "default", "uid": f"pod-{number}"},
                "spec": {
                    "nodeName": name,
                    "containers": [{"name": "main", "resources": {"requests": {"cpu": f"{number % 60}"}}}],
                },
                "status": {"phase": "Running"},
            },
        )
        self.data.state.nodes.put_node(node)
        self.data.without_pods.put_node(node)
        self.data.state.nodes.put_pod(pod)
        self.data.count_pod(pod.metadata.key, None, pod)

    def change(self) -> None:
        """Let one pending workload wait for another reason."""
        self._version += 1
        reasons = ("QuotaShort", "QuotaExceeded", "AwaitingPreemption")
        self._put(a_workload(next(self._changing), self._version, reasons[self._version % 3]))

    def milliseconds(self, view: Callable[[], object]) -> float:
        """Return the median time of a view, each after a change."""
        taken = []
        for _ in range(CHANGES):
            self.change()
            self.data.pod_revision += 1
            before = thread_time()
            view()
            taken.append((thread_time() - before) * 1_000)
        return median(taken)


def measure() -> dict[str, float]:
    world = World()
    data = world.data
    red = Viewer(
        Scope(frozenset({"team-7"}), cluster_queues=False), nodes=False, pod_group_namespaces=frozenset()
    )

    def page(viewer: Viewer = ADMINISTRATOR, **query: Any) -> Callable[[], object]:
        return lambda: workload_views.workloads(data, viewer, WorkloadQuery(**query), NO_ESTIMATES)

    found = workload_views.workloads(data, ADMINISTRATOR, WorkloadQuery(), NO_ESTIMATES)
    assert (found.total, len(found.items)) == (WORKLOADS, 100), "measure pages, not empty lists"
    seen = overview.overview(data, ADMINISTRATOR, NOW)
    assert seen.counts.pending == WORKLOADS * 3 // 4
    assert sum(len(each.cluster_queues) for each in seen.cohorts) == QUEUES
    gang = Gang(pods=64, requests={"nvidia.com/gpu": 8})
    return {
        "dashboard: page of 100, ms": world.milliseconds(page()),
        "dashboard: page of 500, ms": world.milliseconds(page(limit=500)),
        "dashboard: page of what matches a word, ms": world.milliseconds(page(q="model-3")),
        "dashboard: page in the order of the queues, ms": world.milliseconds(page(sort="position")),
        "dashboard: page of a tenant, ms": world.milliseconds(page(red)),
        "dashboard: overview, ms": world.milliseconds(lambda: overview.overview(data, ADMINISTRATOR, NOW)),
        "dashboard: overview of a tenant, ms": world.milliseconds(lambda: overview.overview(data, red, NOW)),
        "dashboard: cluster queues, ms": world.milliseconds(
            lambda: queue_views.cluster_queues(data, ADMINISTRATOR, NOW)
        ),
        "dashboard: search, ms": world.milliseconds(
            lambda: search.search(data, ADMINISTRATOR, "job-9999", 20)
        ),
        "dashboard: 5,000 nodes, ms": world.milliseconds(
            lambda: node_views.nodes(data, ADMINISTRATOR, "tree", gang)
        ),
        "dashboard: a change, ms": _cost_of_a_change(world),
        "dashboard: a second of notices, ms": _cost_of_notices(data),
    }


def _cost_of_a_change(world: World) -> float:
    changes = [a_workload(number, 1_000_000) for number in range(0, WORKLOADS, 10)]
    before = thread_time()
    for workload in changes:
        world._put(workload)
    return (thread_time() - before) * 1_000 / len(changes)


def _cost_of_notices(data: ClusterData) -> float:
    """Return the time for the notices of 100 changes to 200 clients, each with rights of its own."""
    feed = ChangeFeed(WallClock(), data.cluster_queues)
    viewers = [
        Viewer(Scope(frozenset({f"team-{number}"}), False), nodes=False, pod_group_namespaces=frozenset())
        for number in range(CLIENTS)
    ]
    for number, key in enumerate(list(data.workloads.by_key)[:100]):
        feed.note(Changed("workload", key, (f"queue-{number % QUEUES}",)))
    topics = [feed.topics_since(0, viewer) for viewer in viewers]
    assert ("*",) not in topics
    before = thread_time()
    for viewer in viewers:  # two notices a second
        feed.topics_since(0, viewer)
        feed.topics_since(50, viewer)
    return (thread_time() - before) * 1_000


def main(
    rounds: Annotated[int, typer.Option(min=1, help="How often everything is measured.")] = 3,
) -> None:
    values: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, value in measure().items():
            values.setdefault(name, []).append(value)
    sys.exit(check_limits(values, Console()))


if __name__ == "__main__":
    typer.run(main)
