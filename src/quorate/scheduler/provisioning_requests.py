"""ProvisioningRequests for pod groups that wait for nodes before they have pods.

With delayed pod creation an autoscaler does not see the pods that a waiting group would have, and adds no
nodes for them.  When a group lacks nodes (not the share of its queue or the quota of its namespace), a
ProvisioningRequest is created with the group as its owner: ``minMember`` pods that together request its
``minResources``, in equal parts.  Node selectors and other requirements of such pods are known to the
group's operator only.  The request is deleted once the group no longer waits for nodes, and
garbage-collected with the group.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from quorate.api.meta import Key, is_true
from quorate.api.quantity import NANOS, Quantity
from quorate.api.volcano import GROUP, VERSION, PodGroup
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.errors import AlreadyExists, NotFound
from quorate.kube.informer import Informer
from quorate.kube.log import logger
from quorate.kube.resources import POD_TEMPLATES, PROVISIONING_REQUESTS, Json, Resource
from quorate.placement.resources import is_node_resource
from quorate.scheduler.limits import RECREATE_S, REQUEST_WORKERS

DEMAND_LABEL: Final = "scheduling.quorate.dev/demand"  # of the requests and templates created here


class ProvisioningRequester:
    """``class_name``: the provisioning class of the requests, which selects the autoscaler's method."""

    def __init__(self, client: Client, clock: Clock, groups: Informer[PodGroup], class_name: str) -> None:
        self._client = client
        self._clock = clock
        self._groups = groups
        self._class_name = class_name
        self._wanted: set[Key] = set()
        self._published: set[Key] = set()  # groups for which a request may exist
        self._reconciler = Reconciler(
            "provisioning requests", self._reconcile, clock, workers=REQUEST_WORKERS
        )
        self._log = logger(__name__)

    async def run(self) -> None:
        """Adopt the requests of earlier processes, then keep all requests as published."""
        for request in (await self._client.list(PROVISIONING_REQUESTS, label_selector=DEMAND_LABEL)).items:
            owner = request.metadata.controller
            if owner is not None:
                self._published.add(Key(request.metadata.namespace, owner.name))
        for key in sorted(self._published):
            self._reconciler.enqueue(key)
        await self._reconciler.run()

    def publish(self, groups_without_nodes: Iterable[Key]) -> None:
        """Keep a request for each of these groups, and for no other."""
        wanted = set(groups_without_nodes)
        for key in sorted((wanted ^ self._wanted) | (self._published - wanted)):
            self._reconciler.enqueue(key)
        self._wanted = wanted

    async def _reconcile(self, key: Key) -> float | None:
        group = self._groups.get(key)
        if group is None:
            self._published.discard(key)
            return None
        if key not in self._wanted:
            await self._delete(group)
            return None
        try:
            request = await self._client.get(PROVISIONING_REQUESTS, Key(key.namespace, name_of(group)))
        except NotFound:
            await self._create(group)
        else:
            if is_true(request.status.conditions, "Failed"):
                await self._delete(group)
                await self._create(group)
        return self._clock.now() + RECREATE_S

    async def _create(self, group: PodGroup) -> None:
        key = group.metadata.key
        self._published.add(key)
        await self._create_once(POD_TEMPLATES, template_for(group), key.namespace)
        await self._create_once(PROVISIONING_REQUESTS, request_for(group, self._class_name), key.namespace)
        self._log.info("provisioning request created", group=key, request=name_of(group))

    async def _create_once(self, resource: Resource[Any], body: Json, namespace: str) -> None:
        with suppress(AlreadyExists):
            await self._client.create(resource, body, namespace)

    async def _delete(self, group: PodGroup) -> None:
        key = Key(group.metadata.namespace, name_of(group))
        resources: tuple[Resource[Any], ...] = (PROVISIONING_REQUESTS, POD_TEMPLATES)
        for resource in resources:
            with suppress(NotFound):
                await self._client.delete(resource, key, propagation="Background")
        self._published.discard(group.metadata.key)


def name_of(group: PodGroup) -> str:
    """Return the name of the request and its template, unique to this incarnation of the group."""
    return f"{group.metadata.name[:220].rstrip('.')}-{group.metadata.uid[:8]}"  # no part begins with -


def template_for(group: PodGroup) -> Json:
    requests = {name: str(amount) for name, amount in member_requests(group).items()}
    container = {"name": "member", "image": "member", "resources": {"requests": requests}}
    return {"metadata": _metadata(group), "template": {"spec": {"containers": [container]}}}


def request_for(group: PodGroup, class_name: str) -> Json:
    pods = {"podTemplateRef": {"name": name_of(group)}, "count": member_count(group)}
    return {"metadata": _metadata(group), "spec": {"provisioningClassName": class_name, "podSets": [pods]}}


def member_count(group: PodGroup) -> int:
    return max(1, group.spec.min_member)


def member_requests(group: PodGroup) -> Mapping[str, Quantity]:
    """Return an equal part of ``minResources``, rounded up to a milli-cpu or, otherwise, to a whole unit."""
    count = member_count(group)
    requests = {}
    for name, amount in (group.spec.min_resources or {}).items():
        if is_node_resource(name) and name != "pods":
            unit = NANOS // 1000 if name == "cpu" else NANOS
            requests[name] = Quantity(-(-amount.nanos // (count * unit)) * unit, amount.form)
    return requests


def _metadata(group: PodGroup) -> Json:
    owner = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "PodGroup",
        "name": group.metadata.name,
        "uid": group.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {"name": name_of(group), "labels": {DEMAND_LABEL: "true"}, "ownerReferences": [owner]}
