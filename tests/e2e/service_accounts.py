"""Clients with the token of a service account that has the roles of ``deploy/``."""

import asyncio
import dataclasses
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from quorate.api import codec
from quorate.api.meta import Struct
from quorate.install.controller_rules import PolicyRule
from quorate.install.manifest_builders import Component
from quorate.install.preflight.findings import denied_requests
from quorate.kube.client import Client
from quorate.kube.errors import Forbidden
from quorate.kube.resources import NAMESPACES, SERVICE_ACCOUNTS, untyped
from quorate.kube.rest.credentials import Token
from tests.e2e.world import WITHIN_S, FaultyClient


class _Granted(Struct):
    token: str = ""


class _TokenRequest(Struct):
    status: _Granted = _Granted()


class RecordingClient(FaultyClient):
    """Record forbidden requests and count granted requests by kind."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.forbidden: list[str] = []

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        try:
            return await super().request(method, path, **options)
        except Forbidden as failure:
            self.forbidden.append(failure.message)
            raise

    async def watch(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        try:
            async for event in super().watch(*args, **options):
                yield event
        except Forbidden as failure:
            self.forbidden.append(failure.message)
            raise


@asynccontextmanager
async def as_account(
    administrator: Client, name: str, namespace: str, roles: Iterable[dict[str, Any]]
) -> AsyncIterator[RecordingClient]:
    roles = tuple(roles)
    await administrator.create(NAMESPACES, {"metadata": {"name": namespace}})
    for manifest in (Component(name, name, {}).service_account(namespace), *roles):
        group, _, version = manifest["apiVersion"].rpartition("/")
        home = manifest["metadata"].get("namespace", "")
        kind = untyped(group, version, f"{manifest['kind'].lower()}s", manifest["kind"], bool(home))
        await administrator.create(kind, manifest, home)
    await _until_granted(administrator, f"{namespace}/{name}", roles)
    path = SERVICE_ACCOUNTS.path(namespace, name, "token")
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await administrator.request("POST", path, body=codec.encode(body))
    token = codec.decode(_TokenRequest, answer).status.token
    cluster = dataclasses.replace(administrator.config, credentials=Token(token))
    async with RecordingClient(cluster, random.Random(1)) as client:
        yield client


async def _until_granted(administrator: Client, account: str, roles: Iterable[dict[str, Any]]) -> None:
    """Wait until one rule of each role is granted: RBAC takes effect shortly after a role is stored."""
    rights = []
    for role in roles:
        for rule in role.get("rules", [])[:1]:
            (group, *_), (resource, *_), (verb, *_) = rule["apiGroups"], rule["resources"], rule["verbs"]
            home = role["metadata"].get("namespace", "")
            names = tuple(rule.get("resourceNames", ()))
            rights.append(PolicyRule(role["metadata"]["name"], group, (resource,), (verb,), home, names))
    async with asyncio.timeout(WITHIN_S):
        while True:
            if not await denied_requests(administrator, rights, "", account):
                return
            await asyncio.sleep(0.02)
