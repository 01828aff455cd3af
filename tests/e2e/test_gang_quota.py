"""A quota race over HTTP: an admitted group keeps its claim; a group that loses it becomes pending."""

import logging

import pytest

from quorate.api.meta import Key
from quorate.kube.resources import POD_GROUPS, RESOURCE_QUOTAS
from quorate.local.nodes import NodePool
from tests.e2e.gangs import GangWorld, run_gang_story, settings
from tests.e2e.world import NAMESPACE

pytestmark = pytest.mark.slow

SETTINGS = settings(
    """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: nodeorder}]
configurations:
- name: enqueue
  arguments: {requeue-backoff-base: 0.2}
"""
)


async def a_quota(world: GangWorld, name: str, cpu: str, *scopes: str) -> None:
    spec = {"hard": {"requests.cpu": cpu}, **({"scopes": list(scopes)} if scopes else {})}
    await world.client.create(RESOURCE_QUOTAS, {"metadata": {"name": name}, "spec": spec}, NAMESPACE)


def test_a_group_returns_to_pending_while_a_resource_quota_is_exhausted() -> None:
    async def story(world: GangWorld) -> None:
        await a_quota(world, "team", "3")
        await world.group("a", 2, {"cpu": "2"})
        await world.until_phase("a", "Inqueue")
        await world.group("b", 2, {"cpu": "2"})
        await world.until_waits("b", "NamespaceQuotaExceeded", "quota team: requests.cpu: need 2, have 1 now")
        await world.client.delete(POD_GROUPS, Key(NAMESPACE, "b"))

        await world.pods("a", 1)  # half of the group exists: the other half stays reserved
        await world.pods("stranger", 2, scheduler="default-scheduler")  # no webhook rejected them
        waits = await world.until_waits("a", "NamespaceQuotaExceeded")
        assert "requests.cpu: need 1, have 0 now" in waits.message
        await world.until_phase("a", "Pending")

        await world.delete_members("stranger")
        await world.until_phase("a", "Inqueue")
        await world.pods("a", 1, first=1)
        await world.until_bound(a=2)
        await world.until_phase("a", "Running")

    run_gang_story(story, NodePool(1, cpu="8"), SETTINGS)


def test_an_unsupported_resource_quota_is_ignored_with_an_event(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: GangWorld) -> None:
        await a_quota(world, "odd", "1", "CrossNamespacePodAffinity")
        await world.group("a", 2, {"cpu": "2"})
        await world.until_phase("a", "Inqueue")
        warnings = [record for record in caplog.records if "quota ignored" in record.getMessage()]
        assert len(warnings) == 1

    with caplog.at_level(logging.WARNING):
        run_gang_story(story, NodePool(1, cpu="8"), SETTINGS)
