"""The objects that a Volcano Job needs besides its pods, over HTTP."""

import pytest

from quorate.controllers.volcano.job.job_resources import CLAIMS
from quorate.controllers.volcano.job.plugins.interface import CONFIG_MAPS, NETWORK_POLICIES, SECRETS
from quorate.kube.resources import EVENTS, POD_GROUPS, SERVICES, metadata_of
from tests.e2e.volcano import Gangs, run_story
from tests.e2e.world import NAMESPACE

pytestmark = pytest.mark.slow

KINDS = (CONFIG_MAPS, SERVICES, NETWORK_POLICIES, SECRETS)


async def names_of_objects(gangs: Gangs, job: str) -> list[str]:
    """Return kind and name of the objects of the job's plugins, without the uid in a name."""
    uid = (await gangs.get_job(job)).metadata.uid
    return [
        f"{resource.kind} {metadata_of(each).name.replace(uid, 'UID')}"
        for resource in KINDS
        for each in (await gangs.client.list(resource, NAMESPACE)).items
        if metadata_of(each).name.startswith(job)
    ]


async def until_objects(gangs: Gangs, job: str, *names: str) -> None:
    async def reported() -> bool:
        return await names_of_objects(gangs, job) == list(names)

    await gangs.world.until(f"the objects are {names}", reported)


ALL = ("ConfigMap train-svc", "Service train", "NetworkPolicy train", "Secret train-UID-ssh")


def test_an_aborted_job_has_no_objects_and_a_resumed_one_gets_them_again() -> None:
    async def scenario(gangs: Gangs) -> None:
        await gangs.job("train", "worker=1", plugins={"ssh": [], "svc": []})
        await gangs.set_group_phase(await gangs.until_group("train"), "Inqueue")
        await gangs.until_pods("train-worker-0")
        await until_objects(gangs, "train", *ALL)
        job = await gangs.get_job("train")
        await gangs.command("AbortJob", job)
        job = await gangs.until_job("train", "Aborted")
        assert job.status.controlled_resources == {}
        await until_objects(gangs, "train")

        await gangs.command("ResumeJob", job)
        await gangs.until_job("train", "Pending")
        await gangs.set_group_phase(await gangs.until_group("train"), "Inqueue")
        await gangs.until_pods("train-worker-0")
        await until_objects(gangs, "train", *ALL)
        await gangs.set_pod_phase("Succeeded", "train-worker-0")
        await gangs.until_job("train", "Completed")
        await until_objects(gangs, "train")

    run_story(scenario)


def test_an_object_of_another_owner_is_not_deleted() -> None:
    async def scenario(gangs: Gangs) -> None:
        body = {"metadata": {"name": "train"}, "spec": {"clusterIP": "None", "selector": {"app": "other"}}}
        await gangs.client.create(SERVICES, body, NAMESPACE)
        await gangs.job("train", "worker=1", plugins={"svc": []})
        await gangs.set_group_phase(await gangs.until_group("train"), "Inqueue")
        await gangs.until_pods("train-worker-0")
        await gangs.set_pod_phase("Succeeded", "train-worker-0")
        await gangs.until_job("train", "Completed")
        await until_objects(gangs, "train", "Service train")

    run_story(scenario)


def test_a_job_without_its_claim_gets_no_group_and_no_pods() -> None:
    async def scenario(gangs: Gangs) -> None:
        await gangs.job("train", "worker=1", volumes=[{"mountPath": "/data", "volumeClaimName": "corpus"}])

        async def reported() -> bool:
            events = (await gangs.client.list(EVENTS, NAMESPACE)).items
            return any(
                each.reason == "PVCError"
                and each.note.startswith("PersistentVolumeClaim corpus does not exist")
                for each in events
            )

        await gangs.world.until("the missing claim is an event on the job", reported)
        assert (await gangs.get_job("train")).status.state.phase == "Pending"
        assert (await gangs.client.list(POD_GROUPS, NAMESPACE)).items == ()

        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await gangs.client.create(CLAIMS, {"metadata": {"name": "corpus"}, "spec": spec}, NAMESPACE)
        await gangs.set_group_phase(await gangs.until_group("train"), "Inqueue")
        await gangs.until_pods("train-worker-0")

    run_story(scenario)
