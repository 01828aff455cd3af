"""The worker clusters that are connected: what the connection controller provides and dispatch reads."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from quorate.api.meta import Key
from quorate.controllers.multikueue.workload_copy import WorkloadCopy
from quorate.kube.client import Client
from quorate.kube.informer import Informer


@dataclass(frozen=True, slots=True)
class Worker:
    """One connected worker cluster, of which the copies of our workloads are listed.

    A reconnection makes a new ``Worker``: the caches of the former one are no longer followed.
    """

    name: str  # of the MultiKueueCluster
    client: Client  # of its API server
    workloads: Informer[WorkloadCopy]  # those with our origin label


class Workers:
    """The connected worker clusters, and the times at which the lost worker clusters were lost.

    The connection controller calls ``connected``, ``lost``, ``removed`` and ``workload_changed``; everything
    else reads.  Times are epoch seconds of this process's clock.
    """

    def __init__(self) -> None:
        self._connected: dict[str, Worker] = {}
        self._lost: dict[str, float] = {}
        self._on_workload: list[Callable[[Key], None]] = []
        self._on_worker: list[Callable[[str], None]] = []

    def __iter__(self) -> Iterator[Worker]:
        return iter(tuple(self._connected.values()))

    def get(self, name: str) -> Worker | None:
        """Return a worker cluster; None if it is not connected now."""
        return self._connected.get(name)

    def lost_since(self, name: str) -> float | None:
        """Return since when a configured worker cluster is not connected; None: it is, or is not known."""
        return self._lost.get(name)

    def subscribe_workloads(self, on_change: Callable[[Key], None]) -> None:
        """Call ``on_change`` with the key of a local workload of which a remote object has changed."""
        self._on_workload.append(on_change)

    def subscribe_workers(self, on_change: Callable[[str], None]) -> None:
        """Call ``on_change`` with the name of a worker cluster that was connected, lost or removed."""
        self._on_worker.append(on_change)

    def workload_changed(self, key: Key) -> None:
        for on_change in self._on_workload:
            on_change(key)

    def connected(self, worker: Worker) -> None:
        self._connected[worker.name] = worker
        self._lost.pop(worker.name, None)
        self._worker_changed(worker.name)

    def lost(self, name: str, now: float) -> None:
        """Mark a worker cluster as not connected; the first loss counts until it is connected again."""
        was_connected = self._connected.pop(name, None) is not None
        if was_connected or name not in self._lost:
            self._lost.setdefault(name, now)
            self._worker_changed(name)

    def removed(self, name: str) -> None:
        """Forget a worker cluster of which the MultiKueueCluster was deleted."""
        self._connected.pop(name, None)
        self._lost.pop(name, None)
        self._worker_changed(name)

    def _worker_changed(self, name: str) -> None:
        for on_change in self._on_worker:
            on_change(name)
