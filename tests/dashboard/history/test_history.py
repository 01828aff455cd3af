"""What is recorded, and what a caller may see of it."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from quorate.api.meta import Key, Uid, at_epoch
from quorate.dashboard.history.history import History, open_history
from quorate.dashboard.history.series import RANGES
from quorate.dashboard.history.store import HistoryStore
from quorate.dashboard.queries import ADMINISTRATOR
from quorate.kube.informer import Change
from tests.dashboard.objects import Cluster, a_condition, a_workload, tenant, two_tenants
from tests.kube.virtual_clock import VirtualClock

BEGIN = 1_000_000.0
RED, BLUE = tenant("red"), tenant("blue")
PREEMPTED = (
    "Preempted to accommodate a workload (UID: red-waits, JobUID: j) due to prioritization; by red/waits"
)


def run(story: Callable[[History, VirtualClock, Cluster], Awaitable[None]], path: Path) -> None:
    async def with_history() -> None:
        clock = VirtualClock(BEGIN)
        async with open_history(path / "history.sqlite", clock) as history:
            await story(history, clock, two_tenants())

    asyncio.run(with_history())


def evict_blue(history: History, cluster: Cluster) -> None:
    """Let blue/borrows be preempted for red/waits, as the informer reports it."""
    old = cluster.data.workloads.by_key[Key("blue", "borrows")].workload
    lost = (
        a_condition("Preempted", reason="InCohortReclamation", message=PREEMPTED, second=40),
        a_condition("Evicted", reason="Preempted", message=PREEMPTED, second=40),
    )
    new = replace(old, status=a_workload("x", conditions=lost).status)
    cluster.put(new)
    history.on_workload(cluster.data, Change(old, new))


def test_a_series_has_means_of_equal_intervals(tmp_path: Path) -> None:
    async def story(history: History, clock: VirtualClock, cluster: Cluster) -> None:
        for second in range(0, 600, 10):
            if second == 300:
                cluster.put(a_workload("more", "red"))
            await history.record(cluster.data, compact=False)
            clock.pass_time(10)
        hour = await history.cluster_queue(cluster.data, ADMINISTRATOR, "red-queue", "hour")
        assert hour is not None
        assert hour.names == ("pending", "admitted", "default/cpu used", "default/cpu nominal")
        assert (hour.interval_s, len(hour.samples)) == (10, 60)
        assert hour.samples[0].values == (1.0, 1.0, 2.0, 4.0)
        assert hour.samples[-1].values == (2.0, 1.0, 2.0, 4.0)
        day = await history.cluster_queue(cluster.data, ADMINISTRATOR, "red-queue", "day")
        assert day is not None
        first = BEGIN // 300 * 300
        assert [each.at for each in day.samples] == [at_epoch(first + number * 300) for number in range(3)]
        # From second 200 of the first interval on: 20 samples, then 10 and 20, then 10.
        assert [each.values[0] for each in day.samples] == [1, (10 * 1 + 20 * 2) / 30, 2]

    run(story, tmp_path)


def test_the_overview_of_a_tenant_is_the_sum_of_the_queues_that_it_sees(tmp_path: Path) -> None:
    async def story(history: History, clock: VirtualClock, cluster: Cluster) -> None:
        await history.record(cluster.data, compact=False)
        all_ = await history.overview(cluster.data, ADMINISTRATOR, "hour")
        assert all_.names == ("pending", "admitted", "cpu used share")
        assert all_.samples[0].values == (1.0, 2.0, 1.0)  # 8 of 8 cpu
        red = await history.overview(cluster.data, RED, "hour")
        assert (red.names, red.samples[0].values) == (all_.names, (1.0, 1.0, 0.5))
        assert await history.cluster_queue(cluster.data, RED, "blue-queue", "hour") is None
        assert (await history.overview(cluster.data, tenant("green"), "hour")).samples == ()
        assert all_.source == "history of this dashboard"

    run(story, tmp_path)


def test_waits_are_those_of_the_workloads_admitted_since_the_last_sample(tmp_path: Path) -> None:
    async def story(history: History, clock: VirtualClock, cluster: Cluster) -> None:
        for number, wait in enumerate((10, 20, 30)):
            old = a_workload(f"w{number}", second=1)
            done = (a_condition("Admitted", second=1 + wait),)
            new = a_workload(f"w{number}", second=1, admitted_in="red-queue", conditions=done)
            history.on_workload(cluster.data, Change(old, new))
        await history.record(cluster.data, compact=False)
        clock.pass_time(10)
        await history.record(cluster.data, compact=False)
        found = await history.overview(cluster.data, ADMINISTRATOR, "hour")
        assert found.names[-2:] == ("wait p50", "wait p90")
        assert [each.values[-2:] for each in found.samples] == [(20.0, 30.0), (None, None)]

    run(story, tmp_path)


def test_a_preemption_is_recorded_with_its_preemptor(tmp_path: Path) -> None:
    async def story(history: History, clock: VirtualClock, cluster: Cluster) -> None:
        evict_blue(history, cluster)
        await history.record(cluster.data, compact=True)
        found = await history.transitions(cluster.data, ADMINISTRATOR, "blue-queue", 10)
        assert [(each.step, each.name, each.preemptor, each.cluster_queue) for each in found] == [
            ("Evicted", "borrows", "", "blue-queue"),
            ("Preempted", "borrows", "red/waits", "blue-queue"),
        ]
        assert found == history.losses(cluster.data, ADMINISTRATOR, "blue-queue", 10)[::-1]
        seen = await history.transitions(cluster.data, BLUE, "", 10)
        assert [(each.step, each.preemptor) for each in seen] == [("Evicted", ""), ("Preempted", "")]
        assert all("red/waits" not in each.message for each in seen)
        assert await history.transitions(cluster.data, RED, "", 10) == ()
        assert history.losses(cluster.data, RED, "blue-queue", 10) == ()
        of_object = await history.of_object(cluster.data, BLUE, Uid("blue-borrows"))
        assert [each.step for each in of_object] == ["Evicted", "Preempted"]

    run(story, tmp_path)


def test_a_restart_shows_what_was_recorded_and_records_nothing_twice(tmp_path: Path) -> None:
    async def story(history: History, clock: VirtualClock, cluster: Cluster) -> None:
        evict_blue(history, cluster)
        await history.record(cluster.data, compact=False)

    async def again(history: History, clock: VirtualClock, cluster: Cluster) -> None:
        assert len(history.losses(cluster.data, ADMINISTRATOR, "blue-queue", 10)) == 2
        evict_blue(history, cluster)  # the first list of the new process
        await history.record(cluster.data, compact=False)
        assert len(history.losses(cluster.data, ADMINISTRATOR, "blue-queue", 10)) == 2
        assert len(await history.transitions(cluster.data, ADMINISTRATOR, "blue-queue", 10)) == 2
        found = await history.cluster_queue(cluster.data, ADMINISTRATOR, "red-queue", "hour")
        assert found is not None
        assert len(found.samples) == 1  # of the same ten seconds

    run(story, tmp_path)
    run(again, tmp_path)


def test_a_damaged_file_is_moved_aside(tmp_path: Path) -> None:
    (tmp_path / "history.sqlite").write_bytes(b"no database at all" * 100)

    async def story(history: History, clock: VirtualClock, cluster: Cluster) -> None:
        await history.record(cluster.data, compact=True)
        assert (await history.overview(cluster.data, ADMINISTRATOR, "hour")).samples

    run(story, tmp_path)
    assert [each.name for each in tmp_path.glob("*unreadable*")] == ["history.sqlite.unreadable-1000000"]


def test_what_could_not_be_written_is_written_later(tmp_path: Path) -> None:
    async def story(history: History, clock: VirtualClock, cluster: Cluster) -> None:
        evict_blue(history, cluster)
        async with locked(tmp_path / "history.sqlite"):
            await history._writer.run(dont_wait)
            await history.record(cluster.data, compact=False)
            assert await history.transitions(cluster.data, ADMINISTRATOR, "", 10) == ()
        await history.record(cluster.data, compact=False)
        assert len(await history.transitions(cluster.data, ADMINISTRATOR, "", 10)) == 2

    run(story, tmp_path)


def dont_wait(store: HistoryStore) -> None:
    store._database.execute("PRAGMA busy_timeout = 1")


@asynccontextmanager
async def locked(path: Path) -> AsyncIterator[None]:
    """Hold the lock of writers, as another process could."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


def test_a_range_has_a_readable_number_of_samples() -> None:
    assert all(180 <= length_s / interval_s <= 400 for length_s, interval_s in RANGES.values())
