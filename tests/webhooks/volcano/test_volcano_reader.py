"""Copies of the cluster: of two that disagree the one that lets more through, and none before its time."""

import asyncio
import random
from datetime import UTC, datetime
from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core import Namespace, ResourceQuotaSpec
from quorate.api.meta import Key
from quorate.api.volcano import PodGroup
from quorate.cli.crds import gang_definitions
from quorate.cli.run.apply import install_definitions
from quorate.gang.namespace_quota.evaluation import QuotaTotals, ScopeAttributes
from quorate.gang.namespace_quota.ledger import GroupQuotaMinimum
from quorate.gang.namespace_quota.quota import NamespaceQuota
from quorate.kube.client import Client
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.webhooks.volcano.volcano_reader import (
    DISCOVERY_INTERVAL_S,
    CachedVolcanoReader,
    group_requirements,
    with_agreed_usage,
)
from tests.kube.virtual_clock import VirtualClock
from tests.local.clusters import api_server


@pytest.mark.parametrize(
    ("before", "status", "ours", "want"),
    [
        pytest.param(0, 4, 3, 3, id="the status has heard of a member that we have not"),
        pytest.param(0, 3, 4, 3, id="we have heard of one that the status has not"),
        pytest.param(0, 0, 4, 0, id="nobody keeps the status"),
        pytest.param(2, 4, 1, 2, id="what was used for long is used, whoever uses it"),
        pytest.param(4, 2, 4, 2, id="what is not used any more"),
    ],
)
def test_used_is_what_both_agree_on(before: int, status: int, ours: int, want: int) -> None:
    def using(amount: int) -> NamespaceQuota:
        return NamespaceQuota(
            Key("team", "rq"), {"requests.cpu": 8}, {"requests.cpu": amount}, ResourceQuotaSpec()
        )

    counted = QuotaTotals()
    counted.add(ScopeAttributes(), {"cpu": ours})
    quota = using(status).following(using(before), observed_at=1000.0)
    assert with_agreed_usage(quota, counted, 1000.9).used == {"requests.cpu": want}
    assert with_agreed_usage(quota, counted, 1001.0).used == {"requests.cpu": status}


def a_group(phase: str = "Inqueue", minimum: Any = None, **metadata: Any) -> PodGroup:
    spec = {"priorityClassName": "high", "minResources": minimum}
    body = {"metadata": {"name": "a", **metadata}, "spec": spec, "status": {"phase": phase}}
    return codec.convert(PodGroup, body)


@pytest.mark.parametrize(
    ("group", "want"),
    [
        pytest.param(
            a_group(minimum={"cpu": "1"}),
            GroupQuotaMinimum(ScopeAttributes("high"), {"cpu": 1000}, True),
            id="active",
        ),
        pytest.param(a_group(), GroupQuotaMinimum(ScopeAttributes("high"), None, True), id="it does not say"),
        pytest.param(
            a_group(minimum={}), GroupQuotaMinimum(ScopeAttributes("high"), {}, True), id="it says nothing"
        ),
        pytest.param(
            a_group("Pending"), GroupQuotaMinimum(ScopeAttributes("high"), None, False), id="it waits"
        ),
        pytest.param(
            a_group("Completed"), GroupQuotaMinimum(ScopeAttributes("high"), None, False), id="it is done"
        ),
        pytest.param(
            a_group(deletionTimestamp=datetime(2030, 1, 1, tzinfo=UTC)),
            GroupQuotaMinimum(ScopeAttributes("high"), None, False),
            id="it goes",
        ),
    ],
)
def test_what_is_reserved_for_a_group(group: PodGroup, want: GroupQuotaMinimum) -> None:
    assert group_requirements(group) == want


class WaitedOn(VirtualClock):
    """Tells that somebody waits."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_on = asyncio.Event()

    async def sleep_until(self, moment: float) -> None:
        self.waited_on.set()
        await super().sleep_until(moment)


async def nowhere(name: str) -> Namespace | None:
    return None


@pytest.mark.slow
def test_a_cluster_without_the_kinds_is_not_listed_until_it_has_them() -> None:
    async def story() -> None:
        async with api_server() as server:
            cluster = RestConfig(server.url, credentials=Token(server.token))
            async with Client(cluster, random.Random(1)) as client:
                clock = WaitedOn()
                reader = CachedVolcanoReader(client, clock, ("volcano",), nowhere)
                running = asyncio.create_task(reader.run())
                async with asyncio.timeout(10.0):
                    await clock.waited_on.wait()
                    assert reader.quota("team") is None
                    await install_definitions(client, gang_definitions())
                    await clock.advance_to(clock.now() + DISCOVERY_INTERVAL_S)
                    while reader.quota("team") is None:  # noqa: ASYNC110  the deadline is above
                        await asyncio.sleep(0.01)
                assert reader.queues() == {}
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    asyncio.run(story())
