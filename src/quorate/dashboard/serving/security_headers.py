"""Headers of each response, with which a browser limits what a page may do.

The page loads scripts, styles and pictures from its own origin only, is shown in no frame, and tells no
other site its address.
"""

from collections.abc import Mapping
from typing import Final

from aiohttp import web

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_YEAR_S: Final = 365 * 86400


def add_security_headers(app: web.Application, *, over_tls: bool) -> None:
    """Add ``HEADERS`` to each response of ``app``; with ``over_tls`` browsers use HTTPS only from then on."""
    headers = dict(HEADERS)
    if over_tls:
        headers["Strict-Transport-Security"] = f"max-age={_YEAR_S}"

    async def add(request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(headers)
        response.headers.setdefault("Cache-Control", "no-store")  # answers differ between users
        response.headers.pop("Server", None)

    app.on_response_prepare.append(add)
