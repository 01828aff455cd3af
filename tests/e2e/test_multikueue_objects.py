"""Which MultiKueueClusters and MultiKueueConfigs the API server accepts, as in Kueue's webhook suite."""

import asyncio
from typing import Any

import pytest

from quorate.api.codec import Json
from quorate.api.meta import Key
from quorate.kube.errors import Invalid
from quorate.kube.resources import MULTIKUEUE_CLUSTERS, MULTIKUEUE_CONFIGS, Resource
from tests.e2e.worker_clusters import WorkerCluster, worker_cluster

pytestmark = pytest.mark.slow

LONG = "a" * 257


def secret(**fields: str) -> Json:
    return {"clusterSource": {"kubeConfig": {"location": "worker-secret", **fields}}}


CLUSTERS: dict[str, tuple[Json, bool]] = {
    "a Secret": (secret(locationType="Secret"), True),
    "a path": (secret(locationType="Path", location="/etc/kueue/worker.kubeconfig"), True),
    "a ClusterProfile": ({"clusterSource": {"clusterProfileRef": {"name": "worker"}}}, True),
    "no source": ({}, False),
    "both sources": (
        {"clusterSource": {**secret()["clusterSource"], "clusterProfileRef": {"name": "worker"}}}, False,
    ),
    "no location": (secret(location=""), False),
    "a long location": (secret(location=LONG), False),
    "another kind of location": (secret(locationType="Invalid"), False),
    "a ClusterProfile without name": ({"clusterSource": {"clusterProfileRef": {"name": ""}}}, False),
    "a ClusterProfile with a long name": ({"clusterSource": {"clusterProfileRef": {"name": LONG}}}, False),
}  # fmt: skip

CONFIGS: dict[str, tuple[Json, bool]] = {
    "one cluster": ({"clusters": ["a"]}, True),
    "two clusters": ({"clusters": ["a", "b"]}, True),
    "no cluster": ({"clusters": []}, False),
    "the same cluster twice": ({"clusters": ["a", "a"]}, False),
    "too many clusters": ({"clusters": [f"worker{number}" for number in range(21)]}, False),
    "a long name": ({"clusters": [LONG]}, False),
}


async def accepts(worker: WorkerCluster, resource: Resource[Any], spec: Json) -> bool:
    body = {"metadata": {"name": "tried"}, "spec": spec}
    try:
        await worker.client.create(resource, body, dry_run=True)
    except Invalid:
        return False
    return True


def test_which_specs_are_accepted() -> None:
    async def run() -> None:
        async with worker_cluster() as worker:
            for resource, specs in ((MULTIKUEUE_CLUSTERS, CLUSTERS), (MULTIKUEUE_CONFIGS, CONFIGS)):
                got = {name: await accepts(worker, resource, spec) for name, (spec, _) in specs.items()}
                assert got == {name: want for name, (_, want) in specs.items()}

    asyncio.run(run())


def test_location_type_has_a_default_and_conditions_a_limit() -> None:
    async def run() -> None:
        async with worker_cluster() as worker:
            body = {"metadata": {"name": "worker"}, "spec": secret()}
            created = await worker.client.create(MULTIKUEUE_CLUSTERS, body)
            source = created.spec.cluster_source.kube_config
            assert source is not None
            assert source.location_type == "Secret"
            for count, accepted in ((16, True), (17, False)):
                conditions = [
                    {"type": f"Condition{number}", "status": "True", "reason": "Test", "message": "",
                     "lastTransitionTime": "2026-01-01T00:00:00Z"}
                    for number in range(count)
                ]  # fmt: skip
                patch = {"status": {"conditions": conditions}}
                try:
                    await worker.client.patch(
                        MULTIKUEUE_CLUSTERS, Key("", "worker"), patch, subresource="status"
                    )
                except Invalid:
                    assert not accepted
                else:
                    assert accepted

    asyncio.run(run())
