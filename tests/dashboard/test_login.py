"""Sessions over HTTP: how one begins, what it needs, and how it ends."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from quorate.api.meta import Key
from quorate.dashboard.limits import SessionLimits
from quorate.dashboard.login.cookies import SESSION_COOKIE
from quorate.kube.resources import SERVICE_ACCOUNTS, WORKLOADS
from tests.dashboard.served import Served, served

pytestmark = pytest.mark.slow


def with_dashboard(tmp_path: Path, story: Callable[[Served], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        async with served(tmp_path, **options) as dashboard:
            await story(dashboard)

    asyncio.run(run())


def test_a_token_logs_in_and_the_cookie_is_out_of_reach_of_scripts_and_other_sites(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        browser = dashboard.browser()
        before = await browser.get("/session")
        assert (before.status, before.json) == (
            401,
            {"token": True, "oidcIssuer": "", "oneTimeLink": True},
        )
        answer = await browser.login(dashboard.tokens["red"])
        assert answer.json["user"] == "system:serviceaccount:red:user"
        assert (answer.json["readsAllWorkloads"], answer.json["namespaces"]) == (False, ["red"])
        (morsel,) = answer.cookies.values()
        assert morsel.key == SESSION_COOKIE == "__Host-quorate-session"
        assert morsel["httponly"]
        assert morsel["secure"]
        assert (morsel["samesite"], morsel["path"], morsel["domain"]) == ("strict", "/", "")
        assert (await browser.get("/session")).json["user"] == "system:serviceaccount:red:user"

    with_dashboard(tmp_path, story)


def test_a_wrong_token_opens_no_session(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        browser = dashboard.browser()
        wrong = await browser.login("wrong")
        assert (wrong.status, wrong.json["reason"], len(wrong.cookies)) == (401, "Unauthorized", 0)
        split = await browser.login("two words")
        assert (split.status, split.json["reason"]) == (400, "BadRequest")
        assert (await browser.get("/overview")).status == 401

    with_dashboard(tmp_path, story)


def test_each_login_has_a_new_session_and_ends_the_one_before(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        browser = dashboard.browser()
        browser.cookies[SESSION_COOKIE] = "chosen-by-an-attacker"
        await browser.login(dashboard.tokens["red"])
        first = browser.cookies[SESSION_COOKIE]
        assert first != "chosen-by-an-attacker"
        await browser.login(dashboard.tokens["red"])
        assert browser.cookies[SESSION_COOKIE] != first
        before = dashboard.browser()
        before.cookies[SESSION_COOKIE] = first
        assert (await before.get("/session")).status == 401
        assert (await browser.get("/session")).status == 200

    with_dashboard(tmp_path, story)


def test_logging_out_ends_the_session(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        browser = await dashboard.logged_in()
        kept = dict(browser.cookies)
        left = await browser.send("DELETE", "/api/v1/session", X_CSRF_Token=browser.csrf)
        assert (left.status, browser.cookies) == (204, {})
        browser.cookies = kept
        assert (await browser.get("/session")).status == 401

    with_dashboard(tmp_path, story)


def test_a_change_needs_the_csrf_token_of_the_session_and_the_own_origin(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        browser, other = await dashboard.logged_in("red"), await dashboard.logged_in("red")
        stop = "/workloads/red/red-job/stop"
        for headers in (
            {"X_CSRF_Token": ""},
            {"X_CSRF_Token": other.csrf},
            {"Origin": "https://evil.example"},
            {"Sec_Fetch_Site": "cross-site"},
        ):
            refused = await browser.post(stop, **headers)
            assert (refused.status, refused.json["reason"]) == (403, "Forbidden"), headers
        workload = await dashboard.administrator.get(WORKLOADS, Key("red", "red-job"))
        assert workload.spec.active
        assert (await browser.post(stop, Origin=dashboard.base)).status == 204
        workload = await dashboard.administrator.get(WORKLOADS, Key("red", "red-job"))
        assert not workload.spec.active
        assert (await browser.post("/workloads/red/red-job/resume")).status == 204

    with_dashboard(tmp_path, story)


def test_a_page_of_another_site_cannot_log_a_browser_in(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        browser = dashboard.browser()
        body = b'{"token": "' + dashboard.tokens["red"].encode() + b'"}'
        session = "/api/v1/session"
        form = await browser.send("POST", session, body=body, Content_Type="text/plain")
        assert form.status == 415
        foreign = await browser.send("POST", session, body=body, Origin="https://evil.example")
        assert (foreign.status, browser.cookies) == (403, {})

    with_dashboard(tmp_path, story)


def test_a_link_logs_in_once(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        first = dashboard.links[0].removeprefix(dashboard.base)
        browser, late = dashboard.browser(), dashboard.browser()
        guessed = await late.send("GET", "/login/once?code=guessed")
        assert (guessed.status, late.cookies) == (403, {})
        answer = await browser.send("GET", first)
        assert (answer.status, answer.headers["Location"]) == (303, "/")
        assert (await browser.get("/session")).json["readsAllWorkloads"]
        assert (await late.send("GET", first)).status == 403
        assert (await late.get("/session")).status == 401
        second = dashboard.links[1].removeprefix(dashboard.base)  # the terminal shows the next one
        assert (await late.send("GET", second)).status == 303

    with_dashboard(tmp_path, story)


def test_a_server_on_loopback_answers_to_no_other_name(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        browser = await dashboard.logged_in()
        for path in ("/", "/api/v1/overview", dashboard.links[0].removeprefix(dashboard.base)):
            answer = await browser.send("GET", path, Host="rebound.evil.example")
            assert answer.status == 421, path
        assert (await browser.get("/overview", Host="localhost:80")).status == 200

    with_dashboard(tmp_path, story)


def test_a_revoked_token_ends_the_session_within_seconds(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        browser = await dashboard.logged_in("red")
        await dashboard.administrator.delete(SERVICE_ACCOUNTS, Key("red", "user"))

        async def has_ended() -> bool:
            return (await browser.get("/overview")).status == 401

        await dashboard.until(has_ended)
        assert browser.cookies == {}

    with_dashboard(tmp_path, story, session_limits=SessionLimits(review_s=0.5))


def test_a_session_ends_when_it_expires(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        browser, kept = await dashboard.logged_in("red"), dict[str, str]()
        kept.update(browser.cookies)
        assert (await browser.get("/session")).status == 200
        other = await dashboard.logged_in("red")

        async def is_over() -> bool:  # the other session is used meanwhile
            assert (await other.get("/session")).status == 200
            return asyncio.get_running_loop().time() > begin + 1.5

        begin = asyncio.get_running_loop().time()
        await dashboard.until(is_over)
        browser.cookies = kept
        assert (await browser.get("/session")).status == 401

    with_dashboard(tmp_path, story, session_limits=SessionLimits(idle_s=1.0))


def test_the_log_has_no_token_and_no_code(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secrets: list[str] = []

    async def story(dashboard: Served) -> None:
        browser = await dashboard.logged_in("red")
        await browser.login("wrong-token-of-a-user")
        await browser.send("GET", dashboard.links[0].removeprefix(dashboard.base))
        await browser.get("/workloads/red/red-job")
        codes = [link.partition("code=")[2] for link in dashboard.links]
        secrets.extend((*dashboard.tokens.values(), *browser.cookies.values(), browser.csrf, *codes))
        secrets.append("wrong-token-of-a-user")

    with_dashboard(tmp_path, story)
    assert "logged in" in caplog.text
    text = caplog.text + "".join(str(vars(record)) for record in caplog.records)
    assert [each for each in secrets if each in text] == []
