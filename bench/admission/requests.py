"""Requests to the API server, from its counters, without the requests of the benchmark.

A kube-apiserver and the local server have the same counters, which do not distinguish clients.
"""

import re
from collections import Counter
from typing import Any, Final, NamedTuple

from quorate.kube.client import Client
from quorate.kube.errors import ApiError

_SERIES: Final = re.compile(r"^apiserver_request_total\{(?P<labels>[^}]*)\} (?P<count>\S+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')
_CPU: Final = re.compile(r"^process_cpu_seconds_total (\S+)$", re.MULTILINE)
WRITES: Final = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"})
NOT_ADMISSION: Final = frozenset({"events", "leases"})  # reports and leader election


class RequestKind(NamedTuple):
    """A verb and a ``resource`` with its subresource, such as workloads/status."""

    verb: str
    resource: str


class ServerCounts(NamedTuple):
    """Counters of a server since its start."""

    succeeded: Counter[RequestKind]  # successful
    refused: Counter[RequestKind]  # with a status of 400 or above
    cpu_s: float  # of the server process

    def since(self, before: "ServerCounts") -> "ServerCounts":
        return ServerCounts(
            self.succeeded - before.succeeded, self.refused - before.refused, self.cpu_s - before.cpu_s
        )


async def read_counts(client: Client) -> ServerCounts:
    """Read the metrics of the server, which requires the right to GET /metrics."""
    return parse_counts((await client.request("GET", "/metrics")).decode())


def parse_counts(text: str) -> ServerCounts:
    succeeded: Counter[RequestKind] = Counter()
    refused: Counter[RequestKind] = Counter()
    for series in _SERIES.finditer(text):
        labels = dict(_LABEL.findall(series["labels"]))
        subresource = f"/{labels['subresource']}" if labels["subresource"] else ""
        request = RequestKind(labels["verb"], labels["resource"] + subresource)
        counts = succeeded if int(labels["code"] or 0) < 400 else refused
        counts[request] += int(float(series["count"]))
    cpu = _CPU.search(text)
    return ServerCounts(succeeded, refused, float(cpu[1]) if cpu is not None else 0.0)


class CountingClient(Client):
    """Count the client's requests, successful and refused, with the labels of the server."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.succeeded: Counter[RequestKind] = Counter()
        self.refused: Counter[RequestKind] = Counter()

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        try:
            answer = await super().request(method, path, **options)
        except ApiError:
            self._count(self.refused, method, path)
            raise
        self._count(self.succeeded, method, path)
        return answer

    def _count(self, counts: Counter[RequestKind], method: str, path: str) -> None:
        parts = path.strip("/").split("/")
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        if parts[:1] == ["namespaces"] and len(parts) > 2:
            parts = parts[2:]
        if parts:
            collection = len(parts) == 1
            verb = {"GET": "LIST", "DELETE": "DELETECOLLECTION"}.get(method, method) if collection else method
            counts[RequestKind(verb, "/".join([parts[0], *parts[2:]]))] += 1


def admission_writes(succeeded: Counter[RequestKind]) -> int:
    """Return the number of writes for admission, without events and leader election."""
    return sum(
        count
        for request, count in succeeded.items()
        if request.verb in WRITES and request.resource not in NOT_ADMISSION
    )
