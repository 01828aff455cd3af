"""``python -m bench.dispatch.copies``: the memory of the copies of workloads in the caches of a manager.

Each workload has a pod template of its own, as a Job gets the labels of its pods from its name, and a copy in
each of five worker clusters, of which one has admitted it.
"""

import gc
import sys
import tracemalloc
from collections.abc import Iterator

from rich.console import Console

from bench.limits import check_limits
from quorate.api import codec
from quorate.api.interning import share_unchanged_metadata
from quorate.api.meta import Key
from quorate.controllers.multikueue.workload_copy import WORKLOAD_COPIES, WorkloadCopy
from quorate.kube.resources import Json
from quorate.kube.rest.decoding import WatchEvent, decode_frame

CLUSTERS = 5
WORKLOADS = 5_000


def bytes_a_copy() -> float:
    """Return the memory of one copy: decoded from the events of a watch, and in the cache of its informer."""
    caches: list[dict[Key, WorkloadCopy]] = [{} for _ in range(CLUSTERS)]

    def add(number: int) -> None:
        for cluster, cache in enumerate(caches):
            for document in _versions(number, cluster, is_admitted=cluster == number % CLUSTERS):
                line = codec.encode({"type": "MODIFIED", "object": document})
                event = decode_frame(WORKLOAD_COPIES, "watch", line)
                assert isinstance(event, WatchEvent)
                metadata = event.object.metadata
                if metadata.key in cache:
                    share_unchanged_metadata(cache[metadata.key].metadata, metadata)
                cache[metadata.key] = event.object

    for number in range(WORKLOADS):  # fills the caches of equal values
        add(number)
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(WORKLOADS, 2 * WORKLOADS):
        add(number)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / (CLUSTERS * WORKLOADS)


def _versions(number: int, cluster: int, *, is_admitted: bool) -> Iterator[Json]:
    """Yield the copy after its creation, and after the decision of the worker cluster."""
    name = f"job-train-{number:06}-4f2a1"
    metadata: Json = {
        "name": name,
        "namespace": "research",
        "uid": f"5d0c7b8e-9a41-4c2e-8f3b-{cluster:04}{number:08}",
        "creationTimestamp": "2026-11-20T10:00:00Z",
        "labels": {"kueue.x-k8s.io/multikueue-origin": "multikueue"},
        "annotations": {"example.com/run": str(number)},
        "finalizers": ["kueue.x-k8s.io/resource-in-use"],
    }
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}
    template = {
        "metadata": {"labels": {"job-name": f"train-{number}", "batch.kubernetes.io/job-name": name}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    spec = {
        "queueName": "train",
        "podSets": [{"name": "main", "count": 3, "template": template}],
        "priority": 0,
        "active": True,
    }
    yield {"metadata": {**metadata, "resourceVersion": str(2 * number + cluster)}, "spec": spec}
    message = f"couldn't assign flavors to pod set main: insufficient quota, {number % 90} more needed"
    conditions = [_condition("QuotaReserved", "Pending", message, is_true=False)]
    if is_admitted:
        message = "Quota reserved in ClusterQueue train, wait time since queued was 12s"
        conditions = [
            _condition(type_, type_, message, is_true=True) for type_ in ("QuotaReserved", "Admitted")
        ]
        metadata["ownerReferences"] = [
            {"apiVersion": "batch/v1", "kind": "Job", "name": f"train-{number}", "uid": metadata["uid"]}
        ]
    status = {
        "conditions": conditions,
        "resourceRequests": [{"name": "main", "resources": {"cpu": "3", "memory": "6Gi"}}],
    }
    version = {"resourceVersion": str(900_000 + 2 * number + cluster)}
    yield {"metadata": {**metadata, **version}, "spec": spec, "status": status}


def _condition(type_: str, reason: str, message: str, *, is_true: bool) -> Json:
    return {
        "type": type_,
        "status": "True" if is_true else "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-11-20T10:00:12Z",
    }


if __name__ == "__main__":
    sys.exit(check_limits({"dispatch: bytes a copy": [bytes_a_copy() for _ in range(3)]}, Console()))
