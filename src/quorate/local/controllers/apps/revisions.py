"""ControllerRevisions: the former pod templates of a StatefulSet or DaemonSet, for `kubectl rollout undo`."""

from collections.abc import Collection
from contextlib import suppress
from typing import Any, Final

import msgspec

from quorate.api.codec import Json
from quorate.api.meta import Key, ObjectMeta, Struct
from quorate.kube.client import Client
from quorate.kube.errors import AlreadyExists, NotFound
from quorate.kube.informer import Informer
from quorate.kube.resources import Resource, untyped
from quorate.local.controllers.pod_control import REVISION_LABEL, owner_references, template_hash
from quorate.local.own_writes import MutationCache


class ControllerRevision(Struct):
    metadata: ObjectMeta
    revision: int = 0


CONTROLLER_REVISIONS: Final = Resource(
    "apps", "v1", "controllerrevisions", "ControllerRevision", True, ControllerRevision
)


STORED_REVISIONS: Final = untyped("apps", "v1", "controllerrevisions", "ControllerRevision", True)


class RevisionHistory:
    """Keeps the earlier pod templates of the objects of ``kind``, such as DaemonSets, as ControllerRevisions.

    ``revisions`` is the informer of all ControllerRevisions, which the caller runs.
    """

    def __init__(
        self,
        client: Client,
        kind: Resource[Any],
        revisions: Informer[ControllerRevision],
        hash_label: str = REVISION_LABEL,
    ) -> None:
        """``hash_label``: the label of a revision with the hash of its template."""
        self._client = client
        self._kind = kind
        self._hash_label = hash_label
        self._revisions = MutationCache(revisions, _owner)

    async def record(
        self, owner: ObjectMeta, template: msgspec.Raw, limit: int, used: Collection[str]
    ) -> None:
        """Record the present template as the newest revision, and delete old revisions.

        ``used``: the revisions of present pods, by the value of the pods' label.  These revisions are kept,
        and in addition the ``limit`` newest revisions; all revisions if the limit is negative.
        """
        hash_ = template_hash(template)
        name = f"{owner.name}-{hash_}"
        owned = sorted(self._revisions.by_group(owner.uid), key=lambda revision: revision.revision)
        newest = owned[-1].revision if owned else 0
        current = next((revision for revision in owned if revision.metadata.name == name), None)
        if current is None:
            await self._create(owner, template, name, hash_, newest + 1)
        elif current.revision < newest:  # a rollback
            patch = {"metadata": {"uid": current.metadata.uid}, "revision": newest + 1}
            self._revisions.record(
                await self._client.patch(CONTROLLER_REVISIONS, current.metadata.key, patch)
            )
        old = [
            revision
            for revision in owned
            if revision.metadata.name != name
            and not {revision.metadata.name, revision.metadata.labels.get(self._hash_label, "")} & set(used)
        ]
        surplus = max(len(old) - limit, 0) if limit >= 0 else 0
        for revision in old[:surplus]:
            with suppress(NotFound):
                await self._client.delete(
                    CONTROLLER_REVISIONS, revision.metadata.key, uid=revision.metadata.uid
                )

    async def template(self, namespace: str, name: str) -> msgspec.Raw | None:
        """Return the pod template of a revision, or None if it no longer exists."""
        stored: Json | None = await self._client.find(STORED_REVISIONS, Key(namespace, name))
        if stored is None:
            return None
        template = dict(stored["data"]["spec"]["template"])
        template.pop("$patch", None)
        return msgspec.Raw(msgspec.json.encode(template))

    async def _create(
        self, owner: ObjectMeta, template: msgspec.Raw, name: str, hash_: str, revision: int
    ) -> None:
        content: Json = msgspec.json.decode(template)
        labels = (content.get("metadata") or {}).get("labels") or {}
        body = {
            "metadata": {
                "name": name,
                "labels": {**labels, self._hash_label: hash_},
                "annotations": dict(owner.annotations),
                "ownerReferences": owner_references(self._kind, owner),
            },
            # Clients compare the text with their own, in which names are sorted.
            "data": _sorted({"spec": {"template": {**content, "$patch": "replace"}}}),
            "revision": revision,
        }
        with suppress(AlreadyExists):  # of an object of this name that was deleted without its dependents
            self._revisions.record(await self._client.create(CONTROLLER_REVISIONS, body, owner.namespace))


def _sorted(value: Json) -> Json:
    document: Json = msgspec.json.decode(msgspec.json.encode(value, order="sorted"))
    return document


def _owner(revision: ControllerRevision) -> str | None:
    controller = revision.metadata.controller
    return None if controller is None else controller.uid
