"""The claims of the pods of a StatefulSet: created with the pods, owned and deleted as the set says."""

import pytest

from quorate.api.meta import Key
from quorate.kube.client import PatchKind
from quorate.kube.resources import untyped
from tests.local.controllers.running_cluster import PODS, LocalCluster
from tests.local.controllers.test_apps import STATEFUL_SETS, body, live, until_ready

CLAIMS = untyped("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True)
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
TEMPLATES = [{"metadata": {"name": "data"}, "spec": CLAIM}]


@pytest.mark.slow
def test_each_pod_of_a_stateful_set_has_its_own_claims() -> None:
    async def story(cluster: LocalCluster) -> None:
        created = body("db", 2, serviceName="db", volumeClaimTemplates=TEMPLATES)
        container = created["spec"]["template"]["spec"]["containers"][0]
        container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        await cluster.client.create(STATEFUL_SETS, created, "default")
        await until_ready(cluster, STATEFUL_SETS, "db", 2)
        volumes = [pod["spec"]["volumes"][0]["persistentVolumeClaim"] for pod in await cluster.pods()]
        assert sorted(volume["claimName"] for volume in volumes) == ["data-db-0", "data-db-1"]
        claims = (await cluster.client.list(CLAIMS, "default")).items
        assert sorted(claim["metadata"]["name"] for claim in claims) == ["data-db-0", "data-db-1"]

    live(story)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "owners", "scaled", "left"),
    [
        pytest.param({}, [], {"data-db-0", "data-db-1"}, {"data-db-0", "data-db-1"}, id="kept"),
        pytest.param(
            {"whenDeleted": "Delete"},
            ["StatefulSet"],
            {"data-db-0", "data-db-1"},
            set(),
            id="deleted with the set",
        ),
        pytest.param({"whenScaled": "Delete"}, [], {"data-db-0"}, {"data-db-0"}, id="deleted with its pod"),
        pytest.param(
            {"whenDeleted": "Delete", "whenScaled": "Delete"},
            ["StatefulSet"],
            {"data-db-0"},
            set(),
            id="deleted with either",
        ),
    ],
)
def test_the_claims_of_a_stateful_set_follow_its_retention_policy(
    policy: dict[str, str], owners: list[str], scaled: set[str], left: set[str]
) -> None:
    async def story(cluster: LocalCluster) -> None:
        created = body("db", 2, serviceName="db", volumeClaimTemplates=TEMPLATES)
        created["spec"]["persistentVolumeClaimRetentionPolicy"] = policy
        await cluster.client.create(STATEFUL_SETS, created, "default")
        await until_ready(cluster, STATEFUL_SETS, "db", 2)

        async def owners_by_claim() -> dict[str, list[str]]:
            claims = (await cluster.client.list(CLAIMS, "default")).items
            return {
                claim["metadata"]["name"]: [
                    owner["kind"] for owner in claim["metadata"].get("ownerReferences", ())
                ]
                for claim in claims
            }

        async def is_left(names: set[str]) -> bool:
            return await owners_by_claim() == dict.fromkeys(names, owners)

        assert await is_left({"data-db-0", "data-db-1"})
        await cluster.client.patch(STATEFUL_SETS, Key("default", "db"), {"spec": {"replicas": 1}})
        await cluster.until("the pod is gone", lambda: cluster.gone(PODS, "db-1"))
        await cluster.until("its claim follows", lambda: is_left(scaled))
        await cluster.client.patch(STATEFUL_SETS, Key("default", "db"), {"spec": {"replicas": 2}})
        await until_ready(cluster, STATEFUL_SETS, "db", 2)
        await cluster.until("every pod has a claim", lambda: is_left({"data-db-0", "data-db-1"}))
        await cluster.client.patch(STATEFUL_SETS, Key("default", "db"), {"spec": {"replicas": 1}})
        await cluster.until("its claim follows again", lambda: is_left(scaled))
        await cluster.client.delete(STATEFUL_SETS, Key("default", "db"), propagation="Background")
        await cluster.until("the pods are gone", lambda: cluster.gone(PODS, "db-0"))
        await cluster.until("the claims follow", lambda: is_left(left))

    live(story)


@pytest.mark.slow
def test_a_stateful_set_becomes_the_controller_of_its_claims_again() -> None:
    async def story(cluster: LocalCluster) -> None:
        created = body("db", 1, serviceName="db", volumeClaimTemplates=TEMPLATES)
        created["spec"]["persistentVolumeClaimRetentionPolicy"] = {"whenDeleted": "Delete"}
        await cluster.client.create(STATEFUL_SETS, created, "default")
        await until_ready(cluster, STATEFUL_SETS, "db", 1)
        key = Key("default", "data-db-0")
        (owner,) = (await cluster.client.get(CLAIMS, key))["metadata"]["ownerReferences"]
        changed = {"metadata": {"ownerReferences": [owner | {"controller": False}]}}
        await cluster.client.patch(CLAIMS, key, changed, kind=PatchKind.MERGE)
        policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
        spec = {"persistentVolumeClaimRetentionPolicy": policy}
        await cluster.client.patch(STATEFUL_SETS, Key("default", "db"), {"spec": spec})

        async def is_controlled() -> bool:
            return bool((await cluster.client.get(CLAIMS, key))["metadata"]["ownerReferences"] == [owner])

        await cluster.until("the set is the controller", is_controlled)

    live(story)
