"""The Jobs and pods that the programs create; clients with types take them as ``Any``."""

from typing import Any

QUEUE_LABEL = {"kueue.x-k8s.io/queue-name": "research"}


def pod_spec(cpu: str = "1") -> dict[str, Any]:
    container = {"name": "main", "image": "train", "resources": {"requests": {"cpu": cpu}}}
    return {"restartPolicy": "Never", "containers": [container]}


def job(name: str, *, duration: str = "1s", exit_code: int = 0) -> Any:
    """Return a Job of one pod of 1 cpu in local queue ``research``."""
    annotations = {
        "simulate.quorate.dev/duration": duration,
        "simulate.quorate.dev/exit-code": str(exit_code),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": QUEUE_LABEL},
        "spec": {
            "backoffLimit": 0,
            "template": {"metadata": {"annotations": annotations}, "spec": pod_spec()},
        },
    }


def config_map(name: str, **data: str) -> Any:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"app": "client"}},
        "data": data,
    }
