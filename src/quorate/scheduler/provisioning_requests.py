"""Telling an autoscaler what pod groups wait for before they have pods.

With delayed creation nobody sees the pods that a waiting group would have, so nobody adds nodes for them.
When what it lacks is nodes (neither a queue's share nor a namespace's quota), a ProvisioningRequest is made
in its name: ``minMember`` pods that ask together for its ``minResources``, in equal parts.  What else such a
pod would ask of its node is known to its operator alone.  Once the group no longer waits for nodes its
request is taken back; with the group it goes by itself.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from quorate.api.meta import Key, is_true
from quorate.api.quantity import NANOS, Quantity
from quorate.api.volcano import GROUP, VERSION, PodGroup
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import AlreadyExists, NotFound
from quorate.kube.informer import Informer
from quorate.kube.log import logger
from quorate.kube.reconcile import Reconciler
from quorate.kube.resources import POD_TEMPLATES, PROVISIONING_REQUESTS, Json, Resource
from quorate.placement.resources import is_counted

OURS: Final = "scheduling.quorate.dev/demand"  # label of requests and templates made here
LOOK_AGAIN_S: Final = 600.0  # after which a request that failed is made anew, while the group still waits
WORKERS: Final = 2


class ProvisioningRequester:
    """``class_name``: which way of adding nodes the autoscaler is asked for."""

    def __init__(self, client: Client, clock: Clock, groups: Informer[PodGroup], class_name: str) -> None:
        self._client = client
        self._clock = clock
        self._groups = groups
        self._class_name = class_name
        self._wanted: set[Key] = set()
        self._published: set[Key] = set()  # groups in whose name there may be a request
        self._reconciler = Reconciler("demand", self._reconcile, clock, workers=WORKERS)
        self._log = logger(__name__)

    async def run(self) -> None:
        """What a process before this one published is known first."""
        for request in (await self._client.list(PROVISIONING_REQUESTS, label_selector=OURS)).items:
            owner = request.metadata.controller
            if owner is not None:
                self._published.add(Key(request.metadata.namespace, owner.name))
        for key in sorted(self._published):
            self._reconciler.enqueue(key)
        await self._reconciler.run()

    def publish(self, lacking_nodes: Iterable[Key]) -> None:
        """Have a request for each of these groups, and for no other."""
        wanted = set(lacking_nodes)
        for key in sorted((wanted ^ self._wanted) | (self._published - wanted)):
            self._reconciler.enqueue(key)
        self._wanted = wanted

    async def _reconcile(self, key: Key) -> float | None:
        group = self._groups.get(key)
        if group is None:
            self._published.discard(key)
            return None
        if key not in self._wanted:
            await self._take_back(group)
            return None
        name = name_of(group)
        try:
            request = await self._client.get(PROVISIONING_REQUESTS, Key(key.namespace, name))
        except NotFound:
            await self._ask(group)
        else:
            if is_true(request.status.conditions, "Failed"):
                await self._take_back(group)
                await self._ask(group)
        return self._clock.now() + LOOK_AGAIN_S

    async def _ask(self, group: PodGroup) -> None:
        key = group.metadata.key
        self._published.add(key)
        await self._create(POD_TEMPLATES, template_for(group), key.namespace)
        await self._create(PROVISIONING_REQUESTS, request_for(group, self._class_name), key.namespace)
        self._log.info("nodes asked for", group=key, request=name_of(group))

    async def _create(self, resource: Resource[Any], body: Json, namespace: str) -> None:
        try:
            await self._client.create(resource, body, namespace)
        except AlreadyExists:
            return

    async def _take_back(self, group: PodGroup) -> None:
        key = Key(group.metadata.namespace, name_of(group))
        resources: tuple[Resource[Any], ...] = (PROVISIONING_REQUESTS, POD_TEMPLATES)
        for resource in resources:
            try:
                await self._client.delete(resource, key, propagation="Background")
            except NotFound:
                continue
        self._published.discard(group.metadata.key)


def name_of(group: PodGroup) -> str:
    """The request and its template are found again by it; another group of the name has others."""
    return f"{group.metadata.name[:220].rstrip('.')}-{group.metadata.uid[:8]}"  # no part begins with -


def template_for(group: PodGroup) -> Json:
    requests = {name: str(amount) for name, amount in share_of_a_member(group).items()}
    container = {"name": "member", "image": "member", "resources": {"requests": requests}}
    return {"metadata": _metadata(group), "template": {"spec": {"containers": [container]}}}


def request_for(group: PodGroup, class_name: str) -> Json:
    pods = {"podTemplateRef": {"name": name_of(group)}, "count": members_of(group)}
    return {
        "metadata": _metadata(group),
        "spec": {"provisioningClassName": class_name, "podSets": [pods]},
    }


def members_of(group: PodGroup) -> int:
    return max(1, group.spec.min_member)


def share_of_a_member(group: PodGroup) -> Mapping[str, Quantity]:
    """An equal part of ``minResources``, rounded up: cpu to a milli-cpu, everything else to a whole unit."""
    members = members_of(group)
    shares = {}
    for name, amount in (group.spec.min_resources or {}).items():
        if is_counted(name) and name != "pods":
            unit = NANOS // 1000 if name == "cpu" else NANOS
            shares[name] = Quantity(-(-amount.nanos // (members * unit)) * unit, amount.form)
    return shares


def _metadata(group: PodGroup) -> Json:
    owner = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "PodGroup",
        "name": group.metadata.name,
        "uid": group.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "name": name_of(group),
        "labels": {OURS: "true"},
        "ownerReferences": [owner],
    }
