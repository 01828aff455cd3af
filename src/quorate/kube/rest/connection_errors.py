"""Failures of requests to an API server, from the exceptions and the responses of aiohttp."""

import os

import aiohttp

from quorate.kube.errors import ApiError, Unreachable, error_from_answer


def unreachable(request: str, server: str, error: Exception) -> Unreachable:
    """Return the failure of a request, with what its user may do, and whether it may have been sent."""
    sent = not isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
    match error:
        case aiohttp.ClientSSLError():
            problem = f"{error} (does the kubeconfig's certificate-authority belong to this server?)"
        case aiohttp.ClientConnectorError():
            problem = f"{_reason(error.os_error) or error} (is the API server running?)"
        case TimeoutError():
            problem = str(error) or "the deadline passed"
        case _:
            problem = str(error) or repr(error)
    return Unreachable(request, server, problem, sent)


def _reason(error: OSError) -> str:
    """Return the error text of the operating system; empty if it has none."""
    has_number = error.errno is not None and error.errno > 0
    return (os.strerror(error.errno) if has_number else error.strerror or "").lower()  # type: ignore[arg-type]


def refusal(request: str, response: aiohttp.ClientResponse, body: bytes) -> ApiError:
    """Return the error for a response of 400 and above."""
    return error_from_answer(request, response.status, body, _retry_after_s(response))


def _retry_after_s(response: aiohttp.ClientResponse) -> float | None:
    """Return Retry-After in seconds, as API servers send it; None for a date, as proxies may send it."""
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isdecimal() else None
