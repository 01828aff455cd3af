"""Change notices: only of what a caller may see, coalesced, and bounded however slow a client is."""

import asyncio
from collections.abc import Container

import pytest

from quorate.api.meta import Key
from quorate.dashboard.limits import JOURNAL_MAX, NOTICE_INTERVAL_S, TOPICS_MAX
from quorate.dashboard.model.changes import Changed, ChangeFeed
from quorate.dashboard.queries import ADMINISTRATOR, Viewer
from quorate.dashboard.schema import ChangeNotice
from tests.dashboard.objects import tenant
from tests.kube.virtual_clock import VirtualClock

RED = tenant("red")


def a_feed(clock: VirtualClock | None = None) -> ChangeFeed:
    def visible(viewer: Viewer) -> Container[str]:
        return ("shared", "own") if viewer is ADMINISTRATOR else ("shared",)

    return ChangeFeed(clock or VirtualClock(), visible)


@pytest.mark.parametrize(
    ("change", "administrator", "red"),
    [
        pytest.param(
            Changed("workload", Key("red", "w"), ("own",)),
            "clusterqueues clusterqueues/own overview workloads workloads/red/w",
            "overview workloads workloads/red/w",
            id="a workload of the tenant, in a queue of which it may not see totals",
        ),
        pytest.param(
            Changed("workload", Key("blue", "w"), ("shared",)),
            "clusterqueues clusterqueues/shared overview workloads workloads/blue/w",
            "clusterqueues clusterqueues/shared overview",
            id="a workload of another tenant changes totals of a shared queue",
        ),
        pytest.param(
            Changed("workload", Key("blue", "w"), ("own",)),
            "clusterqueues clusterqueues/own overview workloads workloads/blue/w",
            "",
            id="a workload of another tenant in another queue",
        ),
        pytest.param(
            Changed("pod_group", Key("blue", "g")), "overview podgroups podgroups/blue/g", "",
            id="a pod group of another tenant",
        ),
        pytest.param(Changed("node"), "nodes overview", "", id="nodes, which tenants may not list"),
        pytest.param(Changed("forecast"), "forecast", "forecast", id="a forecast"),
        pytest.param(Changed("all"), "*", "*", id="everything"),
    ],
)  # fmt: skip
def test_a_notice_names_what_the_caller_may_see(change: Changed, administrator: str, red: str) -> None:
    feed = a_feed()
    feed.note(change)
    assert " ".join(feed.topics_since(0, ADMINISTRATOR)) == administrator
    assert " ".join(feed.topics_since(0, RED)) == red


def test_a_slow_client_is_told_to_read_everything_and_costs_no_memory() -> None:
    feed = a_feed()
    for number in range(10_000):
        feed.note(Changed("workload", Key("red", f"w{number}")))
    assert len(feed._journal) == JOURNAL_MAX
    assert feed.topics_since(0, RED) == ("*",)
    assert feed.topics_since(10_000 - 2, RED) == (
        "overview", "workloads", "workloads/red/w9998", "workloads/red/w9999",
    )  # fmt: skip


def test_a_notice_has_a_bounded_number_of_topics() -> None:
    feed = a_feed()
    for number in range(TOPICS_MAX + 1):
        feed.note(Changed("workload", Key("red", f"w{number}")))
    assert feed.topics_since(0, RED) == ("*",)
    assert feed.topics_since(1, tenant("blue")) == ()


def test_changes_within_half_a_second_are_one_notice() -> None:
    async def story() -> None:
        clock = VirtualClock()
        feed, found = a_feed(clock), list[ChangeNotice]()

        async def read() -> None:
            async for notice in feed.subscribe(RED):
                found.append(notice)

        reading = asyncio.create_task(read())
        await asyncio.sleep(0)
        began = clock.now()
        for moment in range(40):  # four seconds, ten changes each
            feed.note(Changed("workload", Key("red", f"w{moment}")))
            feed.note(Changed("workload", Key("blue", f"w{moment}")))
            await clock.advance_to(began + moment / 10)
        await clock.advance_to(began + 10)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert len(found) <= 4 / NOTICE_INTERVAL_S + 2
        topics = [topic for notice in found for topic in notice.topics]
        assert {f"workloads/red/w{moment}" for moment in range(40)} <= set(topics)
        assert not any("blue" in topic for topic in topics)
        assert feed._waiting == set()  # the subscriber that ended is forgotten

    asyncio.run(story())
