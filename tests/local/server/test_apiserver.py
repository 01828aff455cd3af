"""The API server over HTTP, one scenario per test, from an empty cluster."""

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from tests.local.clusters import RunningServer, api_server

pytestmark = pytest.mark.slow

Json = dict[str, Any]
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
MOMENT = "2024-01-02T03:04:05.000000Z"


class Api:
    """A client: a request is method, path and body, the response status and JSON."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def __call__(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Json]:
        written = body if isinstance(body, bytes) else msgspec.json.encode(body)
        data = None if body is None else io.BytesIO(written)
        named = {"Content-Type": "application/json"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        async with self._session.request(method, path, data=data, headers=named) as response:
            return response.status, msgspec.json.decode(await response.read())

    @asynccontextmanager
    async def watch(self, path: str) -> AsyncIterator[Callable[[], Coroutine[Any, Any, Json]]]:
        async with self._session.get(path) as response:
            assert response.status == 200

            async def next_frame() -> Json:
                async with asyncio.timeout(30):
                    frame: Json = msgspec.json.decode(await response.content.readline())
                return frame

            yield next_frame


@asynccontextmanager
async def client_of(server: RunningServer, token: str | None = None) -> AsyncIterator[Api]:
    headers = {"Authorization": f"Bearer {server.token if token is None else token}"}
    async with aiohttp.ClientSession(server.url, headers=headers if token != "" else None) as session:
        yield Api(session)


def with_api(test: Callable[[Api], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    async def scenario() -> None:
        async with api_server() as server, client_of(server) as api:
            await test(api)

    def synchronous() -> None:
        asyncio.run(scenario())

    synchronous.__name__, synchronous.__doc__ = test.__name__, test.__doc__
    return synchronous


def a_config_map(name: str, **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def a_pod(name: str, **spec: Any) -> Json:
    containers = [{"name": "main", "image": "busybox"}]
    return {"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


@with_api
async def test_a_pod_is_bound_and_runs(api: Api) -> None:
    status, pod = await api("POST", PODS, a_pod("p"))
    assert status == 201
    target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
    assert (await api("POST", f"{PODS}/p/binding", target))[0] == 201
    status, error = await api("POST", f"{PODS}/p/binding", target)
    assert (status, error["reason"]) == (409, "Conflict")
    status, _ = await api("PATCH", f"{PODS}/p/status", {"status": {"phase": "Running"}}, Content_Type=MERGE)
    assert status == 200
    _, running = await api("GET", f"{PODS}/p")
    assert (running["spec"]["nodeName"], running["status"]["phase"]) == ("n1", "Running")
    assert running["metadata"]["uid"] == pod["metadata"]["uid"]


@with_api
async def test_a_gated_pod_is_not_bound_and_binding_clears_the_nominated_node(api: Api) -> None:
    await api("POST", PODS, a_pod("p", schedulingGates=[{"name": "example.com/wait"}]))
    target = {"metadata": {"name": "p"}, "target": {"name": "node-1"}}
    status, error = await api("POST", f"{PODS}/p/binding", target)
    assert (status, error["reason"]) == (409, "Conflict")
    await api("PATCH", f"{PODS}/p", {"spec": {"schedulingGates": None}}, Content_Type=MERGE)
    promised = {"status": {"nominatedNodeName": "node-1"}}
    await api("PATCH", f"{PODS}/p/status", promised, Content_Type=MERGE)
    assert (await api("POST", f"{PODS}/p/binding", target))[0] == 201
    assert "nominatedNodeName" not in (await api("GET", f"{PODS}/p"))[1]["status"]


@with_api
async def test_a_patch_of_a_scale_without_a_version_has_no_conflict_with_other_writes(api: Api) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": a_pod("web")["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    path = "/apis/apps/v1/namespaces/default/deployments"
    await api("POST", path, {"metadata": {"name": "web"}, "spec": spec})

    async def scale(replicas: int, **metadata: str) -> int:
        change = {"metadata": metadata, "spec": {"replicas": replicas}}
        return (await api("PATCH", f"{path}/web/scale", change, Content_Type=MERGE))[0]

    async def observe(generation: int) -> int:
        change = {"status": {"observedGeneration": generation}}
        return (await api("PATCH", f"{path}/web/status", change, Content_Type=MERGE))[0]

    for number in range(1, 11):
        writes = (observe(2 * number), scale(number), observe(2 * number + 1))
        assert set(await asyncio.gather(*writes)) == {200}
    assert await scale(3, resourceVersion="1") == 409
    assert (await api("GET", f"{path}/web/scale"))[1]["spec"] == {"replicas": 10}


@with_api
async def test_a_terminating_namespace_rejects_bindings_and_evictions(api: Api) -> None:
    await api("POST", "/api/v1/namespaces", {"metadata": {"name": "going"}})
    await api("POST", "/api/v1/namespaces/going/pods", a_pod("p"))
    await api("DELETE", "/api/v1/namespaces/going")
    bodies = {"binding": {"target": {"name": "node-1"}}, "eviction": {}}
    for name, body in bodies.items():
        whole = {"metadata": {"name": "p", "namespace": "going"}, **body}
        status, error = await api("POST", f"/api/v1/namespaces/going/pods/p/{name}", whole)
        assert (status, error["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")


@with_api
async def test_a_new_node_gets_the_not_ready_taint(api: Api) -> None:
    own = {"key": "gpu", "effect": "NoSchedule"}
    _, node = await api("POST", "/api/v1/nodes", {"metadata": {"name": "n"}, "spec": {"taints": [own]}})
    not_ready = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    assert node["spec"]["taints"] == [own, not_ready]


@with_api
async def test_an_update_of_an_old_version_is_a_conflict_and_changes_nothing(api: Api) -> None:
    _, created = await api("POST", CONFIG_MAPS, a_config_map("a", k="1"))
    await api("PUT", f"{CONFIG_MAPS}/a", created | {"data": {"k": "2"}})
    status, error = await api("PUT", f"{CONFIG_MAPS}/a", created | {"data": {"k": "3"}})
    assert (status, error["reason"]) == (409, "Conflict")
    assert (await api("GET", f"{CONFIG_MAPS}/a"))[1]["data"] == {"k": "2"}


@pytest.mark.parametrize(
    ("method", "path", "body", "want"),
    [
        pytest.param("POST", CONFIG_MAPS, b"{not json", 400, id="malformed JSON"),
        pytest.param("POST", CONFIG_MAPS, b"[" * 100_000, 400, id="too deep nesting"),
        pytest.param("POST", CONFIG_MAPS, b'{"data":{"a":"\\ud800"}}', 400, id="an unpaired surrogate"),
        pytest.param(
            "POST", CONFIG_MAPS, b'{"data":"' + b"x" * 4_000_000 + b'"}', 413, id="a body above the limit"
        ),
        pytest.param("POST", CONFIG_MAPS, b'{"metadata":[]}', 400, id="metadata of the wrong type"),
        pytest.param("POST", CONFIG_MAPS, b"\xff\xfe", 400, id="invalid UTF-8"),
        pytest.param("POST", "/api/v1/namespaces/default/nothings", b"{}", 404, id="an unknown kind"),
        pytest.param("PATCH", f"{CONFIG_MAPS}/absent", b"{}", 415, id="an unsupported patch type"),
        pytest.param("GET", f"{CONFIG_MAPS}?limit=many", None, 400, id="an invalid limit"),
        pytest.param("GET", f"{CONFIG_MAPS}?continue=zzz", None, 400, id="an invalid continue token"),
        pytest.param("GET", f"{CONFIG_MAPS}?watch=true&timeoutSeconds=x", None, 400, id="an invalid timeout"),
        pytest.param(
            "DELETE",
            f"{CONFIG_MAPS}/absent",
            b'{"gracePeriodSeconds":"x"}',
            400,
            id="an invalid grace period",
        ),
    ],
)
def test_hostile_input_gets_a_status_and_the_server_keeps_serving(
    method: str, path: str, body: bytes | None, want: int
) -> None:
    async def scenario() -> None:
        async with api_server() as server, client_of(server) as api:
            status, answer = await api(method, path, body)
            assert (status, answer["kind"], answer["code"]) == (want, "Status", want)
            assert (await api("POST", CONFIG_MAPS, a_config_map("fine")))[0] == 201

    asyncio.run(scenario())


def test_a_wrong_token_is_unauthorized_and_a_missing_token_is_anonymous() -> None:
    async def scenario() -> None:
        async with api_server() as server:
            async with client_of(server, token="wrong") as api:
                assert (await api("GET", CONFIG_MAPS))[1]["reason"] == "Unauthorized"
            async with client_of(server, token="") as api:
                status, error = await api("GET", CONFIG_MAPS)
                assert (status, error["reason"]) == (403, "Forbidden")
                assert 'User "system:anonymous" cannot list resource "configmaps"' in error["message"]

    asyncio.run(scenario())


def test_a_restarted_server_keeps_objects_and_revisions(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with api_server(tmp_path / "state.db") as server, client_of(server) as api:
            _, created = await api("POST", CONFIG_MAPS, a_config_map("a"))
            await api("POST", CONFIG_MAPS, a_config_map("b"))
        async with api_server(tmp_path / "state.db") as server, client_of(server) as api:
            assert (await api("GET", f"{CONFIG_MAPS}/a"))[1] == created
            version = created["metadata"]["resourceVersion"]
            async with api.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion={version}") as next_frame:
                assert (await next_frame())["object"]["metadata"]["name"] == "b"

    asyncio.run(scenario())


@with_api
async def test_one_of_several_concurrent_creations_of_a_name_succeeds(api: Api) -> None:
    answers = await asyncio.gather(*(api("POST", CONFIG_MAPS, a_config_map("a")) for _ in range(8)))
    assert sorted(status for status, _ in answers) == [201] + [409] * 7
    assert {answer["reason"] for status, answer in answers if status == 409} == {"AlreadyExists"}


@with_api
async def test_concurrent_patches_of_one_object_all_take_effect(api: Api) -> None:
    await api("POST", CONFIG_MAPS, a_config_map("a"))
    path = f"{CONFIG_MAPS}/a"
    changes = (api("PATCH", path, {"data": {str(n): "x"}}, Content_Type=MERGE) for n in range(8))
    assert [status for status, _ in await asyncio.gather(*changes)] == [200] * 8
    assert (await api("GET", path))[1]["data"] == {str(n): "x" for n in range(8)}


@with_api
async def test_a_quota_is_charged_when_objects_are_created(api: Api) -> None:
    quotas = "/api/v1/namespaces/default/resourcequotas"
    hard = {"pods": "2", "requests.cpu": "3"}
    await api("POST", quotas, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    many = {f"count/kind-{number}.example.com": "1" for number in range(9000)}
    await api("POST", quotas, {"metadata": {"name": "many"}, "spec": {"hard": many}})
    await api("PATCH", f"{quotas}/many/status", {"status": {"hard": many}}, Content_Type=MERGE)
    status = {"status": {"hard": hard, "used": {"pods": "0", "requests.cpu": "0"}}}
    await api("PATCH", f"{quotas}/q/status", status, Content_Type=MERGE)

    async def create(name: str, cpu: str | None) -> str:
        resources = {"requests": {"cpu": cpu}} if cpu else {}
        pod = a_pod(name, containers=[{"name": "main", "image": "b", "resources": resources}])
        _, answer = await api("POST", PODS, pod)
        return str(answer.get("message", "created")).rpartition("forbidden: ")[2]

    assert await create("silent", None) == "failed quota: q: must specify requests.cpu for: main"
    assert await create("one", "2") == "created"
    assert await create("big", "1500m") == (
        "exceeded quota: q, requested: requests.cpu=1500m, used: requests.cpu=2, limited: requests.cpu=3"
    )
    level = {"resources": {"requests": {"cpu": "1"}}}
    _, answer = await api("POST", PODS, a_pod("two", containers=[{"name": "main", "image": "b"}], **level))
    assert answer["metadata"]["name"] == "two"
    assert (await api("GET", f"{quotas}/q"))[1]["status"]["used"] == {"pods": "2", "requests.cpu": "3"}


@with_api
async def test_a_quota_with_scopes_is_charged_by_matching_pods_only(api: Api) -> None:
    quotas = "/api/v1/namespaces/default/resourcequotas"
    spec = {"hard": {"pods": "1"}, "scopes": ["BestEffort"]}
    await api("POST", quotas, {"metadata": {"name": "q"}, "spec": spec})
    status = {"status": {"hard": spec["hard"], "used": {"pods": "0"}}}
    await api("PATCH", f"{quotas}/q/status", status, Content_Type=MERGE)
    asking = [{"name": "main", "image": "b", "resources": {"requests": {"cpu": "1"}}}]
    codes = [
        (await api("POST", PODS, body))[0]
        for body in (a_pod("a", containers=asking), a_pod("b"), a_pod("c"), a_pod("d", containers=asking))
    ]
    assert codes == [201, 201, 403, 201]


@with_api
async def test_only_annotations_of_its_specification_count_as_a_generation_of_a_deployment(api: Api) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    await api("POST", path, {"metadata": {"name": "d"}, "spec": spec})
    for subresource, generation in (("/status", 1), ("", 2)):
        change = {"metadata": {"annotations": {f"a{generation}": "x"}}}
        _, changed = await api("PATCH", f"{path}/d{subresource}", change, Content_Type=MERGE)
        assert changed["metadata"]["annotations"][f"a{generation}"] == "x"
        assert changed["metadata"]["generation"] == generation


@with_api
async def test_labels_count_as_a_generation_of_a_slice_of_endpoints(api: Api) -> None:
    path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    await api("POST", path, {"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": []})
    for part, generation in (("annotations", 1), ("labels", 2)):
        _, changed = await api("PATCH", f"{path}/s", {"metadata": {part: {"a": "b"}}}, Content_Type=MERGE)
        assert changed["metadata"]["generation"] == generation


@with_api
async def test_all_kinds_without_fields_of_their_own_have_the_selectors_of_metadata(api: Api) -> None:
    query = "fieldSelector=metadata.name=edit,metadata.namespace="
    code, roles = await api("GET", f"/apis/rbac.authorization.k8s.io/v1/clusterroles?{query}")
    assert (code, [role["metadata"]["name"] for role in roles["items"]]) == (200, ["edit"])


@with_api
async def test_a_status_patch_sets_the_nominated_node(api: Api) -> None:
    await api("POST", PODS, a_pod("a"))
    status = {"status": {"nominatedNodeName": "n"}}
    code, pod = await api("PATCH", f"{PODS}/a/status", status, Content_Type=MERGE)
    assert (code, pod["status"]["nominatedNodeName"]) == (200, "n")
    selected = await api("GET", f"{PODS}?fieldSelector=status.nominatedNodeName=n")
    assert [each["metadata"]["name"] for each in selected[1]["items"]] == ["a"]


@with_api
async def test_a_claim_without_a_class_gets_the_default_and_an_empty_class_stays(api: Api) -> None:
    marked = {"storageclass.kubernetes.io/is-default-class": "true"}
    for name, annotations in (("slow", {}), ("fast", marked)):
        metadata = {"name": name, "annotations": annotations}
        await api(
            "POST", "/apis/storage.k8s.io/v1/storageclasses", {"metadata": metadata, "provisioner": "x.y/z"}
        )
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    for name, class_name, want in (("a", {}, "fast"), ("b", {"storageClassName": ""}, "")):
        code, claim = await api("POST", claims, {"metadata": {"name": name}, "spec": {**spec, **class_name}})
        assert code == 201
        assert claim["spec"]["storageClassName"] == want
        assert claim["status"] == {"phase": "Pending"}
    code, error = await api("PATCH", f"{claims}/a", {"spec": {"volumeMode": "Block"}}, Content_Type=MERGE)
    assert (code, error["reason"]) == (422, "Invalid")
    more = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    assert (await api("PATCH", f"{claims}/a", more, Content_Type=MERGE))[0] == 422  # not bound
    await api("PATCH", f"{claims}/a/status", {"status": {"phase": "Bound"}}, Content_Type=MERGE)
    assert (await api("PATCH", f"{claims}/a", more, Content_Type=MERGE))[0] == 200


@with_api
async def test_an_object_is_deleted_when_its_last_finalizer_is_removed(api: Api) -> None:
    config_map = a_config_map("a")
    config_map["metadata"]["finalizers"] = ["example.com/hold"]
    await api("POST", CONFIG_MAPS, config_map)
    _, marked = await api("DELETE", f"{CONFIG_MAPS}/a")
    assert marked["metadata"]["finalizers"] == ["example.com/hold"]
    assert "deletionTimestamp" in marked["metadata"]
    await api("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": None}}, Content_Type=MERGE)
    assert (await api("GET", f"{CONFIG_MAPS}/a"))[0] == 404


def an_event() -> Json:
    return {
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "note": "hi",
        "reason": "R",
        "type": "Normal",
        "action": "A",
        "eventTime": MOMENT,
        "reportingController": "example.com/c",
        "reportingInstance": "i",
    }


@with_api
async def test_an_event_is_served_in_both_api_groups(api: Api) -> None:
    status, _ = await api("POST", "/apis/events.k8s.io/v1/namespaces/default/events", an_event())
    assert status == 201
    path = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=p"
    _, listed = await api("GET", path)
    assert [(item["message"], item["reason"]) for item in listed["items"]] == [("hi", "R")]
    _, listed = await api("GET", "/apis/events.k8s.io/v1/namespaces/default/events")
    assert [(item["note"], item["regarding"]["name"]) for item in listed["items"]] == [("hi", "p")]
    for path in (
        "/api/v1/namespaces/default/events?fieldSelector=source",
        "/api/v1/namespaces/default/events?fieldSelector=reportingComponent",
        "/apis/events.k8s.io/v1/namespaces/default/events?fieldSelector=reportingController",
    ):
        _, listed = await api("GET", f"{path}=example.com/c")
        assert len(listed["items"]) == 1, path
    _, listed = await api(
        "GET", "/apis/events.k8s.io/v1/events?fieldSelector=regarding.name=p,regarding.kind!=Job"
    )
    assert len(listed["items"]) == 1


@with_api
async def test_only_the_series_of_an_event_may_change(api: Api) -> None:
    events = "/apis/events.k8s.io/v1/namespaces/default/events"
    await api("POST", events, an_event())
    once = {"series": {"count": 1, "lastObservedTime": MOMENT}}
    for change, field in (({"note": "other"}, "message"), (once, "series.count")):
        status, error = await api("PATCH", f"{events}/e", change, Content_Type=MERGE)
        assert (status, error["details"]["causes"][0]["field"]) == (422, field)
    twice = {"series": {"count": 2, "lastObservedTime": MOMENT}}
    assert (await api("PATCH", f"{events}/e", twice, Content_Type=MERGE))[0] == 200


@with_api
async def test_a_limit_range_leaves_an_invalid_pod_to_its_validation(api: Api) -> None:
    limits = [{"type": "Container", "default": {"cpu": "1"}}]
    path = "/api/v1/namespaces/default/limitranges"
    assert (await api("POST", path, {"metadata": {"name": "a"}, "spec": {"limits": limits}}))[0] == 201
    status, refusal = await api("POST", PODS, {"metadata": {"name": "a"}, "spec": {"containers": [{}]}})
    assert (status, "containers[0].name" in refusal["message"]) == (422, True)


@with_api
async def test_a_limit_range_without_limits_limits_nothing(api: Api) -> None:
    path = "/api/v1/namespaces/default/limitranges"
    for name, spec in {"a": {}, "b": {"limits": None}, "c": {"limits": []}, "d": None}.items():
        assert (await api("POST", path, {"metadata": {"name": name}, "spec": spec}))[0] == 201
    assert (await api("POST", PODS, a_pod("a")))[0] == 201


@with_api
async def test_an_apply_that_creates_names_its_object(api: Api) -> None:
    async def apply(metadata: Json) -> tuple[int, str]:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        path = f"{CONFIG_MAPS}/a?fieldManager=m"
        code, answer = await api("PATCH", path, body, Content_Type="application/apply-patch+yaml")
        return code, answer.get("message", "")

    unnamed = "the name of the object (a based on URL) was undeterminable: name must be provided"
    assert await apply({"labels": {"b": "c"}}) == (400, unnamed)
    missing = "uid mismatch: the provided object specified uid u, and no existing object was found"
    conflict = f'Operation cannot be fulfilled on configmaps "a": {missing}'
    assert await apply({"name": "a", "uid": "u"}) == (409, conflict)
    assert await apply({"name": "a"}) == (201, "")
    assert await apply({"labels": {"b": "c"}}) == (200, "")
