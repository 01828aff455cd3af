"""Certificates in the Secret that replicas share, CA injection, and certificate files."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quorate.api.meta import Key
from quorate.kube.client import PatchKind
from quorate.kube.clock import WallClock
from quorate.kube.serving.tls import KeyPair
from quorate.webhooks.serving_certificate import (
    DEFINITIONS,
    MUTATING,
    SECRETS,
    VALIDATING,
    CertificateFiles,
    CertificateSecret,
    NoCertificate,
    renew,
    service_hosts,
)
from tests.webhooks.cluster import OWN, WebhookCluster, webhook_cluster

pytestmark = pytest.mark.slow

DAY_S = 86_400.0
SECRET = Key(OWN, "kueue-webhook-server-cert")
CONFIGURATION = Key("", "quorate-mutating-webhook-configuration")


@dataclass
class FutureClock(WallClock):
    days: float = 0.0

    def now(self) -> float:
        return super().now() + self.days * DAY_S


def play(scenario: Callable[[WebhookCluster], Awaitable[None]]) -> None:
    async def run() -> None:
        async with webhook_cluster(serves=False) as world:
            await scenario(world)

    asyncio.run(run())


def a_replica(world: WebhookCluster, days: float = 0.0) -> CertificateSecret:
    return CertificateSecret(world.client, FutureClock(days), world.configuration)


async def bundles(world: WebhookCluster) -> set[bytes]:
    """Return the CA bundles of all webhooks that name our Service."""
    found = [
        webhook["clientConfig"].get("caBundle", "")
        for resource, verb in ((MUTATING, "mutating"), (VALIDATING, "validating"))
        for webhook in (await world.client.get(resource, Key("", f"quorate-{verb}-webhook-configuration")))[
            "webhooks"
        ]
    ]
    for name in ("workloads", "clusterqueues", "localqueues", "cohorts", "multikueueclusters"):
        definition = await world.client.get(DEFINITIONS, Key("", f"{name}.kueue.x-k8s.io"))
        found.append(definition["spec"]["conversion"]["webhook"]["clientConfig"].get("caBundle", ""))
    return {base64.b64decode(each) for each in found}


async def secret(world: WebhookCluster) -> dict[str, bytes]:
    data = (await world.client.get(SECRETS, SECRET))["data"]
    return {name: base64.b64decode(value) for name, value in data.items()}


def test_replicas_that_start_together_agree_on_one_ca(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(world: WebhookCluster) -> None:
        pairs = await asyncio.gather(*(a_replica(world).current() for _ in range(4)))
        stored = await secret(world)
        assert set(pairs) == {KeyPair(stored["tls.crt"], stored["tls.key"])}
        assert await bundles(world) == {stored["ca.crt"]}
        versions = (await world.client.get(MUTATING, CONFIGURATION))["metadata"]["resourceVersion"]
        await a_replica(world).current()
        after = (await world.client.get(MUTATING, CONFIGURATION))["metadata"]["resourceVersion"]
        assert after == versions, "the configuration was written again"
        warnings = [each for each in caplog.records if each.levelname == "WARNING"]
        assert warnings == [], "the second replica has nothing to write"

    play(scenario)


def test_an_installed_empty_secret_is_filled() -> None:
    async def scenario(world: WebhookCluster) -> None:
        metadata = {"name": SECRET.name, "namespace": OWN}
        await world.client.create(SECRETS, {"metadata": metadata})
        pair = await a_replica(world).current()
        assert (await secret(world))["tls.crt"] == pair.certificate

    play(scenario)


def test_during_rotation_the_previous_certificate_stays_trusted() -> None:
    async def scenario(world: WebhookCluster) -> None:
        first = await a_replica(world).current()
        authority = (await secret(world))["ca.crt"]
        second = await a_replica(world, days=340).current()
        assert second != first
        assert await bundles(world) == {authority}
        await a_replica(world, days=3300).current()
        (bundle,) = await bundles(world)
        assert bundle.endswith(authority)
        assert bundle != authority

    play(scenario)


def test_the_bundle_is_injected_again_and_other_services_are_not_changed() -> None:
    async def scenario(world: WebhookCluster) -> None:
        replica = a_replica(world)
        await replica.current()
        other_endpoint = {"url": "https://127.0.0.1:1/other"}
        changes: list[dict[str, Any]] = [
            {"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"},
            {"op": "replace", "path": "/webhooks/1/clientConfig", "value": other_endpoint},
        ]
        await world.client.patch(MUTATING, CONFIGURATION, changes, kind=PatchKind.JSON)
        await replica.current()
        webhooks = (await world.client.get(MUTATING, CONFIGURATION))["webhooks"]
        assert webhooks[1]["clientConfig"] == other_endpoint
        bundle = webhooks[0]["clientConfig"]["caBundle"]
        assert base64.b64decode(bundle) == (await secret(world))["ca.crt"]

    play(scenario)


def test_without_the_namespace_there_is_no_certificate() -> None:
    async def scenario(world: WebhookCluster) -> None:
        configuration = world.configuration
        source = CertificateSecret(
            world.client,
            WallClock(),
            type(configuration)(namespace="nowhere", webhooks=configuration.webhooks),
        )
        with pytest.raises(NoCertificate) as refusal:
            await source.current()
        assert str(refusal.value) == (
            "namespace nowhere does not exist, so certificates cannot be kept in its Secret "
            "kueue-webhook-server-cert (create it, or set internalCertManagement.enable to false)"
        )

    play(scenario)


def test_files_are_read_on_every_call(tmp_path: Path) -> None:
    files = CertificateFiles(tmp_path)
    with pytest.raises(NoCertificate) as refusal:
        asyncio.run(files.current())
    assert str(refusal.value) == (
        f"{tmp_path}/tls.crt: no such file or directory (put tls.crt and tls.key into webhook.certDir, "
        "or set internalCertManagement.enable)"
    )
    for _ in range(2):
        pair = renew({}, service_hosts("s", "n"), WallClock().now()).server
        (tmp_path / "tls.crt").write_bytes(pair.certificate)
        (tmp_path / "tls.key").write_bytes(pair.key)
        assert asyncio.run(files.current()) == pair
