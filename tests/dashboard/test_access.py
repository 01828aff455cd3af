"""What a tenant gets over HTTP: of another tenant nothing, by lists, by guessed names or by events."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from quorate.api import codec
from quorate.api.meta import Key
from quorate.dashboard.limits import SessionLimits
from quorate.dashboard.serving.operations import OPERATIONS
from quorate.kube.resources import CLUSTER_QUEUES, WORKLOADS
from tests.dashboard.served import ROLE_BINDINGS, WITHIN_S, Browser, Served, bind, create_workload
from tests.dashboard.test_login import with_dashboard

pytestmark = pytest.mark.slow

READS = [
    "/session",
    "/overview",
    "/cluster-queues",
    "/cluster-queues/shared",
    "/local-queues",
    "/workloads",
    "/workloads?namespace=blue",
    "/workloads?q=blue",
    "/workloads?clusterQueue=shared",
    "/pod-groups",
    "/gang-queues",
    "/search?q=blue",
    "/search?q=hidden",
    "/forecast",
    "/history/overview?range=hour",
    "/history/cluster-queues/shared?range=day",
    "/transitions",
    "/workloads/red/red-job",
]


def test_a_tenant_reads_its_own_objects_and_the_totals_of_its_queues(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        browser = await dashboard.logged_in("red")
        page = (await browser.get("/workloads")).json
        assert [(each["namespace"], each["name"]) for each in page["items"]] == [("red", "red-job")]
        (queue,) = (await browser.get("/cluster-queues")).json
        assert (queue["name"], queue["pending"]) == ("shared", 2)
        detail = (await browser.get("/workloads/red/red-job")).json
        assert (detail["row"]["name"], detail["mayStop"]) == ("red-job", True)
        shared = (await browser.get("/cluster-queues/shared")).json
        assert (shared["summary"]["name"], shared["mayStop"]) == ("shared", False)

    with_dashboard(tmp_path, story)


def test_no_answer_to_a_tenant_names_an_object_of_another_one(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        browser = await dashboard.logged_in("red")
        for path in READS:
            answer = await browser.get(path)
            assert answer.status == 200, path
            for hidden in (b"blue", b"hidden"):
                assert hidden not in answer.body, path

    with_dashboard(tmp_path, story)


def test_guessed_names_are_answered_as_absent_ones(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        browser = await dashboard.logged_in("red")
        for guessed, absent in (
            ("/workloads/blue/blue-job", "/workloads/blue/absent-1"),
            ("/cluster-queues/hidden", "/cluster-queues/absent"),
            ("/pod-groups/blue/blue-group", "/pod-groups/blue/absent-gang"),
            ("/history/cluster-queues/hidden", "/history/cluster-queues/absent"),
            ("/nodes", "/nodes?topology=absent"),
            ("/gang-placement?pods=1&cpu=1", "/gang-placement?pods=2&cpu=1"),
        ):
            one, other = await browser.get(guessed), await browser.get(absent)
            assert (one.status, other.status) == (404, 404), guessed
            assert one.json["reason"] == other.json["reason"] == "NotFound"

    with_dashboard(tmp_path, story)


def test_a_tenant_changes_only_what_the_api_server_lets_it(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        browser = await dashboard.logged_in("red")
        for path in (
            "/workloads/blue/blue-job/stop",
            "/workloads/blue/absent/stop",
            "/cluster-queues/shared/stop",
            "/cluster-queues/hidden/resume",
        ):
            refused = await browser.post(path)
            assert (refused.status, refused.json["reason"]) == (403, "Forbidden"), path
        compared = await browser.post("/what-if", {"manifests": "", "runDuration": "1h"})
        assert (compared.status, compared.json["reason"]) == (403, "Forbidden")
        assert (await dashboard.administrator.get(WORKLOADS, Key("blue", "blue-job"))).spec.active
        administrator = await dashboard.logged_in()
        assert (await administrator.post("/cluster-queues/shared/stop")).status == 204
        stored = await dashboard.administrator.get(CLUSTER_QUEUES, Key("", "shared"))
        assert stored.spec.stop_policy == "HoldAndDrain"

    with_dashboard(tmp_path, story)


def test_without_a_session_no_operation_answers(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        browser = dashboard.browser()
        for operation in OPERATIONS:
            if operation.needs_session:
                path = operation.path.replace("{namespace}", "red").replace("{name}", "red-job")
                answer = await browser.send(operation.method, f"/api/v1{path}")
                assert answer.status == 401, operation.id
        assert (await browser.get("/absent")).status == 404

    with_dashboard(tmp_path, story)


def test_a_permission_that_is_taken_away_hides_objects_within_seconds(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        browser = await dashboard.logged_in("red")
        assert (await browser.get("/workloads")).json["total"] == 1
        await dashboard.administrator.delete(ROLE_BINDINGS, Key("red", "user"))

        async def sees(total: int) -> bool:
            return bool((await browser.get("/workloads")).json["total"] == total)

        await dashboard.until(lambda: sees(0))
        assert (await browser.get("/workloads/red/red-job")).status == 404
        await bind(dashboard.administrator, "red")
        await dashboard.until(lambda: sees(1))

    with_dashboard(tmp_path, story, session_limits=SessionLimits(access_s=0.5))


class Events:
    """The events of a stream that is read."""

    def __init__(self) -> None:
        self.topics: list[list[str]] = []
        self.opened = asyncio.Event()
        self.ended = asyncio.Event()

    @property
    def seen(self) -> set[str]:
        return {topic for topics in self.topics for topic in topics}


@asynccontextmanager
async def reading(dashboard: Served, browser: Browser) -> AsyncIterator[Events]:
    events = Events()
    headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in browser.cookies.items())}

    async def read() -> None:
        async with dashboard.http.get(f"{dashboard.base}/api/v1/events", headers=headers) as response:
            assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
            events.opened.set()
            async for line in response.content:
                if line.startswith(b"data: "):
                    notice = codec.decode(dict[str, Any], line.removeprefix(b"data: "))
                    events.topics.append(notice["topics"])
        events.ended.set()

    task = asyncio.create_task(read())
    try:
        async with asyncio.timeout(WITHIN_S):
            await events.opened.wait()
        yield events
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_the_event_stream_has_nothing_of_another_tenant(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        red, all_ = await dashboard.logged_in("red"), await dashboard.logged_in()
        async with reading(dashboard, red) as seen_by_red, reading(dashboard, all_) as seen:
            await create_workload(dashboard.administrator, "blue", "secret")
            await create_workload(dashboard.administrator, "red", "own")

            async def has_arrived() -> bool:
                return "workloads/red/own" in seen_by_red.seen and "workloads/blue/secret" in seen.seen

            await dashboard.until(has_arrived)
            assert not [topic for topic in seen_by_red.seen if "blue" in topic or "hidden" in topic]

    with_dashboard(tmp_path, story)


def test_the_event_stream_ends_with_the_session(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        browser = await dashboard.logged_in("red")
        async with reading(dashboard, browser) as events:
            await create_workload(dashboard.administrator, "red", "own")
            await browser.send("DELETE", "/api/v1/session", X_CSRF_Token=browser.csrf)
            async with asyncio.timeout(30):
                await events.ended.wait()

    with_dashboard(tmp_path, story, session_limits=SessionLimits(check_s=0.2))


def test_a_change_of_permissions_has_the_page_read_everything_again(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        browser = await dashboard.logged_in("red")
        async with reading(dashboard, browser) as events:
            await dashboard.administrator.delete(ROLE_BINDINGS, Key("red", "user"))

            async def is_told() -> bool:
                return "*" in events.seen

            await dashboard.until(is_told)

    with_dashboard(tmp_path, story, session_limits=SessionLimits(check_s=0.2, access_s=0.2))


def test_streams_of_a_session_are_bounded(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        browser = await dashboard.logged_in("red")
        async with reading(dashboard, browser):

            async def is_refused() -> bool:
                headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in browser.cookies.items())}
                async with dashboard.http.get(f"{dashboard.base}/api/v1/events", headers=headers) as got:
                    return got.status == 429

            await dashboard.until(is_refused)
        other = await dashboard.logged_in("blue")
        async with reading(dashboard, other):
            assert (await other.get("/overview")).status == 200

    with_dashboard(tmp_path, story, session_limits=SessionLimits(streams=1))
