"""The objects of a scenario as sent to an API server.

Each queue has a separate namespace with the same name, as in Kueue's benchmark.  All names begin with
``bench-`` and a tag of the run: a server without a namespace controller never deletes a namespace.
"""

from typing import Any, Final

from bench.worlds import WorkloadClass, World

Json = dict[str, Any]

CLASS: Final = "quorate.dev/bench-class"
RUNS_MS: Final = "quorate.dev/bench-runs-ms"
CPUS: Final = "quorate.dev/bench-cpus"


def named(name: str) -> Json:
    """Return a namespace."""
    return {"metadata": {"name": name}}


def local_queue(queue: str) -> Json:
    return {"metadata": {"namespace": queue, "name": queue}, "spec": {"clusterQueue": queue}}


def cluster_queue(world: World, queue: str, flavor: str) -> Json:
    quota = {"name": "cpu", "nominalQuota": str(world.nominal), "borrowingLimit": str(world.borrowing)}
    return {
        "metadata": {"name": queue},
        "spec": {
            "cohortName": queue.rpartition("-")[0],
            "namespaceSelector": {},
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
            "resourceGroups": [
                {"coveredResources": ["cpu"], "flavors": [{"name": flavor, "resources": [quota]}]}
            ],
        },
    }


def workload(queue: str, class_: WorkloadClass, number: int) -> Json:
    """Return workload ``number`` of its class; its labels are for the job simulator and the floor."""
    return {
        "metadata": {
            "namespace": queue,
            "name": f"{class_.name}-{number}",
            "labels": {CLASS: class_.name, RUNS_MS: str(class_.runs_ms), CPUS: str(class_.cpu)},
        },
        "spec": {
            "queueName": queue,
            "priority": class_.priority,
            "podSets": [class_.pod_set()],
        },
    }
