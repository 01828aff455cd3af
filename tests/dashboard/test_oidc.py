"""Login at an OpenID Connect issuer: the authorization code flow with PKCE, over HTTP."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from quorate.dashboard.login.cookies import LOGIN_COOKIE, SESSION_COOKIE
from quorate.dashboard.login.oidc import OidcError, OidcLogins, OidcSettings
from quorate.kube.clock import WallClock
from tests.dashboard.issuer import CLIENT, Issuer, running_issuer, trusting
from tests.dashboard.served import Answer, Browser, Served, served

pytestmark = pytest.mark.slow


def with_issuer(tmp_path: Path, story: Callable[[Served, Issuer], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running_issuer() as issuer:
            settings = OidcSettings(issuer=issuer.url, client_id=CLIENT)
            async with served(tmp_path, oidc=settings) as dashboard:
                await story(dashboard, issuer)

    asyncio.run(run())


async def sent_back(dashboard: Served, browser: Browser) -> str:
    """Go to the issuer and return the path with which it sends the browser back."""
    begun = await browser.send("GET", "/login/oidc")
    assert begun.status == 303
    async with dashboard.http.get(begun.headers["Location"], allow_redirects=False) as at_issuer:
        back = at_issuer.headers["Location"]
    assert back.startswith(f"{dashboard.base}/login/oidc/callback?")
    return back.removeprefix(dashboard.base)


async def logged_in_at(dashboard: Served, browser: Browser) -> Answer:
    return await browser.send("GET", await sent_back(dashboard, browser))


def test_the_id_token_of_the_issuer_becomes_the_token_of_the_user(tmp_path: Path) -> None:
    async def story(dashboard: Served, issuer: Issuer) -> None:
        browser = dashboard.browser()
        begun = await browser.send("GET", "/login/oidc")
        query = parse_qs(urlsplit(begun.headers["Location"]).query)
        assert query["scope"] == ["openid email groups"]
        cookie = begun.cookies[LOGIN_COOKIE]
        assert (cookie["samesite"], cookie["httponly"], cookie["secure"]) == ("lax", True, True)
        assert query["state"] == [cookie.value]
        assert (await browser.get("/session")).json["oidcIssuer"] == issuer.url
        answer = await logged_in_at(dashboard, browser)
        # The API server of this test trusts no issuer, so it refuses the token, which is right in itself.
        assert answer.status == 403
        assert b"the API server does not accept ID tokens of" in answer.body
        assert SESSION_COOKIE not in browser.cookies
        (form,) = issuer.requests
        assert form["grant_type"] == "authorization_code"
        assert len(form["code_verifier"]) >= 43

    with_issuer(tmp_path, story)


CLAIMS: dict[str, object] = {
    "nonce": "of-another-login",
    "aud": "another-client",
    "iss": "https://evil.example",
    "exp": 1,
}


def test_a_token_that_is_not_of_this_login_is_refused(tmp_path: Path) -> None:
    async def story(dashboard: Served, issuer: Issuer) -> None:
        for claim, value in CLAIMS.items():
            issuer.claims = {claim: value}
            answer = await logged_in_at(dashboard, dashboard.browser())
            assert answer.status == 403
            assert f"the claim {claim} of the token" in answer.body.decode()

    with_issuer(tmp_path, story)


def test_the_answer_of_the_issuer_is_accepted_once_and_by_the_browser_that_began(tmp_path: Path) -> None:
    async def story(dashboard: Served, issuer: Issuer) -> None:
        victim, attacker = dashboard.browser(), dashboard.browser()
        path = await sent_back(dashboard, attacker)
        stolen = await victim.send("GET", path)  # a link that logs the victim in as the attacker
        assert (stolen.status, victim.cookies) == (403, {})
        victim.cookies[LOGIN_COOKIE] = "guessed"
        assert (await victim.send("GET", path)).status == 403
        assert issuer.requests == []
        assert b"ID tokens" in (await attacker.send("GET", path)).body
        again = await attacker.send("GET", path)
        assert b"this login has ended already" in again.body
        assert len(issuer.requests) == 1

    with_issuer(tmp_path, story)


def test_the_refusal_of_the_issuer_is_shown_as_text(tmp_path: Path) -> None:
    async def story(dashboard: Served, issuer: Issuer) -> None:
        browser = dashboard.browser()
        await browser.send("GET", "/login/oidc")
        state = browser.cookies[LOGIN_COOKIE]
        error = "error=access_denied&error_description=%3Cscript%3E"
        answer = await browser.send("GET", f"/login/oidc/callback?state={state}&{error}")
        assert (answer.status, answer.headers["Content-Type"]) == (403, "text/plain; charset=utf-8")
        assert answer.body == b"access_denied <script>\n"

    with_issuer(tmp_path, story)


def test_an_api_server_that_trusts_the_issuer_gets_the_id_token(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_issuer() as issuer, AsyncExitStack() as stack:

            async def server_of_users(server: str, tokens: dict[str, str]) -> str:
                return await stack.enter_async_context(trusting(issuer, server, tokens["red"]))

            settings = OidcSettings(issuer=issuer.url, client_id=CLIENT)
            async with served(tmp_path, server_of_users, oidc=settings) as dashboard:
                browser = dashboard.browser()
                answer = await logged_in_at(dashboard, browser)
                assert (answer.status, answer.headers["Location"]) == (303, "/")
                assert list(browser.cookies) == [SESSION_COOKIE]
                session = (await browser.get("/session")).json
                assert session["user"] == "system:serviceaccount:red:user"
                left_s = datetime.fromisoformat(session["expiresAt"]).timestamp() - WallClock().now()
                assert 0 < left_s <= 300  # with the ID token
                browser.csrf = session["csrfToken"]
                assert (await browser.post("/workloads/red/red-job/stop")).status == 204

    asyncio.run(run())


@pytest.mark.parametrize("issuer", ["http://issuer.example", "ftp://issuer.example", "issuer.example"])
def test_an_issuer_is_reached_over_tls(issuer: str) -> None:
    with pytest.raises(OidcError, match="reached over https"):
        OidcLogins(OidcSettings(issuer=issuer, client_id=CLIENT), WallClock())
