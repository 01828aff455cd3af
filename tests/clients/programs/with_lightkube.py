"""``lightkube``, a typed client with models generated for each version of Kubernetes."""

from lightkube import ApiError, Client
from lightkube.codecs import from_dict
from lightkube.generic_resource import load_in_cluster_generic_resources
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import ConfigMap, Node, Pod
from lightkube.types import PatchType

from tests.clients.programs.jobs import job


def a_queued_job_waits_runs_and_ends() -> None:
    client = Client()
    client.create(from_dict(job("first", duration="3s")))
    next(seen for _, seen in client.watch(Job, fields={"metadata.name": "first"}) if seen.status.active)
    client.create(from_dict(job("second")))
    states = []
    for _, seen in client.watch(Job, fields={"metadata.name": "second"}):
        states += [each.type for each in seen.status.conditions or [] if each.status == "True"]
        if "Complete" in states:
            break
    assert states.index("Suspended") < states.index("Complete")
    ended = client.wait(Job, "first", for_conditions=["Complete", "Failed"])
    assert ended.status.succeeded == 1
    assert [each.status.phase for each in client.list(Pod, labels={"job-name": "second"})] == ["Succeeded"]


def objects_are_created_applied_and_deleted() -> None:
    client = Client(field_manager="alice")
    metadata = ObjectMeta(name="one", labels={"app": "client"})
    client.create(ConfigMap(metadata=metadata, data={"a": "1"}))
    client.patch(ConfigMap, "one", {"data": {"b": "2"}}, patch_type=PatchType.MERGE)
    typed = ConfigMap(apiVersion="v1", kind="ConfigMap", metadata=ObjectMeta(name="two"), data={"a": "1"})
    client.apply(typed)
    typed.data = {"a": "2"}
    try:
        client.apply(typed, field_manager="bob")
    except ApiError as refusal:
        assert (refusal.status.code, refusal.status.reason) == (409, "Conflict")
        assert refusal.status.details.causes[0].field == ".data.a"
    else:
        raise AssertionError("no conflict")
    assert client.apply(typed, field_manager="bob", force=True).data == {"a": "2"}
    assert {each.metadata.name for each in client.list(ConfigMap, chunk_size=1)} >= {"one", "two"}
    client.delete(ConfigMap, "one")
    try:
        client.get(ConfigMap, "one")
    except ApiError as refusal:
        assert refusal.status.reason == "NotFound"
    else:
        raise AssertionError("not deleted")


def custom_resources_come_from_their_definitions() -> None:
    client = Client()
    load_in_cluster_generic_resources(client)
    queue = from_dict(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "LocalQueue",
            "metadata": {"name": "applied", "namespace": "default"},
            "spec": {"clusterQueue": "research"},
        }
    )
    assert client.apply(queue, field_manager="client").spec["clusterQueue"] == "research"


def the_models_have_all_fields_of_a_node() -> None:
    (node,) = Client().list(Node)
    assert node.status.allocatable["cpu"] == "8"
    assert any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)
