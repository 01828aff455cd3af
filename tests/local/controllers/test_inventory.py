"""Which kinds garbage collection, namespaces and quotas know of."""

import asyncio
import random

import pytest

from quorate.cli.run.apply import install_definitions
from quorate.kube.client import Client
from quorate.kube.config import Cluster
from quorate.kube.credentials import Token
from quorate.local.controllers.inventory import discover
from tests.local.clusters import api_server

pytestmark = pytest.mark.slow


def definition(plural: str, kind: str, *versions: str) -> dict[str, object]:
    """A kind of example.com that is stored in the last of its versions."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == versions[-1],
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
                for version in versions
            ],
        },
    }


def test_a_kind_that_the_preferred_version_of_its_group_lacks_is_known_all_the_same() -> None:
    async def story() -> None:
        async with api_server() as server:
            cluster = Cluster(server.url, credentials=Token(server.token))
            async with Client(cluster, random.Random(1)) as client:
                kinds = [definition("apples", "Apple", "v1"), definition("pears", "Pear", "v2beta1")]
                await install_definitions(client, [*kinds, definition("plums", "Plum", "v2beta1", "v1")])
                found = [(each.plural, each.version) for each in await discover(client)]
        assert sorted(each for each in found if each[0] in ("apples", "pears", "plums")) == [
            ("apples", "v1"),
            ("pears", "v2beta1"),
            ("plums", "v1"),
        ]

    asyncio.run(story())
