"""Aggregated API groups: their APIServices, availability and discovery.

An APIService without a service refers to an API of this server and only gets a condition.  ``proxy`` forwards
the requests.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from quorate.api.codec import Json
from quorate.kube.serving.tls import KeyPair
from quorate.local.objects.crd.definition import version_priority
from quorate.local.server.backend_client import Backend, BackendClient, BackendUnreachable, ServiceNotFound
from quorate.local.server.storage.store import Entry, StaleRevision, Store, first_of

RESOURCE = "apiservices.apiregistration.k8s.io"
PART = "API services"
BACKEND_RESOURCES = ("services", "endpoints", "endpointslices.discovery.k8s.io")
CHECK_INTERVAL_S = 30.0
RETRY_INTERVAL_S = 1.0  # while an API is not available
TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class AggregatedVersion:
    """One version of an API group that another server serves."""

    group: str
    version: str
    priority: tuple[int, int]  # of the group and of the version, highest first
    spec: Json
    available: bool = False
    resources: Sequence[Json] = ()  # from its discovery document; empty until it was available


@dataclass(frozen=True, slots=True)
class Availability:
    status: str
    reason: str
    message: str
    resources: Sequence[Json] = ()


# Headers that name the user of a request to an aggregated server.
USER, GROUP = "X-Remote-User", "X-Remote-Group"
# The user of the checks: a server that authorizes discovery must answer them.
_AGGREGATOR = {USER: "system:kube-aggregator", GROUP: "system:masters"}
LOCAL_AVAILABILITY = Availability("True", "Local", "Local APIServices are always available")


class ApiServiceController:
    """Tracks the APIServices of a store and writes their Available condition."""

    def __init__(
        self, store: Store, backends: BackendClient, timestamp: Callable[[], str], client_certificate: KeyPair
    ) -> None:
        """``client_certificate``: the front proxy certificate presented to aggregated API servers."""
        self._store, self._backends = store, backends
        self._timestamp, self._client_certificate = timestamp, client_certificate
        self._versions: dict[tuple[str, str], AggregatedVersion] = {}

    def find_version(self, path: str) -> AggregatedVersion | None:
        """Return the aggregated version that serves a path, or None."""
        if not self._versions:
            return None
        match path.split("/", 4):
            case ["", "apis", group, version, *_]:
                return self._versions.get((group, version))
        return None

    def groups(self) -> Mapping[str, Sequence[AggregatedVersion]]:
        """Return the versions of each group, the preferred one first."""
        by_group: dict[str, list[AggregatedVersion]] = {}
        for remote in sorted(self._versions.values(), key=_priority):
            by_group.setdefault(remote.group, []).append(remote)
        return by_group

    def resolve(self, remote: AggregatedVersion) -> Backend:
        """Return the backend of an aggregated version.  Raises BackendUnreachable."""
        spec = remote.spec
        verify_tls = not spec.get("insecureSkipTLSVerify", False)
        ca_bundle = base64.b64decode(spec.get("caBundle", ""))
        return self._backends.resolve_service(
            spec["service"], "", ca_bundle, verify_tls=verify_tls, client_certificate=self._client_certificate
        )

    async def run(self) -> None:
        """Sync after each change of an APIService or a backend, and periodically, until cancelled."""
        while True:
            watched = (RESOURCE, *BACKEND_RESOURCES) if self._store.entries(RESOURCE) else (RESOURCE,)
            changed = [self._store.changed(resource) for resource in watched]
            await self.sync()
            missing = any(not remote.available for remote in self._versions.values())
            limit = (RETRY_INTERVAL_S if missing else CHECK_INTERVAL_S) if self._versions else None
            await first_of(changed, limit)

    async def sync(self) -> None:
        """Check every stored APIService once; an APIService that cannot be used holds up no other."""
        previous = self._versions
        self._versions = {
            (remote.group, remote.version): previous.get((remote.group, remote.version), remote)
            for remote in self._store.usable(RESOURCE, _aggregated_version, PART)
            if remote.spec.get("service")
        }
        for entry in self._store.entries(RESOURCE):
            try:
                await self._sync_service(entry)
            except Exception as error:
                self._store.report(entry, PART, error)

    async def _sync_service(self, entry: Entry) -> None:
        availability = await self._check_availability(_aggregated_version(entry))
        await self._update_condition(entry, entry.decode(), availability)

    async def _check_availability(self, remote: AggregatedVersion) -> Availability:
        if not remote.spec.get("service"):
            return LOCAL_AVAILABILITY
        availability = await self._probe(remote)
        self._versions[remote.group, remote.version] = replace(
            remote, available=availability.status == "True", resources=availability.resources
        )
        return availability

    async def _probe(self, remote: AggregatedVersion) -> Availability:
        service = remote.spec["service"]
        try:
            backend = self.resolve(remote)
        except ServiceNotFound:
            missing = f'service/{service["name"]} in "{service["namespace"]}" is not present'
            return Availability("False", "ServiceNotFound", missing)
        except BackendUnreachable as error:
            return Availability("False", "MissingEndpoints", str(error))
        url = f"{backend.url}apis/{remote.group}/{remote.version}"
        try:
            content = await self._backends.get(backend, url, TIMEOUT_S, _AGGREGATOR)
            resource_list = msgspec.json.decode(content, type=dict[str, Any])
        except (BackendUnreachable, msgspec.DecodeError) as error:
            message = f"failing or missing response from {url}: {error}"
            return Availability("False", "FailedDiscoveryCheck", message)
        return Availability("True", "Passed", "all checks passed", resource_list.get("resources") or ())

    async def _update_condition(self, entry: Entry, obj: Json, availability: Availability) -> None:
        status = obj.get("status") or {}
        old: Json = next((c for c in status.get("conditions") or () if c["type"] == "Available"), {})
        if (old.get("status"), old.get("reason"), old.get("message")) == (
            availability.status, availability.reason, availability.message,
        ):  # fmt: skip
            return
        same = old.get("status") == availability.status
        condition = {
            "type": "Available",
            "status": availability.status,
            "lastTransitionTime": old["lastTransitionTime"] if same else self._timestamp(),
            "reason": availability.reason,
            "message": availability.message,
        }
        with suppress(StaleRevision):  # changed meanwhile: the next sync handles it
            await self._store.update(
                entry.key, obj | {"status": status | {"conditions": [condition]}}, entry.revision
            )


def _priority(remote: AggregatedVersion) -> tuple[object, ...]:
    group, version = remote.priority
    return (-group, remote.group, -version, version_priority(remote.version))


def _aggregated_version(entry: Entry) -> AggregatedVersion:
    spec = entry.decode()["spec"]
    priority = (spec.get("groupPriorityMinimum", 0), spec.get("versionPriority", 0))
    return AggregatedVersion(spec.get("group", ""), spec["version"], priority, spec)
