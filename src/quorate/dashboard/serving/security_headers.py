"""Headers of each response, with which a browser limits what a page may do.

The page loads scripts, styles and pictures from its own origin only, is shown in no frame, and tells no
other site its address.
"""

from collections.abc import Mapping
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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


class SecurityHeaders:
    """Adds ``HEADERS`` to each response; with ``over_tls`` browsers use HTTPS only from then on."""

    def __init__(self, app: ASGIApp, *, over_tls: bool) -> None:
        self._app = app
        self._headers = dict(HEADERS)
        if over_tls:
            self._headers["Strict-Transport-Security"] = f"max-age={_YEAR_S}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                headers.update(self._headers)
                headers.setdefault("Cache-Control", "no-store")  # answers differ between users
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)
