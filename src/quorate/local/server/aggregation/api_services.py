"""APIs that other servers answer: what APIService objects name, whether it is there, and what it serves.

An APIService without a service stands for an API of this server and only gets its condition.  Requests are
passed on by ``proxy``.
"""

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from quorate.kube.serving.certificates import KeyPair
from quorate.local.server.backend_client import NoService, Outside, Place, Unreachable
from quorate.local.server.discovery.groups import version_order
from quorate.local.server.storage.store import Entry, Stale, Store

Json = dict[str, Any]

RESOURCE = "apiservices.apiregistration.k8s.io"
BACKENDS = ("services", "endpoints", "endpointslices.discovery.k8s.io")
CHECK_EVERY_S = 30.0
CHECK_AGAIN_S = 1.0  # while something is not there
TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Remote:
    """One version of a group that another server answers."""

    group: str
    version: str
    order: tuple[int, int]  # of the group and of the version: higher ones first
    spec: Json
    available: bool = False
    resources: Sequence[Json] = ()  # as discovery lists them; empty until it could be asked


@dataclass(frozen=True, slots=True)
class Availability:
    status: str
    reason: str
    message: str
    resources: Sequence[Json] = ()


LOCAL = Availability("True", "Local", "Local APIServices are always available")


class Aggregated:
    """Follows the APIServices of a store; what it finds out is kept in their Available condition."""

    def __init__(
        self, store: Store, outside: Outside, timestamp: Callable[[], str], identity: KeyPair
    ) -> None:
        """``identity``: the certificate with which this server shows others that it speaks for its users."""
        self._store, self._outside, self._timestamp, self._identity = store, outside, timestamp, identity
        self._remotes: dict[tuple[str, str], Remote] = {}

    def find_for(self, path: str) -> Remote | None:
        """The version of a group that a path is below, if another server answers it."""
        if not self._remotes:
            return None
        match path.split("/", 4):
            case ["", "apis", group, version, *_]:
                return self._remotes.get((group, version))
        return None

    def groups(self) -> Mapping[str, Sequence[Remote]]:
        """The versions of each group, the preferred one first."""
        found: dict[str, list[Remote]] = {}
        for remote in sorted(self._remotes.values(), key=_preference):
            found.setdefault(remote.group, []).append(remote)
        return found

    def place(self, remote: Remote) -> Place:
        """Raises Unreachable."""
        spec = remote.spec
        verified = not spec.get("insecureSkipTLSVerify", False)
        authority = base64.b64decode(spec.get("caBundle", ""))
        return self._outside.of_service(
            spec["service"], "", authority, verified=verified, identity=self._identity
        )

    async def follow(self) -> None:
        """Look whenever something changes that an API depends on, and from time to time; until cancelled."""
        while True:
            watched = (RESOURCE, *BACKENDS) if self._store.entries(RESOURCE) else (RESOURCE,)
            moved = [self._store.moved(resource) for resource in watched]
            await self.look()
            missing = any(not remote.available for remote in self._remotes.values())
            limit = (CHECK_AGAIN_S if missing else CHECK_EVERY_S) if self._remotes else None
            waits = [asyncio.ensure_future(event.wait()) for event in moved]
            try:
                await asyncio.wait(waits, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()

    async def look(self) -> None:
        """Bring everything to what is stored and reachable now."""
        entries = self._store.entries(RESOURCE)
        specs = [(entry, entry.decode()) for entry in entries]
        known = self._remotes
        self._remotes = {
            (remote.group, remote.version): known.get((remote.group, remote.version), remote)
            for remote in (_remote(obj["spec"]) for _, obj in specs if obj["spec"].get("service"))
        }
        for entry, obj in specs:
            found = await self._check(obj["spec"])
            await self._tell(entry, obj, found)

    async def _check(self, spec: Json) -> Availability:
        if not spec.get("service"):
            return LOCAL
        remote = _remote(spec)
        found = await self._ask(remote)
        self._remotes[remote.group, remote.version] = replace(
            remote, available=found.status == "True", resources=found.resources
        )
        return found

    async def _ask(self, remote: Remote) -> Availability:
        service = remote.spec["service"]
        try:
            place = self.place(remote)
        except NoService:
            missing = f'service/{service["name"]} in "{service["namespace"]}" is not present'
            return Availability("False", "ServiceNotFound", missing)
        except Unreachable as why:
            return Availability("False", "MissingEndpoints", str(why))
        url = f"{place.url}apis/{remote.group}/{remote.version}"
        try:
            content = await self._outside.get(place, url, TIMEOUT_S)
            listed = msgspec.json.decode(content, type=dict[str, Any])
        except (Unreachable, msgspec.DecodeError) as why:
            message = f"failing or missing response from {url}: {why}"
            return Availability("False", "FailedDiscoveryCheck", message)
        return Availability("True", "Passed", "all checks passed", listed.get("resources") or ())

    async def _tell(self, entry: Entry, obj: Json, found: Availability) -> None:
        status = obj.get("status") or {}
        old: Json = next((c for c in status.get("conditions") or () if c["type"] == "Available"), {})
        if (old.get("status"), old.get("reason"), old.get("message")) == (
            found.status, found.reason, found.message,
        ):  # fmt: skip
            return
        same = old.get("status") == found.status
        condition = {
            "type": "Available",
            "status": found.status,
            "lastTransitionTime": old["lastTransitionTime"] if same else self._timestamp(),
            "reason": found.reason,
            "message": found.message,
        }
        try:
            await self._store.update(
                entry.key, obj | {"status": status | {"conditions": [condition]}}, entry.revision
            )
        except Stale:
            return  # it has changed meanwhile, so it is looked at again


def _preference(remote: Remote) -> tuple[object, ...]:
    group, version = remote.order
    return (-group, remote.group, -version, version_order(remote.version))


def _remote(spec: Json) -> Remote:
    order = (spec.get("groupPriorityMinimum", 0), spec.get("versionPriority", 0))
    return Remote(spec["group"], spec["version"], order, spec)
