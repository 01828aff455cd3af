"""States of workloads as the administrator of a cluster sees them, and a tenant that may ``view``."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from quorate.api import codec
from quorate.api.explanation import Explanation
from quorate.api.meta import Key
from quorate.kube.resources import PODS, SERVICE_ACCOUNTS
from quorate.sdk.blocking import run_blocking
from quorate.sdk.cluster import Cluster
from quorate.testing.server import ClusterServer, ClusterSettings
from tests.e2e.commands import poll, quorate
from tests.e2e.queue_manifests import FLAVOR, cpu_queue

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]

WITHIN_S = 60.0
ESTIMATED_S = 240.0  # ten seconds of waiting come first, then a process with a lower priority
RESEARCH = cpu_queue(
    "research", 8, "team/main", "others/main", field="preemption: {withinClusterQueue: LowerPriority}"
)
NO_PODS = """
apiVersion: v1
kind: ResourceQuota
metadata: {name: none, namespace: team}
spec: {hard: {pods: 0}}
"""
WORLD = f"""
apiVersion: v1
kind: Namespace
metadata: {{name: team}}
---
apiVersion: v1
kind: Namespace
metadata: {{name: others}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {{name: tenant, namespace: team}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: tenant, namespace: team}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}}
subjects: [{{kind: ServiceAccount, name: tenant, namespace: team}}]
---{FLAVOR}---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {{name: high}}
value: 100
---{RESEARCH}"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    server = ClusterServer(tmp_path / "server")
    try:
        settings = ClusterSettings(nodes=1, cpu="8", memory="16Gi", pods=110, speed=10.0, configuration=None)
        yield Cluster(server.start(settings).kubeconfig, namespace="team")
    finally:
        server.close()


def test_states_are_the_same_for_an_administrator_and_a_tenant(cluster: Cluster, tmp_path: Path) -> None:
    cluster.apply(WORLD)
    tenant = tenant_of(cluster, tmp_path / "tenant")

    def both(job: str, until: Callable[[Explanation], object]) -> list[Explanation]:
        """Return what both see of a job once both see that."""
        for each in (cluster, tenant):
            poll(partial(explained, each, job), lambda found: bool(until(found)), WITHIN_S)
        return [explained(each, job) for each in (cluster, tenant)]

    cluster.apply(a_job("gated", schedulingGates=[{"name": "lab.example/data"}]))
    for found in both("job/gated", lambda found: found.pods and found.pods.created):
        assert (found.state, [each.code for each in found.reasons]) == ("Admitted", ["PodsGated"])
        assert found.message == "it is admitted; 0 of 1 pods run: 1 with the gate lab.example/data"
    cluster.delete("job", "gated")

    cluster.apply(NO_PODS)
    cluster.apply(a_job("refused"))
    for found in both("job/refused", lambda found: "exceeded quota" in found.message):
        assert (found.state, [each.code for each in found.reasons]) == ("Admitted", ["PodsNotCreated"])
        assert "exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0" in found.message
        assert found.enough == ("the API server must accept them: change what it names",)
    cluster.delete("job", "refused")
    cluster.delete("resourcequota", "none")

    cluster.apply(a_job("picky", nodeSelector={"disk": "nvme"}))
    for found in both("job/picky", lambda found: len(found.reasons) == 2):
        assert (found.state, found.code) == ("Stuck", "NodesLackRoom")
        assert [each.code for each in found.reasons] == ["PodsUnschedulable", "NodesLackRoom"]
        assert "0 of 1 nodes accept their node selector" in found.message
    cluster.delete("job", "picky")

    cluster.apply(a_job("absent", annotations={"simulate.quorate.dev/start-delay": "1h"}))
    poll(lambda: bound_pods(cluster, "absent"), bool, WITHIN_S)
    (pod,) = bound_pods(cluster, "absent")
    report_image_failure(cluster, pod)
    for found in both("job/absent", lambda found: "ImagePullBackOff" in found.message):
        assert (found.state, [each.code for each in found.reasons]) == ("Stuck", ["ContainersWaiting"])
        assert found.message == "it is admitted; 0 of 1 pods run: 1 starting on a node (ImagePullBackOff)"
        assert found.enough == ("its images must be pulled: check their names and the pull secrets",)
    cluster.delete("job", "absent")

    cluster.apply(a_job("low", cpu="5"))
    both("job/low", lambda found: found.state == "Running")
    labels = {"kueue.x-k8s.io/priority-class": "high"}
    cluster.apply(a_job("urgent", namespace="others", cpu="6", labels=labels))
    seen, hidden = both("job/low", lambda found: "it is queued again" in found.message)
    (urgent,) = cluster.list("workloads", namespace="others")
    name = f"others/{urgent['metadata']['name']}"
    assert seen.message.startswith(f"it was preempted for {name}; it is queued again")
    assert hidden.message.startswith("it was preempted for a workload that you may not read; it is queued")
    assert (seen.state, seen.reasons[0].code, str(seen.reasons[0].object)) == (
        "Queued", "Preempted", f"Workload {name}",
    )  # fmt: skip
    assert name.encode() not in codec.encode(hidden)
    assert tenant.explain("lq/main")[0].state == "Active"

    (low,) = tenant.list("workloads")

    def forecast() -> str:
        kubeconfig = str(tmp_path / "tenant")
        return quorate("queue", "forecast", "lq/main", "-n", "team", "--kubeconfig", kubeconfig).stdout

    poll(forecast, lambda text: low["metadata"]["name"] in text, ESTIMATED_S)
    misspelt = quorate("queue", "forecast", "lq/mian", "-n", "team", "--kubeconfig", str(tmp_path / "tenant"))
    assert "LocalQueue team/mian does not exist (did you mean main?)" in misspelt.stderr


def explained(cluster: Cluster, job: str) -> Explanation:
    (found,) = cluster.explain(job)
    return found


def bound_pods(cluster: Cluster, job: str) -> list[str]:
    """Return the names of the pods of a job that are bound to nodes."""
    pods = cluster.list("pods", label_selector=f"batch.kubernetes.io/job-name={job}")
    return [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")]


def report_image_failure(cluster: Cluster, pod: str) -> None:
    """Report as a kubelet does that the image of the pod cannot be pulled."""
    container = {
        "name": "main", "image": "train", "imageID": "", "ready": False, "restartCount": 0,
        "state": {"waiting": {"reason": "ImagePullBackOff"}},
    }  # fmt: skip

    async def report() -> None:
        async with cluster.connect() as (client, _):
            status = {"status": {"containerStatuses": [container]}}
            await client.patch(PODS, Key("team", pod), status, subresource="status")

    run_blocking(report)


def tenant_of(cluster: Cluster, file: Path) -> Cluster:
    """Return the cluster with the token of the service account of the tenant."""

    async def token() -> str:
        body = codec.encode({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
        async with cluster.connect() as (client, _):
            answer = await client.request("POST", SERVICE_ACCOUNTS.path("team", "tenant", "token"), body=body)
        granted: str = json.loads(answer)["status"]["token"]
        return granted

    assert isinstance(cluster.kubeconfig, Path)
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": run_blocking(token)}
    file.write_text(yaml.safe_dump(config))
    return Cluster(file, namespace="team")


def a_job(
    name: str,
    cpu: str = "1",
    namespace: str = "team",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **pod: Any,
) -> dict[str, Any]:
    container = {"name": "main", "image": "train", "resources": {"requests": {"cpu": cpu}}}
    template = {
        "metadata": {"annotations": {"simulate.quorate.dev/duration": "forever", **(annotations or {})}},
        "spec": {"restartPolicy": "Never", "containers": [container], **pod},
    }
    labels = {"kueue.x-k8s.io/queue-name": "main", **(labels or {})}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"suspend": True, "template": template},
    }
