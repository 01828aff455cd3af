"""The witness on a cluster: copies of pods, workloads, limits and nodes, observed whenever they change."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from quorate.api.configuration.queueing import ResourceOptions
from quorate.api.meta import Key, ObjectMeta, OwnerReference, Struct, Uid
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.discovery import plural_of
from quorate.kube.errors import ApiError, ServerError, TooManyRequests, Unreachable, Unreadable
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.resources import CLUSTER_QUEUES, COHORTS, NODES, Resource
from quorate.witness.admissions import WITNESSED_WORKLOADS
from quorate.witness.devices import WITNESSED_CLAIMS, WITNESSED_SLICES
from quorate.witness.pods import WITNESSED_PODS, WitnessedPod
from quorate.witness.report import Report
from quorate.witness.witness import Facts, Witness

_MAX_REMEMBERED: Final = 50_000
_MAX_DEPTH: Final = 10


class _Owner(Struct):
    metadata: ObjectMeta


class OwnerLookup:
    """Reads each owner once: the controller of an object does not change."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._resources: dict[tuple[str, str], Resource[_Owner]] = {}
        self._controllers: OrderedDict[Uid, OwnerReference | None] = OrderedDict()

    @property
    def controllers(self) -> Mapping[Uid, Uid]:
        """Return uids of controllers by uid of the owner that they control."""
        return {uid: owner.uid for uid, owner in self._controllers.items() if owner is not None}

    async def look_up(self, pods: Iterable[WitnessedPod]) -> bool:
        """Read the unknown owners of running pods, and the owners of these owners.

        Return False if the server was too busy to answer for some: the next call reads those.  Raises
        ``Unreachable``.
        """
        is_complete = True
        for pod in pods:
            owner = pod.metadata.controller
            if not pod.holds_node or (owner is not None and owner.kind == "Node"):
                continue
            for _ in range(_MAX_DEPTH):
                if owner is None:
                    break
                if owner.uid not in self._controllers:
                    try:
                        self._remember(owner.uid, await self._controller_of(owner, pod.metadata.namespace))
                    except (ServerError, TooManyRequests):
                        is_complete = False
                        break
                owner = self._controllers[owner.uid]
        return is_complete

    def _remember(self, uid: Uid, controller: OwnerReference | None) -> None:
        if len(self._controllers) >= _MAX_REMEMBERED:
            self._controllers.popitem(last=False)
        self._controllers[uid] = controller

    async def _controller_of(self, owner: OwnerReference, namespace: str) -> OwnerReference | None:
        """Return the controller of ``owner``; None also if it cannot be read.

        Raises ``ServerError`` and ``TooManyRequests``, which say nothing of the owner.
        """
        try:
            resource = await self._resource(owner)
            stored = (
                None if resource is None else await self._client.get(resource, Key(namespace, owner.name))
            )
        except (ServerError, TooManyRequests):
            raise
        except (ApiError, Unreadable):
            return None
        return None if stored is None or stored.metadata.uid != owner.uid else stored.metadata.controller

    async def _resource(self, owner: OwnerReference) -> Resource[_Owner] | None:
        name = (owner.api_version, owner.kind)
        if name not in self._resources:
            plural = await plural_of(self._client, *name)
            if not plural:
                return None
            group, _, version = owner.api_version.rpartition("/")
            self._resources[name] = Resource(group, version, plural, owner.kind, True, _Owner)
        return self._resources[name]


_PAUSES: Final = 10  # times the duration of an observation: the witness uses a tenth of a core at most


@dataclass(frozen=True, slots=True)
class Options:
    grace_s: float  # a difference that lasts longer is reported
    interval_s: float  # the shortest time between two observations
    has_queues: bool = True  # False: only nodes are compared, in a cluster without the kinds of queueing


async def run_witness(
    client: Client,
    clock: Clock,
    options: Options,
    resources: Callable[[], ResourceOptions],
    on_report: Callable[[Report], None],
) -> None:
    """Call ``on_report`` with what is found now and after every change, until cancelled."""
    pods, nodes = Informer(client, WITNESSED_PODS), Informer(client, NODES)
    workloads, queues = Informer(client, WITNESSED_WORKLOADS), Informer(client, CLUSTER_QUEUES)
    cohorts = Informer(client, COHORTS)
    informers: list[Informer[Any]] = [pods, nodes]
    claims, slices = Informer(client, WITNESSED_CLAIMS), Informer(client, WITNESSED_SLICES)
    if options.has_queues:
        informers += [workloads, queues, cohorts]
    kind = WITNESSED_CLAIMS.kind
    if resources().counts_devices and await plural_of(client, WITNESSED_CLAIMS.api_version, kind):
        informers += [claims, slices] if resources().counts_counters else [claims]
    changed = asyncio.Event()
    owners = OwnerLookup(client)
    witness = Witness(options.grace_s)

    def on_change(_: Change[Any]) -> None:
        changed.set()

    def observe() -> Report:
        return witness.observe(
            Facts(
                resources=resources(),
                pods=list(pods),
                workloads=list(workloads),
                cluster_queues=list(queues),
                cohorts=list(cohorts),
                nodes=list(nodes),
                claims=list(claims),
                slices=list(slices),
                owners=owners.controllers,
            ),
            clock.now(),
        )

    async with asyncio.TaskGroup() as tasks:
        for informer in informers:
            informer.subscribe(on_change)
            tasks.create_task(informer.run(), name=f"watch {informer.resource.plural}")
        for informer in informers:
            await informer.synced.wait()
        while True:
            changed.clear()
            began = clock.steady.now()
            is_complete = not options.has_queues or await _look_up(owners, pods)
            report = observe()
            on_report(report)
            took_s = clock.steady.now() - began
            await asyncio.sleep(max(options.interval_s, took_s * _PAUSES))
            # Differences may end, or last too long, without a change.
            if is_complete and not report.differences:
                await changed.wait()


async def _look_up(owners: OwnerLookup, pods: Informer[Any]) -> bool:
    """Return True if the owners of all pods are known."""
    try:
        return await owners.look_up(list(pods))
    except Unreachable as error:
        logger(__name__).warning("owners of pods not read", problem=str(error))
        return False
