"""The log of requests that are not HTTP."""

import logging

import pytest
from aiohttp.http_exceptions import BadStatusLine

from quorate.kube.limits import SERVER_LOG_INTERVAL_S
from quorate.kube.serving.malformed_requests import MalformedRequests


def a_record(error: Exception) -> logging.LogRecord:
    message, info = "Error handling request from %s", (type(error), error, None)
    return logging.LogRecord("aiohttp.server", logging.ERROR, "", 0, message, ("127.0.0.1",), info)


def test_malformed_requests_are_one_counted_warning_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("quorate.kube.serving.malformed_requests.time.monotonic", lambda: now)
    warnings = MalformedRequests()
    records = [a_record(BadStatusLine("GET / HTTP/9.9")) for _ in range(3)]
    assert [warnings.filter(record) for record in records] == [True, False, False]
    now += SERVER_LOG_INTERVAL_S
    last = a_record(BadStatusLine("GET / HTTP/9.9"))
    assert warnings.filter(last)
    assert (records[0].levelname, records[0].exc_info) == ("WARNING", None)
    assert records[0].getMessage().startswith("requests refused that are not HTTP, total 1: Bad status line")
    assert last.getMessage().startswith("requests refused that are not HTTP, total 4: Bad status line")


def test_other_errors_stay_as_they_are() -> None:
    record = a_record(ValueError("a bug"))
    assert MalformedRequests().filter(record)
    assert (record.levelname, record.exc_info is not None) == ("ERROR", True)
