"""The server: headers of each response, static files, and bounds for hostile and slow clients."""

import asyncio
import socket
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from quorate.dashboard.process import LIMITS
from quorate.dashboard.serving.app import HEADERS
from tests.dashboard.served import Served
from tests.dashboard.test_login import with_dashboard

pytestmark = pytest.mark.slow

# What a browser must not do for the page, whatever a response contains.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


def test_each_response_has_the_security_headers(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        browser = await dashboard.logged_in()
        for method, path, status in (
            ("GET", "/", 200),
            ("GET", "/queues/shared", 200),
            ("GET", "/assets/absent.js", 404),
            ("GET", "/api/v1/overview", 200),
            ("GET", "/api/v1/openapi.json", 200),
            ("GET", "/api/v1/absent", 404),
            ("POST", "/api/v1/overview", 404),
            ("POST", "/api/v1/session", 415),
            ("GET", "/login/once?code=x", 403),
            ("GET", "/login/oidc", 404),
            ("PUT", "/", 405),
        ):
            answer = await browser.send(method, path)
            assert answer.status == status, path
            assert answer.headers["Content-Security-Policy"] == POLICY, path
            assert {name: answer.headers[name] for name in HEADERS} == HEADERS, path
            assert "Server" not in answer.headers
            if path.startswith("/api"):
                assert answer.headers["Cache-Control"] == "no-store", path

    with_dashboard(tmp_path, story)


PATHS = (
    "/../schema.py",
    "/assets/../../schema.py",
    "/%2e%2e/schema.py",
    "/assets/%2e%2e%2f%2e%2e%2fschema.py",
    "/..%5cschema.py",
    "//etc/passwd",
    "/assets//etc/passwd",
    "/%00",
)


def test_a_path_reaches_only_files_of_the_page(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        for path in PATHS:
            request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            head, _, body = (await raw(dashboard, request)).partition(b"\r\n\r\n")
            assert head.split(b" ")[1] in (b"200", b"404"), path
            assert b"The values that the dashboard's API returns" not in body, path
            assert b"root:" not in body, path

    with_dashboard(tmp_path, story)


async def raw(dashboard: Served, text: str) -> bytes:
    """Send bytes that no client library would send; return all that comes back."""
    host, _, port = dashboard.base.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(text.encode())
        async with asyncio.timeout(30):
            return await reader.read()
    finally:
        writer.close()


def test_headers_that_no_browser_sends_are_refused(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        for headers, status in (
            ("Host: localhost\r\nCookie: other=" + "x" * 20_000, b"200"),  # of another site on this host
            ("Host: localhost\r\nCookie: other=" + "x" * 40_000, b"400"),
            ("Host: elsewhere.example", b"421"),
            ("Host: [", b"421"),
            ("X: y", b"400"),
            ("Host: localhost\r\nOrigin: http://[", b"200"),
        ):
            head = await raw(dashboard, f"GET / HTTP/1.1\r\n{headers}\r\nConnection: close\r\n\r\n")
            assert head.split(b" ")[1] == status, headers[:60]
        browser = dashboard.browser()
        login = await browser.send("POST", "/api/v1/session", json={"token": "x"}, Origin="http://[")
        assert (login.status, login.json["reason"]) == (403, "Forbidden")

    with_dashboard(tmp_path, story)


def test_files_are_revalidated_and_assets_are_kept_for_ever(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        browser = dashboard.browser()
        page = await browser.send("GET", "/")
        assert (page.status, page.headers["Cache-Control"]) == (200, "no-cache")
        again = await browser.send("GET", "/", If_None_Match=page.headers["ETag"])
        assert (again.status, again.body) == (304, b"")

    with_dashboard(tmp_path, story)


def test_bodies_are_bounded_and_decoded_strictly(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        browser = dashboard.browser()
        large = await browser.send("POST", "/api/v1/session", body=b'{"token": "' + b"x" * 200_000 + b'"}')
        assert (large.status, large.json["reason"]) == (413, "RequestEntityTooLarge")
        for body in (b"", b"[]", b'{"token": 1}', b"{" * 1000):
            answer = await browser.send("POST", "/api/v1/session", body=body)
            assert (answer.status, answer.json["reason"]) == (400, "BadRequest"), body
        browser = await dashboard.logged_in()
        for path in (
            "/workloads?limit=-1",
            "/workloads?offset=x",
            "/workloads?sort=absent",
            "/workloads?q=" + "x" * 600,
            "/gang-placement?pods=2&cpu=many",
            "/gang-placement?pods=2",
            "/gang-placement",
        ):
            answer = await browser.get(path)
            assert (answer.status, answer.json["reason"]) == (400, "BadRequest"), path

    with_dashboard(tmp_path, story)


def test_a_connection_without_a_whole_request_is_closed(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        for text in ("", "GET / HTTP/1.1\r\nHost: localhost\r\n"):
            with suppress(ConnectionResetError):
                assert await raw(dashboard, text) == b""
        assert (await dashboard.browser().send("GET", "/")).status == 200

    with_dashboard(tmp_path, story, limits=replace(LIMITS, transfer_s=0.3))


def test_idle_connections_keep_no_user_out(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        browser = await dashboard.logged_in()  # has a connection
        for _ in range(3):  # closes the oldest idle one, and never the new one
            request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
            host, _, port = dashboard.base.removeprefix("http://").partition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(request.encode())
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            idle.append(writer)
        assert (await browser.get("/overview")).status == 200
        for writer in idle:
            writer.close()

    idle: list[asyncio.StreamWriter] = []

    with_dashboard(tmp_path, story, limits=replace(LIMITS, connections=2))


def test_a_client_that_reads_nothing_is_disconnected(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        host, _, port = dashboard.base.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            # The answers are larger than all buffers on the way.
            client.send(b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 500)

            async def is_closed() -> bool:
                try:
                    client.send(b"x")
                except BlockingIOError:
                    return False
                except OSError:
                    return True
                return False

            await dashboard.until(is_closed)
        assert (await dashboard.browser().send("GET", "/")).status == 200

    with_dashboard(tmp_path, story, limits=replace(LIMITS, transfer_s=0.5))
