"""Objects of any content, stored by another version or program, hold up no controller, scheduler or node."""

import asyncio
import random
import uuid
from pathlib import Path
from typing import Any

import pytest

from quorate.api.batch import Job
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import JOBS, Resource, untyped
from quorate.kube.rest.config import load_rest_config
from quorate.local.cluster import Settings, run_cluster
from quorate.local.directory import ClusterDirectory
from quorate.local.nodes import NodePool
from quorate.local.server.storage import store
from tests.e2e.hostile import pod_template
from tests.fuzz.mutations import mutate
from tests.fuzz.schemas import schema_of

Json = dict[str, Any]

pytestmark = pytest.mark.slow

DEADLINE_S = 120.0
OBJECTS = 120
KINDS = (
    *(untyped("", "v1", plural, kind, True) for plural, kind in (
        ("pods", "Pod"), ("services", "Service"), ("endpoints", "Endpoints"), ("limitranges", "LimitRange"),
        ("resourcequotas", "ResourceQuota"), ("serviceaccounts", "ServiceAccount"),
        ("persistentvolumeclaims", "PersistentVolumeClaim"), ("events", "Event"),
    )),
    untyped("", "v1", "nodes", "Node", False),
    untyped("", "v1", "namespaces", "Namespace", False),
    *(untyped("apps", "v1", f"{kind.lower()}s", kind, True) for kind in (
        "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet",
    )),
    *(untyped("batch", "v1", f"{kind.lower()}s", kind, True) for kind in ("Job", "CronJob")),
    untyped("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True),
    untyped("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False),
    untyped("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True),
)  # fmt: skip
FIELDS = (
    *(
        "spec",
        "template",
        "metadata",
        "labels",
        "selector",
        "matchLabels",
        "containers",
        "replicas",
        "status",
    ),
    *("name", "conditions", "rules", "ports", "type", "resources", "requests", "aggregationRule"),
)


def any_value(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.random()
    if depth > 3 or kind < 0.5:
        return rng.choice([None, True, 0, -1, 5, "", "x", "10", 1e300, [], {}])
    if kind < 0.75:
        return [any_value(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    return {rng.choice(FIELDS): any_value(rng, depth + 1) for _ in range(rng.randint(0, 4))}


def an_object(rng: random.Random, resource: Resource[Json], number: int) -> Json:
    if rng.random() < 0.5:
        body = {name: any_value(rng) for name in rng.sample(("spec", "status", "rules", "subsets"), 2)}
    else:
        schema = schema_of(resource.api_version, resource.kind)
        body = mutate({"spec": {}, "status": {}}, schema, rng, 6)
    metadata: Json = {"name": f"bad-{number}", "uid": f"u{number}", "generation": 1}
    metadata["creationTimestamp"] = rng.choice(("2024-01-01T00:00:00Z", "x"))
    if resource.namespaced:
        metadata["namespace"] = "default"
    if rng.random() < 0.2:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": f"u{rng.randint(0, number)}"}
        metadata["ownerReferences"] = [owner | {"controller": True}]
    return body | {"metadata": metadata}


async def store_objects(database: Path, rng: random.Random) -> None:
    """Write objects without the checks of the server."""
    objects = store.Store(database)
    await objects.start()
    for number in range(OBJECTS):
        resource = rng.choice(KINDS)
        name = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
        key = store.Key(name, "default" if resource.namespaced else "", f"bad-{number}")
        try:
            await objects.create(key, an_object(rng, resource, number))
        except store.Unstorable:  # a text that has no encoding
            continue
    await objects.stop()


@pytest.mark.parametrize("seed", [1, 2])
def test_jobs_complete_beside_unusable_objects(tmp_path: Path, seed: int) -> None:
    def new_uid() -> str:
        return str(uuid.UUID(int=ids.getrandbits(128)))

    ids = random.Random(seed)

    async def scenario() -> None:
        with ClusterDirectory(tmp_path).lock(0.0) as locked:
            await store_objects(locked.database, random.Random(seed))
            settings = Settings((NodePool(2, "8", "16Gi"),))
            cluster = run_cluster(locked, settings, WallClock(), random.Random(seed), new_uid, {})
            async with asyncio.timeout(DEADLINE_S), cluster:
                config = await load_rest_config(locked.kubeconfig)
                async with Client(config, random.Random(seed)) as client:
                    await complete_a_job(client)

    asyncio.run(scenario())


async def complete_a_job(client: Client) -> None:
    job = {"metadata": {"name": "good"}, "spec": {"template": pod_template("1m")}}
    await client.create(JOBS, job, "default")
    jobs = Informer(client, JOBS)
    watching = asyncio.create_task(jobs.run())
    completed = asyncio.Event()

    def on_job(change: Change[Job]) -> None:
        if change.key.name == "good" and change.new is not None and change.new.status.succeeded:
            completed.set()

    jobs.subscribe(on_job)
    await completed.wait()
    watching.cancel()
