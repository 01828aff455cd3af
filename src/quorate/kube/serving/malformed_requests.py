"""Warnings about requests that are not HTTP: counted, without a traceback for each."""

import logging
import time

from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestPayloadError

from quorate.kube.limits import SERVER_LOG_INTERVAL_S


class MalformedRequests(logging.Filter):
    """Replaces the records that HTTP servers write about malformed requests by one warning in a while."""

    def __init__(self) -> None:
        super().__init__()
        self._total = 0
        self._log_from = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, HttpProcessingError | RequestPayloadError):
            return True
        self._total += 1
        now = time.monotonic()
        if now < self._log_from:
            return False
        self._log_from = now + SERVER_LOG_INTERVAL_S
        first_line = str(error).removeprefix("400, message:").strip().partition("\n")[0]
        text = f"requests refused that are not HTTP, total {self._total}: {first_line}"
        vars(record).update(levelno=logging.WARNING, levelname="WARNING", msg=text, args=(), exc_info=None)
        return True


def http_logger() -> logging.Logger:
    """Return the logger of the HTTP servers, with the filter."""
    log = logging.getLogger("aiohttp.server")
    if not any(isinstance(filter_, MalformedRequests) for filter_ in log.filters):
        log.addFilter(MalformedRequests())
    return log
