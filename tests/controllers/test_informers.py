"""The cache sync timeout: no decision is made before all objects are listed."""

import asyncio
import random

import pytest

from quorate.controllers.informers import CacheSyncTimeout, synced
from quorate.kube.client import Client
from quorate.kube.informer import Informer
from quorate.kube.resources import CLUSTER_QUEUES, WORKLOADS
from quorate.kube.rest.config import RestConfig


def test_the_timeout_names_the_kinds_that_are_missing() -> None:
    async def wait() -> None:
        client = Client(RestConfig("http://nowhere"), random.Random(1))
        listed, other = Informer(client, WORKLOADS), Informer(client, CLUSTER_QUEUES)
        listed.synced.set()
        await synced(listed, other, within_s=0.01)

    with pytest.raises(CacheSyncTimeout) as refusal:
        asyncio.run(wait())
    assert str(refusal.value) == (
        "controller.cacheSyncTimeout: 0.01s were not enough to list clusterqueues "
        "(give it longer, or leave it out)"
    )
