"""The official Python client, ``kubernetes``."""

import inspect
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from kubernetes import client, config, dynamic, stream, utils, watch
from kubernetes.client.exceptions import ApiException

from tests.clients.programs.jobs import config_map, job, pod_spec

NAMESPACE = "default"


def connect() -> client.ApiClient:
    config.load_kube_config()
    return client.ApiClient()


def refused(call: Callable[[], object]) -> ApiException:
    """Return the refusal of a call that must be refused."""
    try:
        call()
    except ApiException as refusal:
        return refusal
    raise AssertionError("accepted")


def a_queued_job_waits_runs_and_ends() -> None:
    batch = client.BatchV1Api(connect())
    before = batch.list_namespaced_job(NAMESPACE).metadata.resource_version
    batch.create_namespaced_job(NAMESPACE, job("first", duration="3s"))
    history: dict[str, list[str]] = {"first": [], "second": []}
    changes = watch.Watch().stream(
        batch.list_namespaced_job, NAMESPACE, resource_version=before, timeout_seconds=60
    )
    for event in changes:
        current = event["object"]
        conditions = [each.type for each in current.status.conditions or [] if each.status == "True"]
        state = "Active" if current.status.active else (conditions or ["-"])[-1]
        history[current.metadata.name].append(state)
        if state == "Active" and history["first"].count(state) == 1 and not history["second"]:
            batch.create_namespaced_job(NAMESPACE, job("second"))
        if all(states and states[-1] == "Complete" for states in history.values()):
            break
    assert "Active" in history["first"], history
    assert history["second"].index("Suspended") < history["second"].index("Active"), history
    status = batch.read_namespaced_job_status("second", NAMESPACE).status
    assert status.succeeded == 1
    assert status.completion_time > status.start_time


def objects_are_created_read_changed_and_deleted() -> None:
    core = client.CoreV1Api(connect())
    created = core.create_namespaced_config_map(NAMESPACE, config_map("one", a="1", b="2"))
    assert created.metadata.uid
    assert created.metadata.creation_timestamp.tzinfo is not None

    created.data["a"] = "3"
    replaced = core.replace_namespaced_config_map("one", NAMESPACE, created)
    assert replaced.data == {"a": "3", "b": "2"}
    conflict = refused(lambda: core.replace_namespaced_config_map("one", NAMESPACE, created))
    assert (conflict.status, conflict.reason) == (409, "Conflict")

    patched = core.patch_namespaced_config_map("one", NAMESPACE, {"data": {"b": None, "c": "4"}})
    assert patched.data == {"a": "3", "c": "4"}
    operations = [{"op": "test", "path": "/data/a", "value": "3"}, {"op": "remove", "path": "/data/a"}]
    assert core.patch_namespaced_config_map("one", NAMESPACE, operations).data == {"c": "4"}

    core.create_namespaced_config_map(NAMESPACE, config_map("two"))
    selected = core.list_namespaced_config_map(NAMESPACE, label_selector="app in (client)")
    assert [each.metadata.name for each in selected.items] == ["one", "two"]
    named = core.list_namespaced_config_map(NAMESPACE, field_selector="metadata.name=two")
    assert [each.metadata.name for each in named.items] == ["two"]

    core.delete_namespaced_config_map("one", NAMESPACE, body=client.V1DeleteOptions(grace_period_seconds=0))
    missing = refused(lambda: core.read_namespaced_config_map("one", NAMESPACE))
    assert (missing.status, missing.reason) == (404, "Not Found")
    assert '"reason":"NotFound"' in missing.body
    core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="app=client")
    assert core.list_namespaced_config_map(NAMESPACE, label_selector="app=client").items == []


def a_dry_run_changes_nothing() -> None:
    core = client.CoreV1Api(connect())
    dry = core.create_namespaced_config_map(NAMESPACE, config_map("dry"), dry_run="All")
    assert dry.metadata.uid
    assert refused(lambda: core.read_namespaced_config_map("dry", NAMESPACE)).status == 404


def a_watch_reports_each_change_and_resumes() -> None:
    core = client.CoreV1Api(connect())
    start = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version

    def change() -> None:
        core.create_namespaced_config_map(NAMESPACE, config_map("seen"))
        core.patch_namespaced_config_map("seen", NAMESPACE, {"data": {"a": "1"}})
        core.delete_namespaced_config_map("seen", NAMESPACE)

    changing = threading.Timer(0.5, change)
    changing.start()
    events = events_of(core.list_namespaced_config_map, start)
    seen = [next(events) for _ in range(3)]
    changing.join()
    assert [event["type"] for event in seen] == ["ADDED", "MODIFIED", "DELETED"]
    resumed = events_of(core.list_namespaced_config_map, seen[0]["object"].metadata.resource_version)
    assert [next(resumed)["type"] for _ in range(2)] == ["MODIFIED", "DELETED"]


def events_of(list_objects: Callable[..., Any], version: str) -> Iterator[Any]:
    arguments = {"label_selector": "app=client", "resource_version": version, "timeout_seconds": 20}
    yield from watch.Watch().stream(list_objects, NAMESPACE, **arguments)


def a_list_is_read_in_pages() -> None:
    core = client.CoreV1Api(connect())
    for index in range(5):
        core.create_namespaced_config_map(NAMESPACE, config_map(f"page-{index}"))
    names: list[str] = []
    following = None
    while following != "":
        page = core.list_namespaced_config_map(
            NAMESPACE, label_selector="app=client", limit=2, _continue=following
        )
        assert len(page.items) <= 2
        names += [each.metadata.name for each in page.items]
        following = page.metadata._continue or ""
    assert names == [f"page-{index}" for index in range(5)]


def server_side_apply_names_the_manager_in_conflict() -> None:
    resources = dynamic.DynamicClient(connect()).resources
    maps = resources.get(api_version="v1", kind="ConfigMap")

    def apply(manager: str, *, force: bool = False, **data: str) -> Any:
        body = config_map("shared", **data)
        return maps.server_side_apply(
            body=body, namespace=NAMESPACE, field_manager=manager, force_conflicts=force
        )

    apply("alice", color="red", size="1")
    conflict = refused(lambda: apply("bob", color="blue"))
    assert conflict.status == 409
    assert "alice" in str(conflict.body)
    assert apply("bob", force=True, color="blue").data.to_dict() == {"color": "blue", "size": "1"}
    assert apply("alice", size="2").data.to_dict() == {"color": "blue", "size": "2"}


def custom_resources_have_status_and_scale() -> None:
    connection = connect()
    custom = client.CustomObjectsApi(connection)
    kind = ("kueue.x-k8s.io", "v1beta2", "clusterqueues")
    queue = custom.get_cluster_custom_object_status(*kind, "research")
    assert queue["spec"]["resourceGroups"][0]["coveredResources"] == ["cpu"]
    custom.patch_cluster_custom_object(*kind, "research", {"spec": {"stopPolicy": "Hold"}})
    queues = dynamic.DynamicClient(connection).resources.get(
        api_version="kueue.x-k8s.io/v1beta2", kind="ClusterQueue"
    )
    assert queues.get(name="research").spec.stopPolicy == "Hold"
    refusal = refused(
        lambda: custom.patch_cluster_custom_object(*kind, "research", {"spec": {"stopPolicy": "Never"}})
    )
    assert refusal.status == 422
    assert "spec.stopPolicy" in refusal.body

    apps = client.AppsV1Api(connection)
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec() | {"restartPolicy": "Always"}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    apps.create_namespaced_deployment(NAMESPACE, {"metadata": {"name": "web"}, "spec": spec})
    apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 2}})
    assert apps.read_namespaced_deployment_scale("web", NAMESPACE).spec.replicas == 2


def manifests_are_created_from_files() -> None:
    connection = connect()
    utils.create_from_yaml(connection, yaml_objects=[job("from-file"), config_map("from-file")])
    again = [*utils_failures(connection, job("from-file"))]
    assert [(each.status, each.reason) for each in again] == [(409, "Conflict")]


def utils_failures(connection: client.ApiClient, body: dict[str, Any]) -> Iterator[ApiException]:
    try:
        utils.create_from_yaml(connection, yaml_objects=[body])
    except utils.FailToCreateError as failure:
        yield from failure.api_exceptions


def rights_are_reviewed() -> None:
    connection = connect()
    attributes = {"verb": "create", "group": "batch", "resource": "jobs", "namespace": NAMESPACE}
    review = client.AuthorizationV1Api(connection).create_self_subject_access_review(
        {"spec": {"resourceAttributes": attributes}}
    )
    assert review.status.allowed
    core = client.CoreV1Api(connection)
    core.create_namespaced_service_account(NAMESPACE, {"metadata": {"name": "robot"}})
    token = core.create_namespaced_service_account_token("robot", NAMESPACE, {"spec": {}}).status.token
    reviewed = client.AuthenticationV1Api(connection).create_token_review({"spec": {"token": token}})
    assert reviewed.status.user.username == "system:serviceaccount:default:robot"


def every_list_of_the_client_is_read() -> None:
    """Whatever the server lists has all fields which the client requires, or is not served at all."""
    connection = connect()
    batch = client.BatchV1Api(connection)
    batch.create_namespaced_job(NAMESPACE, job("filler", duration="forever"))
    apis = [getattr(client, name) for name in dir(client) if name.endswith("Api")]
    apis.remove(client.EventsV1Api)  # requires eventTime, which core/v1 events lack on each Kubernetes
    for api in apis:
        for name, method in inspect.getmembers(api(connection), inspect.ismethod):
            if not name.startswith("list_") or name.endswith("_with_http_info"):
                continue
            required = [
                each
                for each in inspect.signature(method).parameters.values()
                if each.default is inspect.Parameter.empty and each.kind is each.POSITIONAL_OR_KEYWORD
            ]
            if [each.name for each in required] not in ([], ["namespace"]):
                continue  # of custom resources
            try:
                method(*[NAMESPACE for _ in required])
            except ApiException as refusal:
                assert refusal.status == 404, (api, name, refusal)


def the_log_of_a_process_is_read_and_a_command_is_run_in_it() -> None:
    core = client.CoreV1Api(connect())
    container = {"name": "main", "image": "host", "command": ["sh", "-c", "echo one; echo two; sleep 600"]}
    core.create_namespaced_pod(
        NAMESPACE, {"metadata": {"name": "real"}, "spec": pod_spec() | {"containers": [container]}}
    )
    until_running(core, "real")

    followed = watch.Watch().stream(core.read_namespaced_pod_log, "real", NAMESPACE, _request_timeout=30)
    assert [next(followed) for _ in range(2)] == ["one", "two"]
    tail = core.read_namespaced_pod_log("real", NAMESPACE, tail_lines=1, _preload_content=False)
    assert tail.data == b"two\n"

    command = ["sh", "-c", "read line; echo out $line; echo err >&2; exit 3"]
    arguments = {"command": command, "stdin": True, "stdout": True, "stderr": True, "tty": False}
    session = stream.stream(
        core.connect_get_namespaced_pod_exec, "real", NAMESPACE, _preload_content=False, **arguments
    )
    session.write_stdin("typed\n")
    session.run_forever(timeout=30)
    assert (session.read_stdout(), session.read_stderr()) == ("out typed\n", "err\n")
    assert session.returncode == 3


def until_running(core: client.CoreV1Api, name: str) -> None:
    deadline = time.monotonic() + 60
    while core.read_namespaced_pod(name, NAMESPACE).status.phase != "Running":
        assert time.monotonic() < deadline
        time.sleep(0.2)
