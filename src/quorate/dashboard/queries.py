"""The queries of the dashboard's callers, limited to what each caller may see."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, TypeVar

import msgspec

from quorate.api.meta import Key
from quorate.api.native_groups import PREFIX
from quorate.dashboard.limits import PAGE_MAX
from quorate.queueing.explanation.scope import Scope

T = TypeVar("T")


class Viewer(msgspec.Struct, frozen=True):
    """What a caller may list; every answer is cut to it.

    ``scope`` has the namespaces of workloads and local queues.
    """

    scope: Scope
    nodes: bool
    pod_group_namespaces: frozenset[str] | None  # in which it may list Volcano's pod groups; None: in all
    native_group_namespaces: frozenset[str] | None = frozenset()  # the same of Kubernetes' own pod groups

    def reads(self, key: Key) -> bool:
        """Return True if it may read a workload or a local queue."""
        return self.scope.reads(key)

    def reads_namespace(self, namespace: str) -> bool:
        return self.scope.namespaces is None or namespace in self.scope.namespaces

    def namespaces_of_group(self, name: str) -> frozenset[str] | None:
        """Return where it may list pod groups of the API of the group ``name``; None: in all namespaces."""
        is_native = name.startswith(PREFIX)
        return self.native_group_namespaces if is_native else self.pod_group_namespaces

    def reads_pod_group(self, key: Key) -> bool:
        namespaces = self.namespaces_of_group(key.name)
        return namespaces is None or key.namespace in namespaces


ADMINISTRATOR: Final = Viewer(Scope(), nodes=True, pod_group_namespaces=None, native_group_namespaces=None)


class WorkloadQuery(msgspec.Struct, frozen=True, rename="camel"):
    """Which workloads to list, as the query parameters of the API; an empty field selects all.

    ``sort`` is one of ``workload_views.SORTS``, with "-" before it for the reverse order.
    """

    q: str = ""  # in namespace/name, the name of the job, or labels; upper and lower case are equal
    namespace: str = ""
    cluster_queue: str = ""
    local_queue: str = ""
    state: str = ""
    label: str = ""  # KEY or KEY=VALUE
    code: str = ""  # of the reason for which it waits
    sort: str = ""
    offset: int = 0
    limit: int = 100


class PodGroupQuery(msgspec.Struct, frozen=True, rename="camel"):
    """Which pod groups to list, as ``WorkloadQuery``; ``sort`` is one of ``pod_group_views.SORTS``."""

    q: str = ""
    namespace: str = ""
    queue: str = ""
    phase: str = ""
    sort: str = ""
    offset: int = 0
    limit: int = 100


ListQuery = WorkloadQuery | PodGroupQuery
Q = TypeVar("Q", WorkloadQuery, PodGroupQuery)


def selection_of(query: Q) -> Q:
    """Return what selects and orders the list, equal for all of its pages."""
    return msgspec.structs.replace(query, q=query.q.lower(), offset=0, limit=0)


def page_of(query: ListQuery, listed: Sequence[T]) -> tuple[int, Sequence[T]]:
    """Return the offset of the page that is asked for, and the page."""
    offset, limit = max(0, query.offset), min(PAGE_MAX, max(0, query.limit))
    return offset, listed[offset : offset + limit]


class Gang(msgspec.Struct, frozen=True):
    """Equal pods that are to start together; ``requests`` are of each pod, in base units."""

    pods: int
    requests: Mapping[str, int]


class Estimates(msgspec.Struct, frozen=True):
    """When pending workloads start, from a forecast: median and 90th percentile."""

    at: datetime | None = None  # the moment that was played; None: there is no forecast yet
    starts: Mapping[Key, tuple[datetime | None, datetime | None]] = {}


NO_ESTIMATES: Final = Estimates()
