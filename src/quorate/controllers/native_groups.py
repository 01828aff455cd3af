"""Kubernetes' own pod groups and workloads, and what the API server must have for jobs to start as them."""

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from quorate.api.configuration import Configuration
from quorate.api.kueue.topology import Topology
from quorate.api.meta import Key, Uid
from quorate.api.native_groups import MEMBER_OF, POLICY, VERSIONS, PodGroup, Workload
from quorate.controllers.informers import controller_uid
from quorate.controllers.limits import NATIVE_GANGS_CHECK_S, UNSERVED_INTERVAL_S
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.discovery import served_version, wait_until_served
from quorate.kube.errors import Forbidden, NotFound, RequestFailed
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import NATIVE_POD_GROUPS, NATIVE_WORKLOADS, Resource, untyped

_ADMISSION: Final = ("admissionregistration.k8s.io", "v1")
_POLICIES: Final = untyped(*_ADMISSION, "mutatingadmissionpolicies", "MutatingAdmissionPolicy", False)
_BINDINGS: Final = untyped(
    *_ADMISSION, "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", False
)


class Missing(Enum):
    """What a job needs to start as a native gang; the value is a sentence that says how to get it."""

    GROUPS = (
        "the API server has no podgroups of scheduling.k8s.io/v1alpha2 or v1beta1 (enable the version in its "
        "--runtime-config, the feature gate GenericWorkload, and in Kubernetes 1.36 also GangScheduling)"
    )
    POLICY = (
        "the MutatingAdmissionPolicy quorate-native-gangs or its binding does not exist or may not be read "
        "(apply the optional manifest native-gangs.yaml)"
    )


NativeGangs = Resource[PodGroup] | Missing
"""The pod groups with which jobs start, in the version of the API server; or what is missing."""


class NativeGangsUnavailable(Exception):
    """The Configuration asks for native gangs of an API server without pod groups."""

    def __str__(self) -> str:
        return f"gangs: native needs pod groups of Kubernetes: {Missing.GROUPS.value}"


async def require_native_groups(client: Client, configuration: Configuration) -> None:
    """Raise ``NativeGangsUnavailable`` if all jobs are to start as native gangs and no server serves them."""
    if not configuration.native_gangs:
        return
    try:
        served = await _served_groups(client)
    except RequestFailed:
        return  # the reconcilers report it
    if served is None:
        raise NativeGangsUnavailable


class NativeGangSupport:
    """Answers whether jobs can start as native gangs; asks the API server at most once in a while."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._lock = asyncio.Lock()
        self._answer: NativeGangs = Missing.GROUPS
        self._until = float("-inf")

    async def availability(self) -> NativeGangs:
        """Return the pod groups in the version of the API server, or what is missing.

        Raises the errors of the client.
        """
        async with self._lock:
            if self._clock.now() >= self._until:
                self._answer = await self._ask()
                self._until = self._clock.now() + NATIVE_GANGS_CHECK_S
            return self._answer

    async def _ask(self) -> NativeGangs:
        groups = await _served_groups(self._client)
        if groups is None:
            return Missing.GROUPS
        for resource in (_POLICIES, _BINDINGS):
            try:
                await self._client.request("GET", resource.path(name=POLICY))
            except (NotFound, Forbidden):  # the manifest with the policy has the right to read it, too
                return Missing.POLICY
        return groups


async def _served_groups(client: Client) -> Resource[PodGroup] | None:
    return await served_version(client, NATIVE_POD_GROUPS, VERSIONS)


_CONTROLLER: Final = "controller"  # index of groups by the uid of the object that controls them
_HASH_DIGITS: Final = 5
_LONGEST_PART: Final = 235  # of the name of a native workload, in that of its Workload
_UNIT: Final = "unit"  # index of groups by the key under which their native workload is queued
_WORKLOAD: Final = "workload"  # index of groups by the key of the native workload with their template


def unit_key(workload: Key) -> Key:
    """Return the key of the Workload with which a native workload is queued.

    A queued pod group has its own name, which may be that of the native workload.
    """
    digest = hashlib.sha256(workload.name.encode()).hexdigest()[:_HASH_DIGITS]
    return Key(workload.namespace, f"workload-{workload.name[:_LONGEST_PART]}-{digest}")


@dataclass(frozen=True, slots=True)
class NativeGroupView:
    """The native pod groups as they concern one job."""

    are_known: bool  # a group that ``get`` does not find does not exist
    get: Callable[[Key], PodGroup | None]
    made: PodGroup | None = None  # the group that the controller of the job has made for all its pods
    topology_levels: frozenset[str] = frozenset()  # node labels of all Topologies, where quota knows places


class NativeGroups:
    """The native pod groups of a cluster, which most API servers do not serve."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._informer = Informer(client, NATIVE_POD_GROUPS)
        self._informer.add_index(_CONTROLLER, controller_uid)
        self._informer.add_index(_WORKLOAD, _workload)
        self._informer.add_index(_UNIT, lambda group: map(unit_key, _workload(group)))
        self._workloads = Informer(client, NATIVE_WORKLOADS)
        self._is_absent = False

    @property
    def are_known(self) -> bool:
        """Return True if a group that ``get`` does not find does not exist."""
        return self._is_absent or (self._informer.synced.is_set() and self._workloads.synced.is_set())

    def get(self, key: Key) -> PodGroup | None:
        return self._informer.get(key)

    def view(self, job: Uid, topologies: Iterable[Topology]) -> NativeGroupView | None:
        """Return the groups as they concern one job; None if the API server has none."""
        if self._is_absent:
            return None
        owned = self._informer.by_index(_CONTROLLER, job)
        made = [group for group in owned if MEMBER_OF not in group.metadata.labels]  # not by us
        levels = (level.node_label for topology in topologies for level in topology.spec.levels)
        made_group = made[0] if len(made) == 1 else None
        return NativeGroupView(self.are_known, self.get, made_group, frozenset(levels))

    def workload(self, key: Key) -> Workload | None:
        """Return a native workload."""
        return self._workloads.get(key)

    def groups_of_unit(self, unit: Key) -> Sequence[PodGroup]:
        """Return the groups of the native workload that is queued under the key ``unit``, by name."""
        return self._informer.by_index(_UNIT, unit)

    def groups_of(self, workload: Key) -> Sequence[PodGroup]:
        """Return the groups of a native workload, by name."""
        return self._informer.by_index(_WORKLOAD, workload)

    def subscribe(self, on_change: Callable[[Change[PodGroup]], None]) -> None:
        """Call ``on_change`` with each group that is created, changed or deleted."""
        self._informer.subscribe(on_change)

    def subscribe_to_workloads(self, on_change: Callable[[Change[Workload]], None]) -> None:
        """Call ``on_change`` with each native workload that is created, changed or deleted."""
        self._workloads.subscribe(on_change)

    async def run(self) -> None:
        """Keep the groups up to date until cancelled, once the API server serves them."""
        groups = await wait_until_served(
            NATIVE_POD_GROUPS, self._client, self._clock, on_absent=self._note_absent,
            interval_s=UNSERVED_INTERVAL_S, versions=VERSIONS,
        )  # fmt: skip
        self._informer.resource = groups
        self._workloads.resource = replace(NATIVE_WORKLOADS, version=groups.version)
        self._is_absent = False
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informer.run(), name="watch native podgroups")
            tasks.create_task(self._workloads.run(), name="watch native workloads")

    def _note_absent(self) -> None:
        self._is_absent = True


def _workload(group: PodGroup) -> tuple[Key, ...]:
    name = group.spec.workload_name
    return (Key(group.metadata.namespace, name),) if name else ()
