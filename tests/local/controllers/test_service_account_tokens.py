"""Secrets with a token of a service account."""

import asyncio
import base64
import random

from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.errors import NotFound
from quorate.kube.resources import SERVICE_ACCOUNTS, untyped
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.local.controllers.access import SECRETS, TYPE, Secret
from tests.local.controllers.running_cluster import LocalCluster, local_cluster

REVIEWS = untyped("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False)


def test_a_secret_of_a_service_account_gets_its_token_and_ends_with_it() -> None:
    async def scenario(cluster: LocalCluster) -> None:
        client = cluster.client
        account = await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "robot"}}, "default")
        for name, of in (("of-robot", "robot"), ("of-another", "another")):
            annotations = {"kubernetes.io/service-account.name": of}
            metadata = {"name": name, "annotations": annotations}
            await client.create(SECRETS, {"metadata": metadata, "type": TYPE}, "default")

        async def filled() -> Secret | None:
            secret = await client.get(SECRETS, Key("default", "of-robot"))
            return secret if "token" in secret.data else None

        async def is_gone(name: str) -> bool:
            try:
                await client.get(SECRETS, Key("default", name))
            except NotFound:
                return True
            return False

        secret = await cluster.until("the secret has a token", filled)
        data = {name: base64.b64decode(value) for name, value in secret.data.items()}
        assert data.keys() == {"token", "ca.crt", "namespace"}
        assert (data["ca.crt"], data["namespace"]) == (b"PEM", b"default")
        assert secret.metadata.annotations["kubernetes.io/service-account.uid"] == account.metadata.uid
        config = RestConfig(client.config.server, credentials=Token(data["token"].decode()))
        async with Client(config, random.Random(5)) as robot:
            review = await robot.create(REVIEWS, {})
        assert review["status"]["userInfo"]["username"] == "system:serviceaccount:default:robot"
        await cluster.until("the other secret is deleted", lambda: is_gone("of-another"))
        await client.delete(SERVICE_ACCOUNTS, account.metadata.key)
        await cluster.until("the secret is deleted", lambda: is_gone("of-robot"))

    async def run() -> None:
        async with local_cluster(authority=b"PEM") as cluster:
            await scenario(cluster)

    asyncio.run(run())
