"""The controller of ResourceClaims: makes the claims of pods from templates, and gives devices back.

The rules are those of the resourceclaim controller of kube-controller-manager. A scheduler allocates.
"""

import asyncio
from contextlib import suppress
from typing import Any, Final

from quorate.api import core
from quorate.api.codec import Json
from quorate.api.core import PodResourceClaim
from quorate.api.core.device_claims import (
    DELETE_PROTECTION,
    ClaimConsumer,
    ResourceClaim,
    ResourceClaimTemplate,
)
from quorate.api.core.pod import PodResourceClaimStatus
from quorate.api.meta import Key, ObjectMeta, Uid
from quorate.api.native_groups import PodGroup
from quorate.kube.client import Client, PatchKind
from quorate.kube.clock import Clock
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.errors import NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import (
    NATIVE_POD_GROUPS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    Resource,
    untyped,
)
from quorate.local.controllers import pod_control as control
from quorate.local.own_writes import MutationCache

POD_CLAIM_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"
MAX_BASE_LENGTH: Final = 57  # of a generated name
TEMPLATES: Final = untyped("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True)


class ClaimingPodStatus(core.PodStatus):
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()


class ClaimingPod(core.Pod):
    status: ClaimingPodStatus = ClaimingPodStatus()

    @property
    def is_done(self) -> bool:
        """Return True if the pod uses no devices any more."""
        return control.is_pod_finished(self) or (control.is_terminating(self) and not self.spec.node_name)


PODS: Final = Resource("", "v1", "pods", "Pod", True, ClaimingPod)


class ResourceClaimController:
    """The caller runs the informers."""

    def __init__(
        self, client: Client, clock: Clock, claims: Informer[ResourceClaim], pods: Informer[ClaimingPod]
    ) -> None:
        self._client = client
        self._informers = (claims, pods)
        self._claims = claims
        self._pods = pods
        self._pod_reconciler = Reconciler("pod-claims", self.reconcile_pod, clock)
        self._claim_reconciler = Reconciler("resource-claim", self.reconcile_claim, clock)
        self._templates = Informer(client, RESOURCE_CLAIM_TEMPLATES)
        self._group_claims: dict[tuple[Uid, str], str] = {}  # made, and not in the status of the group yet
        self._group_lock = asyncio.Lock()  # the pods of a group share a claim
        self._made = MutationCache(claims, lambda claim: control.controller_key(claim.metadata, "Pod"), "pod")
        claims.add_index("consumer", _consumers)
        pods.add_index("template", _templates)
        pods.subscribe(self._on_pod)
        claims.subscribe(self._on_claim)
        self._templates.subscribe(self._on_template)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._templates.run())
            for informer in self._informers:
                await informer.synced.wait()
            tasks.create_task(self._pod_reconciler.run())
            tasks.create_task(self._claim_reconciler.run())

    def _on_pod(self, change: Change[ClaimingPod]) -> None:
        if change.new is not None and change.new.spec.resource_claims:
            self._pod_reconciler.enqueue(change.key)
        if change.new is None or change.new.is_done:
            for index in ("pod", "consumer"):
                for claim in self._claims.by_index(index, change.key):
                    self._claim_reconciler.enqueue(claim.metadata.key)

    def _on_claim(self, change: Change[ResourceClaim]) -> None:
        self._claim_reconciler.enqueue(change.key)
        for claim in change.versions:
            if pod := control.controller_key(claim.metadata, "Pod"):
                self._pod_reconciler.enqueue(pod)

    def _on_template(self, change: Change[ResourceClaimTemplate]) -> None:
        for pod in self._pods.by_index("template", change.key):
            self._pod_reconciler.enqueue(pod.metadata.key)

    async def reconcile_pod(self, key: Key) -> None:
        """Make the missing claims of a pod, and record them in its status."""
        pod = self._pods.get(key)
        if pod is None or pod.metadata.deletion_timestamp is not None or pod.is_done:
            return
        recorded = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
        made = {}
        for claim in pod.spec.resource_claims:
            if not claim.resource_claim_template_name or recorded.get(claim.name):
                continue
            if pod.spec.scheduling_group is None:
                name = await self._claim_of(pod, claim)
            else:
                async with self._group_lock:
                    group = await self._group_of(pod, claim)
                    name = await (
                        self._claim_of(pod, claim) if group is None else self._claim_of_group(group, claim)
                    )
            if name:
                made[claim.name] = name
        if made:
            statuses = [{"name": name, "resourceClaimName": made[name]} for name in sorted(made)]
            patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"resourceClaimStatuses": statuses}}
            with suppress(NotFound):
                await self._client.patch(PODS, key, patch, subresource="status", kind=PatchKind.STRATEGIC)

    async def _claim_of(self, pod: ClaimingPod, wanted: PodResourceClaim) -> str:
        """Return the name of the claim made for a pod; empty if its template does not exist yet."""
        for claim in self._made.by_group(pod.metadata.key):
            # Another owner is a former pod of that name.
            is_own = control.is_controlled_by(claim.metadata, pod.metadata.uid)
            if is_own and claim.metadata.annotations.get(POD_CLAIM_ANNOTATION) == wanted.name:
                return claim.metadata.name
        created = await self._create(PODS, pod.metadata, wanted)
        if created is None:
            return ""
        self._made.record(created)
        return created.metadata.name

    async def _group_of(self, pod: ClaimingPod, wanted: PodResourceClaim) -> PodGroup | None:
        """Return the group of a pod if the group has the same claim; None if the claim is the pod's own."""
        named = pod.spec.scheduling_group
        if named is None:
            return None
        key = Key(pod.metadata.namespace, named.pod_group_name)
        group = await self._client.find(NATIVE_POD_GROUPS, key)
        if group is None:
            return None
        shared = (
            (claim.name, claim.resource_claim_template_name)
            == (wanted.name, wanted.resource_claim_template_name)
            for claim in group.spec.resource_claims
        )
        return group if any(shared) else None

    async def _claim_of_group(self, group: PodGroup, wanted: PodResourceClaim) -> str:
        """Return the name of the claim that the pods of a group share; empty if it has no template yet."""
        uid = group.metadata.uid
        for status in group.status.resource_claim_statuses:
            if status.name == wanted.name and status.resource_claim_name:
                return status.resource_claim_name
        if (uid, wanted.name) not in self._group_claims:
            created = await self._create(NATIVE_POD_GROUPS, group.metadata, wanted)
            if created is None:
                return ""
            self._group_claims[uid, wanted.name] = created.metadata.name
        name = self._group_claims[uid, wanted.name]
        statuses = [{"name": wanted.name, "resourceClaimName": name}]
        patch = {"metadata": {"uid": uid}, "status": {"resourceClaimStatuses": statuses}}
        await self._client.patch(
            NATIVE_POD_GROUPS, group.metadata.key, patch, subresource="status", kind=PatchKind.STRATEGIC
        )
        del self._group_claims[uid, wanted.name]
        return name

    async def _create(
        self, kind: Resource[Any], owner: ObjectMeta, wanted: PodResourceClaim
    ) -> ResourceClaim | None:
        """Create the claim of a pod or a group; return None if its template does not exist yet.

        The pod is reconciled again when the template appears.
        """
        template: Json | None = await self._client.find(
            TEMPLATES, Key(owner.namespace, wanted.resource_claim_template_name)
        )
        if template is None:
            return None
        described = template["spec"].get("metadata") or {}
        body = {
            "metadata": {
                "generateName": _name_base(owner.name, wanted.name),
                "labels": dict(described.get("labels") or {}),
                "annotations": {**(described.get("annotations") or {}), POD_CLAIM_ANNOTATION: wanted.name},
                "ownerReferences": control.owner_references(kind, owner),
            },
            "spec": template["spec"]["spec"],
        }
        return await self._client.create(RESOURCE_CLAIMS, body, owner.namespace)

    async def reconcile_claim(self, key: Key) -> None:
        """Remove the reservations of pods that are done, and the allocation that none uses."""
        claim = self._claims.get(key)
        if claim is None:
            return
        kept = [
            consumer for consumer in claim.status.reserved_for if await self._uses(key.namespace, consumer)
        ]
        removed = len(kept) < len(claim.status.reserved_for)
        is_terminating = claim.metadata.deletion_timestamp is not None
        # A scheduler adds the finalizer first, then the allocation with its reservation.
        is_free = not kept and (removed or is_terminating)
        with suppress(NotFound):
            if removed or (is_free and claim.status.allocation is not None):
                consumers = [
                    {"resource": consumer.resource, "name": consumer.name, "uid": consumer.uid}
                    for consumer in kept
                ]
                status: Json = {"reservedFor": consumers or None, **({"allocation": None} if is_free else {})}
                version = {"resourceVersion": claim.metadata.resource_version}
                patch = {"metadata": version, "status": status}
                claim = await self._client.patch(RESOURCE_CLAIMS, key, patch, subresource="status")
            if is_free and DELETE_PROTECTION in claim.metadata.finalizers:
                patch = control.finalizer_removal(claim.metadata, DELETE_PROTECTION)
                claim = await self._client.patch(RESOURCE_CLAIMS, key, patch, kind=PatchKind.STRATEGIC)
            owner = control.controller_key(claim.metadata, "Pod")
            pod = None if owner is None else self._pods.get(owner)
            if pod is not None and pod.is_done and claim.metadata.deletion_timestamp is None:
                await self._client.delete(RESOURCE_CLAIMS, key, uid=claim.metadata.uid)

    async def _uses(self, namespace: str, consumer: ClaimConsumer) -> bool:
        """Return False if the consumer is a pod that is done or does not exist."""
        if consumer.resource != "pods":
            return True
        pod = self._pods.get(Key(namespace, consumer.name))
        if pod is None:  # the watch may not have delivered it yet
            pod = await self._client.find(PODS, Key(namespace, consumer.name))
        return pod is not None and pod.metadata.uid == consumer.uid and not pod.is_done


def _consumers(claim: ResourceClaim) -> list[Key]:
    return [Key(claim.metadata.namespace, consumer.name) for consumer in claim.status.reserved_for]


def _templates(pod: ClaimingPod) -> list[Key]:
    names = (claim.resource_claim_template_name for claim in pod.spec.resource_claims)
    return [Key(pod.metadata.namespace, name) for name in names if name]


def _name_base(pod: str, claim: str) -> str:
    """Return the base of a generated name, with a part of both names if they are long."""
    base = f"{pod}-{claim}-"
    if len(base) <= MAX_BASE_LENGTH:
        return base
    pod_length, claim_length = (len(name) * MAX_BASE_LENGTH // len(base) for name in (pod, claim))
    return f"{pod[:pod_length]}-{claim[:claim_length]}-"
