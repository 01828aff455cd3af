"""``kr8s``, the client of Dask's operator."""

import kr8s
from kr8s.objects import ConfigMap, Deployment, Job, Node, Pod, new_class

from tests.clients.programs.jobs import QUEUE_LABEL, config_map, job, pod_spec


def a_queued_job_waits_runs_and_ends() -> None:
    first, second = Job(job("first", duration="3s")), Job(job("second"))
    first.create()
    started = kr8s.watch("jobs", field_selector="metadata.name=first")
    next(seen for _, seen in started if seen.raw.get("status", {}).get("active"))
    second.create()
    second.wait("condition=Suspended", timeout=30)
    second.wait("condition=Complete", timeout=60)
    second.refresh()
    assert second.status.succeeded == 1
    assert second.status.startTime >= first_completion(first)


def first_completion(job_object: Job) -> str:
    job_object.refresh()
    return str(job_object.status.completionTime)


def a_failed_job_is_reported() -> None:
    failing = Job(job("failing", exit_code=3))
    failing.create()
    failing.wait(["condition=Failed", "condition=Complete"], timeout=60)
    (pod,) = kr8s.get("pods", label_selector="job-name=failing")
    assert pod.status.containerStatuses[0].state.terminated.exitCode == 3


def objects_are_created_changed_and_deleted() -> None:
    one = ConfigMap(config_map("one", a="1"))
    one.create()
    one.label(team="red")
    one.annotate({"note": "text"})
    one.patch({"data": {"b": "2"}})
    one.patch([{"op": "remove", "path": "/data/a"}], type="json")
    (read,) = kr8s.get("configmaps", label_selector={"team": "red"})
    assert (read.data, read.annotations) == ({"b": "2"}, {"note": "text"})
    one.delete()
    one.wait("delete", timeout=30)
    assert not one.exists()


def kinds_are_found_in_discovery() -> None:
    names = {each["name"] for each in kr8s.api().api_resources()}
    assert {"pods", "jobs", "clusterqueues", "podgroups"} <= names
    queue_kind = new_class("ClusterQueue", "kueue.x-k8s.io/v1beta2", namespaced=False)
    assert queue_kind.get("research").spec.resourceGroups
    assert kr8s.get("clusterqueues", "research")
    assert int(kr8s.api().version()["minor"].rstrip("+")) >= 28


def nodes_are_cordoned_and_deployments_are_scaled() -> None:
    (node,) = kr8s.get("nodes")
    assert isinstance(node, Node)
    node.cordon()
    node.refresh()
    assert node.unschedulable
    node.uncordon()
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec() | {"restartPolicy": "Always"}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    deployment = Deployment({"metadata": {"name": "web"}, "spec": spec})
    deployment.create()
    deployment.wait("condition=Available", timeout=60)
    deployment.scale(2)
    deployment.wait("jsonpath='{.status.readyReplicas}'=2", timeout=60)
    assert [each.status.phase for each in kr8s.get("pods", label_selector="app=web")] == ["Running"] * 2


def a_watch_reports_the_life_of_a_pod() -> None:
    metadata = {"name": "plain", "labels": QUEUE_LABEL}
    pod = Pod({"metadata": metadata, "spec": pod_spec()})
    pod.create()
    phases = []
    for _, seen in kr8s.watch("pods", field_selector="metadata.name=plain"):
        phases.append(seen.status.get("phase"))
        if phases[-1] == "Succeeded":
            break
    assert phases.index("Pending") < phases.index("Running") < phases.index("Succeeded")
