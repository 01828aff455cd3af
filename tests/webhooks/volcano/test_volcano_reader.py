"""The caches of the Volcano webhooks: agreed usage, and nothing before the sync."""

import asyncio
import random
from datetime import UTC, datetime
from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core import Namespace, ResourceQuotaSpec
from quorate.api.core.quota_scopes import ScopeAttributes
from quorate.api.meta import Key
from quorate.api.volcano import PodGroup
from quorate.gang.namespace_quota.evaluation import QuotaTotals
from quorate.gang.namespace_quota.ledger import GroupQuotaMinimum
from quorate.gang.namespace_quota.quota import NamespaceQuota
from quorate.install.crds import gang_definitions
from quorate.kube.client import Client
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.processes.local.apply import install_definitions
from quorate.webhooks.limits import DISCOVERY_INTERVAL_S
from quorate.webhooks.volcano.volcano_reader import (
    CachedVolcanoReader,
    group_quota_minimum,
    with_agreed_usage,
)
from tests.kube.virtual_clock import VirtualClock
from tests.local.clusters import api_server


@pytest.mark.parametrize(
    ("before", "status", "counted_pods", "want"),
    [
        pytest.param(0, 4, 3, 3, id="status has a pod that the cache lacks"),
        pytest.param(0, 3, 4, 3, id="cache has a pod that the status lacks"),
        pytest.param(0, 0, 4, 0, id="status is not updated"),
        pytest.param(2, 4, 1, 2, id="earlier usage counts in any case"),
        pytest.param(4, 2, 4, 2, id="usage decreased"),
    ],
)
def test_recent_usage_counts_only_if_status_and_cache_agree(
    before: int, status: int, counted_pods: int, want: int
) -> None:
    def quota_using(amount: int) -> NamespaceQuota:
        return NamespaceQuota(
            Key("team", "rq"), {"requests.cpu": 8}, {"requests.cpu": amount}, ResourceQuotaSpec()
        )

    counted = QuotaTotals()
    counted.add(ScopeAttributes(), {"cpu": counted_pods})
    quota = quota_using(status).following(quota_using(before), observed_at=1000.0)
    assert with_agreed_usage(quota, counted, 1000.9).used == {"requests.cpu": want}
    assert with_agreed_usage(quota, counted, 1001.0).used == {"requests.cpu": status}


PODS_OF_ONE = {"pods": 1, "count/pods": 1}


def a_group(phase: str = "Inqueue", minimum: Any = None, **metadata: Any) -> PodGroup:
    spec = {"minMember": 1, "priorityClassName": "high", "minResources": minimum}
    body = {"metadata": {"name": "a", **metadata}, "spec": spec, "status": {"phase": phase}}
    return codec.convert(PodGroup, body)


@pytest.mark.parametrize(
    ("group", "want"),
    [
        pytest.param(
            a_group(minimum={"cpu": "1"}),
            GroupQuotaMinimum(ScopeAttributes("high"), {**PODS_OF_ONE, "cpu": 1000}, True),
            id="active",
        ),
        pytest.param(a_group(), GroupQuotaMinimum(ScopeAttributes("high"), None, True), id="no minResources"),
        pytest.param(
            a_group(minimum={}),
            GroupQuotaMinimum(ScopeAttributes("high"), PODS_OF_ONE, True),
            id="empty minResources",
        ),
        pytest.param(
            a_group("Pending"), GroupQuotaMinimum(ScopeAttributes("high"), None, False), id="pending"
        ),
        pytest.param(
            a_group("Completed"), GroupQuotaMinimum(ScopeAttributes("high"), None, False), id="completed"
        ),
        pytest.param(
            a_group(deletionTimestamp=datetime(2030, 1, 1, tzinfo=UTC)),
            GroupQuotaMinimum(ScopeAttributes("high"), None, False),
            id="terminating",
        ),
    ],
)
def test_the_reservation_of_a_group(group: PodGroup, want: GroupQuotaMinimum) -> None:
    assert group_quota_minimum(group) == want


async def no_namespace(name: str) -> Namespace | None:
    return None


@pytest.mark.slow
def test_nothing_is_listed_before_the_kinds_are_served() -> None:
    async def scenario() -> None:
        async with api_server() as server:
            cluster = RestConfig(server.url, credentials=Token(server.token))
            async with Client(cluster, random.Random(1)) as client:
                clock = VirtualClock()
                reader = CachedVolcanoReader(client, clock, ("volcano",), no_namespace)
                running = asyncio.create_task(reader.run())
                async with asyncio.timeout(60):
                    await clock.slept.wait()
                    assert reader.quota("team") is None
                    await install_definitions(client, gang_definitions())
                    await clock.advance_to(clock.now() + DISCOVERY_INTERVAL_S)
                    while reader.quota("team") is None:  # noqa: ASYNC110  the deadline is above
                        await asyncio.sleep(0.01)
                assert reader.queues() == {}
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())
