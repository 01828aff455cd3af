"""The cookies of the dashboard, and the tests of the origin of a request.

``__Host-`` has a browser accept the cookie only with ``Secure``, for all paths and for this host alone.
Browsers treat loopback addresses as secure over plain HTTP too (decision 16 has what was measured).
"""

from http import HTTPStatus
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

from aiohttp import web

from quorate.dashboard.responses import Refused, forbidden

SESSION_COOKIE: Final = "__Host-quorate-session"
LOGIN_COOKIE: Final = "__Host-quorate-login"


def set_session_cookie(response: web.StreamResponse, id_: str, seconds: float) -> None:
    response.set_cookie(
        SESSION_COOKIE, id_, max_age=int(seconds), path="/", secure=True, httponly=True, samesite="strict"
    )


def delete_session_cookie(response: web.StreamResponse) -> None:
    response.del_cookie(SESSION_COOKIE, path="/", secure=True, httponly=True, samesite="strict")


def set_login_cookie(response: web.StreamResponse, state: str, seconds: float) -> None:
    """Set the cookie of a login at an issuer: Lax, because the browser comes back from another site."""
    response.set_cookie(
        LOGIN_COOKIE, state, max_age=int(seconds), path="/", secure=True, httponly=True, samesite="lax"
    )


def delete_login_cookie(response: web.StreamResponse) -> None:
    response.del_cookie(LOGIN_COOKIE, path="/", secure=True, httponly=True, samesite="lax")


def require_same_origin(request: web.Request) -> None:
    """Raise ``Refused`` if a browser sends the request for a page of another origin.

    Programs other than browsers send none of these headers.
    """
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise forbidden("the request comes from a page of another site")
    origin = request.headers.get("origin")
    # The scheme differs behind a proxy that terminates TLS.
    if origin is not None and _split(origin).netloc != request.headers.get("host", ""):
        raise forbidden(f"the request comes from a page of {origin}")


def require_local_host(request: web.Request) -> None:
    """Raise ``Refused`` if the request names a host other than this machine.

    A server on loopback is reached by these names only; another name was made to resolve to loopback, so
    that a page of another site can send requests here.
    """
    host = _split(f"//{request.headers.get('host', '')}").hostname or ""
    if not _is_local(host):
        raise Refused(
            HTTPStatus.MISDIRECTED_REQUEST,
            "MisdirectedRequest",
            f"this server is reached as localhost or 127.0.0.1, not as {host!r}",
        )


def comes_from_loopback(request: web.Request) -> bool:
    return request.remote is not None and _is_local(request.remote)


def _split(url: str) -> SplitResult:
    """Return the parts of a URL; no parts if it is not a URL."""
    try:
        return urlsplit(url)
    except ValueError:
        return SplitResult("", "", "", "", "")


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
