"""Clients of v1beta1 lose no field in a cluster in which no webhook converts versions."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from quorate.api.meta import Key
from quorate.install.crds import queueing_definitions
from quorate.kube.client import Client
from quorate.kube.errors import Invalid
from quorate.kube.resources import Json, untyped
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.processes.local.apply import install_definitions
from tests.local.clusters import api_server

OLD = untyped("kueue.x-k8s.io", "v1beta1", "clusterqueues", "ClusterQueue", False)
NEW = untyped("kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", False)
TEAM = Key("", "team")


def run(story: Callable[[Client], Awaitable[None]]) -> None:
    async def run_in_cluster() -> None:
        async with api_server() as server:
            config = RestConfig(server.url, credentials=Token(server.token))
            async with Client(config, random.Random(1)) as client:
                await install_definitions(client, queueing_definitions())
                await story(client)

    asyncio.run(run_in_cluster())


def a_queue(**spec: Any) -> Json:
    return {"metadata": {"name": TEAM.name}, "spec": {"namespaceSelector": {}, **spec}}


def test_a_field_that_would_be_lost_is_refused_and_the_others_are_kept() -> None:
    async def story(client: Client) -> None:
        for lost, problem in (
            ({"cohort": "all"}, "cohort would be lost, as no webhook converts it"),
            ({"admissionChecks": ["check"]}, "admissionChecks would be lost"),
            ({"flavorFungibility": {"whenCanBorrow": "Borrow"}}, 'Unsupported value: "Borrow"'),
        ):
            with pytest.raises(Invalid, match=problem):
                await client.create(OLD, a_queue(**lost))
        await client.create(OLD, a_queue(admissionChecks=[], queueingStrategy="StrictFIFO"))
        stored = await client.get(NEW, TEAM)
        assert stored["spec"]["queueingStrategy"] == "StrictFIFO"

    run(story)


def test_an_update_by_an_older_client_keeps_the_new_fields() -> None:
    async def story(client: Client) -> None:
        await client.create(NEW, a_queue(cohortName="all"))
        await client.patch(OLD, TEAM, {"spec": {"stopPolicy": "Hold"}})
        seen = await client.get(OLD, TEAM)
        await client.replace(OLD, TEAM, seen)
        spec = (await client.get(NEW, TEAM))["spec"]
        assert (spec["cohortName"], spec["stopPolicy"]) == ("all", "Hold")

    run(story)
