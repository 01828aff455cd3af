"""The objects of the manager and of its worker clusters."""

from collections.abc import Iterator
from typing import Any

from quorate.api.names.multikueue import CONTROLLER

Json = dict[str, Any]

NAMESPACE = "bench"
QUEUE = "bench"
CONFIGURED_IN = "kueue-system"  # the namespace of the Secrets
_VERSION = "kueue.x-k8s.io/v1beta2"


def queues(cpus: int, *checks: str) -> Iterator[Json]:
    """Yield namespace, flavor and queues, with quota for ``cpus``."""
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    yield _kueue("ResourceFlavor", "default")
    flavor = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": str(cpus)}]}
    spec: Json = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}],
    }
    if checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in checks]}
    yield _kueue("ClusterQueue", QUEUE, spec)
    yield _kueue("LocalQueue", QUEUE, {"clusterQueue": QUEUE}, NAMESPACE)


def dispatch(kubeconfigs: dict[str, str]) -> Iterator[Json]:
    """Yield what connects the manager with worker clusters: by name, the kubeconfig of each."""
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CONFIGURED_IN}}
    for name, kubeconfig in kubeconfigs.items():
        metadata = {"name": name, "namespace": CONFIGURED_IN}
        yield {
            "apiVersion": "v1", "kind": "Secret", "metadata": metadata,
            "stringData": {"kubeconfig": kubeconfig},
        }  # fmt: skip
        yield _kueue("MultiKueueCluster", name, {"clusterSource": {"kubeConfig": {"location": name}}})
    yield _kueue("MultiKueueConfig", QUEUE, {"clusters": list(kubeconfigs)})
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": QUEUE}
    yield _kueue("AdmissionCheck", QUEUE, {"controllerName": CONTROLLER, "parameters": parameters})


def job(number: int) -> Json:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    return {
        "metadata": {
            "name": f"job-{number}",
            "namespace": NAMESPACE,
            "labels": {"kueue.x-k8s.io/queue-name": QUEUE},
        },
        "spec": {
            "suspend": True,
            "managedBy": CONTROLLER,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


def _kueue(kind: str, name: str, spec: Json | None = None, namespace: str = "") -> Json:
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": _VERSION, "kind": kind, "metadata": {"name": name, **where}, "spec": spec or {}}
