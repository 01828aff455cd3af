"""Authentication and RBAC authorization over HTTP."""

import asyncio
import base64
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quorate.api.core import Namespace
from quorate.api.meta import Key, ObjectMeta
from quorate.kube.client import Client
from quorate.kube.errors import Forbidden, Unreachable
from quorate.kube.resources import NAMESPACES
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Anonymous, Token
from tests.local.api_client import ApiClient, connect, run_with_server
from tests.local.clusters import TOKEN, api_server

pytestmark = pytest.mark.slow

Json = dict[str, Any]
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
GROUP = "rbac.authorization.k8s.io"
RBAC = f"/apis/{GROUP}/v1"
ROBOT = "system:serviceaccount:default:robot"


async def token_of(client: ApiClient, name: str, **spec: Any) -> str:
    answer = await client.create(f"{ACCOUNTS}/{name}/token", {"spec": spec})
    return str(answer["status"]["token"])


async def grant(
    client: ApiClient, role: str, *rules: Json, account: str = "robot", everywhere: bool = False
) -> None:
    """Create a role and a binding of the same name."""
    cluster = "cluster" if everywhere else "namespaces/default/"
    kind = "ClusterRole" if everywhere else "Role"
    await client.create(f"{RBAC}/{cluster}roles", {"metadata": {"name": role}, "rules": list(rules)})
    subject = {"kind": "ServiceAccount", "name": account, "namespace": "default"}
    reference = {"apiGroup": GROUP, "kind": kind, "name": role}
    binding = {"metadata": {"name": role}, "roleRef": reference, "subjects": [subject]}
    await client.create(f"{RBAC}/{cluster}rolebindings", binding)


def a_rule(verbs: str, *resources: str, groups: str = "", **more: Any) -> Json:
    return {"verbs": verbs.split(), "apiGroups": [groups], "resources": list(resources)} | more


def run_with_robot(scenario: Any) -> None:
    """Run a scenario with the administrator and a service account without permissions."""

    async def run(client: ApiClient) -> None:
        await client.create(ACCOUNTS, {"metadata": {"name": "robot"}})
        token = await token_of(client, "robot")
        await scenario(client, lambda method, path, body=None, **headers: client.send(
            method, path, body, Authorization=f"Bearer {token}", **headers
        ))  # fmt: skip

    run_with_server(run)


def test_permissions_follow_roles_and_bindings() -> None:
    async def scenario(client: ApiClient, robot: Any) -> None:
        assert (await robot("GET", CONFIG_MAPS))[0] == 403
        await grant(client, "reader", a_rule("list", "configmaps"))
        assert (await robot("GET", CONFIG_MAPS))[0] == 200
        assert (await robot("GET", "/api/v1/configmaps"))[0] == 403  # in all namespaces
        rules = {"rules": [a_rule("list", "secrets")]}
        await client.send("PATCH", f"{RBAC}/namespaces/default/roles/reader", rules)
        assert (await robot("GET", CONFIG_MAPS))[0] == 403
        assert (await robot("GET", "/api/v1/namespaces/default/secrets"))[0] == 200
        await client.send("DELETE", f"{RBAC}/namespaces/default/rolebindings/reader")
        assert (await robot("GET", "/api/v1/namespaces/default/secrets"))[0] == 403

    run_with_robot(scenario)


ONE_MAP = a_rule("get", "configmaps", resourceNames=["a"])


@pytest.mark.parametrize(
    ("method", "path", "rule", "code"),
    [
        pytest.param("GET", f"{CONFIG_MAPS}/a", ONE_MAP, 404, id="a resource name"),
        pytest.param("GET", f"{CONFIG_MAPS}/b", ONE_MAP, 403, id="not another name"),
        pytest.param(
            "GET",
            f"{CONFIG_MAPS}?fieldSelector=metadata.name%3Da",
            a_rule("list", "configmaps", resourceNames=["a"]),
            200,
            id="a list of one resource name",
        ),
        pytest.param("PATCH", f"{PODS}/p/status", a_rule("patch", "pods"), 403, id="no subresources"),
        pytest.param("PATCH", f"{PODS}/p/status", a_rule("patch", "pods/status"), 404, id="a subresource"),
        pytest.param("PATCH", f"{PODS}/p/status", a_rule("patch", "*/status"), 404, id="any subresource"),
        pytest.param("PATCH", f"{PODS}/p", a_rule("*", "*"), 404, id="all resources of a group"),
        pytest.param("GET", "/apis/batch/v1/jobs", a_rule("*", "*"), 403, id="not those of another group"),
        pytest.param("GET", "/api/v1/namespaces/default", a_rule("get", "namespaces"), 200, id="a namespace"),
    ],
)  # fmt: skip
def test_a_rule_allows_exactly_its_verbs_resources_and_names(
    method: str, path: str, rule: Json, code: int
) -> None:
    async def scenario(client: ApiClient, robot: Any) -> None:
        await grant(client, "given", rule)
        assert (await robot(method, path, {} if method == "PATCH" else None))[0] == code

    run_with_robot(scenario)


def test_apply_and_replace_of_a_missing_object_need_the_create_verb() -> None:
    async def scenario(client: ApiClient, robot: Any) -> None:
        await grant(client, "changer", a_rule("patch update", "configmaps", "events"))
        apply = {"Content_Type": "application/apply-patch+yaml"}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
        code, error = await robot("PATCH", f"{CONFIG_MAPS}/a?fieldManager=m", body, **apply)
        assert (code, "cannot create resource" in error["message"]) == (403, True)
        about = {"involvedObject": {"namespace": "default"}, "metadata": {"name": "e"}}
        code, _ = await robot("PUT", "/api/v1/namespaces/default/events/e", about)
        assert code == 403

    run_with_robot(scenario)


def test_a_user_cannot_grant_permissions_beyond_its_own() -> None:
    async def scenario(client: ApiClient, robot: Any) -> None:
        managing = a_rule("create update", "roles", "rolebindings", groups=GROUP)
        await grant(client, "manager", managing, a_rule("get list", "pods"))
        roles, bindings = f"{RBAC}/namespaces/default/roles", f"{RBAC}/namespaces/default/rolebindings"
        mine = {"metadata": {"name": "mine"}, "rules": [a_rule("get", "pods")]}
        assert (await robot("POST", roles, mine))[0] == 201
        more = {"metadata": {"name": "more"}, "rules": [a_rule("get", "pods", "secrets")]}
        code, error = await robot("POST", roles, more)
        assert (code, "not currently held" in error["message"]) == (403, True)
        binding = {
            "metadata": {"name": "up"},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}],
        }  # fmt: skip
        assert (await robot("POST", bindings, binding))[0] == 403
        await grant(
            client,
            "binder",
            a_rule("bind", "clusterroles", groups=GROUP, resourceNames=["cluster-admin"]),
        )
        assert (await robot("POST", bindings, binding))[0] == 201

    run_with_robot(scenario)


def test_impersonation_needs_the_impersonate_verb() -> None:
    async def scenario(client: ApiClient, robot: Any) -> None:
        whoami = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        assert (await robot("POST", whoami, {}, Impersonate_User="bob"))[0] == 403
        await grant(client, "speaker", a_rule("impersonate", "users", resourceNames=["bob"]), everywhere=True)
        code, answer = await robot("POST", whoami, {}, Impersonate_User="bob")
        assert (code, answer["status"]["userInfo"]) == (
            201, {"username": "bob", "groups": ["system:authenticated"]},
        )  # fmt: skip
        assert (await robot("POST", whoami, {}, Impersonate_User="eve"))[0] == 403
        assert (await robot("POST", whoami, {}, Impersonate_User="bob", Impersonate_Group="devs"))[0] == 403
        code, answer = await client.send("POST", whoami, {}, Impersonate_User=ROBOT)
        assert answer["status"]["userInfo"]["groups"] == [
            "system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated",
        ]  # fmt: skip

    run_with_robot(scenario)


def test_a_rules_review_lists_the_rules_of_the_user() -> None:
    async def scenario(client: ApiClient, robot: Any) -> None:
        await grant(client, "reader", a_rule("list", "configmaps"))
        path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
        code, answer = await robot("POST", path, {"spec": {"namespace": "default"}})
        assert code == 201
        assert a_rule("list", "configmaps") in answer["status"]["resourceRules"]
        paths = [rule["nonResourceURLs"] for rule in answer["status"]["nonResourceRules"]]
        assert any("/healthz" in listed for listed in paths)

    run_with_robot(scenario)


def test_a_token_is_invalid_once_its_account_or_bound_pod_is_deleted() -> None:
    async def scenario(client: ApiClient) -> None:
        async def valid(token: str) -> bool:
            path = "/apis/authentication.k8s.io/v1/tokenreviews"
            review = await client.create(path, {"spec": {"token": token}})
            return bool(review["status"].get("authenticated"))

        await client.create(ACCOUNTS, {"metadata": {"name": "robot"}})
        container = {"name": "main", "image": "busybox:1.36"}
        await client.create(PODS, {"metadata": {"name": "p"}, "spec": {"containers": [container]}})
        free = await token_of(client, "robot")
        bound = await token_of(
            client, "robot", boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p"}
        )
        elsewhere = await token_of(client, "robot", audiences=["vault"])
        assert [await valid(token) for token in (free, bound, elsewhere)] == [True, True, False]
        await client.send("DELETE", f"{PODS}/p")
        assert [await valid(free), await valid(bound)] == [True, False]
        await client.send("DELETE", f"{ACCOUNTS}/robot")
        await client.create(ACCOUNTS, {"metadata": {"name": "robot"}})  # same name, other uid
        assert not await valid(free)

    run_with_server(scenario)


def test_the_token_of_a_pod_names_its_node_also_once_the_node_is_gone() -> None:
    async def scenario(client: ApiClient) -> None:
        async def extra(token: str) -> Json:
            path = "/apis/authentication.k8s.io/v1/tokenreviews"
            review = await client.create(path, {"spec": {"token": token}})
            names = review["status"]["user"]["extra"]
            return {
                name.removeprefix("authentication.kubernetes.io/"): value for name, value in names.items()
            }

        node = await client.create("/api/v1/nodes", {"metadata": {"name": "n"}})
        await client.create(ACCOUNTS, {"metadata": {"name": "robot"}})
        spec = {"nodeName": "n", "containers": [{"name": "main", "image": "busybox"}]}
        await client.create(PODS, {"metadata": {"name": "p"}, "spec": spec})
        bound = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
        token = await token_of(client, "robot", boundObjectRef=bound)
        wanted = {"node-name": ["n"], "node-uid": [node["metadata"]["uid"]]}
        assert wanted.items() <= (await extra(token)).items()
        await client.send("DELETE", "/api/v1/nodes/n")
        assert wanted.items() <= (await extra(token)).items()
        orphan = await extra(await token_of(client, "robot", boundObjectRef=bound))
        assert (orphan["node-name"], "node-uid" in orphan) == (["n"], False)

    run_with_server(scenario)


def test_a_token_with_altered_claims_is_rejected() -> None:
    async def scenario(client: ApiClient) -> None:
        for name in ("robot", "admin"):
            await client.create(ACCOUNTS, {"metadata": {"name": name}})
        header, payload, signature = (await token_of(client, "robot")).split(".")
        claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
        claims["sub"] = "system:serviceaccount:default:admin"
        forged = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
        for token in (f"{header}.{forged}.{signature}", f"{header}.{payload}.", "a.b.c", "abc"):
            code, _ = await client.send("GET", "/version", Authorization=f"Bearer {token}")
            assert code == 401

    run_with_server(scenario)


def test_an_anonymous_user_can_read_health_only() -> None:
    async def scenario() -> None:
        async with api_server() as server, connect(server, token="") as anonymous:
            codes = {path: (await anonymous.send("GET", path))[0] for path in ("/readyz", "/version", "/api")}
            assert codes == {"/readyz": 200, "/version": 200, "/api": 403}

    asyncio.run(scenario())


def test_a_restart_restores_bootstrap_roles_unless_autoupdate_is_off(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with api_server(tmp_path / "cluster.db") as server, connect(server) as client:
            await client.send("PATCH", f"{RBAC}/clusterroles/system:basic-user", {"rules": []})
            kept = {"metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}}
            await client.send("PATCH", f"{RBAC}/clusterroles/system:discovery", {"rules": []} | kept)
        async with api_server(tmp_path / "cluster.db") as server, connect(server) as client:
            _, restored = await client.send("GET", f"{RBAC}/clusterroles/system:basic-user")
            _, left = await client.send("GET", f"{RBAC}/clusterroles/system:discovery")
            assert (len(restored["rules"]), left["rules"]) == (2, [])

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("audiences", "authenticated"),
    [
        pytest.param([], True, id="no audience"),
        pytest.param(["https://kubernetes.default.svc.cluster.local"], True, id="this server"),
        pytest.param(["x"], False, id="another audience"),
    ],
)
def test_a_token_review_knows_the_administrator(audiences: list[str], authenticated: bool) -> None:
    async def scenario(client: ApiClient) -> None:
        review = {"spec": {"token": TOKEN, "audiences": audiences}}
        body = await client.create("/apis/authentication.k8s.io/v1/tokenreviews", review)
        status = body["status"]
        assert status.get("authenticated", False) is authenticated
        if authenticated:
            assert status["user"] == {
                "username": "admin",
                "groups": ["system:masters", "system:authenticated"],
            }
            assert status["audiences"] == ["https://kubernetes.default.svc.cluster.local"]
        else:
            assert status == {"user": {}, "error": "invalid bearer token"}

    run_with_server(scenario)


def test_a_client_in_the_process_of_the_server_needs_no_port_but_its_token() -> None:
    async def scenario() -> None:
        async with api_server() as server:
            config = RestConfig("https://server.invalid", credentials=Token(TOKEN), connect=server.connect)
            async with Client(config, random.Random(1)) as client:
                assert (await client.get(NAMESPACES, Key("", "default"))).metadata.name == "default"
            async with Client(replace(config, credentials=Anonymous()), random.Random(1)) as anonymous:
                with pytest.raises(Forbidden):
                    await anonymous.get(NAMESPACES, Key("", "default"))
        async with Client(config, random.Random(1)) as late:
            with pytest.raises(Unreachable, match="the API server has stopped"):
                await late.create(NAMESPACES, Namespace(metadata=ObjectMeta(name="late")))

    asyncio.run(scenario())
