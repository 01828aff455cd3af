"""A dashboard over HTTP, of a local API server with two tenants, red and blue."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any, Final

import aiohttp

from quorate.api import codec
from quorate.api.configuration import default_configuration
from quorate.api.configuration.process import Address
from quorate.api.meta import Key, Struct
from quorate.dashboard.model.model import DashboardModel
from quorate.dashboard.process import Options, run_dashboard
from quorate.dashboard.simulation.simulation_process import Cluster
from quorate.install.crds import gang_definitions, queueing_definitions
from quorate.install.dashboard import ACCOUNT, roles
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    SERVICE_ACCOUNTS,
    WORKLOADS,
    Json,
    untyped,
)
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from tests.e2e.service_accounts import as_account
from tests.local.clusters import api_server_with

WITHIN_S: Final = 60.0
ROLES: Final = untyped("rbac.authorization.k8s.io", "v1", "roles", "Role", True)
ROLE_BINDINGS: Final = untyped("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", True)
NAMESPACE: Final = "kueue-system"  # of the dashboard
TENANTS: Final = ("red", "blue")
RULES: Final = [
    {
        "apiGroups": ["kueue.x-k8s.io"],
        "resources": ["workloads", "localqueues"],
        "verbs": ["get", "list", "patch"],
    },
    {"apiGroups": ["scheduling.volcano.sh"], "resources": ["podgroups"], "verbs": ["get", "list"]},
]


ServerOfUsers = Callable[[str, dict[str, str]], Coroutine[Any, Any, str]]


class _Granted(Struct):
    token: str = ""


class _TokenRequest(Struct):
    status: _Granted = _Granted()


@dataclass
class Answer:
    status: int
    headers: Any
    body: bytes
    cookies: SimpleCookie

    @property
    def json(self) -> Any:
        return codec.decode(Any, self.body)


@dataclass
class Browser:
    """Sends requests with the cookies of its session; ``csrf`` is that of the session."""

    base: str
    http: aiohttp.ClientSession
    cookies: dict[str, str] = field(default_factory=dict)
    csrf: str = ""

    async def send(
        self, method: str, path: str, *, json: Any = None, body: bytes | None = None, **headers: Any
    ) -> Answer:
        named: dict[str, str] = {name.replace("_", "-"): value for name, value in headers.items()}
        if json is not None:
            body = codec.encode(json)
        if body is not None:
            named = {"Content-Type": "application/json", **named}
        if self.cookies:
            named["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        async with self.http.request(
            method, self.base + path, data=body, headers=named, allow_redirects=False
        ) as got:
            answer = Answer(got.status, got.headers, await got.read(), got.cookies)
        for name, morsel in answer.cookies.items():
            if morsel["max-age"] == "0":
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = morsel.value
        return answer

    async def get(self, path: str, **headers: Any) -> Answer:
        return await self.send("GET", f"/api/v1{path}", **headers)

    async def post(self, path: str, json: Any = None, **headers: Any) -> Answer:
        return await self.send("POST", f"/api/v1{path}", json=json, **{"X_CSRF_Token": self.csrf, **headers})

    async def login(self, token: str) -> Answer:
        answer = await self.send("POST", "/api/v1/session", json={"token": token})
        if answer.status == 200:
            self.csrf = answer.json["csrfToken"]
        return answer


@dataclass
class Served:
    """A dashboard that runs; ``tokens`` of the tenants by namespace, and of the administrator as ""."""

    administrator: Client
    base: str
    model: DashboardModel
    tokens: dict[str, str]
    links: list[str]
    http: aiohttp.ClientSession

    def browser(self) -> Browser:
        return Browser(self.base, self.http)

    async def logged_in(self, tenant: str = "") -> Browser:
        browser = self.browser()
        answer = await browser.login(self.tokens[tenant])
        assert answer.status == 200, answer.body
        return browser

    async def until(self, holds: Callable[[], Coroutine[Any, Any, bool]]) -> None:
        async with asyncio.timeout(WITHIN_S):
            while True:
                if await holds():
                    return
                await asyncio.sleep(0.05)


async def token_of(administrator: Client, namespace: str, name: str) -> str:
    path = SERVICE_ACCOUNTS.path(namespace, name, "token")
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return codec.decode(
        _TokenRequest, await administrator.request("POST", path, body=codec.encode(body))
    ).status.token


@asynccontextmanager
async def served(
    tmp_path: Path, server_of_users: ServerOfUsers | None = None, **options: Any
) -> AsyncIterator[Served]:
    """Run an API server with two tenants and a shared cluster queue, and the dashboard of it.

    ``server_of_users`` returns the URL to which requests with the tokens of users are sent.
    """
    links: list[str] = []
    async with api_server_with(_definitions()) as server:
        config = RestConfig(server.url, credentials=Token(server.token))
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_bytes(codec.encode(_kubeconfig(server.url, server.token)))
        async with Client(config, random.Random(1)) as administrator:
            tokens = {"": server.token, **await _tenants(administrator)}
            url = server.url if server_of_users is None else await server_of_users(server.url, tokens)
            chosen = Options(
                **{
                    "address": Address("127.0.0.1", 0),
                    "cluster": Cluster(kubeconfig=str(kubeconfig)),
                    "has_links": True,
                    "has_forecasts": False,
                    "history": tmp_path / "history.sqlite",
                    **options,
                }
            )
            async with (
                as_account(administrator, ACCOUNT, NAMESPACE, roles(NAMESPACE)) as own,
                run_dashboard(
                    own,
                    RestConfig(url),
                    default_configuration(),
                    chosen,
                    WallClock(),
                    random.Random(1),
                    links.append,
                ) as (model, bound),
                aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http,
            ):
                async with asyncio.timeout(WITHIN_S):
                    await model.ready.wait()
                yield Served(administrator, f"http://{bound}", model, tokens, links, http)
                assert own.forbidden == []  # its roles suffice


@cache
def _definitions() -> tuple[Json, ...]:
    return tuple(map(_unconverted, (*queueing_definitions(), *gang_definitions())))


def _unconverted(definition: Json) -> Json:
    spec = {name: value for name, value in definition["spec"].items() if name != "conversion"}
    return definition | {"spec": spec}


def _kubeconfig(url: str, token: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": url}}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }


async def _tenants(administrator: Client) -> dict[str, str]:
    """Create the objects of both tenants; return the token of a service account of each."""
    await administrator.create(RESOURCE_FLAVORS, {"metadata": {"name": "default"}})
    quota = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "4"}]}
    spec = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}],
    }
    for name in ("shared", "hidden"):
        await administrator.create(CLUSTER_QUEUES, {"metadata": {"name": name}, "spec": spec})
    tokens = {}
    for tenant in TENANTS:
        await administrator.create(NAMESPACES, {"metadata": {"name": tenant}})
        queue = {"metadata": {"name": "queue", "namespace": tenant}, "spec": {"clusterQueue": "shared"}}
        await administrator.create(LOCAL_QUEUES, queue)
        account = {"metadata": {"name": "user", "namespace": tenant}}
        await administrator.create(SERVICE_ACCOUNTS, account)
        role = {"metadata": {"name": "user", "namespace": tenant}, "rules": RULES}
        await administrator.create(ROLES, role)
        await bind(administrator, tenant)
        await create_workload(administrator, tenant, f"{tenant}-job")
        tokens[tenant] = await token_of(administrator, tenant, "user")
    return tokens


async def bind(administrator: Client, tenant: str) -> None:
    await administrator.create(
        ROLE_BINDINGS,
        {
            "metadata": {"name": "user", "namespace": tenant},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "user"},
            "subjects": [{"kind": "ServiceAccount", "name": "user", "namespace": tenant}],
        },
    )


async def create_workload(administrator: Client, namespace: str, name: str) -> Key:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    await administrator.create(
        WORKLOADS,
        {
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "queueName": "queue",
                "podSets": [{"name": "main", "count": 1, "template": template}],
            },
        },
    )
    return Key(namespace, name)
