"""Failures of a connection to an API server, from the exceptions of aiohttp."""

import os

import aiohttp

from quorate.kube.errors import Unreachable


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
