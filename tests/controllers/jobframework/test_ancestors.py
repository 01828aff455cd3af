"""The managing ancestor of a job, over several levels and broken chains."""

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from quorate.api.batch import Job
from quorate.api.configuration.integrations import ExternalFramework
from quorate.api.core import Pod
from quorate.api.meta import Key, ObjectMeta, OwnerReference, Uid
from quorate.controllers.jobframework.ancestors import AncestorFinder, BrokenOwnerChain, OwnerNotFound
from quorate.controllers.jobs.unstructured import UnstructuredJob, unstructured_resource
from quorate.kube.client import Client
from quorate.kube.resources import JOBS, PODS, Resource
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.processes.local.apply import install_definitions
from tests.e2e.minimal_definitions import definition
from tests.local.clusters import api_server

STATEFUL_SETS = unstructured_resource("apps", "v1", "statefulsets", "StatefulSet")
QUEUED = {"kueue.x-k8s.io/queue-name": "queue"}


def job(name: str, owner: str = "", *, queued: bool = False, owner_kind: str = "Job") -> ObjectMeta:
    """Return a job, its uid being its name in capitals; ``owner`` is written ``name`` or ``name=uid``."""
    owner_name, _, owner_uid = owner.partition("=")
    reference = OwnerReference(
        api_version="batch/v1",
        kind=owner_kind,
        name=owner_name,
        uid=Uid(owner_uid or owner_name.upper()),
        controller=True,
    )
    return ObjectMeta(
        name=name,
        namespace="default",
        uid=Uid(name.upper()),
        labels=QUEUED if queued else {},
        owner_references=(reference,) if owner else (),
    )


NOWHERE = Client(
    RestConfig("http://127.0.0.1:1"), random.Random(1)
)  # jobs are found in a cache, without a request


def manager(of: ObjectMeta, *owners: ObjectMeta, manage_all: bool = False) -> str | BrokenOwnerChain | None:
    """Return the uid of the managing ancestor of ``of``; ``?name``: that owner was not found."""
    ancestors = AncestorFinder(NOWHERE, [JOBS], [], [], manage_all)
    jobs: Mapping[Key, Job] = {each.key: Job(metadata=each) for each in owners}
    ancestors.add(JOBS, jobs.get)
    found = asyncio.run(ancestors.managing_ancestor(of))
    return f"?{found.owner.name}" if isinstance(found, OwnerNotFound) else found


def test_a_job_without_an_owner_has_no_ancestor() -> None:
    assert manager(job("a")) is None


def test_a_queued_owner_manages_its_child() -> None:
    assert manager(job("a", "b", queued=True), job("b", queued=True)) == "B"


def test_the_topmost_queued_ancestor_manages() -> None:
    chain = job("b", "c", queued=True), job("c", "d", queued=True), job("d")
    assert manager(job("a", "b"), *chain) == "C"
    assert manager(job("a", "b"), *chain, manage_all=True) == "D"


def test_an_owner_of_another_kind_ends_the_chain() -> None:
    assert manager(job("a", "b", owner_kind="CronJob"), job("b", queued=True)) is None


def owned(name: str, api_version: str, kind: str, owner: str) -> ObjectMeta:
    reference = OwnerReference(
        api_version=api_version, kind=kind, name=owner, uid=Uid(owner.upper()), controller=True
    )
    return ObjectMeta(name=name, namespace="default", uid=Uid(name.upper()), owner_references=(reference,))


@pytest.mark.parametrize(("resource", "manages"), [(STATEFUL_SETS, True), (JOBS, False)])
def test_a_pod_leads_from_its_stateful_set_to_the_job_that_counts_it_but_not_from_a_job(
    resource: Resource[Any], manages: bool
) -> None:
    ancestors = AncestorFinder(NOWHERE, [JOBS, STATEFUL_SETS], [], [], False)
    ancestors.add(
        PODS, {Key("default", "leader"): Pod(metadata=owned("leader", "batch/v1", "Job", "top"))}.get
    )
    ancestors.add(JOBS, {Key("default", "top"): Job(metadata=job("top", queued=True))}.get)
    child = owned("workers", "v1", "Pod", "leader")
    assert asyncio.run(ancestors.managing_ancestor(child, resource)) == ("TOP" if manages else None)


def test_an_owner_with_the_name_of_a_deleted_one_is_ignored() -> None:
    assert manager(job("a", "b=OLD"), job("b", queued=True)) is None


def test_there_is_no_answer_before_the_owner_is_found() -> None:
    assert manager(job("a", "b")) == "?b"


def test_a_circular_chain_is_broken() -> None:
    found = manager(job("a", "b"), job("a", "b"), job("b", "a", queued=True))
    assert found == BrokenOwnerChain("its owners form a circle through Job a", circular=True)


def test_a_chain_of_more_than_ten_owners_is_broken() -> None:
    def chain(levels: int) -> list[ObjectMeta]:
        top = job(f"j{levels}", queued=True)
        return [*(job(f"j{level}", f"j{level + 1}") for level in range(1, levels)), top]

    assert manager(job("a", "j1"), *chain(10)) == "J10"
    text = "Terminated search for Kueue-managed Job because ancestor depth exceeded limit of 10"
    assert manager(job("a", "j1"), *chain(11)) == BrokenOwnerChain(text, circular=False)


# Owners of kinds without an informer.

THING = unstructured_resource("example.com", "v1", "things", "Thing")
INTERMEDIATE = unstructured_resource("example.com", "v1", "owners", "Other")


async def make(
    client: Client, resource: Resource[UnstructuredJob], name: str, owner: ObjectMeta | None
) -> ObjectMeta:
    metadata: dict[str, Any] = {"name": name}
    if owner is not None:
        metadata["ownerReferences"] = [{**reference_of(owner), "controller": True}]
    if resource is THING:
        metadata["labels"] = QUEUED
    stored = await client.create(resource, {"metadata": metadata}, "default")
    return stored.metadata


def reference_of(owner: ObjectMeta) -> dict[str, str]:
    return {"apiVersion": THING.api_version, "kind": THING.kind, "name": owner.name, "uid": owner.uid}


@pytest.mark.slow
def test_the_chain_leads_through_intermediate_kinds() -> None:
    async def story() -> None:
        async with (
            api_server() as server,
            Client(RestConfig(server.url, credentials=Token(server.token)), random.Random(1)) as client,
        ):
            await install_definitions(client, [definition(THING), definition(INTERMEDIATE)])
            top = await make(client, THING, "top", None)
            middle = await make(client, INTERMEDIATE, "middle", top)
            external = ExternalFramework(group="example.com", version="v1", kind="Thing")
            part = msgspec.structs.replace(job("a", "middle"), owner_references=(as_owner(middle),))
            ancestors = AncestorFinder(client, [JOBS], [INTERMEDIATE], [external], False)
            assert await ancestors.managing_ancestor(part) == top.uid
            assert (
                await AncestorFinder(client, [JOBS], [INTERMEDIATE], [], False).managing_ancestor(part)
                is None
            )
            assert await AncestorFinder(client, [JOBS], [], [external], False).managing_ancestor(part) is None
            kept_nowhere = AncestorFinder(client, [THING, INTERMEDIATE], [], [], False)
            assert await kept_nowhere.managing_ancestor(part) == top.uid
            await client.delete(THING, top.key)
            assert isinstance(await ancestors.managing_ancestor(part), OwnerNotFound)

    asyncio.run(story())


def as_owner(metadata: ObjectMeta) -> OwnerReference:
    return OwnerReference(
        api_version=INTERMEDIATE.api_version,
        kind=INTERMEDIATE.kind,
        name=metadata.name,
        uid=metadata.uid,
        controller=True,
    )
