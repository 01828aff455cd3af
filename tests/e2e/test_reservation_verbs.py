"""The kind Reservation: what the schema refuses, its status, and ``quorate reservation``."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from quorate.api.meta import Key, is_true
from quorate.api.quorate import ACTIVE, ENDED
from quorate.kube.clock import WallClock
from quorate.kube.errors import Invalid, NotFound
from quorate.kube.resources import RESERVATIONS, Json, untyped
from tests.e2e.verbs import CommandLine, RunWithCommands, story_runner
from tests.e2e.world import World

pytestmark = pytest.mark.slow

STORED = untyped("quorate.dev", "v1alpha1", "reservations", "Reservation", False)
OWNERS = {"clusterQueues": ["research"]}
AMOUNTS = [{"flavor": "default", "resources": {"cpu": "4"}}]
START = "2026-12-05T22:00:00Z"


@pytest.fixture
def run_with_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunWithCommands:
    return story_runner(tmp_path, monkeypatch)


def a_reservation(**spec: Any) -> Json:
    given = {"owners": OWNERS, "amounts": AMOUNTS, "start": START, "durationSeconds": 60, **spec}
    return {
        "metadata": {"name": "night"},
        "spec": {name: value for name, value in given.items() if value is not None},
    }


REFUSED: dict[str, tuple[Json, str]] = {
    "nothing reserved": ({"amounts": None}, "amounts or nodes are required"),
    "two ends": ({"end": "2026-12-06T22:00:00Z"}, "either end or durationSeconds"),
    "no end": ({"durationSeconds": None}, "either end or durationSeconds"),
    "ends before it begins": ({"durationSeconds": None, "end": START}, "end must be after start"),
    "no owners": ({"owners": None}, "owners are required"),
    "empty owners": ({"owners": {}}, "clusterQueues, localQueues or namespaces"),
    "owned maintenance": ({"purpose": "Maintenance"}, "has no owners"),
    "names and count": ({"nodes": {"names": ["a"], "count": 1}}, "names exclude"),
    "nodes without choice": ({"nodes": {}}, "a selector or a count is required"),
    "notice without eviction": ({"noticeSeconds": 60}, "noticeSeconds requires"),
    "each second": ({"recurrence": "FREQ=SECONDLY"}, "spec.recurrence"),
    "never": ({"recurrence": "FREQ=YEARLY;BYMONTH=2"}, "BYMONTH requires"),
    "days of months": ({"recurrence": "FREQ=DAILY;BYMONTHDAY=1"}, "BYMONTHDAY requires"),
    "days in intervals": ({"recurrence": "FREQ=DAILY;INTERVAL=7;BYDAY=SU"}, "BYDAY excludes INTERVAL"),
    "both days": ({"recurrence": "FREQ=MONTHLY;BYDAY=SU;BYMONTHDAY=1"}, "exclude each other"),
    "count and until": ({"recurrence": "FREQ=DAILY;COUNT=2;UNTIL=20270101T000000Z"}, "exclude each other"),
    "long ago": ({"start": "1970-01-01T00:00:00Z"}, "before the year 2000"),
}


def test_the_schema_refuses_what_has_no_meaning(run_with_commands: RunWithCommands) -> None:
    async def story(world: World, command: CommandLine) -> None:
        for spec, message in REFUSED.values():
            with pytest.raises(Invalid, match=message):
                await world.client.create(STORED, a_reservation(**spec))
        for spec in (
            {"recurrence": "FREQ=MONTHLY;BYDAY=-1SU;UNTIL=20270101T000000Z"},
            {"purpose": "Maintenance", "owners": None, "nodes": {"selector": {"matchLabels": {"a": "b"}}}},
            {"atStart": "Evict", "noticeSeconds": 60, "nodes": {"count": 2}},
        ):
            await world.client.create(STORED, a_reservation(**spec))
            await world.client.delete(STORED, Key("", "night"))

    run_with_commands(story)


def test_a_reservation_is_created_listed_described_and_deleted(run_with_commands: RunWithCommands) -> None:
    async def story(world: World, command: CommandLine) -> None:
        assert (await command("list", "reservations")).err == "No resources found\n"
        none = (
            "--node-selector",
            "a=b",
            "--node-count",
            "0",
            "--duration",
            "2h",
            "--cluster-queues",
            "research",
        )
        refused = await command("create", "reservation", "night", *none)
        assert "spec.nodes.count is not a positive number" in refused.err
        created = await command.output_of(
            "create", "reservation", "night", "--start", START, "--duration", "2h",
            "--recurrence", "FREQ=DAILY", "--amounts", "default:cpu=4;memory=8Gi",
            "--nodes", "n1,n2", "--cluster-queues", "research", "--local-queues", "team/queue",
            "--namespaces", "lab", "--evict", "--notice", "10m",
        )  # fmt: skip
        assert created == "reservation.quorate.dev/night created\n"
        stored = await world.client.get(STORED, Key("", "night"))
        assert stored["spec"] == {
            "purpose": "Workloads",
            "amounts": [{"flavor": "default", "resources": {"cpu": "4", "memory": "8Gi"}}],
            "nodes": {"names": ["n1", "n2"]},
            "owners": {
                "clusterQueues": ["research"],
                "localQueues": [{"namespace": "team", "name": "queue"}],
                "namespaces": ["lab"],
            },
            "start": START,
            "durationSeconds": 7200,
            "recurrence": "FREQ=DAILY",
            "atStart": "Evict",
            "noticeSeconds": 600,
        }
        await world.until("it is scheduled", lambda: is_scheduled(world))
        listed = await command.output_of("list", "resv", "-o", "wide")
        assert "Scheduled" in listed
        assert START in listed
        assert "default: cpu 4, memory 8Gi; nodes: n1,n2" in listed
        (item,) = json.loads(await command.output_of("reservation", "list", "-o", "json"))["items"]
        assert item["spec"] == stored["spec"]
        described = await command.output_of("describe", "reservation", "night")
        assert "2026-12-06T22:00:00Z" in described
        assert "Evict after a notice of 600 s" in described
        assert "Scheduled" in described
        assert await command.output_of("get", "resv/night", "-o", "name") == "reservation.quorate.dev/night\n"
        deleted = await command.output_of("delete", "reservation", "night")
        assert deleted == "reservation.quorate.dev/night deleted\n"
        with pytest.raises(NotFound):
            await world.client.get(STORED, Key("", "night"))

    run_with_commands(story)


async def is_scheduled(world: World) -> bool:
    stored = await world.client.get(RESERVATIONS, Key("", "night"))
    return is_true(stored.status.conditions, "Scheduled")


def test_a_window_begins_and_ends(run_with_commands: RunWithCommands) -> None:
    async def story(world: World, command: CommandLine) -> None:
        start = f"{datetime.fromtimestamp(WallClock().now(), UTC) + timedelta(seconds=2):%Y-%m-%dT%H:%M:%SZ}"
        await world.client.create(STORED, a_reservation(start=start, durationSeconds=3))

        async def holds(condition: str) -> bool:
            stored = await world.client.get(RESERVATIONS, Key("", "night"))
            return is_true(stored.status.conditions, condition)

        await world.until("the window begins", lambda: holds(ACTIVE))
        assert "Active" in await command.output_of("reservation", "list")
        await world.until("the window ends", lambda: holds(ENDED))
        assert not await holds(ACTIVE)

    run_with_commands(story)
